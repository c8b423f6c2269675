"""The study behind the ranking ``trainless``: docs/ranking.md and its numbers from results/.

    python -m benchmarks.ranking_study --draws 1000      # benchmarks/results/ranking.json; make docs-figures then

Needs the tables (TRAINLESS_DATA). The protocol is docs/decisions/0018-a-core-and-who-agrees-with-it.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from trainless.bench.correlation import kendall, ndcg, spearman
from trainless.bench.figures import bars
from trainless.bench.score_library import COUNTS, ScoreLibrary, column_of, places, truth
from trainless.bench.weighted_order import sample_of
from trainless.core.task import Task
from trainless.proxies.proxy import registry as proxies
from trainless.rankings import Consensus
from trainless.rankings import registry as rankings
from trainless.runs.score_file import read_scores
from trainless.spaces import space
from trainless.spaces.protocol import counter

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "benchmarks" / "results" / "ranking.json"
FIGURES = ROOT / "docs" / "figures"
EXPERIENCE = ROOT / "trainless" / "rankings" / "experience.json"
LEARNED = ROOT / "benchmarks" / "results" / "learned.json"
OURS, BEFORE = "trainless-2", "trainless-1"
DEVELOPED = "chose"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """A space with trained networks, and the files that have their scores.

    Args:
        title: Its name for people.
        table: The table of accuracies.
        files: Files of scores; the first one that has a proxy counts.
        tasks: Task and metric of each column of accuracies.
        parameters: Of the space that was scored.
    """

    title: str
    table: str
    files: tuple[str, ...]
    tasks: tuple[tuple[str, str], ...]
    parameters: Mapping[str, int] = field(default_factory=dict)


_INDOOR = ("autoencoder", "room_layout", "class_object", "class_scene", "jigsaw", "normal", "segmentsemantic")
SOURCES = (
    Source(
        *("NAS-Bench-201", "nb201", ("nb201_own", "nb201_paths")),
        tuple((task, "test") for task in ("cifar10", "cifar100", "ImageNet16-120")),
    ),
    Source("NAS-Bench-101", "nb101", ("nb101_thin", "nb101_paths"), (("cifar10", "valid"),), {"channels": 32}),
    Source("DARTS", "darts", ("darts", "darts_paths"), (("cifar10", "valid"),), {"channels": 16, "cells": 8}),
    Source("NAS-Bench-Macro", "nb-macro", ("nb-macro",), (("cifar10", "test"),)),
    Source(
        *("TransNAS micro", "transnas-micro", ("transnas-micro", "transnas-micro_more")),
        tuple((task, "valid") for task in _INDOOR),
    ),
)


@dataclass(frozen=True, eq=False)
class Networks:
    """Networks of one space: accuracies by task, scores that are higher for better ones, and which were asked for."""

    title: str
    truths: Mapping[str, Floats]
    scores: Mapping[str, Floats]
    asked: Mapping[str, npt.NDArray[np.bool_]]

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """The scores that were asked for of all of them."""
        return {name: row for name, row in self.scores.items() if self.asked[name].all()}

    def among(self, mask: npt.NDArray[np.bool_]) -> Networks:
        """Some of them."""
        some = ({name: row[mask] for name, row in rows.items()} for rows in (self.truths, self.scores, self.asked))
        return Networks(self.title, *some)

    def __len__(self) -> int:
        return len(next(iter(self.truths.values())))


def networks(library: ScoreLibrary, source: Source) -> tuple[Networks, npt.NDArray[np.intp]]:
    """The rows of a space's table with every score asked for that our rankings need, and which rows these are."""
    table = library.table(source.table)
    found: dict[str, Any] = {}
    for name in source.files:
        stored = read_scores(library.folder / f"{name}.npz")
        rows = places(stored.archs, table)
        for proxy in stored.proxies:
            if proxy not in found and stored.seeds_of(proxy):
                found[proxy] = column_of(stored, proxy, rows)
    wanted = {*rankings[OURS].proxies, *rankings[BEFORE].proxies} & set(found)
    asked = np.logical_and.reduce([found[name].asked for name in wanted - set(COUNTS)])
    kept = np.flatnonzero(asked)
    rules = space(table.space, **source.parameters)
    count = counter(rules, Task.noise((3, 32, 32), 10))
    counted = [count(rules.parse(table.archs[row])) for row in kept]
    scores = {
        name: column.values[0][kept] * (1 if proxies[name].higher_is_better else -1) for name, column in found.items()
    }
    scores |= {name: np.array([getattr(each, name) for each in counted], np.float64) for name in COUNTS}
    every = {name: column.asked[kept] for name, column in found.items()} | dict.fromkeys(
        COUNTS, np.full(len(kept), True)
    )
    truths = {task: truth(table, task, metric)[kept] for task, metric in source.tasks}
    return Networks(source.title, truths, scores, every), kept


