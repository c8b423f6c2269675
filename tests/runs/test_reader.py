"""What is read of runs, while they go on and afterwards."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.ui.made import EVALUATIONS, SPACE, leaderboard, searched
from trainless.core.errors import InputError
from trainless.core.text import printable
from trainless.runs.folder import is_held
from trainless.runs.loop import Loop
from trainless.runs.reader import Failures, reader_at
from trainless.runs.settings import SweepSettings
from trainless.runs.sweep import sweep
from trainless.ui.run_list import FolderRuns, listed_in
from trainless.ui.table import RowFilter, chosen, ordered

HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Another process works in a folder."""
    command = [sys.executable, "-S", "-c", HOLD, str(folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("runs") / "one")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_finished_search_is_its_leaderboard(run: Path) -> None:
    reader = reader_at(run)
    assert not reader.refresh()
    table, rows = reader.table(), leaderboard(run)
    assert table.archs == tuple(row["arch"] for row in rows)
    assert [str(int(value)) for value in table.column("params")] == [row["params"].split(".")[0] for row in rows]
    progress = reader.progress()
    assert (progress.state, progress.done, progress.total) == ("finished", EVALUATIONS, EVALUATIONS)
    best = reader.best()
    assert best is not None
    assert best.arch == rows[0]["arch"]


def test_a_running_search_has_the_same_order_before_there_is_a_leaderboard(run: Path) -> None:
    rows = leaderboard(run)
    for name in ("leaderboard.csv", "ending.json"):
        (run / name).unlink()
    with held(run):
        reader = reader_at(run)
        reader.refresh()
        assert reader.progress().state == "running"
        assert reader.table().archs == tuple(row["arch"] for row in rows)
        assert reader.best() is not None
    assert reader.progress().state == "stopped"


def test_how_a_session_ended_is_noted_and_forgotten_when_the_next_begins(tmp_path: Path) -> None:
    def stop(loop: Loop, budget: object) -> None:
        if loop.spent.evaluations >= 10:
            raise KeyboardInterrupt

    def fail(loop: Loop, budget: object) -> None:
        assert not (tmp_path / "run" / "ending.json").exists()
        if loop.spent.evaluations >= 15:
            raise OSError("a \x1b[2Jdisk\n is full")

    def state() -> tuple[str, str]:
        reader = reader_at(tmp_path / "run")
        reader.refresh()
        return reader.progress().state, reader.progress().detail

    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "run", watch=stop)
    assert state() == ("stopped", "interrupted")
    with pytest.raises(OSError, match="disk"):
        searched(tmp_path / "run", watch=fail)
    assert state() == ("stopped", "failed: OSError: a �[2Jdisk is full")
    searched(tmp_path / "run")
    assert state() == ("finished", "")
    (tmp_path / "run" / "ending.json").write_text('{"end": "by magic"}')
    assert state() == ("finished", "")  # by the budget, as without a note


def test_states(run: Path) -> None:
    (run / "ending.json").unlink()  # as before there were notes
    about = json.loads((run / "run.json").read_text())
    about["budget"]["evaluations"] = 2 * EVALUATIONS
    (run / "run.json").write_text(json.dumps(about))
    reader = reader_at(run)
    reader.refresh()
    assert reader.progress().state == "ended"
    with held(run):
        assert reader.progress().state == "running"
        assert reader.progress().total == 2 * EVALUATIONS
    os.utime(run / "leaderboard.csv", (1, 1))
    assert reader.progress().state == "ended"  # a copied folder's times say nothing: it has all candidates
    kept = (run / "leaderboard.csv").read_text().splitlines(keepends=True)[:5]
    (run / "leaderboard.csv").write_text("".join(kept))
    os.utime(run / "leaderboard.csv", (1, 1))
    assert reader.progress().state == "stopped"


def test_lines_are_taken_as_they_come_and_never_half(run: Path, tmp_path: Path) -> None:
    text = (run / "trajectory.jsonl").read_text()
    lines = text.splitlines(keepends=True)
    steps = [json.loads(line) for line in lines if not line.startswith('{"state"')]
    (run / "leaderboard.csv").unlink()
    file = run / "trajectory.jsonl"
    file.write_text("".join(lines[:4]) + lines[4][:20])
    reader = reader_at(run)
    reader.refresh()
    assert reader.progress().done == len([line for line in lines[:4] if not line.startswith('{"state"')])
    with file.open("a") as trajectory:
        trajectory.write(lines[4][20:] + "".join(lines[5:]))
    reader.refresh()
    assert reader.progress().done == EVALUATIONS
    values, up = reader.told("params")
    assert values == [value for step in steps for value in step["scores"]["params"]]
    assert up
    assert file.read_text() == text
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "ranking": "another"}))
    reader.refresh()
    assert reader.progress().done == EVALUATIONS
    assert reader.best() is None  # nobody here knows what that ranking would say
    other = searched(tmp_path / "other", seed=8, evaluations=30)
    file.write_text((other / "trajectory.jsonl").read_text())  # another run in the same place, the same inode and all
    reader.refresh()
    assert reader.progress().done == 30
    file.write_text("".join(lines[:2]))
    reader.refresh()
    assert reader.progress().done == 1
    file.unlink()
    reader.refresh()
    assert reader.progress().done == 0


