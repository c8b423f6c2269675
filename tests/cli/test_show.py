from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from torch import nn

from tests.cli.conftest import Answer
from tests.spaces.thin import THIN
from trainless.probe.counts import depth
from trainless.spaces import registry

Call = Callable[..., Answer]
CELL = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"
MY_FILE = """
from torch import nn
from trainless.spaces.custom import space_from

def net(choices, task):
    layers = [nn.Linear(choices["width"], choices["width"]) for _ in range(choices["depth"])]
    return nn.Sequential(nn.Flatten(), nn.Linear(48, choices["width"]), *layers, nn.Linear(choices["width"], 3))

my_space = space_from(net, {"depth": [1, 2], "width": [4, 8]}, name="mine")

def make(most=2):
    return space_from(net, {"depth": list(range(1, most + 1)), "width": [4]}, name="made")
"""


@pytest.fixture
def my_file(tmp_path: Path) -> str:
    (tmp_path / "my_file.py").write_text(MY_FILE)
    return "my_file.py"


def test_a_cell_is_drawn_and_counted(trainless: Call, tmp_path: Path) -> None:
    answer = trainless("show", "--space", "nb201", CELL, "--svg", "cell.svg", "--png", "cell.png")
    assert answer.code == 0, answer.err
    assert "input ── nor_conv_3x3 ──▶ 1" in answer.out
    one, three = (5 * sum(k * c * c + 2 * c for c in (16, 32, 64)) for k in (1, 9))
    assert re.search(rf"parameters +{73_306 + one + three:,}\n", answer.out), "73,306: the benchmark's cell of nothing"
    assert ET.parse(tmp_path / "cell.svg").getroot().tag.endswith("svg")  # noqa: S314
    with Image.open(tmp_path / "cell.png") as picture:
        assert min(picture.size) > 200


def test_numbers_for_programs_by_hand(trainless: Call, my_file: str) -> None:
    answer = trainless(
        "show", "--space", f"{my_file}:my_space", "depth=2,width=8", "--input", "3x4x4", "--classes", "3", "--json"
    )
    assert json.loads(answer.out) == {
        "arch": "depth=2,width=8",
        "task": "noise-3x4x4-3",
        "parameters": 48 * 8 + 8 + 2 * (8 * 8 + 8) + 8 * 3 + 3,
        "multiply-accumulates": 48 * 8 + 2 * 64 + 24,
        "depth": 4,
        "parameter tensors": 8,
    }


@pytest.mark.parametrize("name", registry.names())
def test_a_random_arch_of_every_space(trainless: Call, name: str) -> None:
    parameters = ",".join(
        f"{key}={'+'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in THIN[name].parameters.items()
    )
    call = ("show", "--space", name, "--space-args", parameters, "random", "--seed", "3", "--svg", "a.svg")
    if all(task.dims == 1 for task in THIN[name].tasks) and not THIN[name].tasks[0].vocabulary:
        call += ("--input", "x".join(map(str, THIN[name].tasks[0].input_shape)))
    answer = trainless(*call)
    assert answer.code == 0, answer.err
    assert Path("a.svg").read_text().startswith("<svg")
    assert trainless(*call).out == answer.out


def test_what_is_wrong_is_said(trainless: Call, my_file: str) -> None:
    assert "expected 3" in trainless("show", "--space", "nb201", "|none~0|").err
    assert "too small for mobilenet" in trainless("show", "--space", "mobilenet", "random", "--input", "3x8x8").err
    assert "cannot be written" in trainless("show", "--space", "nb201", CELL, "--svg", "absent/cell.svg").err
    assert (
        "takes no most" in trainless("show", "--space", f"{my_file}:my_space", "random", "--space-args", "most=3").err
    )
    wrong = trainless("show", "--space", f"{my_file}:my_space", "random", "--input", "1x4x4")
    assert wrong.code == 2
    assert "mine: the network cannot run on inputs of shape (1, 1, 4, 4)" in wrong.err


def test_depth_is_the_longest_way() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.long = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 2, 1))
            self.short = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            total = self.long(x)
            total += self.short(x)
            return total.flatten(1)

    assert depth(nn.Sequential(Two(), nn.Linear(18, 3)), (2, 3, 3)) == 3
    assert depth(nn.Identity(), (2,)) == 0
    assert depth(nn.LSTM(3, 4), (3,)) == 1
    assert depth(nn.TransformerEncoderLayer(4, 2, 8), (4,)) == 4


def test_score_and_demo_take_spaces_of_files(trainless: Call, my_file: str) -> None:
    common = ("--proxies", "params", "--store", "none")
    scored = trainless(
        "score", "--space", f"{my_file}:make", "--space-args", "most=3", "depth=3,width=4", "--input", "3x4x4", *common
    )
    assert scored.code == 0, scored.err
    Path("my_file.py").write_text(MY_FILE.replace("48", "64").replace(", 3))", ", 10))"))
    demo = trainless("demo", "--space", f"{my_file}:my_space", "--count", "2", "--out", "demo")
    assert demo.code == 0, demo.err
    assert "scoring 2 architectures of mine for digits" in demo.out
    assert "depth=3,width=4" in scored.out


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_search_takes_a_space_of_a_file_in_processes_too(trainless: Call, tmp_path: Path, workers: str) -> None:
    (tmp_path / "my_file.py").write_text(MY_FILE.replace("48", "64").replace(", 3))", ", 10))"))
    call = ("search", "digits", "--space", "my_file.py:my_space", "--searcher", "random", "--evaluations", "3")
    answer = trainless(*call, "--proxies", "params", "--workers", workers, "--out", f"run{workers}", "--json")
    assert answer.code == 0, answer.err
    assert {place["scores"]["params"] for place in json.loads(answer.out)["leaderboard"]} <= {
        64 * w + w + d * (w * w + w) + 10 * w + 10 for d in (1, 2) for w in (4, 8)
    }


def test_spaces_are_listed_with_their_sizes(trainless: Call) -> None:
    rows = {row["name"]: row for row in json.loads(trainless("list", "spaces", "--json").out)}
    assert (rows["nb201"]["combinations"], rows["nb201"]["different"]) == (15_625, 5_653)
    assert rows["nb101"]["combinations"] == 2**21 * 3**5
    assert rows["nb101"]["different"] == 423_624
    assert rows["darts"]["combinations"] == (8**8 * (2 * 3 * 4 * 5) ** 2) ** 2
    heads = sum(width % heads == 0 for width in (64, 96, 128, 192, 256, 384) for heads in (1, 2, 3, 4, 6, 8))
    assert rows["transformer"]["valid"] == heads * 5 * 4 * 3 * 2
    assert len({row["meaning"] for row in rows.values()}) == len(rows)
    shown = trainless("list", "spaces").out.splitlines()
    assert shown[0].split() == ["combinations", "valid", "different"]
    assert any(line.startswith("nb101") and "509,607,936" in line and "?" in line for line in shown)
