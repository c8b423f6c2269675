from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest

from tests.execution.faulty import gone
from tests.execution.hostile import LIES, Hostile, Sum
from tests.execution.own import OWN_ARCHS, own_measure, own_outcomes, work
from trainless.core import processes
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.execution.executor import Execution, InProcess, Job
from trainless.execution.local import Processes
from trainless.proxies.proxy import registry
from trainless.scoring.measures import ByProxies, Outcome
from trainless.scoring.request import select
from trainless.spaces.nb201 import NasBench201


@pytest.mark.slow
def test_processes_survive_everything(tmp_path: Path) -> None:
    executor = Processes(Hostile(folder=str(tmp_path)), Execution(workers=2))
    try:
        good = [(0, n) for n in range(6)]
        found = work(executor, [good[0], (2, 0), good[1], good[2], (4, 0), (6, 5), *good[3:]])
        assert [found[arch].values["sum"] for arch in good] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert found[2, 0].failures == {"sum": f"the worker process died (exit code {-signal.SIGSEGV}), 2 times"}
        assert found[4, 0].failures == {"sum": "ValueError: a bad network definition"}
        assert found[6, 5] == Outcome({"sum": 11.0})  # its first worker died, its second did not
        assert (tmp_path / "once").exists()
        _a_killed_idle_worker_is_replaced(executor)
        with pytest.raises(InputError, match="the store is on fire"):
            work(executor, [(5, 0)])
    finally:
        executor.close(now=True)


def _a_killed_idle_worker_is_replaced(executor: Processes) -> None:
    victim = executor.pids[0]
    os.kill(victim, signal.SIGKILL)
    assert {outcome.values["sum"] for outcome in work(executor, [(0, n) for n in range(4)]).values()} == {0, 1, 2, 3}
    assert victim not in executor.pids


def test_ctrl_c_while_workers_are_ended_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Processes(Hostile(), Execution(workers=3))
    for number in range(2):
        executor.submit(Job(Proposal((3, number))))  # they hang
    pids, found = executor.pids, processes.descendants

    def pressed(pid: int) -> list[int]:
        signal.raise_signal(signal.SIGINT)
        return found(pid)

    monkeypatch.setattr(processes, "descendants", pressed)  # a worker is stopped at that moment
    with pytest.raises(KeyboardInterrupt):
        executor.close(now=True)
    assert gone(set(pids))


class NeverBegins(Sum):
    """Work that is still being unpacked by each worker after minutes."""

    def __reduce__(self) -> tuple[Callable[[float], None], tuple[float]]:
        return time.sleep, (600.0,)


def test_one_ctrl_c_ends_a_wait_for_workers_to_begin() -> None:
    """Nothing is computed yet, so nothing has to be finished first."""
    executor = Processes(NeverBegins(), Execution(workers=2))
    with processes.one_interrupt():
        executor.submit(Job(Proposal((1, 2))))
        assert not executor.poll(0.05)
        signal.raise_signal(signal.SIGINT)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            executor.poll(10.0)
        executor.close(now=True)
        assert time.monotonic() - start < 2.0


class Losing(Processes):
    """Waits by a library that loses what a signal's handler raises in it, as Ray's does now and then."""

    def _look(self, until: float | None) -> None:
        with suppress(KeyboardInterrupt):
            super()._look(time.monotonic() + 0.3)


def test_a_second_ctrl_c_that_a_library_loses_is_heard() -> None:
    executor = Losing(Hostile(), Execution(workers=1))
    try:
        with processes.one_interrupt():
            executor.submit(Job(Proposal((3, 0))))
            assert not executor.poll(0.5)
            for after in (0.1, 0.3):
                threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                executor.next()
    finally:
        executor.close(now=True)
    assert time.monotonic() - start < 2.0


def test_a_job_that_says_ctrl_c_was_pressed_has_failed_and_nothing_else() -> None:
    executor = Processes(Hostile(), Execution(workers=2))
    try:
        found = work(executor, [(17, 0), (0, 2)])
        assert found[17, 0].failures == {"sum": "KeyboardInterrupt: nobody pressed it"}
        assert found[0, 2].values == {"sum": 2.0}
    finally:
        executor.close()


