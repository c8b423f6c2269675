"""``search``: every searcher by one loop, the same result however it comes about."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import trainless as tl
from tests.execution.hostile import Hostile, Sum
from trainless.core.arch import Proposal, is_region
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.rankings import LogSum, RankProduct, RankSum
from trainless.runs.search import search
from trainless.runs.settings import SearchCallbacks, SearchSettings
from trainless.runs.trajectory import read
from trainless.scoring.measures import Lookup, Outcome
from trainless.searchers import registry
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import NasBench201

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))
SYNCHRONOUS = {"pmbga": {"batch": 5, "sets": 2}, "reinforce": {"batch": 5}, "nsga2": {"population": 6}}


def board(path: Path) -> list[dict[str, str]]:
    with (path / "leaderboard.csv").open() as file:
        return list(csv.DictReader(file))


class Slow(Sum):
    """Takes its time, and says when it began."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.count = seconds, 0

    def __call__(self, proposal: Proposal) -> Outcome:
        self.count += 1
        time.sleep(self.seconds)
        return super().__call__(proposal)


def test_the_verb_and_the_package_share_a_name() -> None:
    from trainless.searchers.searcher import Told

    assert Told is not None
    found = tl.search(TASK, SPACE, "random", proxies="params", evaluations=3)
    assert isinstance(found, tl.Found)
    assert found.spent.evaluations == 3
    assert SPACE.valid(found.best)


def test_the_run_folder(tmp_path: Path) -> None:
    limit = SPACE.counts((3, 1, 1, 1, 1, 1), TASK).flops
    found = search(
        TASK,
        SPACE,
        proxies="params,naswot",
        ranking=RankSum(("naswot",)),
        evaluations=12,
        out=tmp_path / "run",
        settings=SearchSettings(constraints={"flops": limit}, batch=8),
    )
    rows = board(tmp_path / "run")
    assert [row["rank"] for row in rows] == [str(place) for place in range(1, len(rows) + 1)]
    assert list(rows[0]) == ["rank", "arch", "params", "naswot", "flops", "layers", "status"]
    values = [float(row["naswot"]) for row in rows if row["naswot"]]
    assert values == sorted(values, reverse=True)
    assert all(int(row["flops"]) <= limit for row in rows)
    archs = [SPACE.parse(row["arch"]) for row in rows]
    assert len(set(map(SPACE.canonical, archs))) == len(archs)
    steps = [line.step for line in read(tmp_path / "run" / "trajectory.jsonl") if line.step]
    assert sum(len(step["candidates"]) for step in steps) == 12
    assert set(steps[0]["scores"]) == {"params", "naswot"}
    assert found.end == "budget"
    configuration = json.loads((tmp_path / "run" / "run.json").read_text())
    assert configuration["task"]["fingerprint"] == TASK.fingerprint


ASSISTED = (
    "g_rs",
    "a_rea",
    "g_rea",
    "g_reinforce",
    "g_hb",
    "warm_random",
    "warm_evolution",
    "move_evolution",
    "learned",
)


FEW = {
    "warm_random": {"pool": 12, "keep": 4},
    "warm_evolution": {"pool": 12, "keep": 4},
    "move_evolution": {"population": 4, "tournament": 2},
    "learned": {"pool": 12},
}


@pytest.mark.parametrize("searcher", [name for name in registry.names() if name != "prune"])
def test_infeasible_candidates_are_never_proposed_built_or_scored(searcher: str) -> None:
    built: list[object] = []
    seen: list[object] = []

    class Building(NasBench201):
        def build(self, arch, task):
            built.append(arch)
            return super().build(arch, task)

    class Noting(Sum):
        def __call__(self, proposal: Proposal) -> Outcome:
            seen.append(proposal.arch)
            return super().__call__(proposal)

    assisted = searcher in ASSISTED
    most = SPACE.counts((2, 1, 1, 1, 1, 1), TASK).params
    search(
        TASK,
        Building(2, 1),
        searcher,
        evaluations=12,
        settings=SearchSettings(
            measure=Noting(),
            constraints={"params": most},
            searcher_args=FEW.get(searcher, {}),
            assist="l2_norm" if assisted else None,
        ),
    )
    assert len(set(seen)) > 2
    assert bool(built) == assisted
    assert all(SPACE.counts(arch, TASK).params <= most for arch in (*seen, *built))


