"""Write what README.md says of results from results/: a design's own words, and designs beside what is published.

make docs-figures
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from statistics import mean

from trainless.cli.design import lines_of
from trainless.report.words import sanity_in_words

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "README.md"
NAMES = {
    "breastmnist": "breast ultrasound (BreastMNIST)",
    "pneumoniamnist": "chest X-ray (PneumoniaMNIST)",
    "adrenalmnist3d": "adrenal gland volumes (AdrenalMNIST3D)",
}
PLAIN, TREES = "a plain residual network", "trees"
KEPT, WIDTH = ("sets that", "deferral", "on the test part", "drift"), 112


def table() -> str:
    """One row for each set, the mean test AUC over the seeds."""
    runs = json.loads((ROOT / "results" / "recipes" / "designs.json").read_text(encoding="utf-8"))["runs"]
    published = json.loads((ROOT / "results" / "published.json").read_text(encoding="utf-8"))["auc"]
    lines = [
        "| test AUC | design, five minutes | plain network | trees | published |",
        "| --- | --- | --- | --- | --- |",
    ]
    for data, name in NAMES.items():
        own = [run for run in runs if run["data"] == data]
        beside = {
            name: mean(each["auc"] for run in own for each in run["yardsticks"] if each["name"] == name)
            for name in (PLAIN, TREES)
        }
        figures = [mean(run["ensemble"]["auc"] for run in own), beside[PLAIN], beside[TREES]]
        theirs = f"{published[data]['value']:.3f} ({published[data]['by']})"
        cells = [f"{name}, {len(own)} runs", *(f"{figure:.3f}" for figure in figures), theirs]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def demo() -> str:
    """The first line that the terminal says of the design in results/demo/, and those on how sure it is."""
    test = json.loads((ROOT / "results" / "demo" / "summary.json").read_text(encoding="utf-8"))["test"]
    said = [sanity_in_words(test)[1], *(line.strip() for line in lines_of(test) if line.strip().startswith(KEPT))]
    lines = [line for each in said for line in textwrap.wrap(each, WIDTH, subsequent_indent="    ")]
    return "\n".join(["```text", *lines, "```"]) + "\n"


def rendered() -> str:
    """The README with what the results say between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("figures", table()), ("demo", demo())):
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{made}{end}{rest.partition(end)[2]}"
    return text
