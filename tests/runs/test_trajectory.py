"""The trajectory: resumed wherever it was cut, forked, and damage named."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.runs.folder import Ending, ending_by, read_ending
from trainless.runs.loop import Loop, Step, plain, proposal_of
from trainless.runs.signals import signal_for
from trainless.runs.trajectory import Writer, fork, read, replay, state_line, states, step_json, step_of
from trainless.scoring.measures import Outcome
from trainless.searchers.evolution import Evolution, HistoryEvolution
from trainless.searchers.searcher import Searcher
from trainless.searchers.stopping import Spent
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201(2, 1)


def fresh(searcher: Searcher | None = None, ahead: int = 1) -> Loop:
    return Loop(
        searcher or Evolution(SPACE, seed=3, population=4), signal_for(None, {"sum": True}), lambda arch: arch, ahead
    )


def go_on(loop: Loop, writer: Writer, steps: int) -> None:
    for _ in range(steps):
        assert loop.fill()
        group = loop.group(None)
        writer.write(loop.take(group, [Outcome({"sum": float(sum(each.arch))}) for each in group], loop.steps + 0.5))


def test_a_step_is_the_same_through_json() -> None:
    region = (frozenset({0, 2}), frozenset({1}))
    step = Step(
        3,
        (Proposal((0, 1), 0.5), Proposal(region)),
        (Outcome({"a": 1.0, "b": math.inf}, cost=2.0), Outcome({"a": -0.1, "b": -math.inf}, {"a": "dead"})),
        {"value": [1.0, -2.0]},
        Spent(7, 1.5, 2.0),
    )
    assert step_of(json.loads(json.dumps(step_json(step), allow_nan=False))) == step


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("cut", ["nothing", "a state", "half a line", "all states"])
def test_a_trajectory_is_gone_on_with_wherever_it_was_cut(tmp_path: Path, cut: str, ahead: int) -> None:
    path = tmp_path / "trajectory.jsonl"
    whole = fresh(ahead=ahead)
    with Writer(path, whole) as writer:
        go_on(whole, writer, 9)
    lines = path.read_text().splitlines(keepends=True)
    assert sum(line.startswith('{"state"') for line in lines) == 9
    text = {
        "nothing": "".join(lines),
        "a state": "".join(lines[:13]),
        "half a line": "".join(lines[:12]) + lines[12][:20],
        "all states": "".join(line for line in lines if not line.startswith('{"state"')),
    }[cut]
    path.write_text(text)
    resumed = fresh(ahead=ahead)
    replay(resumed, read(path, mend=True))
    assert resumed.steps == text.count('"candidates"')
    assert path.read_text().endswith("\n")
    with Writer(path, resumed) as writer:
        go_on(resumed, writer, 9 - resumed.steps)
    assert resumed.state() == whole.state()
    assert resumed.spent == whole.spent
    assert resumed.known == whole.known
    assert list(resumed.told) == list(whole.told)
    assert resumed.signal.best() == whole.signal.best()


def test_a_large_state_is_written_as_often_as_it_is_worth(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    loop = fresh(HistoryEvolution(SPACE, seed=0, population=8, evaluations=None))
    with Writer(path, loop) as writer:
        go_on(loop, writer, 900)
    lines = read(path)
    steps = sum(len(json.dumps(line.step)) for line in lines if line.step)
    assert 0 < sum(1 for line in lines if line.state) < 900
    assert path.stat().st_size < 4 * steps + 900 * 4096
    resumed = fresh(HistoryEvolution(SPACE, seed=0, population=8, evaluations=None))
    replay(resumed, lines)
    assert resumed.state() == loop.state()


def test_the_state_after_every_step_is_known(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    loop, seen = fresh(), []
    with Writer(path, loop) as writer:
        for _ in range(5):
            go_on(loop, writer, 1)
            seen.append((loop.steps, loop.searcher.state()))
    assert list(states(fresh, read(path))) == seen
    assert list(states(fresh, [line for line in read(path) if line.step])) == seen


def test_a_fork_shares_the_past_and_not_the_future(tmp_path: Path) -> None:
    path, child = tmp_path / "parent.jsonl", tmp_path / "child.jsonl"
    loop = fresh()
    with Writer(path, loop) as writer:
        go_on(loop, writer, 20)
    ends = []
    for seed in (7, 7, 8):
        child.write_text(fork(fresh(), read(path), 12, seed))
        spawned = fresh()
        replay(spawned, read(child))
        assert spawned.steps == 12
        with Writer(child, spawned) as writer:
            go_on(spawned, writer, 8)
        ends.append([line.step["candidates"] for line in read(child) if line.step])
        assert len(list(states(fresh, read(child)))) == 20
    parent = [line.step["candidates"] for line in read(path) if line.step]
    assert all(end[:12] == parent[:12] for end in ends)
    assert ends[0] == ends[1]
    assert ends[0] != ends[2] != parent
    with pytest.raises(InputError, match="step 99 was asked for, but the run has 20 steps"):
        fork(fresh(), read(path), 99, 0)


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.jsonl"
    path.write_text("not json\n")
    with pytest.raises(InputError, match="line 1 is damaged"):
        read(path)
    loop = fresh()
    step = Step(1, (Proposal((0,) * 6),), (Outcome({"sum": 0.0}),), {"sum": [0.0]}, Spent(1))
    path.write_text(json.dumps(step_json(step)) + "\n")
    with pytest.raises(InputError, match="step 1 of the trajectory is not what this searcher proposes"):
        replay(loop, read(path))
    for spent in ([1, [], 0.0], [1, math.nan, 0.0], [True, 1.0, 0.0], ["1", 1.0, 0.0], [1, -1.0, 0.0], [1, 1.0]):
        with pytest.raises((ValueError, TypeError)):  # the run would not know when its budget is used up
            step_of({**step_json(step), "spent": spent})
    assert read(tmp_path / "none.jsonl") == []
    assert json.loads(state_line(4, {"a": 1})) == {"state": {"a": 1}, "step": 4}


def test_proposals_and_endings_are_the_same_through_json() -> None:
    region = Proposal((frozenset({1, 0}), frozenset({2})))
    assert plain(region) == {"candidate": [[0, 1], [2]]}
    assert [proposal_of(plain(each)) for each in (region, Proposal((3, 1), 0.5))] == [region, Proposal((3, 1), 0.5)]
    assert (ending_by(KeyboardInterrupt()), read_ending("")) == (Ending("interrupted"), None)
    assert read_ending(ending_by(OSError("disk full")).to_json()) == Ending("failed", "OSError: disk full")