def test_pruning_ends_in_a_feasible_arch() -> None:
    most = SPACE.counts((2, 1, 1, 1, 1, 1), TASK).params
    found = search(TASK, SPACE, "prune", proxies="params", settings=SearchSettings(constraints={"params": most}))
    assert found.end == "finished"
    assert SPACE.counts(found.best, TASK).params <= most


def test_twins_are_measured_once() -> None:
    measure = Slow(0.0)
    found = search(TASK, SPACE, "random", evaluations=400, settings=SearchSettings(measure=measure))
    assert measure.count == len(found.places) < 400
    assert len({SPACE.canonical(place.arch) for place in found.places}) == len(found.places)


@pytest.mark.parametrize("searcher", SYNCHRONOUS)
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, searcher: str) -> None:
    def run(out: str, evaluations: int, measure=None) -> None:
        search(
            TASK,
            SPACE,
            searcher,
            evaluations=evaluations,
            out=tmp_path / out,
            seed=4,
            settings=SearchSettings(measure=measure or Sum(), searcher_args=SYNCHRONOUS[searcher]),
        )

    class Interrupted(Sum):
        left = 13

        def __call__(self, proposal: Proposal) -> Outcome:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super().__call__(proposal)

    run("whole", 40)
    with pytest.raises(KeyboardInterrupt):
        run("parts", 40, Interrupted())
    assert board(tmp_path / "parts")
    run("parts", 40)
    assert (tmp_path / "parts/leaderboard.csv").read_bytes() == (tmp_path / "whole/leaderboard.csv").read_bytes()
    run("extended", 20)
    run("extended", 40)
    assert (tmp_path / "extended/leaderboard.csv").read_bytes() == (tmp_path / "whole/leaderboard.csv").read_bytes()


