"""``trainless watch`` and ``trainless ui`` on the command line."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, trainless
from tests.commands import Command
from tests.runs.test_reader import held
from tests.ui.made import EVALUATIONS, hostile, leaderboard, searched

__all__ = ["trainless"]
Call = Callable[..., Answer]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("runs") / "one")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_one_frame(run: Path, trainless: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = trainless("watch", "run", "--once")
    assert answer.code == 0, answer.err
    assert "search run: finished" in answer.out
    assert f"{EVALUATIONS} of {EVALUATIONS}" in answer.out
    assert leaderboard(run)[0]["arch"] in answer.out
    assert "evaluations/s" in answer.out


def test_it_ends_when_the_run_ends(run: Path, trainless: Call) -> None:
    text, board = ((run / name).read_text() for name in ("trajectory.jsonl", "leaderboard.csv"))
    lines = text.splitlines(keepends=True)
    (run / "trajectory.jsonl").write_text("".join(lines[:10]))
    (run / "leaderboard.csv").unlink()

    def work() -> None:
        with held(run):
            began.set()
            time.sleep(0.5)
            with (run / "trajectory.jsonl").open("a") as file:
                file.write("".join(lines[10:]))
            (run / "leaderboard.csv").write_text(board)
            time.sleep(0.5)

    began = threading.Event()
    worker = threading.Thread(target=work)
    worker.start()
    began.wait()
    answer = trainless("watch", "run", "--every", "0.1")
    worker.join()
    assert answer.code == 0, answer.err
    assert "search run: finished" in answer.out


def test_a_terminal_is_not_steered_by_data(tmp_path: Path, trainless: Call) -> None:
    folder = hostile(tmp_path / "theirs")
    step = json.loads((folder / "trajectory.jsonl").read_text())
    step["failures"]["1"]["a\x1b[2Jb"] = "c\x1b]0;owned\x07[red]d"
    (folder / "trajectory.jsonl").write_text(json.dumps(step) + "\n")
    answer = trainless("watch", "theirs", "--once")
    assert answer.code == 0, answer.err
    assert "\x1b[2J" not in answer.out
    assert "\x07" not in answer.out
    assert "\u202e" not in answer.out
    assert "[red]d" in answer.out.replace("\n", "")


def test_what_cannot_be_watched_or_shown(tmp_path: Path, trainless: Call) -> None:
    assert (
        "absent is not there; expected a run folder: give the folder that --out named"
        in trainless("watch", "absent", "--once").err
    )
    assert "absent is no folder: give a run" in trainless("ui", "absent").err
    assert "cannot be used" in trainless("ui", ".", "--host", "203.0.113.7", "--port", "0").err


@pytest.mark.slow
def test_the_command_serves_warns_and_ends(run: Path, tmp_path: Path) -> None:
    server = Command(["ui", str(tmp_path), "--port", "0", "--host", "0.0.0.0"], tmp_path)  # noqa: S104
    try:
        while "\n" not in server.out:
            assert server.poll() is None, server.err
            time.sleep(0.02)
        port, _, token = server.out.partition("\n")[0].rpartition(":")[2].partition("/?token=")
        there, token = f"http://127.0.0.1:{port}", token.partition(" ")[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{there}/api/runs", timeout=30)  # noqa: S310 - our own
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(f"{there}/?token={token}", timeout=30) as answer:
            assert answer.url == f"{there}/"
            assert b"<title>" in answer.read()
        with browser.open(f"{there}/api/runs", timeout=30) as answer:
            assert json.loads(answer.read())["runs"][0]["id"] == "run"
        server.send(signal.SIGINT)
        assert server.wait(20) == 0
    finally:
        server.kill()
    said = server.err
    assert "warning: 0.0.0.0 is not this machine's own address" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("runs.json", "[1]"),
        ("runs.json", '[{"seconds": "long"}]'),
        ("settings.json", '{"networks": "many"}'),
        ("settings.json", "[]"),
        ("runs.json", '[{"archs": 1, "of": 1, "archs_per_s": []}]'),
    ],
)
def test_a_damaged_sweep_is_one_line(tmp_path: Path, trainless: Call, name: str, text: str) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    (folder / name).write_text(text)
    answer = trainless("watch", "sweep", "--once")
    assert answer.code == 2
    assert "is damaged" in answer.err
    assert len(answer.err.splitlines()) == 1
