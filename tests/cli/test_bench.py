from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer

Run = Callable[..., Answer]


def test_published_tables_are_listed(trainless: Run) -> None:
    answer = trainless("bench", "list")
    assert answer.code == 0
    assert "vkdnw:table1" in answer.out
    assert {each["name"] for each in json.loads(trainless("bench", "list", "--json").out)} >= {"epsilon:headline"}


def test_a_paper_is_printed_in_every_form(trainless: Run, data_dir: Path) -> None:
    arguments = ("bench", "paper", "epsilon:headline", "--draws", "5", "--results", "none")
    assert "failures last" in trainless(*arguments, "--markdown").out
    rows = json.loads(trainless(*arguments, "--json").out)["rows"]
    assert rows[0]["published"] == 0.87
    assert rows[0]["ours"] == pytest.approx(0.87, abs=0.005)
    assert trainless(*arguments, "--csv").out.startswith("row,task,metric,statistic,published,ours")
    terminal = trainless(*arguments)
    assert "0.869" in terminal.out
    assert "Not shown here" in terminal.out
    assert "one of them" in trainless(*arguments, "--csv", "--json").err
    assert "no published table is called 'vkdnw:table99'" in trainless("bench", "paper", "vkdnw:table99").err


def test_a_column_of_scores_is_correlated(trainless: Run, data_dir: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{index},{index % 97}" for index in range(300))
    Path("mine.csv").write_text(f"arch_index,mine\n{rows}\n")
    arguments = ("bench", "correlate", "--scores", "mine.csv", "--column", "mine", "--key", "arch_index")
    answer = trainless(*arguments, "--table", "nb201", "--task", "cifar10", "--draws", "5", "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert found["rows"][0]["scores"] == "mine"
    assert "300 networks that every column has, of 15,625" in found["notes"][0]
    down = json.loads(trainless(*arguments, "--lower-is-better", "--draws", "5", "--json").out)
    assert down["rows"][0]["spearman"] == pytest.approx(-found["rows"][0]["spearman"])
    assert trainless("bench", "correlate").code == 2
    assert "either --scores FILE or --proxy" in trainless("bench", "correlate").err


@pytest.mark.slow
def test_a_sweep_is_kept_in_the_store_and_as_csv(trainless: Run) -> None:
    arguments = ("bench", "sweep", "--out", "sweep", "--space-args", "channels=4,cells=1", "--archs", "sample:3")
    answer = trainless(
        *arguments, "--proxies", "params,snip", "--task", "noise:3x8x8:10", "--batch", "8", "--csv", "s.csv"
    )
    assert answer.code == 0, answer.err
    assert "3 networks in" in answer.out
    assert "6 scores kept in the store" in answer.out
    lines = Path("s.csv").read_text().splitlines()
    assert lines[0] == "arch_str,seed,params,snip"
    assert len(lines) == 4
    assert "expected numbers such as 0,1,2" in trainless(*arguments, "--seeds", "a").err