def test_the_first_ctrl_c_finishes_what_is_in_flight(tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background begins without it
    measure, noticed = Slow(0.2), []
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            search(
                TASK,
                SPACE,
                "random",
                evaluations=50,
                out=tmp_path,
                settings=SearchSettings(measure=measure),
                callbacks=SearchCallbacks(interrupted=lambda: noticed.append(1)),
            )
    finally:
        timer.cancel()  # a search that fails at once is not to interrupt the tests after it
    assert noticed == [1]
    assert len(board(tmp_path)) == measure.count  # nothing that was begun is lost
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_two_workers_give_the_same_leaderboard(tmp_path: Path) -> None:
    for workers in (1, 2):
        search(
            TASK,
            NasBench201(4, 1),
            "pmbga",
            proxies="snip,naswot",
            ranking=LogSum({"snip": 1.0, "naswot": 1.0}),
            evaluations=20,
            workers=workers,
            out=tmp_path / str(workers),
            settings=SearchSettings(batch=16, searcher_args=SYNCHRONOUS["pmbga"]),
        )
    assert (tmp_path / "1/leaderboard.csv").read_bytes() == (tmp_path / "2/leaderboard.csv").read_bytes()


def test_budgets(tmp_path: Path) -> None:
    archs = list(enumerate_archs(SPACE))
    table = Lookup("accuracy", archs, {1.0: np.array([float(sum(arch)) for arch in archs])}, np.full(len(archs), 3.0))
    found = search(TASK, SPACE, "random", out=tmp_path, settings=SearchSettings(measure=table, simulated=10))
    assert found.spent.simulated == 9.0
    assert found.spent.evaluations == 3
    start = time.monotonic()
    found = search(TASK, SPACE, "random", time="300ms", settings=SearchSettings(measure=Slow(0.05)))
    assert 3 <= found.spent.evaluations <= 7
    assert time.monotonic() - start < 3
    assert found.end == "budget"
    assert (
        search(
            TASK, SPACE, "random", time=0.35, settings=SearchSettings(measure=Slow(0.1), searcher_args={})
        ).spent.seconds
        >= 0.35
    )


def test_multi_fidelity_costs_what_it_costs() -> None:
    archs = list(enumerate_archs(SPACE))
    worth = np.array([float(sum(arch)) for arch in archs])
    table = Lookup("accuracy", archs, {0.06: worth / 2, 1 / 3: worth / 1.5, 1.0: worth}, np.full(len(archs), 90.0))
    found = search(TASK, SPACE, "hyperband", settings=SearchSettings(measure=table, searcher_args={"iterations": 1}))
    # nine at 1/9 (recorded after 1/3 of training), three at 1/3, one at 1: 9·30 + 3·30 + 90
    assert found.spent.simulated == pytest.approx(450.0)
    assert found.end == "finished"
    assert found.places[0].fidelity == 1.0


def test_a_failed_candidate_ends_nothing() -> None:
    archs = iter([(4,) * 6, (1,) * 6, (4,) * 6])
    found = search(
        TASK,
        SPACE,
        "evolution",
        evaluations=3,
        settings=SearchSettings(measure=Hostile(), searcher_args={"draw": lambda rng: next(archs)}),
    )
    assert found.places[0].scores["sum"] == 6.0
    assert math.isnan(found.places[1].scores["sum"])
    assert "bad network definition" in found.places[1].failures["sum"]


def test_objectives_are_told_as_columns(tmp_path: Path) -> None:
    found = search(
        TASK,
        SPACE,
        "nsga2",
        evaluations=40,
        out=tmp_path,
        settings=SearchSettings(measure=Sum(), objectives=["flops"], searcher_args={"population": 10}),
    )
    step = next(line.step for line in read(tmp_path / "trajectory.jsonl") if line.step)
    assert set(step["told"]) == {"sum", "flops"}
    flops = [SPACE.counts(tuple(arch), TASK).flops for arch in step["candidates"]]
    assert step["told"]["flops"] == [-float(count) for count in flops]
    assert found.places


def test_assistance_by_a_proxy() -> None:
    found = search(
        TASK,
        SPACE,
        "g_rs",
        evaluations=6,
        settings=SearchSettings(measure=Sum(), assist="params", searcher_args={"pool": 8}),
    )
    plain = search(TASK, SPACE, "random", evaluations=6, settings=SearchSettings(measure=Sum()))

    def size(result: tl.Found) -> float:
        return float(np.mean([place.costs["params"] for place in result.places]))

    assert size(found) > size(plain)
    with pytest.raises(InputError, match="g_rs is assisted by a proxy"):
        search(TASK, SPACE, "g_rs", evaluations=1, settings=SearchSettings(measure=Sum()))


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    def run(out: str, seed: int, fork: str | Path = "", step: int = 0) -> list[list[int]]:
        settings = SearchSettings(proxies="params", evaluations=30, fork=fork, step=step)
        search(TASK, SPACE, "evolution", seed=seed, out=tmp_path / out, settings=settings)
        lines = read(tmp_path / out / "trajectory.jsonl")
        return [line.step["candidates"][0] for line in lines if line.step]

    parent = run("parent", 0)
    child, sibling = (run(f"child{seed}", seed, tmp_path / "parent", 20) for seed in (7, 8))
    assert child[:20] == sibling[:20] == parent[:20]
    assert child[20:] != sibling[20:] != parent[20:]
    assert run("child7", 7, tmp_path / "parent", 20) == child  # again: it is finished
    assert json.loads((tmp_path / "child7/run.json").read_text())["parent"]["step"] == 20
    with pytest.raises(InputError, match="a fork changes the seed alone"):
        search(
            TASK,
            SPACE,
            "random",
            proxies="params",
            evaluations=3,
            out=tmp_path / "no",
            settings=SearchSettings(fork=tmp_path / "parent", step=2),
        )
    with pytest.raises(InputError, match="the run to fork itself"):
        run("parent", 1, tmp_path / "parent", 2)


@pytest.mark.slow
def test_pruning_in_te_nas_setting_ends_in_a_single_path_in_the_expected_number_of_rounds(tmp_path: Path) -> None:
    """Five options less ``none``, one closed per edge and round: three rounds of 1 + 24, 1 + 18 and 1 + 12 regions.

    κ is that of the thin supernet, R that of its one-channel cell.
    """
    found = search(
        Task.noise((3, 8, 8)),
        NasBench201(4, 1),
        "prune",
        ranking="te-nas",
        out=tmp_path,
        settings=SearchSettings(init="paper", batch=2),
    )
    assert (found.end, found.steps, found.spent.evaluations) == ("finished", 3, 25 + 19 + 13)
    assert len(found.places) == 1
    assert found.places[0].arch == NasBench201().canonical(found.best)
    steps = [line.step for line in read(tmp_path / "trajectory.jsonl") if line.step]
    assert steps[0]["candidates"][0] == [[1, 2, 3, 4]] * 6
    assert is_region(tuple(frozenset(part) for part in steps[0]["candidates"][1]))
    for step in steps:
        assert all(value is not None for column in step["scores"].values() for value in column), step.get("failures")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["ecg-sim", "digits", "nodule-sim"])
