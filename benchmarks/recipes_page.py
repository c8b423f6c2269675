"""Render ``docs/recipes.md`` from ``results/recipes``: which recipe, which network, and what a design comes to.

``make docs-figures`` writes the page; a test compares it with what is there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.target import Target
from trainless.learn.metrics import MetricValue, auc, evaluate

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "recipes"
HEAD = """# Which recipe, which network: the evidence behind `trainless design`

Everything here is by cross-validation (three folds) on training and validation parts; no test part was read to choose
anything. Each network was trained for what <!-- setting -->80 seconds<!-- --> of one core allow, by counted
multiply–accumulates; figures are means over folds of AUC and log loss on what was held out. `base` is the plain
residual network of the data's size with AdamW at <!-- setting -->0.003<!-- -->, decoupled decay
of <!-- setting -->0.05<!-- --> on weights, one cycle, smoothing <!-- setting -->0.05<!-- -->, balanced classes with the
prior put back, and small shifts, amplitudes and noise. Rendered by `make docs-figures`; made by `benchmarks.recipes`
and `benchmarks.searched` on one H200. Differences of less than about <!-- setting -->0.01<!-- --> in AUC are noise
on the small sets.
"""
NOISE, DRAWS = 0.01, 400
CHOICES = """## What was chosen

- AdamW, one cycle, decay, smoothing and balanced classes as in `base`: nothing beat it on images and signals together.
- Light augmentation. Flips and turns made images and volumes worse; signals that are trained for 40 epochs or more are
  stretched and masked too (`full`), which helped there. Mixup and averaged weights are options of a recipe; they helped
  on some sets and harmed on others.
- Longer trainings of thinner networks beat short ones of wider networks where data are many (PneumoniaMNIST, CinC
  2017): the plain network of a design is the widest of which four can be trained for 300 steps and 12 epochs.
- The plain network is two of three members. Networks that the ranking found were not better at equal cost (above), so
  search has a tenth of the time and a third of the members, which count as far as held-out cases bear them out.
"""


def rows_of(path: Path) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Metrics of every training in a file, by set and variant."""
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    with np.load(path) as file:
        for place, about in enumerate(json.loads(str(file["about"]))):
            p = np.exp(file[f"answers/{place}"].astype(np.float64))
            p, y = p / p.sum(1, keepdims=True), file[f"y/{place}"]
            kind: Any = "binary" if p.shape[1] == 2 else "multiclass"
            made = evaluate(
                Target(kind, p.shape[1]), y, p, draws=0, prior=np.bincount(y, minlength=p.shape[1]) / len(y)
            )
            loss = float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean())
            figures = {name: each.value for name, each in made.items()} | {"loss": loss, "epochs": about["epochs"]}
            found[Path(about["set"]).name.split("_TRAIN")[0], about["variant"]].append(figures)
    return found


def table(path: Path, first: str) -> list[str]:
    """One line for each variant: the mean AUC and log loss on every set, the first variant above."""
    rows = rows_of(path)
    sets = sorted({name for name, _ in rows})
    variants = sorted({variant for _, variant in rows}, key=lambda variant: (variant != first, variant))
    lines = [f"| variant | {' | '.join(sets)} |", f"| --- |{' --- |' * len(sets)}"]
    for variant in variants:
        cells = []
        for name in sets:
            ones = rows.get((name, variant), [])
            auc = np.nanmean([one["auc"] for one in ones]) if ones else np.nan
            loss = np.mean([one["loss"] for one in ones]) if ones else np.nan
            cells.append(f"{auc:.3f} / {loss:.3f} ({len(ones)})" if ones else "–")
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return lines


def sums(path: Path, first: str) -> list[str]:
    """What each variant's mean AUC comes to over all sets, and on how many it is above or below the first's."""
    rows = rows_of(path)
    sets, variants = sorted({name for name, _ in rows}), sorted({variant for _, variant in rows})
    means = {
        variant: np.array([np.nanmean([one["auc"] for one in rows[name, variant]]) for name in sets])
        for variant in variants
    }
    lines = [f"Mean AUC over the {len(sets)} sets: {first} {means[first].mean():.3f}."]
    for variant in variants:
        gaps = means[variant] - means[first]
        if variant != first:
            above, below = (gaps > NOISE).sum(), (gaps < -NOISE).sum()
            told = f"more than {NOISE} above {first} on {above}, below it on {below}"
            lines.append(f"{variant.capitalize()} {means[variant].mean():.3f}: {told}.")
    return lines


