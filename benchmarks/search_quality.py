"""What search methods find on NAS-Bench-201's table, alone and with the help of scores of ours.

Needs the table (TRAINLESS_DATA) and the scores in results/; about ten minutes on one core::

    python benchmarks/search_quality.py --out benchmarks/results/search_quality.json
    make docs-figures
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

from trainless.bench.score_library import ScoreColumn, ScoreLibrary, column_of, places
from trainless.bench.simulation import Arena, SimulatedRun, bench_search, curve, simulate_runs
from trainless.bench.tables.table import Table
from trainless.core.arch import Arch
from trainless.runs.score_file import read_scores
from trainless.searchers.assisted import WarmUp, move_evolution, warm_evolution, warm_random
from trainless.searchers.evolution import Evolution
from trainless.searchers.searcher import Searcher
from trainless.searchers.simple import Random
from trainless.searchers.stopping import Budget
from trainless.spaces.nb201 import NasBench201

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "search_quality.json"
SPACE = NasBench201()
TASKS = ("cifar10", "cifar100", "ImageNet16-120")
PLAIN = ("random", "evolution", "reinforce", "bohb", "hyperband")
ASSISTED = ("g_rs", "g_rea", "g_reinforce", "g_hb")
PROXIES = ("gradsign", "naswot", "synflow", "meco")
MOVES = ("warm_random", "warm_evolution", "move_evolution")
RATES = (1e-3, 1e-2, 0.1, 0.5, 1.0)
TRAINED = 300
POINTS = np.unique(np.r_[1:21, 20 : TRAINED + 1 : 5]).astype(np.float64)
Proxy = Callable[[Arch], float]


class Stored:
    """The table, and stored scores as functions of an arch, higher is better."""

    def __init__(self, results: Path) -> None:
        self.library = ScoreLibrary(results)
        self.table: Table = self.library.table("nb201")
        self.archs = [SPACE.parse(text) for text in self.table.archs]
        self._file = read_scores(results / "nb201_own.npz")
        self._rows = places(self._file.archs, self.table)

    def ours(self, proxy: str) -> Proxy:
        """Our scores: PyTorch's initialisation, 64 images of CIFAR-10, seed 0."""
        return self._lookup(column_of(self._file, proxy, self._rows))

    def authors_epsilon(self, task: str) -> Proxy:
        """The scores of epsilon's authors; 6,399 networks have none, and for CIFAR-100 those of CIFAR-10 are taken."""
        of = "cifar10" if task == "cifar100" else task
        return self._lookup(self.library.peers("epsilon", of, "epsilon", "nb201"))

    def _lookup(self, column: ScoreColumn) -> Proxy:
        signed = column.values.mean(axis=0) * (1 if column.higher_is_better else -1)
        return dict(zip(self.archs, signed.tolist(), strict=True)).__getitem__


def worth(stored: Stored, searcher: str, runs: int, proxy: Proxy | None = None, **parameters: Any) -> dict[str, Any]:
    """GradSign's setting: 12,000 simulated seconds on CIFAR-10, 12-epoch validation accuracy."""
    print(searcher, parameters, flush=True)
    start = time.process_time()
    budget = Budget(simulated=12_000)
    found = bench_search(stored.table, "cifar10", searcher, budget, runs, proxy=proxy, parameters=parameters)
    rounded = {
        task: {part: {name: round(value, 3) for name, value in numbers.items()} for part, numbers in parts.items()}
        for task, parts in found.items()
    }
    return {"runs": runs, "cpu_seconds": round(time.process_time() - start, 1), "worth": rounded}


def _evolution(seed: int) -> Evolution:
    return Evolution(SPACE, seed=seed, population=64, tournament=10, replacement=False)


def _warm_move(proxy: Proxy, seed: int) -> WarmUp:
    inner = move_evolution(SPACE, proxy=proxy, kind="neighbour", seed=seed)
    return WarmUp(SPACE, inner=inner, proxy=proxy, seed=seed)


