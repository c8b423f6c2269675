from __future__ import annotations

import csv
import json
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from trainless.store import Key, Result, store_at

Call = Callable[..., Answer]
KEY = Key("nb201(channels=2, cells=1)", "0,1", "snip", 1, "own", "cafe", 0)
GOOD, BAD = Result(2.5, "ok", 1.0, 1.0), Result(math.nan, "no weights", math.nan, math.nan)


@pytest.fixture(params=["sqlite", "folder", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of five scores, one of them a failure, of two proxies."""
    where = f"{tmp_path}/mine/" if request.param == "folder" else str(tmp_path / "mine.sqlite")
    if request.param == "postgresql":
        where = request.getfixturevalue("postgres").fresh()
    with store_at(where) as store:
        store.keep([(KEY._replace(arch=f"{arch}"), GOOD if arch else BAD) for arch in range(3)])
        store.keep([(KEY._replace(proxy="zico", version=2, seed=seed), GOOD) for seed in (0, 1)])
        store.runs.save("first", "{}")
        store.runs.append("first", 1, ["a line"])
    return where


def test_list(trainless: Call, place: str) -> None:
    answer: Answer = trainless("store", "list", place, "--json")
    found = json.loads(answer.out)
    assert {(row["proxy"], row["seed"]): (row["scores"], row["failures"]) for row in found["scores"]} == {
        ("snip", 0): (3, 1),
        ("zico", 0): (1, 0),
        ("zico", 1): (1, 0),
    }
    assert [(run["name"], run["lines"], run["state"]) for run in found["runs"]] == [("first", 1, "stopped")]
    shown = trainless("store", "list", place, "--proxy", "zico").out
    assert "2 scores in" in shown
    assert "zico v2" in shown
    assert "snip" not in shown
    assert "runs: first (1 lines, stopped)" in shown


def test_names_in_a_store_move_no_cursor(trainless: Call, tmp_path: Path) -> None:
    odd = "a\x1b]0;owned\x07\x1b[2J\u202e\nb"
    with store_at(tmp_path / "odd.sqlite") as store:
        store.keep([(KEY._replace(space=odd, proxy=odd, setting=odd), GOOD)])
        store.runs.save(odd, "{}")
    shown = trainless("store", "list", "odd.sqlite").out
    assert "a\N{REPLACEMENT CHARACTER}]0;owned" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_export(trainless: Call, place: str, tmp_path: Path) -> None:
    answer: Answer = trainless("store", "export", "out.csv", place, "--proxy", "snip")
    assert answer.out == "3 scores are in out.csv\n"
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert [(row["arch"], row["value"]) for row in csv.DictReader(stream)] == [
            ("0", ""),
            ("1", "2.5"),
            ("2", "2.5"),
        ]
    answer = trainless("store", "export", "out.xlsx", place)
    assert (answer.code, "ends in .csv or .parquet" in answer.err) == (2, True)


def test_merge(trainless: Call, place: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.sqlite")
    answer: Answer = trainless("store", "merge", place, other)
    assert answer.out.startswith("5 of 5 scores of ")
    answer = trainless("store", "merge", other, place)
    assert answer.out.startswith("0 of 5 scores of ")
    answer = trainless("store", "merge", other, other)
    assert (answer.code, "was given twice" in answer.err) == (2, True)


def test_gc(trainless: Call, place: str) -> None:
    def gc(*options: str) -> Answer:
        return trainless("store", "gc", place, *options)

    assert gc("--failures", "--dry-run").out.startswith("1 score would be removed")
    assert gc("--failures").out.startswith("1 score was removed")
    assert gc("--proxy", "zico", "--version", "1").out.startswith("0 scores were")
    assert gc("--older-than", "1h").out.startswith("0 scores were")
    assert gc("--proxy", "zico", "--version", "2").out.startswith("2 scores were")
    assert gc("--older-than", "0s").out.startswith("2 scores were")
    for options, message in {
        (): "nothing to remove was named; expected --failures",
        ("--failures", "--version", "2"): "expected --proxy too",
        ("--older-than", "soon"): "expected a time such as 90s",
        ("--older-than", "-3d"): "'-3d' was given; expected a time such as 90s",
        ("--older-than", "nand"): "'nand' was given; expected a time such as 90s",
    }.items():
        answer = gc(*options)
        assert answer.code == 2
        assert message in answer.err


def test_looking_into_an_empty_file_leaves_it_empty(trainless: Call, tmp_path: Path) -> None:
    empty = tmp_path / "scores.csv"
    empty.touch()
    said = trainless("store", "list", str(empty))
    assert (said.code, empty.stat().st_size) == (2, 0)
    assert f"there is no store {empty}" in said.err


def test_looking_into_a_store_makes_none(trainless: Call, tmp_path: Path) -> None:
    answer: Answer = trainless("store", "list", "nowhere.sqlite")
    assert (answer.code, "there is no store nowhere.sqlite" in answer.err) == (2, True)
    assert not (tmp_path / "nowhere.sqlite").exists()


def test_scores_are_kept_in_postgresql(trainless: Call, database: str) -> None:
    command = ["score", "--space", "nb201", "--space-args", "channels=2,cells=1", "--input", "3x8x8"]
    arch = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|"
    first: Answer = trainless(*command, "--proxies", "params", arch, "--store", database, "--json")
    assert first.code == 0, first.err
    assert trainless(*command, "--proxies", "params", arch, "--store", database, "--json").out == first.out
    with store_at(database) as store:
        assert [row.key.proxy for row in store.rows()] == ["params"]


def test_a_store_that_is_none_is_one_clear_line(trainless: Call, tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("not a database at all" * 100)
    answer: Answer = trainless("store", "list", "text.sqlite")
    assert (answer.code, "cannot be used (file is not a database)" in answer.err) == (2, True)
    hostile = sqlite3.connect(tmp_path / "hostile.sqlite")
    hostile.execute("PRAGMA application_id = 1953655923")
    hostile.execute("PRAGMA user_version = 2")
    hostile.execute("CREATE TABLE contexts (id, space, proxy, version, setting, task, seed)")
    hostile.execute("CREATE TABLE results (context, arch, value, status, ms, fbe, kept)")
    hostile.execute("CREATE TABLE runs (name, configuration, leaderboard, changed)")
    hostile.execute("CREATE TABLE steps (run, number, line)")
    hostile.execute("INSERT INTO contexts VALUES (1, 'a', 'b', 1, 'c', 'd', 0)")
    hostile.execute("INSERT INTO results VALUES (1, 'a', 'no number', 'ok', 1, 1, 1)")
    hostile.commit()
    hostile.close()
    answer = trainless("store", "export", "out.csv", "hostile.sqlite")
    assert (answer.code, "is damaged" in answer.err) == (2, True)
    assert "Traceback" not in answer.err