def value(ranking: Any, found: Networks) -> Floats | None:
    """A ranking's values, or a proxy's by its name; None where something was not scored."""
    if isinstance(ranking, str):
        return found.columns.get(ranking)
    if not set(ranking.proxies) <= set(found.columns):
        return None
    return np.asarray(ranking.combine([found.columns[part] for part in ranking.parts]))


def rho(ranking: Any, found: Networks) -> float:
    """Spearman's ρ, the mean over tasks; failures are last."""
    values = value(ranking, found)
    if values is None:
        return math.nan
    return float(np.mean([spearman(sample_of(values, accuracy))[0] for accuracy in found.truths.values()]))


@cache
def compared() -> dict[str, Any]:
    """What is compared, by name: our ranking, the one before, published ones, and measures by themselves."""
    alone = ("paths", "flops", "params", "layers", "naswot", "swap", "expressivity", "meco", "isolated_jacov")
    return {OURS: rankings[OURS], BEFORE: rankings[BEFORE], "az-nas": rankings["az-nas"], **{one: one for one in alone}}


@cache
def family() -> tuple[Consensus, ...]:
    """The formulas that were chosen among: a core that counts by paths, and aspects that may agree with it."""
    features = ((), ("meco",), ("swap",), ("meco", "swap"), ("meco", "swap", "swap"))
    more = ((), ("layers",), ("flops",), ("naswot",))
    weights = [*itertools.product((2, 3, 4, 5, 6), (2, 3, 4), (1, 2, 3), features, [()], (0.0, 0.1, 0.2))]
    weights += itertools.product((2, 4, 6), (2, 4), (2,), (features[0], features[-1]), more[1:], (0.0, 0.2))
    return tuple(
        Consensus(
            ("paths",) * paths + ("expressivity",) * 2 + extra + _voices(responses, flow) + added,
            agreement=agreement,
            core=("paths", "expressivity", *extra),
        )
        for paths, responses, flow, added, extra, agreement in weights
    )


def _voices(responses: int, flow: int) -> tuple[str, ...]:
    return ("isolated_jacov",) * responses + ("layer_entropy", "isometry") * flow


def described(ranking: Consensus) -> str:
    """A formula of the family in a line."""
    powers = "".join(chr(code) for code in (0x2070, 0xB9, 0xB2, 0xB3, *range(0x2074, 0x207A)))

    def product(names: Sequence[str]) -> str:
        times = {name: ranking.parts.count(name) for name in dict.fromkeys(names)}
        return " × ".join(f"{name}{powers[count] if count > 1 else ''}" for name, count in times.items())

    voices = [name for name in ranking.parts if name not in ranking.core]
    return f"{product(ranking.core)}; {product(voices)} from {ranking.agreement:g}"


