"""Write docs/clinical.md from results/clinical/: what networks found without training are worth on real data.

python -m benchmarks.teacup report breastmnist --data packed --out study   # then copy report.json, and
make docs-figures
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.teacup_report import page

ROOT = Path(__file__).resolve().parent.parent
RESULTS, INTRODUCTION = ROOT / "results" / "clinical", "introduction.md"
TASKS = ("breastmnist", "adrenalmnist3d", "cinc2017-windows", "digits")
PUBLISHED = {"rl": (0.89, 0.93), "genetic": (0.90, 0.93), "prune": (0.86, 0.92), "resnet18": (0.88, None)}
"""TEACUP's table 1 on BreastMNIST: mean test AUC of one network, and of ten together."""
Json = Mapping[str, Any]


def published(found: Json) -> list[str]:
    """TEACUP's table 1 beside ours."""
    lines = ["| BreastMNIST, test AUC | one, published | one, ours | ten, published | ten, ours |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for name, (one, ten) in PUBLISHED.items():
        group = found["groups"][name]
        mean, together = group["members"]["auc"], group["average"]["auc"]
        all_of_it = f"{together['value']:.3f} [{together['low']:.3f}, {together['high']:.3f}]" if ten else "–"
        lines.append(f"| {name} | {one:.2f} | {mean['mean']:.3f} ± {mean['std']:.3f} | {ten or '–'} | {all_of_it} |")
    return lines


def rankings(found: Sequence[Json]) -> list[str]:
    """Spearman's ρ of each ranking on each task, and the mean."""
    names = list(found[0]["rankings"]["of"])
    lines = ["| ranking | " + " | ".join(one["task"] for one in found) + " | mean |"]
    lines += ["| --- |" + " --- |" * (len(found) + 1)]
    for name in names:
        values = [one["rankings"]["of"][name]["auc"]["value"] for one in found]
        shown = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {name} | {shown} | {np.mean(values):.3f} |")
    for name in names[1:]:
        less = [one["rankings"]["less_first"][name]["auc"] for one in found]
        shown = " | ".join(f"{one['value']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]" for one in less)
        lines.append(f"| {name} less {names[0]} | {shown} | {np.mean([one['value'] for one in less]):+.3f} |")
    return lines


def ranges(found: Mapping[str, Json]) -> dict[str, str]:
    """From what to what some figures go, by their names in the text."""
    groups = [group for name, group in found["breastmnist"]["groups"].items() if PUBLISHED.get(name, (0, None))[1]]
    truths = {task: found[task]["rankings"]["truth"]["auc"] for task in ("adrenalmnist3d", "digits")}
    return {
        "alone": _between([group["members"]["auc"]["mean"] for group in groups], 2),
        "tens": _between([group["average"]["auc"]["value"] for group in groups], 2),
        "adrenal": _between(truths["adrenalmnist3d"], 3),
        "digits": f"{math.floor(1000 * min(truths['digits'])) / 1000:.3f}",
    }


def _between(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def rendered() -> str:
    """The page."""
    paths = [RESULTS / f"{task}.json" for task in TASKS]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    parts = {"published": published(found[0]), "rankings": rankings(found)}
    text = (RESULTS / INTRODUCTION).read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = text.replace(f"[{name}]\n", "\n".join(lines) + "\n")
    for name, figure in ranges({each["task"]: each for each in found}).items():
        text = text.replace(f"[{name}]", figure)
    return text + "\n" + "\n".join(map(page, found))
