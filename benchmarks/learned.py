"""How far a few trained networks improve the fixed ranking of NAS-Bench-201, and what they help to find.

Needs the table (TRAINLESS_DATA) and the scores in results/; about three minutes on one core::

    OMP_NUM_THREADS=1 python benchmarks/learned.py --out benchmarks/results/learned.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau, spearmanr

from trainless.bench.evidence import Evidence, column_of, places
from trainless.bench.order import sample_of
from trainless.bench.scorefile import read_scores
from trainless.bench.selection import ndcg
from trainless.core.belief import normal_scores, standardised
from trainless.core.scores import Record, Scores
from trainless.ranking import RankProduct, fit_forest, learn
from trainless.ranking.types import upward
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.structure import features

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "learned.json"
SPACE = NasBench201()
TASKS = ("cifar10", "cifar100", "ImageNet16-120")
PARTS = ("expressivity", "jacov", "loss_ntk", "meco", "sample_zico", "synflow", "trainability", "flops")
PRIOR = RankProduct(PARTS)
COUNTS = ("params", "flops", "layers")
SIZES = (16, 64, 256, 1024)
FIRST, MORE = 16, 50
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class World:
    """The networks of a population: scores, structure and accuracies."""

    def __init__(self, results: Path, population: str = "all") -> None:
        evidence = Evidence(results)
        table = evidence.table("nb201")
        rows = np.flatnonzero(evidence.population("nb201", population))
        file = read_scores(results / "nb201_own.npz")
        found = places(file.archs, table)
        self.scores = _scores(evidence, file, found, rows)
        archs = [SPACE.parse(table.archs[row]) for row in rows]
        self.structure = np.array([list(features(SPACE, arch).values()) for arch in archs])
        self.twins = np.unique([SPACE.canonical(arch) for arch in archs], axis=0, return_inverse=True)[1].reshape(-1)
        self.accuracy = {task: table.column(task, "test")[rows] for task in TASKS}
        self.prior = PRIOR(self.scores)
        self.names = self.scores.candidates

    def __len__(self) -> int:
        return len(self.names)

    def learned(self, task: str, rows: Sequence[int] | Rows, structure: bool, seed: int = 0) -> Any:
        """The ranking after training some."""
        trained = {self.names[row]: float(self.accuracy[task][row]) for row in rows}
        return learn(PRIOR, self.scores, trained, structure=self.structure if structure else None, seed=seed)


def _scores(evidence: Evidence, file: Any, found: Rows, rows: Rows) -> Scores:
    records = []
    for proxy in (*file.proxies, *COUNTS):
        held = evidence.ours("nb201", proxy) if proxy in COUNTS else column_of(file, proxy, found)
        for row, value in zip(rows.tolist(), held.values.mean(axis=0)[rows].tolist(), strict=True):
            status = "ok" if value == value else "failed"
            records.append(Record(str(row), proxy, value, held.higher_is_better, status))
    return Scores(records)


def quality(values: Floats, truth: Floats) -> dict[str, float]:
    """Spearman, Kendall and nDCG@1000 of a ranking."""
    return {
        "spearman": float(spearmanr(values, truth).statistic),
        "kendall": float(kendalltau(values, truth).statistic),
        "ndcg_1000": float(ndcg(sample_of(values, truth))[0]),
    }


def spread(runs: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Mean and standard deviation of each number."""
    return {
        name: [round(float(np.mean(each)), 4), round(float(np.std(each)), 4)]
        for name in runs[0]
        for each in [[run[name] for run in runs]]
    }


def drawn(world: World, size: int, draw: int) -> tuple[Rows, Rows]:
    """The networks to train, and the rest."""
    order = np.random.default_rng([size, draw]).permutation(len(world))
    return order[:size], order[size:]


