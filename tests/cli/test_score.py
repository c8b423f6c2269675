from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from trainless.core.task import Task
from trainless.spaces.nb201 import NasBench201

Call = Callable[..., Answer]
ARCH = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|skip_connect~2|"
SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
SMALL = ("score", "--space", "nb201", "--space-args", "channels=2,cells=1", "--input", "3x8x8", "--batch", "8")
NETS = """
import torch
from torch import nn

def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 10))

def pair():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x
    return Pair()

def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 7))

def raises():
    raise RuntimeError("no such\\nbackbone")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(192, 10)
    def forward(self, x):
        return self.last(x.flatten(1))

ready = small()
number = 7
"""


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    path = tmp_path / "my_nets.py"
    path.write_text(NETS)
    return path


def test_json_is_a_list_of_objects(trainless: Call) -> None:
    answer = trainless(*SMALL, ARCH, SKIPS, "--proxies", "params,snip,jacov", "--seeds", "3", "--json")
    assert answer.code == 0
    rows = json.loads(answer.out)
    assert [(row["candidate"], row["proxy"]) for row in rows] == [
        (arch, proxy) for arch in (ARCH, SKIPS) for proxy in ("params", "snip", "jacov")
    ]
    needed = {"candidate", "proxy", "value", "higher_is_better", "status", "ms", "fbe", "spread", "seeds", "values"}
    assert all(needed <= set(row) for row in rows)
    space, task = NasBench201(2, 1), Task.noise((3, 8, 8))
    assert rows[0]["value"] == space.counts(space.parse(ARCH), task).params
    assert rows[1]["seeds"] == [0, 1, 2]
    assert rows[1]["value"] == pytest.approx(sum(rows[1]["values"]) / 3)
    assert rows[1]["spread"] > 0
    assert rows[0]["higher_is_better"] is True


def test_a_failure_is_null_with_its_reason(trainless: Call, nets: Path) -> None:
    answer = trainless("score", f"{nets}:Net", "--input", "3x8x8", "--proxies", "naswot", "--json")
    (row,) = json.loads(answer.out)
    assert row["value"] is None
    assert row["ms"] is None
    assert row["status"] != "ok"


@pytest.mark.parametrize("name", ["small", "Net", "ready"])
def test_functions_classes_and_networks_are_scored(trainless: Call, nets: Path, name: str) -> None:
    answer = trainless("score", f"my_nets:{name}", "--input", "3x8x8", "--proxies", "params", "--json")
    assert json.loads(answer.out)[0]["value"] == (1930 if name == "Net" else 192 * 8 + 8 + 90)


def test_the_table_says_what_a_number_means(trainless: Call) -> None:
    answer = trainless(*SMALL, ARCH, "--proxies", "snip", "--seeds", "2")
    assert ARCH in answer.out
    for word in ("spread", "higher", "FBE", "ms", "Saliency of every weight"):
        assert word in answer.out


def test_csv_goes_to_a_file_or_to_the_output(trainless: Call, tmp_path: Path) -> None:
    trainless(*SMALL, ARCH, "--proxies", "params,layers", "--csv", "scores.csv")
    with (tmp_path / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["proxy"] for row in rows] == ["params", "layers"]
    printed = trainless(*SMALL, ARCH, "--proxies", "params,layers", "--csv", "-").out
    assert next(csv.DictReader(printed.splitlines()))["value"] == rows[0]["value"]


def test_scores_are_kept_and_found_again(trainless: Call, tmp_path: Path) -> None:
    first = trainless(*SMALL, ARCH, "--proxies", "snip", "--json").out
    assert trainless(*SMALL, ARCH, "--proxies", "snip", "--json").out == first
    connection = sqlite3.connect(tmp_path / "store" / "scores.sqlite")
    assert connection.execute("SELECT space, proxy, seed FROM scores").fetchall() == [
        ("nb201(channels=2, cells=1)", "snip", 0)
    ]
    connection.close()


def test_store_none_keeps_nothing(trainless: Call, tmp_path: Path) -> None:
    trainless(*SMALL, ARCH, "--proxies", "params", "--store", "none")
    assert not (tmp_path / "store").exists()