def test_the_pace_and_the_time_left(run: Path) -> None:
    file = run / "trajectory.jsonl"
    steps = [json.loads(line) for line in file.read_text().splitlines() if not line.startswith('{"state"')]
    for number, step in enumerate(steps[:8], start=1):
        step["spent"] = [number, 0.5 * number, 0.0]
    file.write_text("".join(json.dumps(step) + "\n" for step in steps[:8]))
    with held(run):
        reader = reader_at(run)
        reader.refresh()
        progress = reader.progress()
    assert progress.rate == pytest.approx(2.0)
    assert progress.left == pytest.approx((EVALUATIONS - 8) / 2.0)


def test_failures_have_their_reasons(run: Path) -> None:
    file = run / "trajectory.jsonl"
    first = json.loads(file.read_text().splitlines()[0])
    first["failures"] = {"0": {"params": "too \x1b[31mlarge"}}
    first["scores"]["params"][0] = None
    file.write_text(json.dumps(first) + "\n")
    (run / "leaderboard.csv").unlink()
    reader = reader_at(run)
    reader.refresh()
    arch = SPACE.format(SPACE.canonical(tuple(first["candidates"][0])))
    assert list(reader.failures.last) == [(arch, "params", "too \x1b[31mlarge")]
    assert reader.table().status == ("params: too �[31mlarge",)


@pytest.mark.parametrize(
    "text", ["{", "[]\n", '{"step": 1}\n', '{"candidates": 3}\n', "\x00\n", '{"step": 1, "spent": []}\n']
)
def test_a_damaged_trajectory_is_one_line(run: Path, text: str) -> None:
    (run / "trajectory.jsonl").write_text(text)
    reader = reader_at(run)
    if not text.endswith("\n") or "\0" in text:  # what a kill or a loss of power leaves of the last lines
        assert not reader.refresh()
        return
    with pytest.raises(InputError, match="line 1 of the trajectory is damaged"):
        reader.refresh()


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no run: it has no run\.json"):
        reader_at(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="is no folder of trainless search, design or bench sweep"):
        reader_at(tmp_path)
    with pytest.raises(InputError, match="is no folder: give a run"):
        FolderRuns(tmp_path / "absent")


def test_a_sweep_is_followed_by_its_journals(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    out.mkdir()
    (out / "settings.json").write_text(json.dumps({"space": "nb201(channels=2, cells=1)", "task": "noise"}))
    journal = out / f"journal-w{os.getpid()}-0.csv"
    arch, other = (SPACE.format(each) for each in ((1,) * 6, (3,) * 6))
    rows = [
        (arch, "snip", 0, "1.0", "ok", "2"),
        (arch, "snip", 1, "3.0", "ok", "2"),
        (other, "snip", 0, "nan", "no", "1"),
    ]
    with journal.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("arch", "proxy", "seed", "value", "status", "ms"))
        writer.writerows(rows)
        file.write("half a row")
    reader = reader_at(out)
    reader.refresh()
    table = reader.table()
    assert reader.kind == "sweep"
    assert table.archs == (arch, other)
    assert table.values[0, 0] == 2.0
    assert math.isnan(table.values[1, 0])
    assert list(reader.failures.last) == [(other, "snip", "no")]
    assert reader.progress().state == "running"  # the journal is that of this very process
    assert reader.progress().done == 2
    journal.rename(out / "journal-w999999999-0.csv")
    os.utime(out / "journal-w999999999-0.csv", (1, 1))
    os.utime(out / "settings.json", (1, 1))
    assert reader_at(out).progress().state == "stopped"


