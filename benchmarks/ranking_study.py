"""The study behind the ranking ``trainless``: docs/ranking.md and its numbers from results/.

    python benchmarks/ranking_study.py --draws 1000      # benchmarks/results/ranking.json; make docs-figures then

Needs the tables (TRAINLESS_DATA). The protocol is docs/decisions/0009-a-ranking-of-aspects.md.
"""

from __future__ import annotations

import argparse
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from trainless.bench.correlation import kendall, ndcg, spearman
from trainless.bench.figures import bars, scatter
from trainless.bench.score_library import COUNTS, ScoreLibrary, column_of, places, truth
from trainless.bench.weighted_order import sample_of
from trainless.core.ranks import average_ranks
from trainless.core.task import Task
from trainless.proxies.proxy import registry as proxies
from trainless.rankings import Consensus, RankProduct
from trainless.rankings import registry as rankings
from trainless.rankings.products import Lexicographic
from trainless.runs.score_file import read_scores
from trainless.spaces import space
from trainless.spaces.protocol import counter

ROOT = Path(__file__).resolve().parents[1]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
OURS = "trainless"
STUDY = {
    "P6 (the first study's)": ("trainability", "flops", "jacov", "loss_ntk", "ntk_mse", "synflow"),
    "LF7 (the first study's, label-free)": (
        *("synflow", "flops", "trainability", "block_meco", "isolated_jacov", "layer_entropy", "feature_rank"),
    ),
    "FLOPs and jacov": ("flops", "jacov"),
}
BEFORE = Consensus(
    (
        *("flops", "layers", "synflow", "meco", "expressivity", "swap", "jacov", "isolated_jacov"),
        *("layer_entropy", "trainability", "loss_ntk"),
    ),
    together=(),
)
"""What decision 8 had chosen."""

FIGURES = ROOT / "docs" / "figures"
PUBLISHED = ("az-nas", "vkdnw-agg")
LEARNED = ROOT / "benchmarks" / "results" / "learned.json"
REPORT = ROOT / "benchmarks" / "results" / "ranking.json"
BARS = {
    "NAS-Bench-201, half B, ImageNet16-120": "ranking-imagenet16-120-bars.svg",
    "DARTS, half B": "ranking-darts-bars.svg",
    "NAS-Bench-101, 32 channels, tested before": "ranking-nb101-bars.svg",
}
PLACE = "place by accuracy, in percent"
DOTS = {
    "NAS-Bench-201, half B, ImageNet16-120": "ranking-imagenet16-120.svg",
    "NAS-Bench-101, 32 channels, never scored before": "ranking-nb101.svg",
}


@dataclass(frozen=True, eq=False)
class Population:
    """Networks with a truth and scores that are higher for better ones.

    Args:
        title: What it is.
        truth: Accuracy in percent.
        columns: Scores by proxy.
        tests: Whether it played no part in choosing.
    """

    title: str
    truth: Floats
    columns: Mapping[str, Floats]
    tests: bool = True

    def within(self, title: str, mask: Mask, tests: bool = True) -> Population:
        """Some of the networks."""
        return Population(title, self.truth[mask], {name: row[mask] for name, row in self.columns.items()}, tests)


def half(tag: str, numbers: npt.NDArray[np.integer]) -> Mask:
    """Which of some numbers are in half A."""
    return np.array([zlib.crc32(f"{tag}/{number}".encode()) & 1 == 0 for number in numbers])


def scored(library: ScoreLibrary, table: str, file: str, task: str, metric: str, **parameters: int) -> Any:
    """The rows of a table that a file scored: their truth, their scores, the rows and their place in the file."""
    opened, stored = library.table(table), read_scores(library.folder / file)
    rows = places(stored.archs, opened)
    known = rows >= 0
    rules = space(opened.space, **parameters)
    count = counter(rules, Task.noise((3, 32, 32), 10))
    counted = [count(rules.parse(arch)) for arch, have in zip(opened.archs, known, strict=True) if have]
    columns = {name: np.array([getattr(each, name) for each in counted], np.float64) for name in COUNTS}
    for name in stored.proxies:
        column = column_of(stored, name, rows)
        sign = 1 if proxies[name].higher_is_better else -1
        columns[name] = np.where(column.asked, sign * column.values[0], np.nan)[known]
    asked = {name: column_of(stored, name, rows).asked[known] for name in stored.proxies}
    return Population(file, truth(opened, task, metric)[known], columns), asked, np.flatnonzero(known), rows[known]


def whole(population: Population, asked: Mapping[str, Mask], names: tuple[str, ...]) -> Mask:
    """Networks for which all of these proxies were asked."""
    every = [asked[name] for name in names if name in asked]
    return np.logical_and.reduce([*every, np.isfinite(population.truth)])