def left_out(developed: Sequence[Networks]) -> dict[str, Any]:
    """For every space the formula that the others choose, by their mean, and what it has there.

    Thresholds of agreement between which no aspect of the others lies give the same orders there: of such formulas the
    strictest is taken, and the mean by the loosest is kept beside it.
    """
    every = np.array([[rho(ranking, found) for found in developed] for ranking in family()])
    every = np.where(np.isnan(every), -1.0, every)
    thresholds = np.array([ranking.agreement for ranking in family()])

    def chosen(means: Floats, sign: int = 1) -> int:
        return int(np.lexsort((sign * thresholds, means.round(9)))[-1])

    others = [np.delete(every, place, axis=1).mean(axis=1) for place in range(len(developed))]
    found = {}
    for place, space_ in enumerate(developed):
        best = chosen(others[place])
        found[space_.title] = {"formula": described(family()[best]), "spearman": round(float(every[best, place]), 4)}
    loosest = [float(every[chosen(means, -1), place]) for place, means in enumerate(others)]
    best = chosen(every.mean(axis=1))
    return {
        "formulas": len(family()),
        "spaces": found,
        "mean": round(float(np.mean([one["spearman"] for one in found.values()])), 4),
        "mean by the loosest": round(float(np.mean(loosest)), 4),
        "all": {"formula": described(family()[best]), "mean": round(float(every[best].mean()), 4)},
    }


def judged(values: Floats, accuracy: Floats, draws: int) -> dict[str, float]:
    """Spearman with its interval over networks, Kendall, nDCG of the first fifth."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), draws).T.astype(np.float64)
    point = sample_of(values, accuracy)
    low, high = np.quantile(spearman(sample_of(values, accuracy, counts)), [0.025, 0.975])
    top = max(1, min(1000, len(values) // 5))
    found = {"spearman": spearman(point)[0], "low": low, "high": high, "kendall": kendall(point)[0]}
    return {name: round(float(one), 4) for name, one in {**found, "ndcg": ndcg(point, top)[0]}.items()}


def means(developed: Sequence[Networks], draws: int) -> dict[str, dict[str, float]]:
    """The mean ρ over spaces of all that is compared, with an interval over spaces and networks."""
    found = {}
    for name, ranking in compared().items():
        columns = [value(ranking, one) for one in developed]
        if any(column is None for column in columns):
            continue
        rng = np.random.default_rng(0)
        many = np.zeros((len(developed), draws))
        for place, (one, column) in enumerate(zip(developed, columns, strict=True)):
            counts = rng.multinomial(len(one), np.full(len(one), 1 / len(one)), draws).T.astype(np.float64)
            each = [spearman(sample_of(np.asarray(column), accuracy, counts)) for accuracy in one.truths.values()]
            many[place] = np.nan_to_num(np.mean(each, axis=0))
        chosen = rng.integers(len(developed), size=(len(developed), draws))
        low, high = np.quantile(np.take_along_axis(many, chosen, axis=0).mean(axis=0), [0.025, 0.975])
        point = float(np.mean([np.nan_to_num(rho(ranking, one)) for one in developed]))
        found[name] = {"mean": round(point, 4), "low": round(float(low), 4), "high": round(float(high), 4)}
    return found


def variants() -> dict[str, Consensus]:
    """Our formula with one thing changed."""
    ours = cast(Consensus, rankings[OURS])
    parts = tuple(name for name in ours.parts if name not in (*ours.mixed, ours.size))
    others = [name for name in dict.fromkeys(parts) if name != "paths"]

    def formula(parts: tuple[str, ...], agreement: float = ours.agreement, **more: Any) -> Consensus:
        return Consensus(parts, agreement=agreement, core=tuple(name for name in ours.core if name in parts), **more)

    changed = {f"without {name}": formula(tuple(one for one in parts if one != name)) for name in others}
    changed["without meco and swap"] = formula(tuple(one for one in parts if one not in ("meco", "swap")))
    changed["without paths"] = formula(tuple(one for one in parts if one != "paths"))
    changed["everything counts once"] = formula(tuple(dict.fromkeys(parts)))
    changed["paths half"] = formula(parts[parts.count("paths") // 2 :])
    changed["paths by half more"] = formula(("paths",) * (parts.count("paths") // 2) + parts)
    for name in ("flops", "naswot"):
        core = (*ours.core, name)
        changed[f"with {name}"] = Consensus((*parts, name, name), agreement=ours.agreement, core=core)
    changed["every voice by itself"] = formula(parts, together=())
    changed["all heard"] = formula(parts, -1.0)
    changed["none heard"] = formula(parts, 2.0)
    return changed


def study(library: ScoreLibrary, draws: int) -> dict[str, Any]:
    """Every figure of the page."""
    seen = json.loads((library.folder / "seen.json").read_text(encoding="utf-8"))["second"]
    report: dict[str, Any] = {"populations": {}, "agreement": {}, "heard": {}, "coverage": {}}
    developed = []
    for source in SOURCES:
        found, rows = networks(library, source)
        chose = np.isin(rows, seen[source.table])
        developed.append(found.among(chose))
        parts = [(f"{source.title} ({DEVELOPED})", chose), (source.title, ~chose)]
        if source.table == "nb201":
            parts.append(
                (f"{source.title}, no dead edges", ~chose & library.population("nb201", "no-dead-edges")[rows])
            )
        for title, mask in parts:
            if mask.sum() >= 100:
                report["populations"][title] = _population(found.among(mask), draws)
        ours, whole = cast(Consensus, rankings[OURS]), found.among(chose)
        report["agreement"][source.title] = agreements(ours, whole)
        report["coverage"][source.title] = round(float(np.isfinite(whole.columns["paths"]).mean()), 4)
    report["means"] = means(developed, draws)
    report["left out"] = left_out(developed)
    report["ablation"] = {
        name: {one.title: round(rho(ranking, one), 4) for one in developed}
        for name, ranking in {"as it is": rankings[OURS], **variants()}.items()
    }
    report["noise"] = without_data(library, draws)
    return report


def agreements(ranking: Consensus, found: Networks) -> dict[str, float]:
    """By aspect, how its order agrees with the core's."""
    columns = [found.columns[part] for part in ranking.parts]
    return {" × ".join(names): round(one, 4) for names, one in ranking.agreements_of(columns).items()}