@pytest.mark.slow
def test_a_timeout_is_a_reasoned_failure() -> None:
    executor = Processes(Hostile(), Execution(timeout=1.0))
    try:
        found = work(executor, [(3, 0), (0, 2)])
        assert found[3, 0].failures == {"sum": "it took longer than 1 s"}
        assert found[0, 2].values == {"sum": 2.0}
    finally:
        executor.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_forks_and_returns_twice_shifts_nobodys_result(
    workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    executor = Processes(Hostile(), Execution(workers=workers, timeout=20.0))
    archs = [(kind, n) for n in range(6) for kind in (11, 0)]
    try:
        for _ in range(2):
            found = work(executor, archs)
            assert {arch: outcome.values["sum"] for arch, outcome in found.items()} == {a: sum(a) for a in archs}
    finally:
        executor.close()
    assert "worker: a process that was forked here went on as if it were its parent" in capfd.readouterr().err


@pytest.mark.slow
def test_an_answer_for_another_job_is_refused_and_said(caplog: pytest.LogCaptureFixture) -> None:
    executor = Processes(Hostile(), Execution(workers=1))
    try:
        found = work(executor, [(0, 1), (14, 0), (0, 2), (15, 0), (0, 3)])
        assert found[14, 0].failures == {"sum": "its worker answered for a job that it did not have, 2 times"}
        assert found[15, 0].values == {"sum": -1.0}  # its own: it said so first, and its second answer was refused
        assert [found[0, n].values["sum"] for n in (1, 2, 3)] == [1.0, 2.0, 3.0]
    finally:
        executor.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        *["a worker gave an answer to no job that it had: the answer was refused and the worker replaced"] * 2,
        "a worker answered a job a second time: the answer was refused and the worker replaced",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("timeout", "reason"), [(2.0, "it took longer than 2 s"), (None, "it closed its worker's connection, 2 times")]
)
def test_a_job_that_closes_all_descriptors_is_ended(
    timeout: float | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainless.execution.local.FAREWELL_SECONDS", 2 * (timeout or 0.25))
    executor, start = Processes(Hostile(), Execution(workers=2, timeout=timeout)), time.monotonic()
    try:
        workers = set(executor.pids)
        found = work(executor, [(12, 0), (0, 2)])
        assert found[12, 0].failures == {"sum": reason}
        assert found[0, 2].values == {"sum": 2.0}
        assert time.monotonic() - start < 30
        assert len(workers - set(executor.pids)) == 1
    finally:
        executor.close()
    assert gone(workers)


def begun(folder: Path, kind: int) -> set[int]:
    """The processes that candidates of this kind have started, one at least."""
    until, file = time.monotonic() + 30, folder / f"child-{kind}"
    while not file.exists() or not file.read_text().endswith("\n"):
        assert time.monotonic() < until
        time.sleep(0.02)
    return set(map(int, file.read_text().split()))


@pytest.mark.slow
def test_what_a_candidate_started_ends_with_its_worker(tmp_path: Path) -> None:
    executor = Processes(Hostile(folder=str(tmp_path)), Execution(timeout=2.0))
    try:
        found = work(executor, [(7, 0), (8, 0), (9, 1)])
        assert found[7, 0].failures == {"sum": "it took longer than 2 s"}
        assert found[8, 0].failures == {"sum": "the worker process died (exit code 9), 2 times"}
        assert found[9, 1].values == {"sum": 10.0}
        assert len(begun(tmp_path, 8)) == 2  # it was tried twice
        assert gone(begun(tmp_path, 7) | begun(tmp_path, 8))
        assert not gone(begun(tmp_path, 9), seconds=0.1)  # its worker lives
    finally:
        workers = executor.pids
        executor.close()
    assert gone(begun(tmp_path, 9) | set(workers))


@pytest.mark.slow
def test_a_timeout_ends_whatever_a_job_did_to_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ignores all signals, has closed everything, and has children in other sessions whose parents are gone."""
    monkeypatch.setattr("trainless.execution.local.FAREWELL_SECONDS", 60.0)
    executor = Processes(Hostile(folder=str(tmp_path)), Execution(timeout=1.5))
    start = time.monotonic()
    try:
        workers = set(executor.pids)
        found = work(executor, [(16, 0), (0, 2)])
        assert found[16, 0].failures == {"sum": "it took longer than 1.5 s"}
        assert found[0, 2].values == {"sum": 2.0}
        children = begun(tmp_path, 16)
        assert len(children) == 3
        assert gone(children | workers)
        assert time.monotonic() - start < 30
    finally:
        executor.close()


@pytest.mark.slow
@pytest.mark.parametrize("lie", range(len(LIES)))
def test_an_answer_that_is_none_or_never_ends_is_refused(lie: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job writes into its worker's pipe: nobody waits for the rest of it, and nobody stumbles over it."""
    monkeypatch.setattr("trainless.execution.messages.TRAVEL_SECONDS", 0.5)
    executor, start = Processes(Hostile(), Execution(workers=2, timeout=1.0)), time.monotonic()
    try:
        found = work(executor, [(18, lie), (0, 2), (0, 3)])
        late, stray = "it took longer than 1 s", "its worker answered for a job that it did not have, 2 times"
        assert found[18, lie].failures == {"sum": late if lie < 2 else stray}
        assert [found[0, n].values["sum"] for n in (2, 3)] == [2.0, 3.0]
        assert time.monotonic() - start < 20
    finally:
        executor.close()


def test_ctrl_c_ends_a_wait_for_the_rest_of_an_answer() -> None:
    executor = Processes(Hostile(), Execution(workers=1))
    try:
        with processes.one_interrupt():
            executor.submit(Job(Proposal((18, 0))))
            assert not executor.poll(1.0)
            signal.raise_signal(signal.SIGINT)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                executor.next()
    finally:
        executor.close(now=True)
    assert time.monotonic() - start < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("how", [0, 1])
def test_a_job_that_stops_or_ends_the_server_of_workers_holds_nobody_up(how: int) -> None:
    """Nobody else could start a worker or say that one has ended; the workers of a dead one are ended, too."""
    executor = Processes(Hostile(), Execution(workers=2, timeout=2.0))
    try:
        workers = set(executor.pids)
        found = work(executor, [(19, how), (0, 2), (0, 3)])
        lost = "the worker process died (exit code 255), 2 times"
        assert found[19, how].failures["sum"] in ("it took longer than 2 s", *[lost] * how)
        assert [found[0, n].values["sum"] for n in (2, 3)] == [2.0, 3.0]
        assert gone(workers - set(executor.pids))
    finally:
        executor.close()


def hang(folder: str) -> None:
    """A coordinator whose candidate hangs with a process of its own."""
    executor = Processes(Hostile(folder=folder), Execution(workers=2))
    executor.submit(Job(Proposal((7, 0))))
    (Path(folder) / "workers").write_text(" ".join(map(str, executor.pids)))
    executor.next()


@pytest.mark.slow
def test_the_system_ends_workers_and_what_they_started_when_the_coordinator_is_gone(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=hang, args=(str(tmp_path),))
    process.start()
    try:
        children = begun(tmp_path, 7)
        workers = set(map(int, (tmp_path / "workers").read_text().split()))
        until = time.monotonic() + 30
        while {os.getsid(pid) for pid in workers} != workers:  # a session each, which no terminal interrupts
            assert time.monotonic() < until
        assert {os.getsid(child) for child in children} <= workers
    finally:
        process.kill()
    assert gone(children | workers)


@pytest.mark.slow
def test_what_workers_print_is_passed_on_as_plain_lines(capfd: pytest.CaptureFixture[str]) -> None:
    executor = Processes(Hostile(), Execution(workers=2))
    try:
        assert work(executor, [(10, 1)])[10, 1].values == {"sum": 11.0}
    finally:
        executor.close()
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "worker: a \N{REPLACEMENT CHARACTER}[2Jpicture",
        "worker: and a child",
        "worker: an \N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}end without one",
    ]


