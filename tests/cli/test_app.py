from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from trainless import __version__
from trainless.catalogue import REGISTRIES
from trainless.cli.app import run
from trainless.cli.table import print_leaderboard
from trainless.core.progress import tracked

Call = Callable[..., Answer]


def test_help_answers_in_half_a_second_without_torch() -> None:
    def seconds() -> float:
        """Processor time: a busy machine makes anybody wait."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "trainless", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5
    check = "import sys, trainless, trainless.cli; sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_help_names_the_verbs(trainless: Call) -> None:
    answer = trainless("--help")
    assert answer.code == 0
    assert all(verb in answer.out for verb in ("score", "list", "demo"))
    assert trainless("--version").out == f"trainless {__version__}\n"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_shows_its_summaries_whole(trainless: Call, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for group in ((), ("bench",), ("store",)):
        listed = trainless(*group, "--help").out.partition("Commands:")[2].splitlines()
        rows = [line for line in listed if line.strip()]
        assert len(rows) >= 4
        assert all(re.fullmatch(r"  [a-z-]+ +[A-Z].*[^.…]\.", row) for row in rows), rows


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_everything_with_a_name_is_listed_with_its_meaning(trainless: Call, kind: str) -> None:
    answer = trainless("list", kind, "--json")
    assert answer.code == 0, answer.err
    rows = json.loads(answer.out)
    assert rows
    assert all(row["meaning"] for row in rows)


def test_a_list_can_be_narrowed(trainless: Call) -> None:
    answer = trainless("list", "proxies", "grad_*")
    assert answer.out.startswith("grad_norm")
    assert len(answer.out.splitlines()) == 1


@pytest.mark.slow
def test_the_demo_ranks_and_draws(trainless: Call, tmp_path: Path) -> None:
    answer = trainless("demo", "--count", "4", "--out", "demo")
    assert answer.code == 0, answer.err
    assert "The best 4 of 4" in answer.out
    assert "The winner is |" in answer.out
    lines = (tmp_path / "demo" / "leaderboard.csv").read_text().splitlines()
    assert len(lines) == 5
    assert (tmp_path / "demo" / "best.svg").read_text().startswith("<svg")
    assert (tmp_path / "demo" / "best.png").read_bytes().startswith(b"\x89PNG")
    again = trainless("demo", "--count", "4", "--out", "demo")
    assert (tmp_path / "demo" / "leaderboard.csv").read_text().splitlines() == lines
    assert again.out == answer.out


def test_a_bar_appears_once_it_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tracked(range(3), 3, "quick")) == [0, 1, 2]
    assert "quick" not in capsys.readouterr().err
    monkeypatch.setattr("trainless.core.progress.PATIENCE_SECONDS", 0.01)
    for _ in tracked(range(3), 3, "slowly"):
        time.sleep(0.05)
    shown = capsys.readouterr().err
    assert "slowly" in shown
    assert "3/3" in shown


def test_a_leaderboard_keeps_architectures_readable_and_names_what_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    scores = [f"score{n}" for n in range(12)]
    print_leaderboard("The best", ["rank", "architecture", *scores, "params"], [["1", "x" * 40, *"1" * 12, "618"]], 1)
    said = capsys.readouterr().out
    assert "x" * 36 in said  # in one line
    assert "618" in said
    shown = [name for name in scores if f" {name} " in said]
    left = said.partition("Not shown here: ")[2].partition(";")[0].split(", ")
    assert shown
    assert [*shown, *left] == scores


def test_the_help_of_list_names_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--help"]) == 0
    said = set(re.findall(r"\w+", capsys.readouterr().out.partition("Options")[0]))
    assert set(REGISTRIES) <= said
    assert run(["list"]) == 2
    assert "expected what to list: executors, loggers" in capsys.readouterr().err