def by_size(world: World, task: str, structure: bool, draws: int) -> dict[str, Any]:
    """The learned ranking on what was held out; without twins of what was trained, also its 90 % interval."""
    truth, found = world.accuracy[task], {"0": spread([quality(world.prior, world.accuracy[task])])}
    for size in SIZES:
        runs = []
        for draw in range(draws):
            train, rest = drawn(world, size, draw)
            learned = world.learned(task, train, structure, draw)
            low, high = learned.interval(0.9)
            inside = (low <= truth) & (truth <= high)
            strange = rest[~np.isin(world.twins[rest], world.twins[train])]
            strict = {
                "spearman_without_twins": float(spearmanr(learned.values[strange], truth[strange]).statistic),
                "fixed_without_twins": float(spearmanr(world.prior[strange], truth[strange]).statistic),
                "within_90": float(inside[strange].mean()),
            }
            runs.append({**quality(learned.values[rest], truth[rest]), **strict})
        found[str(size)] = spread(runs)
    return found


def rivals(world: World, task: str, draws: int) -> dict[str, Any]:
    """A ridge regression on normal scores and a random forest, on proxies and structure."""
    from sklearn.linear_model import RidgeCV

    columns = np.stack([upward(world.scores, proxy) for proxy in world.scores.proxies], axis=1)
    columns = np.where(np.isnan(columns), np.nanmin(columns, axis=0), columns)
    both = np.concatenate([columns, world.structure], axis=1)
    normal = [normal_scores(upward(world.scores, proxy)) for proxy in world.scores.proxies]
    standard = np.concatenate([np.stack(normal, axis=1), standardised(world.structure)], axis=1)
    names, truth = [str(index) for index in range(both.shape[1])], world.accuracy[task]

    def ridge(train: Rows, rest: Rows) -> Floats:
        model = RidgeCV(np.logspace(-2, 4, 13)).fit(standard[train], truth[train])
        return np.asarray(model.predict(standard[rest]))

    def forest(train: Rows, rest: Rows) -> Floats:
        return fit_forest(names, both[train], truth[train], seed=0).predict(both[rest])

    fits: dict[str, Callable[[Rows, Rows], Floats]] = {"ridge": ridge, "forest": forest}
    return {
        name: {
            str(size): spread([quality(fit(train, rest), truth[rest]) for train, rest in parts])
            for size in SIZES
            for parts in [[drawn(world, size, draw) for draw in range(draws)]]
        }
        for name, fit in fits.items()
    }


def next_driven(world: World, task: str, structure: bool, draws: int, *, random_start: bool) -> dict[str, Any]:
    """The best accuracy after 16 networks and 50 more that ``next`` chose, against 66 chosen at random."""
    truth, runs = world.accuracy[task], []
    for draw in range(draws):
        order = np.random.default_rng([FIRST, draw]).permutation(len(world))
        rows = order[:FIRST].tolist() if random_start else np.argsort(-world.prior)[:FIRST].tolist()
        places_of = {name: row for row, name in enumerate(world.names)}
        while len(rows) < FIRST + MORE:
            chosen = world.learned(task, rows, structure, draw).next(10)
            rows += [places_of[name] for name in chosen][: FIRST + MORE - len(rows)]
        best = {"next": truth[rows].max(), "random": truth[order[: FIRST + MORE]].max()}
        best["fixed"] = truth[np.argsort(-world.prior)[: FIRST + MORE]].max()
        runs.append({**best, "best_possible": truth.max()})
    return spread(runs)


def main() -> None:
    """Measure everything and write it."""
    asking = argparse.ArgumentParser(description=__doc__)
    asking.add_argument("--out", type=Path, default=OUT)
    asking.add_argument("--results", type=Path, default=ROOT / "results")
    asking.add_argument("--draws", type=int, default=10)
    asked = asking.parse_args()
    began = time.perf_counter()
    alive, whole = World(asked.results, "no-dead-edges"), World(asked.results)
    report: dict[str, Any] = {"networks": {"alive": len(alive), "all": len(whole)}, "prior": repr(PRIOR)}
    report["learned"] = {
        task: {
            name: by_size(alive, task, structure, asked.draws)
            for name, structure in (("proxies", False), ("proxies and structure", True))
        }
        for task in TASKS
    }
    report["all networks, cifar10"] = by_size(whole, "cifar10", True, min(asked.draws, 3))
    report["rivals, proxies and structure, cifar10"] = rivals(alive, "cifar10", min(asked.draws, 3))
    report["best found on all networks, 16 random first"] = {
        task: next_driven(whole, task, True, asked.draws, random_start=True) for task in TASKS
    }
    report["seconds"] = round(time.perf_counter() - began, 1)
    report["environment"] = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    asked.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