@pytest.mark.parametrize("searcher", ["teacup_reinforce", "pmbga", "prune"])
def test_teacups_searchers_run_on_its_kinds_of_data(task: str, searcher: str) -> None:
    found = search(
        tl.task(task),
        NasBench201(3, 1),
        searcher,
        ranking="teacup",
        evaluations=26 if searcher == "prune" and task == "ecg-sim" else 12,
        settings=SearchSettings(batch=4),
    )
    assert found.spent.evaluations >= 12
    assert NasBench201().valid(found.best)
    assert any(math.isfinite(value) for place in found.places for value in place.scores.values())


def test_an_optuna_sampler_is_a_searcher_too() -> None:
    pytest.importorskip("optuna")
    found = search(TASK, SPACE, "optuna", evaluations=12, settings=SearchSettings(measure=Sum()))
    assert found.spent.evaluations == 12


@pytest.mark.parametrize(
    ("searcher", "ranking", "columns"),
    [
        ("history_evolution", RankProduct(("params", "flops")), 2),
        ("evolution", RankSum(("params", "flops")), 2),
        ("evolution", RankProduct(("params", "flops")), 1),
        ("random", RankSum(("params", "flops")), 1),
    ],
)
def test_searchers_that_rank_by_themselves_are_told_columns(tmp_path, searcher, ranking, columns) -> None:
    found = search(TASK, SPACE, searcher, ranking=ranking, evaluations=14, out=tmp_path)
    steps = [line.step for line in read(tmp_path / "trajectory.jsonl") if line.step]
    assert {len(step["told"]) for step in steps} == {columns}
    largest = max(place.scores["params"] for place in found.places)
    assert found.places[0].scores["params"] == largest  # parameters and FLOPs rise together in this space


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to search by was given"):
        search(TASK, SPACE, evaluations=1)
    with pytest.raises(InputError, match="a measure was given together with proxies"):
        search(TASK, SPACE, proxies="params", settings=SearchSettings(measure=Sum()))
    with pytest.raises(InputError, match="workers=-1"):
        search(TASK, SPACE, workers=-1, settings=SearchSettings(measure=Sum(), ahead=1))
    with pytest.raises(InputError, match="evolution has no parameter 'populaton'; did you mean 'population'"):
        search(TASK, SPACE, settings=SearchSettings(measure=Sum(), searcher_args={"populaton": 3}))
    with pytest.raises(InputError, match=r"random follows one signal, and 2 would be told \(params, flops\)"):
        search(TASK, SPACE, "random", proxies="params,flops", evaluations=2)
    with pytest.raises(InputError, match="ahead=0"):
        search(TASK, SPACE, "random", evaluations=1, out=tmp_path, settings=SearchSettings(measure=Sum(), ahead=0))


def test_a_session_that_cannot_begin_leaves_the_note_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(TASK, SPACE, "random", evaluations=3, out=tmp_path, settings=SearchSettings(measure=Slow(0.0)))
    note = (tmp_path / "ending.json").read_text()

    def broken(*given: object) -> None:
        raise InputError("no worker can be started")

    monkeypatch.setattr("trainless.runs.search.executor_for", broken)
    with pytest.raises(InputError, match="no worker can be started"):
        search(TASK, SPACE, "random", evaluations=6, out=tmp_path, settings=SearchSettings(measure=Slow(0.0)))
    assert (tmp_path / "ending.json").read_text() == note