def answers_of(path: Path) -> dict[str, dict[str, dict[int, list[Any]]]]:
    """The true classes and probabilities of every training in a file, by set, variant and fold."""
    found: dict[str, dict[str, dict[int, list[Any]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with np.load(path) as file:
        for place, about in enumerate(json.loads(str(file["about"]))):
            p = np.exp(file[f"answers/{place}"].astype(np.float64))
            made = (file[f"y/{place}"], p / p.sum(1, keepdims=True))
            found[Path(about["set"]).name.split("_TRAIN")[0]][about["variant"]][about["fold"]].append(made)
    return found


def gap_of(one: Mapping[int, Any], other: Mapping[int, Any], draws: int = DRAWS) -> MetricValue:
    """By how much one variant's mean AUC is above another's, in pairs of folds that both have.

    The interval's draws take the cases of a fold, alike for both, and the trainings of each anew.
    """
    random, values = np.random.default_rng(0), list[float]()
    folds = sorted(set(one) & set(other))
    metrics = {fold: [[auc(y, p) for y, p in each[fold]] for each in (one, other)] for fold in folds}
    for draw in range(draws + 1):
        told: tuple[list[float], list[float]] = ([], [])
        for fold in folds:
            n = len(one[fold][0][0])
            weights = np.bincount(random.integers(n, size=n), minlength=n).astype(float) if draw else np.ones(n)
            for side, each in zip(told, metrics[fold], strict=True):
                chosen = random.integers(len(each), size=len(each)) if draw else range(len(each))
                known = {place: each[place](weights) for place in set(chosen)}
                side += [known[place] for place in chosen]
        values.append(float(np.mean(told[0]) - np.mean(told[1])))
    low, high = np.nanquantile(values[1:], [0.025, 0.975])
    return MetricValue(values[0], float(low), float(high))


def gaps(path: Path, first: str) -> list[str]:
    """By how much each variant is above the first in AUC on every set, with intervals; on how many surely so."""
    sets = answers_of(path)
    variants = sorted({variant for each in sets.values() for variant in each} - {first})
    lines = [f"| AUC less that of {first} | {' | '.join(variants)} |", f"| --- |{' --- |' * len(variants)}"]
    sure = {variant: [0, 0] for variant in variants}
    for name in sorted(sets):
        found = {variant: gap_of(sets[name][variant], sets[name][first]) for variant in variants}
        lines.append(f"| {name} | {' | '.join(f'{gap}' for gap in found.values())} |")
        for variant, gap in found.items():
            sure[variant][0] += gap.low > 0
            sure[variant][1] += gap.high < 0
    told = [f"{variant} above it on {above} sets and below it on {below}" for variant, (above, below) in sure.items()]
    how = "Intervals hold 95 % of draws, each of the cases of a fold, alike for both, and of the trainings of each"
    return [*lines, "", f"{how}. They leave out 0, with {', and with '.join(told)}."]


def designs() -> list[str]:
    """What designs of five minutes came to on the test parts, beside their yardsticks."""
    told = json.loads((RESULTS / "designs.json").read_text(encoding="utf-8"))
    lines = ["| data | seed | seconds | AUC | balanced accuracy | macro F1 | accuracy | beside, AUC |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for run in sorted(told["runs"], key=lambda run: (run["data"], run["seed"])):
        own = run["ensemble"]
        beside = ", ".join(f"{one['name']} {one['auc']:.3f}" for one in run["yardsticks"])
        figures = [own["auc"], own["balanced_accuracy"], own["f1_macro"], own["accuracy"]]
        cells = " | ".join(f"{figure:.3f}" for figure in figures)
        lines.append(f"| {run['data']} | {run['seed']} | {run['seconds']:.0f} | {cells} | {beside} |")
    return [f"{told['about']}.", "", *lines]


def rendered() -> str:
    """The page."""
    parts = [
        HEAD.rstrip(),
        "## Recipes and widths on images and volumes\n\nAUC / log loss (trainings).",
        "\n".join(table(RESULTS / "images.npz", "base")),
        "## Recipes and widths on signals",
        "\n".join(table(RESULTS / "signals.npz", "base")),
        "## Searched, random and plain networks at equal cost\n\nOf 60 random networks of half to twice the plain one's"
        " cost the first three by the ranking, three random ones, and the plain one with three seeds.",
        "\n".join(table(RESULTS / "searched.npz", "plain")),
        "\n".join(sums(RESULTS / "searched.npz", "plain")),
        "\n".join(gaps(RESULTS / "searched.npz", "plain")),
        CHOICES.rstrip(),
        "## Designs of five minutes, on test parts",
        "\n".join(designs()),
    ]
    return "\n\n".join(parts) + "\n"
