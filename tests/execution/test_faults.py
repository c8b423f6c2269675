"""Whatever is killed, hangs or goes astray: a resumed run ends as an undisturbed one, nothing lost or counted twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.commands import Command
from tests.execution.faulty import EVALUATIONS, SEARCHERS, Place, begin, finish, gone

MOMENTS = 20
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """An undisturbed run of each searcher in one process."""
    found = {}
    for searcher in SEARCHERS:
        found[searcher] = Place(tmp_path_factory.mktemp("whole") / searcher)
        assert finish(begin(found[searcher], searcher, workers=1)) == 0
        found[searcher].require_whole()
    return found


def moments(seed: int) -> Iterator[tuple[int, str, Callable[[Place, BaseProcess], None]]]:
    """Number, searcher and a function that waits for the moment: so many computed, and a little more."""
    rng = random.Random(seed)
    for number in range(MOMENTS):
        computed, more = rng.randrange(EVALUATIONS - 4), rng.uniform(0.0, 0.03)

        def wait(place: Place, process: BaseProcess, computed: int = computed, more: float = more) -> None:
            until(lambda: len(place.computed()) >= computed or not process.is_alive())
            time.sleep(more)

        yield number, list(SEARCHERS)[number % len(SEARCHERS)], wait


def require_equal(place: Place, other: Place, most: int) -> None:
    """The same leaderboard, every step once, and nothing computed again but for what was in flight."""
    place.require_whole()
    assert place.board() == other.board()
    again = len(place.computed()) - len(other.computed())
    assert 0 <= again <= most, Counter(place.computed())


def test_a_killed_coordinator_resumes(tmp_path: Path, whole: dict[str, Place]) -> None:
    ended = 0
    for number, searcher, wait in moments(1):
        place = Place(tmp_path / str(number))
        process = begin(place, searcher)
        wait(place, process)
        process.kill()
        ended += finish(process) == -signal.SIGKILL
        assert gone({pid for pid, _ in place.computed()}), "an orphan is left"
        assert finish(begin(place, searcher)) == 0
        require_equal(place, whole[searcher], most=2)
    assert ended >= MOMENTS // 2


def test_a_killed_workers_candidate_is_given_to_another(tmp_path: Path, whole: dict[str, Place]) -> None:
    killed = 0
    for number, searcher, wait in moments(2):
        place = Place(tmp_path / str(number))
        process = begin(place, searcher)
        wait(place, process)
        victims = [pid for pid, _ in place.computed()]
        if victims and process.is_alive():
            try:
                os.kill(victims[-1], signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        assert finish(process) == 0
        require_equal(place, whole[searcher], most=2)
    assert killed >= MOMENTS // 3


def test_an_interrupted_run_resumes(tmp_path: Path, whole: dict[str, Place]) -> None:
    interrupted = 0
    for number, searcher, wait in moments(3):
        times = 1 + number // 2 % 2
        place = Place(tmp_path / str(number))
        process = begin(place, searcher)
        wait(place, process)
        for _ in range(times):
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGINT)
                time.sleep(0.01)
        code = finish(process)
        assert code in (0, 130, 1, -signal.SIGINT), code  # 1 and -2: before the search had begun
        interrupted += code == 130
        assert gone({pid for pid, _ in place.computed()}), "an orphan is left"
        if code == 130 and times == 1 and (place.run / "leaderboard.csv").exists():
            assert len(place.board()) <= len(whole[searcher].board())
        assert finish(begin(place, searcher)) == 0
        require_equal(place, whole[searcher], most=2)
    assert interrupted >= 3


@pytest.mark.parametrize(
    ("fault", "options", "reason"),
    [
        ("exit", {}, "the worker process died (exit code 3), 2 times"),
        ("null", {}, "the worker process died (exit code -11), 2 times"),
        ("hoard", {"memory_limit": "1g"}, "it needed more than 1 GB of memory"),
        ("bytes", {"memory_limit": "1g"}, "it needed more than 1 GB of memory"),
        ("sleep", {"timeout": 2.0}, "it took longer than 2 s"),
        ("spin", {"timeout": 2.0}, "it took longer than 2 s"),
    ],
)
def test_a_hostile_candidate_is_a_reasoned_failure(
    tmp_path: Path, whole: dict[str, Place], fault: str, options: dict[str, object], reason: str
) -> None:
    polite = Place(tmp_path / "polite", "raise")
    assert finish(begin(polite)) == 0
    hostile = Place(tmp_path / "hostile", fault)
    process = begin(hostile, **options)
    time.sleep(0.5)
    process.kill()  # and the coordinator is lost on the way
    finish(process)
    assert gone({pid for pid, _ in hostile.computed()}), "an orphan is left"
    assert finish(begin(hostile, **options)) == 0
    hostile.require_whole()
    assert hostile.board(status=False) == polite.board(status=False)
    failed = {row["status"] for row in hostile.board() if row["status"] != "ok"}
    assert failed == {f"faulty: {reason}"}
    assert any(row["status"] == "ok" for row in hostile.board())


def test_an_interrupt_waits_for_what_is_in_flight_and_two_do_not(tmp_path: Path, whole: dict[str, Place]) -> None:
    def interrupted(name: str, times: int) -> tuple[Place, float, int | None]:
        place = Place(tmp_path / name, pause=1.5)
        process = begin(place)
        until(lambda: len(place.computed()) == 2)
        start = time.monotonic()
        for _ in range(times):
            os.kill(process.pid or 0, signal.SIGINT)
            time.sleep(0.1)
        code = finish(process)
        return place, time.monotonic() - start, code

    place, seconds, code = interrupted("once", 1)
    assert (code, len(place.board())) == (130, 2)
    place, seconds, code = interrupted("twice", 2)
    assert code == 130
    assert seconds < 1.0
    assert gone({pid for pid, _ in place.computed()})


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def test_ctrl_c_at_a_terminal_ends_a_command_with_130_and_it_goes_on_later(tmp_path: Path) -> None:
    def command(out: str) -> Command:
        arguments = ["search", "digits", "--space", "nb201", "--json", "--space-args", "channels=2,cells=1"]
        arguments += ["--searcher", "random", "--proxies", "params", "--batch", "4", "--evaluations", "60"]
        return Command([*arguments, "--workers", "2", "--out", out], tmp_path)

    process = command("parts")
    steps = tmp_path / "parts" / "trajectory.jsonl"
    until(lambda: (steps.exists() and steps.stat().st_size > 0) or process.poll() is not None, 60.0)
    os.killpg(process.pid, signal.SIGINT)  # a terminal tells all processes of the command
    code = process.wait(60)
    assert code in (0, 130), process.err
    assert "Traceback" not in process.err
    if code == 130:
        assert "the same command resumes from there" in process.err
    resumed = command("parts")
    assert resumed.wait(60) == 0, resumed.err
    found = json.loads(resumed.out)
    assert found["evaluations"] == 60
    whole = command("whole")
    assert whole.wait(60) == 0, whole.err
    boards = [(tmp_path / name / "leaderboard.csv").read_bytes() for name in ("parts", "whole")]
    assert boards[0] == boards[1]
    assert json.loads(whole.out)["best"] == found["best"]