@pytest.mark.slow
def test_a_real_sweep(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    plan = SweepSettings(
        out=str(out), space_args="channels=2,cells=1", archs="sample:5", proxies="params,flops", task="noise:3x8x8:10"
    )
    file = sweep(plan)
    reader = reader_at(out)
    reader.refresh()
    assert reader.progress().state == "finished"
    assert reader.progress().total == 5
    held_values = dict(zip(reader.table().archs, reader.table().column("flops"), strict=True))
    assert held_values == pytest.approx(dict(zip(file.archs, file.column("flops"), strict=True)))


def test_a_design_is_read_stage_by_stage(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "design"
    shutil.copytree(finished, out / "searches" / "rl-00")
    task = {"name": "digits", "fingerprint": "x"}
    (out / "run.json").write_text(json.dumps({"format": 1, "verb": "design", "space": "nb201", "task": task}))
    with held(out):
        reader = reader_at(out)
        reader.refresh()
        assert next(stage.done for stage in reader.progress().stages) == 0
        trials = [{"name": "rl-00", "evaluations": EVALUATIONS}, {"name": "rl-01", "evaluations": 10}]
        plan = {"version": 1, "space": "nb201(channels=2, cells=1)", "searches": trials, "members": 2, "baseline": 0}
        (out / "plan.json").write_text(json.dumps(plan))
        (out / "searches" / "rl-00" / "result.json").write_text("{}")
        history = [{"valid_loss": loss, "valid_accuracy": 0.5, "seconds": 2.0} for loss in (0.9, 0.4, 0.6)]
        for name, status in (("00", "ok"), ("01", "it diverged")):
            member = {"version": 1, "text": SPACE.format((1,) * 6), "member": {}, "status": status, "history": history}
            (out / "members" / name).mkdir(parents=True)
            (out / "members" / name / "member.json").write_text(json.dumps(member))
        reader.refresh()
        progress = reader.progress()
        assert progress.state == "running"
        assert [(s.name, s.done, s.total) for s in progress.stages][:3] == [
            ("planning", 1, 1),
            ("searching", 1, 2),
            ("training", 1, 2),
        ]
    table = reader.table()
    assert table.names == ("00", "01")
    assert table.archs[0] == SPACE.format((1,) * 6)
    assert table.values[0].tolist() == [0.4, 0.5, 3.0, 6.0]
    assert list(reader.failures.last) == [(table.archs[1], "member 01", "it diverged")]
    assert reader.progress().state == "stopped"
    (out / "summary.json").write_text("{}")
    assert reader.progress().state == "finished"
    assert set(listed_in(tmp_path).runs) == {"design", "design/searches/rl-00"}


def test_links_pipes_and_hidden_folders_are_left_alone(finished: Path, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    shutil.copytree(finished, outside)
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "file").mkdir()
    (root / "file" / "run.json").symlink_to(outside / "run.json")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "run.json")
    shutil.copytree(finished, root / ".hidden")
    shutil.copytree(finished, root / "real one, 'odd' <b>")
    (root / "real one, 'odd' <b>" / "trajectory.jsonl").unlink()
    os.mkfifo(root / "real one, 'odd' <b>" / "trajectory.jsonl")
    assert list(listed_in(root).runs) == ["real one, 'odd' <b>"]
    (root / "file" / "inner").symlink_to(root / "pipe")
    (root / "file" / "to a file").symlink_to(outside / "run.json")
    (root / "file" / "to nothing").symlink_to(outside / "absent")
    assert listed_in(root).links == ["linked", "file/inner"]
    began = time.monotonic()
    reader = FolderRuns(root).opened("real one, 'odd' <b>")
    reader.refresh()
    assert reader.progress().done == 0
    assert time.monotonic() - began < 5
    for name in ("../outside", "linked", str(outside), "", "..", "real one, 'odd' <b>/../../outside", "\x00"):
        with pytest.raises(InputError, match="there is no run"):
            FolderRuns(root).opened(name)


def test_asking_whether_a_run_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_held(tmp_path)
    (tmp_path / "lock").touch()
    assert not is_held(tmp_path)
    with held(tmp_path):
        assert is_held(tmp_path)
        monkeypatch.setattr("trainless.runs.folder._LOCKS", tmp_path / "absent")  # as where nothing is listed
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_sorting_and_filtering_against_plain_python(run: Path) -> None:
    reader = reader_at(run)
    reader.refresh()
    table, rows = reader.table(), leaderboard(run)
    by_flops = sorted(range(len(rows)), key=lambda at: (-float(rows[at]["flops"]), at))
    assert ordered(table, np.arange(len(table)), "flops", descending=True).tolist() == by_flops
    word = [at for at, row in enumerate(rows) if "avg_pool" in row["arch"] and "none" in row["arch"]]
    assert chosen(table, RowFilter("NONE avg_pool")).tolist() == word
    with pytest.raises(InputError, match="the column 'x' was asked for; expected one of"):
        table.column("x")


def test_signs_that_would_move_the_cursor_are_replaced() -> None:
    assert printable("a\x1b]0;x\x07\u202eb\n") == "a�]0;x��b�"
    assert printable("conv 3×3 – ok") == "conv 3×3 – ok"


def test_a_score_that_a_network_has_not_is_no_failure() -> None:
    """Dead cells are ordinary in a search; what went wrong is told from them."""
    ordinary = ("the gradient is zero", "no output depends on the input", "Unscorable: no layer has weights")
    wrong = (
        "RuntimeError: out of memory",
        "torch.OutOfMemoryError: CUDA out of memory",
        "it took longer than 5 s",
        "the worker process was ended because the machine ran out of memory",
        "SystemExit: 3",
    )
    found = Failures()
    for reason in (*ordinary, *wrong):
        found.add("|none~0|", "snip", reason)
    found.add("|none~0|", "member 03", "diverged after 3 epochs")
    assert (found.total, found.errors) == (len(ordinary) + len(wrong) + 1, len(wrong) + 1)
