"""The published baselines of NAS-Bench-201, run again on its table."""

from __future__ import annotations

import csv
import gzip
import json
import math
import time

import numpy as np
import pytest

from benchmarks.render_search import OVERHEAD, RESULTS
from trainless.bench.simulation import Arena, SimulatedRun, curve, simulate, simulate_runs, summary
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.searchers.evolution import Evolution
from trainless.searchers.hyperband import Bohb
from trainless.searchers.reinforce import Reinforce
from trainless.searchers.simple import Random
from trainless.searchers.stopping import Budget
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201()
DATASETS = ("cifar10", "cifar100", "ImageNet16-120")
TOLERANCE = (0.3, 0.6, 0.7)
PUBLISHED = {  # gradsign.txt, table 5.5, test accuracy, 500 runs of 12,000 s
    "random": (lambda seed: Random(SPACE, seed=seed), (93.72, 71.07, 44.61)),
    "evolution": (lambda seed: Evolution(SPACE, seed=seed), (93.85, 71.64, 45.25)),
    "reinforce": (lambda seed: Reinforce(SPACE, seed=seed), (93.21, 70.14, 43.64)),
    "bohb": (lambda seed: Bohb(SPACE, seed=seed), (93.64, 70.92, 44.50)),
}
RUNS = {"random": 150, "evolution": 500, "reinforce": 150, "bohb": 150}


@pytest.fixture(scope="module")
def table(data_dir):
    with gzip.open(data_dir / "nb201" / "nb201_all.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in rows])

    archs = [tuple(map(int, row["ops"])) for row in rows]
    arena = Arena(archs, column("cifar10_val_acc_12"), column("cifar10_train_time_200_s") * 12 / 200)
    return arena, {name: column(f"{name}_test_acc_200") for name in DATASETS}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_searches_are_reproduced(name, table) -> None:
    """Fewer runs than the 500 of ``docs/search.md``, so three standard errors more."""
    arena, report = table
    make, expected = PUBLISHED[name]
    runs = RUNS[name]
    start = time.process_time()
    traces = simulate_runs(make, arena, Budget(simulated=12_000), runs=runs)
    assert time.process_time() - start < 20 * runs / 500
    result = summary(traces, arena, report)
    for dataset, published, tolerance in zip(DATASETS, expected, TOLERANCE, strict=True):
        error = 3 * result[dataset]["std"] / math.sqrt(runs)
        assert result[dataset]["mean"] == pytest.approx(published, abs=tolerance + error), (name, dataset)
    assert max(trace.seconds[-1] for trace in traces) <= 12_000


def test_the_500_runs_of_the_page_are_within_the_tolerances_and_help_helps() -> None:
    found = json.loads(RESULTS.read_text())
    for name, (_, expected) in PUBLISHED.items():
        assert found["plain"][name]["runs"] == 500
        means = [found["plain"][name]["worth"][dataset]["test"]["mean"] for dataset in DATASETS]
        for mean, published, tolerance in zip(means, expected, TOLERANCE, strict=True):
            assert mean == pytest.approx(published, abs=tolerance), name
    for name, plain in (
        ("g_rs", "random"),
        ("g_rea", "evolution"),
        ("g_reinforce", "reinforce"),
        ("g_hb", "hyperband"),
    ):
        for dataset in DATASETS:
            with_help, alone = found["assisted"]["gradsign"][name], found["plain"][plain]
            assert with_help["worth"][dataset]["test"]["mean"] > alone["worth"][dataset]["test"]["mean"], name


class Scripted:
    """Proposes what it was given and remembers what it was told."""

    def __init__(self, batches):
        self.batches, self.told = list(batches), []

    def ask(self, limit=None):
        return [Proposal(arch) for arch in self.batches.pop(0)] if self.batches else []

    def tell(self, told):
        self.told += told.signal().tolist()


def test_an_overrunning_evaluation_ends_the_run_and_does_not_count() -> None:
    arena = Arena([(0,), (1,), (2,)], np.array([1.0, 5.0, 9.0]), np.array([4.0, 4.0, 3.0]))
    searcher = Scripted([[(0,)], [(1,), (2,)], [(0,)]])
    trace = simulate(searcher, arena, Budget(simulated=10.0))
    assert trace.rows.tolist() == [0, 1]
    assert trace.seconds.tolist() == [4.0, 8.0]
    assert trace.chosen(arena.signal) == 1
    assert searcher.told == [1.0]


def test_evaluations_are_a_budget_too_and_a_finished_searcher_ends_the_run() -> None:
    arena = Arena([(0,), (1,)], np.array([1.0, np.nan]), np.ones(2))
    assert len(simulate(Scripted([[(0,), (1,), (0,)]]), arena, Budget(evaluations=2)).rows) == 2
    trace = simulate(Scripted([[(1,), (0,)]]), arena, Budget(evaluations=9))
    assert trace.rows.tolist() == [1, 0]
    assert trace.chosen(arena.signal) == 0


def test_runs_are_reproducible_and_differ() -> None:
    archs = list(enumerate_archs(SPACE))
    arena = Arena(archs, np.array([float(sum(arch)) for arch in archs]), np.ones(len(archs)))
    first, again = (
        simulate_runs(lambda seed: Evolution(SPACE, seed=seed), arena, Budget(evaluations=30), 3, seed=5)
        for _ in range(2)
    )
    assert [trace.rows.tolist() for trace in first] == [trace.rows.tolist() for trace in again]
    assert first[0].rows.tolist() != first[1].rows.tolist()


def test_curve_is_the_value_of_the_best_so_far() -> None:
    arena = Arena([(0,), (1,), (2,)], np.array([1.0, 3.0, 2.0]), np.ones(3))
    trace = SimulatedRun(np.array([2, 0, 1]), np.array([1.0, 2.0, 3.0]))
    value = np.array([10.0, 30.0, 20.0])
    got = curve([trace], arena, value, np.array([0.0, 1.0, 2.5, 3.0, 99.0]))
    np.testing.assert_array_equal(got, [[np.nan, 20.0, 20.0, 30.0, 30.0]])


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="2 archs were given with 1 signals"):
        Arena([(0,), (1,)], np.ones(1), np.ones(2))
    with pytest.raises(InputError, match="2 rows but 1 different archs"):
        Arena([(0,), (0,)], np.ones(2), np.ones(2))
    arena = Arena([(0,)], np.ones(1), np.ones(1))
    with pytest.raises(InputError, match="no row for \\(7,\\)"):
        simulate(Scripted([[(7,)]]), arena, Budget(evaluations=1))
    with pytest.raises(InputError, match="needs a budget in evaluations or simulated seconds"):
        simulate(Scripted([]), arena, Budget(seconds=1.0))
    with pytest.raises(InputError, match="none of 1 runs evaluated anything"):
        summary([SimulatedRun(np.array([], dtype=int), np.array([]))], arena, {})


def test_the_search_of_ten_thousand_spends_its_time_on_scoring() -> None:
    run = json.loads(OVERHEAD.read_text())["mobilenet"]
    assert run["evaluations"] == 10_000
    assert run["most_flops_proposed"] <= run["flops_limit"]
    assert run["share_outside_scoring"] < 0.1
    assert run["share_outside_scoring"] == pytest.approx(1 - run["seconds_scoring"] / run["seconds"])