def _population(found: Networks, draws: int) -> dict[str, Any]:
    boards: dict[str, dict[str, Any]] = {}
    for task, accuracy in found.truths.items():
        boards[task] = {}
        for name, ranking in compared().items():
            values = value(ranking, found)
            if values is not None:
                boards[task][name] = judged(values, accuracy, draws if name in (OURS, BEFORE) else 2)
    return {"networks": len(found), "tasks": boards}


def without_data(library: ScoreLibrary, draws: int) -> dict[str, dict[str, Any]]:
    """Our ranking on noise and on images, on the networks of NAS-Bench-201 that were scored on both."""
    noise, rows = networks(library, Source("", "nb201", ("nb201_without_data", "nb201_paths"), SOURCES[0].tasks))
    images, every = networks(library, SOURCES[0])
    same = images.among(np.isin(every, rows))
    found = {}
    for task, accuracy in noise.truths.items():
        both = {"noise": noise, "images": same}
        found[task] = {
            name: judged(np.asarray(value(rankings[OURS], one)), accuracy, draws) for name, one in both.items()
        }
        found[task]["networks"] = len(noise)
    return found


def experience(report: Mapping[str, Any]) -> dict[str, Any]:
    """What ``score --ranking`` compares with: for each space the agreements, and the ρ that came of them."""
    ours = {title: one["tasks"] for title, one in report["populations"].items() if title.endswith(f"({DEVELOPED})")}
    return {
        OURS: {
            title: {
                "agreements": report["agreement"][title],
                "spearman": round(
                    float(np.mean([one[OURS]["spearman"] for one in ours[f"{title} ({DEVELOPED})"].values()])), 2
                ),
            }
            for title in report["agreement"]
        }
    }


def rendered() -> str:
    """The page by the results."""
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    return page(report, (ROOT / "benchmarks" / "ranking_page.md").read_text(encoding="utf-8"))