def populations(library: ScoreLibrary) -> Iterator[Population]:
    """All populations."""
    needed = rankings[OURS].proxies
    live = library.population("nb201", "no-dead-edges")
    for task in ("cifar10", "cifar100", "ImageNet16-120"):
        nb201, _, rows, classes = scored(library, "nb201", "nb201_own.npz", task, "test")
        first = half("half", classes)
        yield nb201.within(f"NAS-Bench-201, half A, {task}", first & live[rows], tests=False)
        yield nb201.within(f"NAS-Bench-201, half B, {task}", ~first & live[rows])
        yield nb201.within(f"NAS-Bench-201, 9,445, {task}", live[rows])
        yield replace(nb201, title=f"NAS-Bench-201, all 15,625, {task}")
    darts, asked, rows, _ = scored(library, "darts", "darts.npz", "cifar10", "valid", channels=16, cells=8)
    complete = whole(darts, asked, needed)
    seen = json.loads((library.folder / "seen.json").read_text(encoding="utf-8"))
    before = np.isin(rows, seen["darts"])
    chose = before & half("d", rows)
    yield common(darts, asked, "DARTS, half A", complete & chose, tests=False)
    yield common(darts, asked, "DARTS, half B", complete & before & ~chose)
    yield common(darts, asked, "DARTS, scored after the choice", complete & ~before)
    full, asked, rows, _ = scored(library, "nb101", "nb101.npz", "cifar10", "valid")
    complete = whole(full, asked, needed)
    chose = np.isin(rows, seen["nb101"])
    yield common(full, asked, "NAS-Bench-101, full width", complete & chose, tests=False)
    yield common(full, asked, "NAS-Bench-101, full width, others", complete & ~chose)
    thin, asked, rows, _ = scored(library, "nb101", "nb101_thin.npz", "cifar10", "valid", channels=32)
    complete = whole(thin, asked, needed)
    chose, sampled = np.isin(rows, seen["nb101"]), np.isin(rows, seen["nb101_sampled"])
    yield common(thin, asked, "NAS-Bench-101, 32 channels", complete & chose, tests=False)
    yield common(thin, asked, "NAS-Bench-101, 32 channels, tested before", complete & sampled & ~chose)
    yield common(thin, asked, "NAS-Bench-101, 32 channels, never scored before", complete & ~sampled)


def common(population: Population, asked: Mapping[str, Mask], title: str, mask: Mask, tests: bool = True) -> Population:
    """Some of the networks, with the proxies that all of them were asked."""
    found = population.within(title, mask, tests)
    kept = {name: row for name, row in found.columns.items() if name not in asked or asked[name][mask].all()}
    return replace(found, columns=kept)


def candidates() -> dict[str, Any]:
    """Rankings by name: the published, the first study's, ours."""
    found: dict[str, Any] = {name: RankProduct(parts) for name, parts in STUDY.items()}
    found |= {name: rankings[name] for name in ("az-nas", "vkdnw-agg")}
    return {**found, "ours before (decision 8)": BEFORE, OURS: rankings[OURS]}


def value(ranking: Any, population: Population) -> Floats | None:
    """A ranking's values; None where a proxy was not scored."""
    if not set(ranking.proxies) <= set(population.columns):
        return None
    columns = [_column(part, population) for part in ranking.parts]
    return np.asarray(ranking.combine(columns))


def _column(part: Any, population: Population) -> Floats:
    if not isinstance(part, Lexicographic):
        return population.columns[part]
    pairs = np.stack([population.columns[name] for name in part.proxies], axis=1)
    known = ~np.isnan(pairs).any(axis=1)
    found = np.full(len(pairs), np.nan)
    found[known] = np.unique(pairs[known], axis=0, return_inverse=True)[1].reshape(-1)
    return found


