"""Write docs/proxies.md from the proxies' metadata, their docstrings and the measured costs.

make docs-figures
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from trainless.proxies import Paper, Proxy, registry

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "proxies.json"
COSTS = ROOT / "benchmarks" / "results" / "cost.json"
MEMORY_NETWORK = "resnet50"
GRAF = Paper(
    ("Kadlecová", "Lukasik", "Pilát", "Vidnerová", "Safari", "Neruda", "Hutter"),
    "Surprisingly Strong Performance Prediction with Neural Graph Features",
    "ICML",
    2024,
)

INTRODUCTION = """\
# Proxies

Training-free measures, each a pure function of a network at initialisation. This page is written by
`make docs-figures` from the code's own metadata; change the docstrings, not the page.

A proxy's *setting* is the point at which its paper computes it: the initialisation, the batch and its inputs, and
options of the published program where they are not the defaults. Costs are in FBE, forward-backward equivalents: the
time over that of one plain forward and backward pass of the same network on the same batch. Where a score does not
exist, it is NaN with the reason recorded (*Fails*).

Every argument below can be given in a proxy's name wherever proxies are named, as in `--proxies
vkdnw/samples=64/tensors=8,zico` or `tl.score(net, batch, proxies="zico/batches=4")`: a proxy of its own, with a column
and stored scores of its own, under the name that has the options in alphabetical order. At the papers' settings
(`--init paper`) the other options stay as the paper has them. In Python, `vkdnw.having(tensors=8)` is the same.
"""


def page(results: dict[str, Any] | None, real: dict[str, Any] | None = None) -> str:
    """The whole page as Markdown.

    Args:
        results: What ``benchmarks/proxies.py`` wrote; None where it has not been run.
        real: What ``benchmarks/cost.py`` wrote; None where it has not been run.
    """
    proxies = shipped()
    parts = [INTRODUCTION, _overview(proxies), _costs(results), _real_costs(real)]
    parts += [_entry(proxy, results) for proxy in proxies]
    parts += [_structure(), _references(proxies)]
    return "\n".join(part for part in parts if part)


def rendered() -> str:
    """The page by the results."""
    return page(read_results(), read_results(COSTS))


def shipped() -> list[Proxy]:
    """The proxies of this package by name; those that others registered are documented elsewhere."""
    found = (registry[name] for name in registry.names())
    return [proxy for proxy in found if proxy.fn.__module__.startswith("trainless.proxies.") and proxy.aspect]


def papers(proxies: list[Proxy]) -> list[Paper]:
    """The publications behind proxies, and that of the structural features, by their first author and year."""
    found = {GRAF, *(proxy.paper for proxy in proxies if isinstance(proxy.paper, Paper))}
    return sorted(found, key=lambda paper: (paper.authors, paper.year, paper.title))


def _overview(proxies: list[Proxy]) -> str:
    lines = ["| proxy | meaning | better | needs | paper |", "| --- | --- | --- | --- | --- |"]
    for proxy in proxies:
        cells = (f"[`{proxy.name}`](#{proxy.name})", proxy.summary, _better(proxy), _needs(proxy), str(proxy.paper))
        lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def _better(proxy: Proxy) -> str:
    return "higher" if proxy.higher_is_better else "lower"


def _needs(proxy: Proxy) -> str:
    needs = [word for word, wanted in (("data", proxy.data), ("labels", proxy.labels)) if wanted]
    return " and ".join(needs) or "nothing"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _entry(proxy: Proxy, results: dict[str, Any] | None) -> str:
    facts = [
        f"{_better(proxy).capitalize()} is better; needs {_needs(proxy)}; {cited(proxy.paper)}.",
        f"Setting: {proxy.setting.describe()}.",
        _cost_sentence(proxy.name, results),
    ]
    text = [f"## {proxy.name}\n", f"{proxy.summary}\n", *(f"- {fact}" for fact in facts if fact), ""]
    if formula := _formula(proxy):
        text += [f"{formula}\n"]
    if arguments := _arguments(proxy):
        text += ["**Arguments**\n", *arguments, ""]
    for title, heading in (("Differences", "Differences from the paper or its program"), ("Fails", "Fails")):
        if found := proxy.section(title):
            text.append(f"**{heading}.** {_escaped(_joined(found))}\n")
    return "\n".join(text)


def cited(paper: Paper | str) -> str:
    """A link to a publication in the list of references."""
    return "a baseline that no paper proposed" if paper == "baseline" else f"[{paper}](#references)"


def _formula(proxy: Proxy) -> str:
    """What stands between the docstring's first line and its first section."""
    text = (inspect.getdoc(proxy.fn) or "").partition("\n")[2]
    found = re.split(r"^[A-Z]\w+:$", text, maxsplit=1, flags=re.MULTILINE)[0].strip()
    return "\n\n".join(_escaped(_joined(paragraph)) for paragraph in re.split(r"\n\s*\n", found)) if found else ""


def _arguments(proxy: Proxy) -> list[str]:
    """The options with their defaults; the probe itself only where there is more to say of it."""
    section = proxy.section("Args")
    defaults = {name: p.default for name, p in inspect.signature(proxy.fn).parameters.items()}
    lines = []
    for name, text in re.findall(r"^(\w+): ((?:.*\n?)(?:[ ]+.*\n?)*)", section, re.MULTILINE):
        default = defaults.get(name, inspect.Parameter.empty)
        value = "" if default is inspect.Parameter.empty else f" = {default!r}"
        said = _joined(text)
        if said != "The probe.":
            lines.append(f"- `{name}{value}`: {_escaped(said)}")
    return lines


def _joined(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    """Keep Markdown from reading underscores, stars and bars of formulas; inline code stays as it is."""
    parts = re.split(r"(``.+?``)", text)
    plain = (re.sub(r"([_*|<>])", r"\\\1", part) for part in parts[::2])
    code = [f"`{part.strip('`')}`" for part in parts[1::2]]
    return "".join(a + b for a, b in zip(plain, [*code, ""], strict=True))


def _fbe(cost: dict[str, Any] | None) -> str:
    if cost is None or cost["fbe"] is None:
        return "–"
    return f"{cost['fbe']:.2g}" if cost["fbe"] < 0.1 else f"{cost['fbe']:.2f}"


def _cost_sentence(name: str, results: dict[str, Any] | None) -> str:
    networks = (results or {"networks": {}})["networks"]
    found = {network: one["costs"].get(name) for network, one in networks.items()}
    known = [f"{_fbe(cost)} on {network}" for network, cost in found.items() if cost and cost["fbe"] is not None]
    return f"Cost in FBE: {', '.join(known)}." if known else ""


def _costs(results: dict[str, Any] | None) -> str:
    if results is None:
        return ""
    networks = results["networks"]
    about = results["environment"]
    titles = list(dict.fromkeys(title for one in networks.values() for title in one["costs"]))
    lines = [
        "## Costs\n",
        f"FBE of each proxy alone and of several on one probe, at batch {results['batch']}; {about['cpu']},"
        f" {about['threads']} thread, PyTorch {about['torch']}, {about['date']} (`benchmarks/proxies.py`).",
        *(
            f"`{name}`: {one['words']}, inputs {'×'.join(map(str, one['input_shape']))}."
            for name, one in networks.items()
        ),
        "",
    ]
    memory = MEMORY_NETWORK in networks
    header = ("measure", *networks, *((f"peak MB on {MEMORY_NETWORK}",) if memory else ()))
    lines += [_row(header), _row(("---",) * len(header))]
    for title in titles:
        cells = [_fbe(one["costs"].get(title)) for one in networks.values()]
        if memory:
            peak = networks[MEMORY_NETWORK]["costs"].get(title, {}).get("peak_mb")
            cells.append("–" if peak is None else f"{peak:.0f}")
        lines.append(_row((title, *cells)))
    return "\n".join(lines) + "\n"


def _real_costs(real: dict[str, Any] | None) -> str:
    """Well-known networks at two batch sizes, and what a width costs."""
    if real is None:
        return ""
    networks, widths = real["networks"], real["widths"]
    titles = [title for title in next(iter(networks.values())) if title != "unit"]
    lines = [
        "## Costs on well-known networks, and by width\n",
        f"FBE at batch 16 and 64 on a {real['device']}, PyTorch {real['torch']}, {real['date']}, {real['load']}"
        " (`benchmarks/cost.py`). In brackets: operations that compute something over those of the plain pass, which is"
        " about how long a GPU is told what to do. A dash: not measured.\n",
        _row(("network × batch", *titles)),
        _row(("---",) * (1 + len(titles))),
    ]
    for name, found in networks.items():
        cells = [found.get(title) for title in titles]
        lines.append(_row((name, *("–" if cell is None else _with_operations(cell) for cell in cells))))
    columns = list(next(iter(widths.values())))
    lines += ["", "FBE by width: four residual blocks of so many channels on images of 8 × 8, batch 16.\n"]
    lines += [_row(("width", *columns)), _row(("---",) * (1 + len(columns)))]
    lines += [_row((width, *(f"{row[column]:.2f}" for column in columns))) for width, row in widths.items()]
    return "\n".join(lines) + "\n"


def _with_operations(cell: dict[str, Any]) -> str:
    return f"{cell['fbe']:.2f}" + (f" ({cell['floor']:.0f})" if "floor" in cell else "")


def _structure() -> str:
    from trainless.spaces import structure

    summary = (inspect.getdoc(structure.features) or "").partition("\n")[0]
    return (
        "## Structure\n\n"
        f"`trainless.spaces.structure.features(space, arch)` ({cited(GRAF)}). {summary} They need no"
        " network, and are features for a fitted ranking and not proxies: they have no direction.\n"
    )


def _references(proxies: list[Proxy]) -> str:
    lines = ["## References\n", "| short | reference |", "| --- | --- |"]
    lines += [_row((str(paper), paper.reference)) for paper in papers(proxies)]
    return "\n".join(lines) + "\n"


def read_results(path: Path = RESULTS) -> dict[str, Any] | None:
    """What was measured, or None where nothing was."""
    results: dict[str, Any] | None = json.loads(path.read_text()) if path.is_file() else None
    return results