def page(report: Mapping[str, Any], template: str) -> str:
    """The page: the text with tables in place of their names."""
    tables = {
        "SPACES": _spaces(report),
        "LEFT_OUT": _left_out(report["left out"]),
        "ABLATION": _matrix(report["ablation"], "formula"),
        "AGREEMENT": _agreement(report),
        "NOISE": _noise(report["noise"]),
    }
    for name, rows in tables.items():
        template = template.replace("{" + name + "}", "\n".join(rows))
    return template


def _spaces(report: Mapping[str, Any]) -> list[str]:
    names = list(compared())
    lines = ["| networks | how many | " + " | ".join(names) + " |", "| --- " * (2 + len(names)) + "|"]
    for title, one in report["populations"].items():
        for task, board in one["tasks"].items():
            best = max(board[name]["spearman"] for name in names if name in board and name not in (OURS, BEFORE))
            cells = [_cell(board.get(name), whole=name in (OURS, BEFORE), best=best) for name in names]
            lines.append(f"| {title}, {task} | {one['networks']:,} | {' | '.join(cells)} |")
    row = [_mean(report["means"].get(name)) for name in names]
    return [*lines, f"| **mean over the spaces that chose** | | {' | '.join(row)} |"]


def _cell(one: Mapping[str, float] | None, *, whole: bool, best: float) -> str:
    if one is None or math.isnan(one["spearman"]):
        return "–"
    text = f"{one['spearman']:.3f}"
    if whole:
        return f"{text} [{one['low']:.3f}, {one['high']:.3f}]"
    return f"*{text}*" if one["spearman"] == best else text


def _mean(one: Mapping[str, float] | None) -> str:
    return "–" if one is None else f"{one['mean']:.3f} [{one['low']:.2f}, {one['high']:.2f}]"


def _left_out(found: Mapping[str, Any]) -> list[str]:
    lines = ["| left out | what the others choose | ρ on what was left out |", "| --- | --- | --- |"]
    lines += [f"| {title} | {one['formula']} | {one['spearman']:.3f} |" for title, one in found["spaces"].items()]
    return [*lines, f"| mean | | **{found['mean']:.3f}** |"]


def _matrix(rows: Mapping[str, Mapping[str, float]], corner: str) -> list[str]:
    names = list(next(iter(rows.values())))
    lines = [f"| {corner} | " + " | ".join(names) + " | mean |", "| --- " * (2 + len(names)) + "|"]
    for title, row in rows.items():
        cells = ["–" if math.isnan(row[name]) else f"{row[name]:.3f}" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} | {np.mean([*row.values()]):.3f} |")
    return lines


def _agreement(report: Mapping[str, Any]) -> list[str]:
    aspects = list(next(iter(report["agreement"].values())))
    lines = ["| space | " + " | ".join(aspects) + " | ranked |", "| --- " * (2 + len(aspects)) + "|"]
    for title, row in report["agreement"].items():
        cells = [f"{row[name]:.2f}{'' if row[name] >= 0.2 else ' (silent)'}" for name in aspects]
        lines.append(f"| {title} | {' | '.join(cells)} | {100 * report['coverage'][title]:.0f} % |")
    return lines


def _noise(found: Mapping[str, Any]) -> list[str]:
    lines = ["| networks of NAS-Bench-201 | | on noise | on images |", "| --- | --- | --- | --- |"]
    for task, one in found.items():
        cells = [
            f"{one[name]['spearman']:.3f} [{one[name]['low']:.3f}, {one[name]['high']:.3f}]"
            for name in ("noise", "images")
        ]
        lines.append(f"| {task} | {one['networks']:,} | {' | '.join(cells)} |")
    return lines


def pictures(folder: Path) -> None:
    """The mean over the spaces of all that is compared, as bars."""
    found = json.loads(REPORT.read_text(encoding="utf-8"))["means"]
    values = {name: (one["mean"], one["low"], one["high"]) for name, one in found.items()}
    bars(folder / "ranking-means.svg", values, label="Spearman's ρ, mean over five spaces", marked=(OURS,))


def main() -> None:
    """Study and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    report = study(ScoreLibrary(ROOT / "results"), given.draws)
    REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    EXPERIENCE.write_text(json.dumps(experience(report), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