@pytest.mark.slow
def test_scores_are_the_same_in_any_process(tmp_path: Path) -> None:
    space, task = NasBench201(4, 1), Task.noise((3, 8, 8))
    archs = [(3, 1, 2, 0, 3, 1), (1, 2, 3, 4, 0, 1), (2, 2, 3, 1, 1, 3)]

    def measure(store: str) -> ByProxies:
        return ByProxies(space, task, select("snip,naswot"), batch=16, store=store)

    here = InProcess(measure(""))
    there = Processes(measure(str(tmp_path / "scores.sqlite")), Execution(workers=2))
    try:
        assert work(here, archs) == work(there, archs)
    finally:
        there.close()
    assert (tmp_path / "scores.sqlite").stat().st_size > 0


@dataclass
class Where(Sum):
    """Notes the folder and a variable of the environment that it works in."""

    def __call__(self, proposal: Proposal) -> Outcome:
        raise ValueError(f"{os.getcwd()} {os.environ.get('TRAINLESS_TEST', 'nothing')}")


@pytest.mark.slow
def test_workers_are_where_the_coordinator_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("one", "other"):
        (tmp_path / text).mkdir()
        monkeypatch.chdir(tmp_path / text)
        monkeypatch.setenv("TRAINLESS_TEST", text)
        executor = Processes(Where(), Execution())
        try:
            assert work(executor, [(0,)])[0,].failures == {"sum": f"ValueError: {tmp_path / text} {text}"}
        finally:
            executor.close()


@pytest.mark.slow
def test_what_a_users_file_defines_reaches_the_workers(tmp_path: Path) -> None:
    executor = Processes(own_measure(tmp_path), Execution(workers=2))
    try:
        assert work(executor, OWN_ARCHS) == own_outcomes()
    finally:
        executor.close()
        del registry._entries["tensors"]


def test_memory_maps_travel_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(100_000.0))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    text = bytes(ForkingPickler.dumps(mapped))
    assert len(text) < 1000
    np.testing.assert_array_equal(pickle.loads(text), mapped)  # noqa: S301
    part = bytes(ForkingPickler.dumps(mapped[10:20]))
    np.testing.assert_array_equal(pickle.loads(part), np.arange(10.0, 20.0))  # noqa: S301


@pytest.mark.slow
def test_a_limit_below_what_a_worker_needs_is_named() -> None:
    executor = Processes(Sum(), Execution(memory=10_000_000))
    try:
        with pytest.raises(InputError, match=r"a memory limit of 0.01 GB was given, but a worker takes"):
            work(executor, [(0, 1)])
    finally:
        executor.close(now=True)