def epsilons(proxy: Proxy) -> dict[str, Callable[[int], Searcher]]:
    """Epsilon's curves."""
    return {
        "random search": lambda seed: Random(SPACE, seed=seed),
        "random search, warm-up": lambda seed: warm_random(SPACE, proxy=proxy, seed=seed),
        "ageing evolution": _evolution,
        "ageing evolution, warm-up": lambda seed: warm_evolution(SPACE, proxy=proxy, seed=seed),
        "ageing evolution, move": lambda seed: move_evolution(SPACE, proxy=proxy, seed=seed),
    }


def zero_costs(proxy: Proxy) -> dict[str, Callable[[int], Searcher]]:
    """Zero-cost-nas's curves: its move goes to the best neighbour."""
    return {
        **epsilons(proxy),
        "ageing evolution, move": lambda seed: move_evolution(SPACE, proxy=proxy, kind="neighbour", seed=seed),
        "ageing evolution, warm-up and move": lambda seed: _warm_move(proxy, seed),
    }


def curves(stored: Stored, task: str, makers: dict[str, Callable[[int], Searcher]], runs: int) -> dict[str, Any]:
    """Test accuracy of the best by validation, and the best test accuracy seen, against the networks trained."""
    valid, test = (stored.table.column(task, metric) for metric in ("valid", "test"))
    arena = Arena(stored.archs, valid, np.ones(len(valid)))
    found = {}
    for name, make in makers.items():
        traces = simulate_runs(make, arena, Budget(evaluations=TRAINED), runs)
        chosen = curve(traces, arena, test, POINTS)
        low, middle, high = np.percentile(chosen, [25, 50, 75], axis=0)
        found[name] = {
            "mean": _rounded(chosen.mean(axis=0)),
            "low": _rounded(low),
            "median": _rounded(middle),
            "high": _rounded(high),
            "best_test_seen": _rounded(_seen(traces, test)),
        }
    return found


def _seen(traces: Sequence[SimulatedRun], test: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The mean over runs of the best test accuracy among the first so many: the papers' programs report this."""
    best = [np.maximum.accumulate(test[trace.rows]) for trace in traces]
    return np.mean([run[np.minimum(POINTS.astype(int), len(run)) - 1] for run in best], axis=0)


def _rounded(values: np.ndarray[Any, Any]) -> list[float]:
    return [round(value, 2) for value in values.tolist()]


def all_curves(stored: Stored, runs: int) -> dict[str, Any]:
    """Both papers' figures on three datasets."""
    synflow = zero_costs(stored.ours("synflow"))
    figures: dict[str, Any] = {"epsilon": {}, "zero-cost-nas": {}}
    for task in TASKS:
        figures["epsilon"][task] = curves(stored, task, epsilons(stored.authors_epsilon(task)), runs)
        figures["zero-cost-nas"][task] = curves(stored, task, synflow, runs)
    return {"points": POINTS.astype(int).tolist(), "runs": runs, "figures": figures}


def main() -> None:
    """Measure and write JSON."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--runs", type=int, default=500, help="runs of each row beside a published one")
    options.add_argument("--fewer", type=int, default=200, help="runs of every other row")
    options.add_argument("--rounds", type=int, default=100, help="runs behind each curve")
    options.add_argument("--results", type=Path, default=ROOT / "results")
    options.add_argument("--out", type=Path, default=OUT)
    asked = options.parse_args()
    stored = Stored(asked.results)
    report: dict[str, Any] = {
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        },
        "plain": {name: worth(stored, name, asked.runs) for name in PLAIN},
        "assisted": {"gradsign": {name: worth(stored, name, asked.runs, stored.ours("gradsign")) for name in ASSISTED}},
        "reinforce_rates": {str(rate): worth(stored, "reinforce", asked.fewer, rate=rate) for rate in RATES},
    }
    for proxy in PROXIES:
        names = MOVES if proxy == "gradsign" else (*ASSISTED, *MOVES)
        rows = {name: worth(stored, name, asked.fewer, stored.ours(proxy)) for name in names}
        report["assisted"].setdefault(proxy, {}).update(rows)
    report["curves"] = all_curves(stored, asked.rounds)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