def test_a_task_of_the_users_own_is_scored_on(trainless: Call, tmp_path: Path) -> None:
    answer = trainless(
        "score", "--space", "nb201", "--space-args", "channels=2,cells=1", ARCH, "--task", "digits", "--batch", "16",
        "--proxies", "snip", "--init", "paper", "--json",
    )  # fmt: skip
    assert json.loads(answer.out)[0]["status"] == "ok"


BAD = [
    ((*SMALL, "|nor_conv|", "--proxies", "snip"), "expected 3, such as"),
    ((*SMALL, ARCH, "--proxies", "snipp"), "did you mean 'snip'?"),
    ((*SMALL, ARCH, "--init", "both"), "expected 'own' or 'paper'"),
    ((*SMALL, ARCH, "--task", "digits"), "--task and --input were given"),
    ((*SMALL, ARCH, "--size", "32"), "--size was given without --task"),
    ((*SMALL, ARCH, "--json", "--csv", "-"), "give --csv a file"),
    ((*SMALL, ARCH, "--csv", "no/such/folder.csv", "--proxies", "params"), "cannot be written"),
    ((*SMALL, ARCH, "--seeds", "0"), "--seeds"),
    ((*SMALL, ARCH, "--seeds", "many"), "--seeds"),
    ((*SMALL, ARCH, "--device", "abacus"), "expected cpu, cuda"),
    (("score", "--space", "nb2001", ARCH), "did you mean 'nb201'"),
    (("score", "--space", "nb201", "--space-args", "chanels=3", ARCH), "it has: channels, cells"),
    (("score", "--space", "nb201", "--space-args", "channels", ARCH), "expected name=value"),
    (("score", "--space", "nb201", "--space-args", "channels=wide", ARCH), "nb201"),
    (("score", "--space", "nb201", ARCH, "--input", "3x2x2"), "too small for nb201"),
    (("score", "--space", "nb201", ARCH, "--input", "three"), "such as 3x32x32"),
    (("score", "--space", "nb201", ARCH, "--input", "3x8x8", "--classes", "1"), "expected at least 2"),
    (("score", "--space", "nb201", ARCH, "--task", "digitz"), "digitz"),
    (("score", ARCH), "expected module:factory or file.py:factory"),
    (("score", "no_such_module:net"), "importing no_such_module failed (ModuleNotFoundError"),
    (("score", "no_such_file.py:net"), "there is no file no_such_file.py"),
    (("score", "my_nets.py:nothing"), "has no 'nothing'"),
    (("score", "my_nets.py:number"), "is a int; expected an nn.Module"),
    (("score", "my_nets.py:raises", "--input", "3x8x8"), "my_nets.py:raises raised RuntimeError: no such backbone"),
    (("score", "my_nets.py:pair", "--input", "3x8x8"), "returned a tuple"),
    (("score", "my_nets.py:narrow", "--input", "3x8x8"), "output has shape (2, 7)"),
    (("score", "my_nets.py:small"), "cannot run on inputs of shape (N, 3, 32, 32)"),
    (("score", "my_nets.py:small", "--space-args", "channels=3"), "without --space"),
    (("list", "prooxies"), "expected one of proxies"),
    (("list", "proxies", "xyz*"), "no proxy matches 'xyz*'"),
    (("scores",), "scores"),
    (("score",), "Missing argument"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(each[0])[-40:] for each in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    trainless: Call, nets: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = trainless(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""


def test_a_damaged_store_is_one_line(trainless: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("not a database" * 200)
    answer = trainless(*SMALL, ARCH, "--proxies", "params", "--store", "bad.sqlite")
    assert answer.code == 2
    assert "file is not a database" in answer.err


def test_an_interruption_is_said_and_has_its_own_code(trainless: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainless.engine.evaluate.evaluate", interrupted)
    answer = trainless(*SMALL, ARCH, "--proxies", "params")
    assert answer.code == 130
    assert answer.err.startswith("trainless: interrupted: what was scored is kept")
