"""Power is lost at every step: nothing that was promised is lost, and a resumed run ends as an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.crash.disk import Disk, Event, recorded
from tests.crash.programs import PROGRAMS
from trainless.runs.score_file import read_known
from trainless.store import SqliteStore

EVERY = int(os.environ.get("TRAINLESS_CRASHES", "0"))  # how many moments of each program; 0 for a few
pytestmark = pytest.mark.slow


def crashes(kind: str, few: int, place: Path, check: Callable[[Path, set[str]], None]) -> int:
    """Crash a program at moments of its life, in three ways each, and look at what is left; how many there were."""
    folder, rng = place / "run", random.Random(kind)
    trace = recorded(kind, folder, place / "notes")
    steps = [number for number, event in enumerate(trace) if event.what != "promise"]
    assert any(event.what == "promise" for event in trace)
    assert sum(event.what == "sync" for event in trace) > 3
    chosen = set(rng.sample(steps, min(EVERY or few, len(steps))))
    disk, promised, crashed = Disk(folder), set[str](), 0
    for number, event in enumerate(trace):
        if event.what == "promise":
            promised.add(event.data.decode().strip())
            continue
        disk.take(event)
        if number in chosen:
            for image in (disk.killed(), disk.lost(), disk.torn(rng)):
                left = place / "left"
                disk.restore(image, left)
                check(left, promised)
                shutil.rmtree(left)
                crashed += 1
    left = place / "left"
    disk.restore(disk.killed(), left)
    for path in sorted(folder.rglob("*")):  # the disk has seen every write
        if path.is_file() and not path.name.endswith(("-shm", "-wal")):
            assert (left / path.relative_to(folder)).read_bytes() == path.read_bytes(), path
    return crashed


def test_a_search_loses_nothing_that_it_kept(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    PROGRAMS["search"](tmp_path / "whole" / "run")
    board = (tmp_path / "whole" / "run" / "leaderboard.csv").read_bytes()

    def check(left: Path, promised: set[str]) -> None:
        if promised:
            with SqliteStore(left / "scores.sqlite") as store:
                assert promised <= {row.key.arch for row in store.rows()}
        PROGRAMS["search"](left)
        assert (left / "leaderboard.csv").read_bytes() == board
        steps = [json.loads(line) for line in (left / "trajectory.jsonl").read_text().splitlines()]
        numbers = [line["step"] for line in steps if "candidates" in line]
        assert numbers == list(range(1, len(numbers) + 1))

    assert crashes("search", 35, tmp_path, check) >= 100


def test_journals_lose_nothing_that_was_closed(tmp_path: Path) -> None:
    def check(left: Path, promised: set[str]) -> None:
        known = read_known(left).values.get(("params", 0), {})
        assert promised <= set(known)
        assert {arch: value for arch, (value, _) in known.items()} == {arch: float(arch[-1]) for arch in known}
        PROGRAMS["journals"](left)
        assert {f"{writer}-{number}" for writer in ("w1", "w2") for number in range(4)} <= set(
            read_known(left).values["params", 0]
        )

    assert crashes("journals", 200, tmp_path, check) >= 100


def test_a_design_loses_no_member(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    PROGRAMS["design"](tmp_path / "whole" / "run")

    def said(run: Path) -> dict[str, np.ndarray]:
        with np.load(run / "predictions.npz") as file:
            return {name: file[name] for name in file.files}

    expected = said(tmp_path / "whole" / "run")

    def check(left: Path, promised: set[str]) -> None:
        for name in promised:
            assert json.loads((left / "members" / name / "member.json").read_text())["status"] == "ok"
        before = {name: (left / "members" / name / "weights.safetensors").read_bytes() for name in promised}
        PROGRAMS["design"](left)
        assert all(
            (left / "members" / name / "weights.safetensors").read_bytes() == held for name, held in before.items()
        )
        found = said(left)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, name)

    assert crashes("design", 2, tmp_path, check) >= 6


def test_the_disk_forgets_what_was_not_synced(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    path, other = str(tmp_path / "a"), str(tmp_path / "b")
    for event in (
        Event("make", path),
        Event("write", path, b"one"),
        Event("sync", path),
        Event("write", path, b"two", 3),
    ):
        disk.take(event)
    assert disk.lost() == {}  # its name is not synced
    disk.take(Event("sync", str(tmp_path)))
    assert disk.lost() == {path: b"one"}
    assert disk.killed() == {path: b"onetwo"}
    disk.take(Event("rename", path, other=other))
    assert disk.lost() == {path: b"one"}
    assert {len(disk.torn(random.Random(seed)).get(path, b"")) for seed in range(40)} <= {0, 3, 6}
    disk.take(Event("sync", str(tmp_path)))
    assert disk.lost() == {other: b"one"}
