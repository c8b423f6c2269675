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

from trainless.bench.correlation import ndcg
from trainless.bench.score_library import ScoreLibrary, column_of, places
from trainless.bench.weighted_order import sample_of
from trainless.core.scores import Record, Scores
from trainless.rankings import Learned, Ranking, RankProduct, fit_forest, learn, ranking
from trainless.rankings.gaussian_process import fit_warp, normal_scores, standardised
from trainless.rankings.ranking import upward
from trainless.runs.score_file import read_scores
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.structure import features

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "learned.json"
SPACE = NasBench201()
TASKS = ("cifar10", "cifar100", "ImageNet16-120")
PRIOR = ranking("trainless-1")
COUNTS = ("params", "flops", "layers")
WEAK = RankProduct(("synflow",))
SIZES = (16, 64, 256, 1024)
FEWER = 3  # draws of what takes long
FIRST, MORE, BATCH = 16, 50, 10
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


class World:
    """The networks of a population: scores, structure and accuracies."""

    def __init__(self, results: Path, population: str = "all") -> None:
        library = ScoreLibrary(results)
        table = library.table("nb201")
        rows = np.flatnonzero(library.population("nb201", population))
        file = read_scores(results / "nb201_own.npz")
        found = places(file.archs, table)
        self.scores = _scores(library, file, found, rows)
        archs = [SPACE.parse(table.archs[row]) for row in rows]
        self.structure = np.array([list(features(SPACE, arch).values()) for arch in archs])
        self.twins = np.unique([SPACE.canonical(arch) for arch in archs], axis=0, return_inverse=True)[1].reshape(-1)
        self.accuracy = {task: table.column(task, "test")[rows] for task in TASKS}
        self.prior = PRIOR(self.scores)
        self.names = self.scores.candidates

    def __len__(self) -> int:
        return len(self.names)

    def learned(
        self, task: str, rows: Sequence[int] | Rows, structure: bool, seed: int = 0, prior: Ranking = PRIOR
    ) -> Learned:
        """The ranking after training some; a weak prior has no other proxies to learn from."""
        trained = {self.names[row]: float(self.accuracy[task][row]) for row in rows}
        seen = None if prior is PRIOR else prior.proxies
        features = self.structure if structure else None
        return learn(prior, self.scores, trained, proxies=seen, structure=features, seed=seed)


def _scores(library: ScoreLibrary, file: Any, found: Rows, rows: Rows) -> Scores:
    records = []
    for proxy in (*file.proxies, *COUNTS):
        held = library.ours("nb201", proxy) if proxy in COUNTS else column_of(file, proxy, found)
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
    truth = world.accuracy[task]
    found: dict[str, Any] = {"0": spread([quality(world.prior, truth)])}
    for size in SIZES:
        runs = []
        for draw in range(min(draws, FEWER) if size == SIZES[-1] and task != TASKS[0] else draws):
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
        found[str(size)] = {**spread(runs), "draws": len(runs)}
    return found


def rivals(world: World, task: str, draws: int) -> dict[str, Any]:
    """A ridge regression and a random forest of what the learned ranking sees, the prior and warped accuracies too."""
    from sklearn.linear_model import RidgeCV

    normal = [normal_scores(upward(world.scores, proxy)) for proxy in world.scores.proxies]
    seen = np.concatenate(
        [np.stack([normal_scores(world.prior), *normal], axis=1), standardised(world.structure)], axis=1
    )
    names, truth = [str(index) for index in range(seen.shape[1])], world.accuracy[task]

    def ridge(train: Rows, rest: Rows) -> Floats:
        model = RidgeCV(np.logspace(-2, 4, 13)).fit(seen[train], fit_warp(truth[train])(truth[train]))
        return np.asarray(model.predict(seen[rest]))

    def forest(train: Rows, rest: Rows) -> Floats:
        return fit_forest(names, seen[train], fit_warp(truth[train])(truth[train]), seed=0).predict(seen[rest])

    fits: dict[str, Callable[[Rows, Rows], Floats]] = {"ridge": ridge, "forest": forest}
    found: dict[str, Any] = {"draws": draws}
    for name, fit in fits.items():
        parts = {size: [drawn(world, size, draw) for draw in range(draws)] for size in SIZES}
        found[name] = {
            str(size): spread([quality(fit(train, rest), truth[rest]) for train, rest in pairs])
            for size, pairs in parts.items()
        }
    return found


def next_driven(world: World, task: str, prior: Ranking, draws: int) -> dict[str, Any]:
    """The best after 16 random networks and 10 or 50 that ``next`` chose, beside as many by the prior and at random."""
    truth, runs = world.accuracy[task], []
    fixed, place = np.argsort(-prior(world.scores), kind="stable"), {name: row for row, name in enumerate(world.names)}
    for draw in range(draws):
        order = np.random.default_rng([FIRST, draw]).permutation(len(world))
        rows = order[:FIRST].tolist()
        while len(rows) < FIRST + MORE:
            rows += [place[name] for name in world.learned(task, rows, True, draw, prior).next(BATCH)]
        ways = {"next": rows, "fixed": fixed, "random": order}
        runs.append({f"{way}_{n}": truth[found[:n]].max() for way, found in ways.items() for n in (26, FIRST + MORE)})
        runs[-1]["best_possible"] = truth.max()
    return {**spread(runs), "draws": draws}


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
    report["all networks, cifar10"] = by_size(whole, "cifar10", True, min(asked.draws, FEWER))
    report["rivals, proxies and structure, cifar10"] = rivals(alive, "cifar10", min(asked.draws, FEWER))
    report["best found, all networks"] = {
        name: {task: next_driven(whole, task, prior, min(asked.draws, 5)) for task in TASKS}
        for name, prior in (("prior", PRIOR), ("synflow alone", WEAK))
    }
    report["seconds"] = round(time.perf_counter() - began, 1)
    report["environment"] = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    asked.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
