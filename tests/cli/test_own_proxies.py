"""Proxies of one's own on the command line: named by file, never stale, and whatever they raise is one reason."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from trainless.core.errors import InputError
from trainless.execution.ray import require_answer
from trainless.proxies import registry

Call = Callable[..., Answer]
ARCH = "|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|nor_conv_3x3~2|"
THIN = ("--space", "nb201", "--space-args", "channels=2,cells=1", "--batch", "4")
OWN = """
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def {name}(p):
    "Whatever."
    {body}
"""


@pytest.fixture(autouse=True)
def _registered_for_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


def test_one_can_be_scored_with_and_is_computed_anew_when_it_changes(trainless: Call, tmp_path: Path) -> None:
    own, kept = tmp_path / "own.py", str(tmp_path / "scores.sqlite")
    for body, value in (("return 1.5", "1.5"), ("return 2.5", "2.5")):
        own.write_text(OWN.format(name="changing", body=body), encoding="utf-8")
        asked = ("--task", "digits", "--proxies", f"{own}:changing", "--store", kept, "--csv", "-")
        said = trainless("score", ARCH, *THIN, *asked)
        assert said.code == 0, said.err
        assert value in next(csv.reader(io.StringIO(said.out.splitlines()[1])))


def test_a_reason_that_no_file_takes_does_not_end_a_search(trainless: Call, tmp_path: Path) -> None:
    own, out = tmp_path / "own.py", tmp_path / "run"
    own.write_text(OWN.format(name="outspoken", body=r"raise ValueError('bad \x00 \x1b[31m \ud800')"), encoding="utf-8")
    asked = ("--searcher", "random", "--evaluations", "2", "--proxies", f"{own}:outspoken", "--out", str(out))
    said = trainless("search", "digits", *THIN, *asked)
    assert "Traceback" not in said.err
    assert "ValueError: bad � �[31m �" in (out / "leaderboard.csv").read_text(encoding="utf-8")


def test_no_store_means_no_file(trainless: Call, tmp_path: Path) -> None:
    asked = ("--searcher", "random", "--evaluations", "1", "--proxies", "params", "--out", "run", "--store", "none")
    assert trainless("search", "digits", *THIN, *asked).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_ray_cluster_that_is_not_there_is_one_line_soon() -> None:
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 \(ConnectionRefusedError"):
        require_answer("127.0.0.1:1")
    require_answer("auto")