def judged(values: Floats, population: Population, draws: int) -> dict[str, float]:
    """Spearman with its interval, Kendall, nDCG@1000 (or of the first fifth where there are fewer than 4,000)."""
    top = 1000 if len(values) >= 4000 else max(1, len(values) // 5)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), draws).T.astype(np.float64)
    point, many = sample_of(values, population.truth), sample_of(values, population.truth, counts)
    low, high = np.quantile(spearman(many), [0.025, 0.975])
    found = {"spearman": spearman(point)[0], "low": low, "high": high, "kendall": kendall(point)[0]}
    return {name: round(float(one), 4) for name, one in {**found, "ndcg": ndcg(point, top)[0]}.items()}


def study(library: ScoreLibrary, draws: int) -> dict[str, Any]:
    """Every figure of the page."""
    report: dict[str, Any] = {"populations": {}, "ablation": {}, "agreement": {}}
    report["noise"] = without_data(library, draws)
    for population in populations(library):
        boards = {}
        for name, ranking in candidates().items():
            values = value(ranking, population)
            if values is not None:
                boards[name] = judged(values, population, draws)
                if name == OURS and population.title in DOTS:
                    places_by = 100 * average_ranks(population.truth) / len(population.truth)
                    scatter(FIGURES / DOTS[population.title], values, places_by, name=OURS, truth=PLACE)
        singles = {name: judged(row, population, 2) for name, row in population.columns.items() if np.ptp(_filled(row))}
        report["populations"][population.title] = {
            "networks": len(population.truth),
            "tests": population.tests,
            "coverage": _coverage(population),
            "heard": _heard(population),
            "rankings": boards,
            "singles": {name: one["spearman"] for name, one in singles.items()},
        }
        report["ablation"][population.title] = _ablation(population)
        report["agreement"][population.title] = {
            str(level): judged(_need(replace(_ours(), agreement=level), population), population, 2)["spearman"]
            for level in (-1.0, 0.0, 0.1, 0.2, 0.3, 0.4)
        }
    return report


def without_data(library: ScoreLibrary, draws: int) -> dict[str, dict[str, Any]]:
    """The ranking on noise and on images, on the networks that were scored on both."""
    found = {}
    live = library.population("nb201", "no-dead-edges")
    for task in ("cifar10", "cifar100", "ImageNet16-120"):
        noise, asked, rows, _ = scored(library, "nb201", "nb201_without_data.npz", task, "test")
        images, _, places_, _ = scored(library, "nb201", "nb201_own.npz", task, "test")
        both = whole(noise, asked, rankings[OURS].proxies)
        for title, mask in ((f"all, {task}", both), (f"no dead edges, {task}", both & live[rows])):
            same = np.isin(places_, rows[mask])
            found[title] = {
                "networks": int(mask.sum()),
                "noise": judged(_need(rankings[OURS], noise.within("", mask)), noise.within("", mask), draws),
                "images": judged(_need(rankings[OURS], images.within("", same)), images.within("", same), draws),
            }
    return found


def _need(ranking: Any, population: Population) -> Floats:
    values = value(ranking, population)
    if values is None:
        raise SystemExit(f"{population.title} lacks scores of {', '.join(ranking.proxies)}")
    return values


def _filled(row: Floats) -> Floats:
    return np.where(np.isfinite(row), row, np.nanmin(np.where(np.isfinite(row), row, np.inf)))


def _coverage(population: Population) -> float:
    """The share of networks with every score of our ranking."""
    every = np.all([np.isfinite(population.columns[name]) for name in rankings[OURS].proxies], axis=0)
    return round(float(every.mean()), 4)


def _ours() -> Consensus:
    return cast(Consensus, rankings[OURS])


def _heard(population: Population) -> list[str]:
    ranking: Any = rankings[OURS]
    voices = ranking.voices([population.columns[name] for name in ranking.parts])
    return [name for name, voice in zip(ranking.parts, voices, strict=True) if voice]


def _ablation(population: Population) -> dict[str, float]:
    """Spearman without each ingredient, with every one heard, each an aspect of its own, and with others added."""
    ours = _ours()
    made = {
        f"without {gone}": replace(ours, parts=tuple(one for one in ours.parts if one != gone)) for gone in ours.parts
    }
    made["all heard"] = replace(ours, agreement=-1.0)
    made["no aspects"] = replace(ours, together=())
    made["trainability for isometry"] = replace(
        ours, parts=tuple("trainability" if part == "isometry" else part for part in ours.parts)
    )
    alone = (("meco", "expressivity", "swap"), ("layer_entropy", "isometry"))  # the ranking's own, so that it stays so
    made["loss_ntk too"] = replace(ours, parts=(*ours.parts, "loss_ntk"), together=alone)
    found = {name: value(ranking, population) for name, ranking in made.items()}
    return {
        name: math.nan if values is None else judged(values, population, 2)["spearman"]
        for name, values in found.items()
    }


def rendered() -> str:
    """The page by the results."""
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    return page(report, (ROOT / "benchmarks" / "ranking_page.md").read_text(encoding="utf-8"))


def page(report: Mapping[str, Any], template: str) -> str:
    """The page: the text with tables in place of their names."""
    found = report["populations"]
    lines = ["| population | networks | " + " | ".join(candidates()) + " |"]
    lines += ["| --- " * (2 + len(candidates())) + "|"]
    for title, one in found.items():
        cells = [_cell(one["rankings"].get(name)) for name in candidates()]
        lines.append(f"| {title}{'' if one['tests'] else ' (chose)'} | {one['networks']:,} | {' | '.join(cells)} |")
    singles = ["| population | best single proxies | FLOPs | parameters |", "| --- | --- | --- | --- |"]
    for title, one in found.items():
        best = sorted(one["singles"].items(), key=lambda item: -item[1])[:4]
        text = ", ".join(f"{name} {score:.3f}" for name, score in best)
        singles.append(f"| {title} | {text} | {one['singles']['flops']:.3f} | {one['singles']['params']:.3f} |")
    silenced = ["| population | silenced |", "| --- | --- |"]
    every = rankings[OURS].proxies
    for title, one in found.items():
        quiet = [name for name in every if name not in one["heard"]]
        silenced.append(f"| {title} | {', '.join(quiet) or 'none'} |")
    noise = ["| networks | | on noise | on images |", "| --- | --- | --- | --- |"]
    for title, one in report["noise"].items():
        noise.append(f"| {title} | {one['networks']:,} | {_cell(one['noise'])} | {_cell(one['images'])} |")
    tables = {"RANKINGS": lines, "SINGLES": singles, "SILENCED": silenced, "NOISE": noise}
    tables["ABLATION"] = _matrix(report["ablation"], "")
    tables["AGREEMENT"] = _matrix(report["agreement"], "agreement ")
    figures = {name: "\n".join(rows) for name, rows in tables.items()} | _ranges(report)
    for name, text in figures.items():
        template = template.replace("{" + name + "}", text)
    return template


def _ranges(report: Mapping[str, Any]) -> dict[str, str]:
    """From what to what some figures go, by their names in the text."""
    darts = {title: one for title, one in report["populations"].items() if title.startswith("DARTS")}
    found = {title: (one["rankings"][OURS]["spearman"], one["singles"]) for title, one in darts.items()}
    noise = {title: one["images"]["spearman"] - one["noise"]["spearman"] for title, one in report["noise"].items()}
    losses = [
        found[title][0] - one["rankings"][name]["spearman"]
        for title, one in darts.items()
        for name in PUBLISHED
        if name in one["rankings"]
    ]
    learned = json.loads(LEARNED.read_text(encoding="utf-8"))["learned"]
    drawn = [one for task in learned.values() for one in task["proxies and structure"].values()]
    within = [one["within_90"][0] for one in drawn if "within_90" in one]
    return {
        "HEARD": _between([report["ablation"][title]["all heard"] for title in darts], 2),
        "FLOPS": _between([singles["flops"] for _, singles in found.values()], 2),
        "ABOVE_FLOPS": _between([rho - singles["flops"] for rho, singles in found.values()], 3),
        "ABOVE_PARAMS": _between([rho - singles["params"] for rho, singles in found.values()], 3),
        "LOSS": f"{min(losses):.1f}",
        "NOISE_COSTS": _between([gap for title, gap in noise.items() if "ImageNet" not in title], 3),
        "NOISE_GAINS": _between([-gap for title, gap in noise.items() if "ImageNet" in title], 3),
        "WITHIN": f"{100 * min(within):.0f} to {100 * max(within):.0f} %",
    }


def _between(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def pictures(folder: Path) -> None:
    """The rankings and the best single proxies of some populations, as bars."""
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    for title, name in BARS.items():
        one = report["populations"][title]
        best = sorted(one["singles"].items(), key=lambda item: -item[1])[:5]
        values = {each: (board["spearman"], board["low"], board["high"]) for each, board in one["rankings"].items()}
        values |= {f"{each} alone": (score, score, score) for each, score in best}
        bars(folder / name, values, label=f"Spearman's ρ: {title}", marked=(OURS,))


def _matrix(rows: Mapping[str, Mapping[str, float]], prefix: str) -> list[str]:
    names = list(next(iter(rows.values())))
    lines = [
        "| population | " + " | ".join(f"{prefix}{name}" for name in names) + " |",
        "| --- " * (1 + len(names)) + "|",
    ]
    return [
        *lines,
        *(
            f"| {title} | " + " | ".join("–" if math.isnan(row[n]) else f"{row[n]:.3f}" for n in names) + " |"
            for title, row in rows.items()
        ),
    ]


def _cell(one: Mapping[str, float] | None) -> str:
    if one is None:
        return "–"
    return f"{one['spearman']:.3f} [{one['low']:.3f}, {one['high']:.3f}] / {one['kendall']:.3f} / {one['ndcg']:.3f}"


def main() -> None:
    """Study and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    report = study(ScoreLibrary(ROOT / "results"), given.draws)
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
