from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from trainless.bench.papers.states import items
from trainless.bench.sheet import Interval, Share, Sheet
from trainless.cli.table import _table_of_sheet, fitting

Run = Callable[..., Answer]


def test_the_command_lists_states(trainless: Run) -> None:
    found = json.loads(trainless("bench", "paper", "list", "--json").out)["rows"]
    assert len(found) == len(list(items()))
    first = next(row for row in found if row["item"] == "gradsign, figure A.3")
    assert (first["state"], first["why, or what is needed"][:11]) == ("needs data", "ImageNet-1k")
    assert "vkdnw, table IX" in trainless("bench", "paper", "list").out


@pytest.mark.slow
def test_a_paper_is_printed_in_every_form(trainless: Run, data_dir: Path) -> None:
    arguments = ("bench", "paper", "epsilon:headline", "--draws", "5", "--results", "none")
    assert "failures last" in trainless(*arguments, "--markdown").out
    rows = json.loads(trainless(*arguments, "--json").out)["rows"]
    assert rows[0]["published"] == 0.87
    assert rows[0]["ours"] == pytest.approx(0.87, abs=0.005)
    assert trainless(*arguments, "--csv", "-").out.startswith("row,task,metric,statistic,published,ours")
    terminal = trainless(*arguments)
    assert "0.869" in terminal.out
    assert "Not shown here" in terminal.out
    assert "one of them" in trainless(*arguments, "--csv", "-", "--json").err
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


NAMES = ("spearman", "kendall", "ndcg_1000", "spearman_top10%", "kendall_top10%", "top10%_in_top10%", "top64_in_top5%",
         "best_of_100", "best_of_1000", "regret")  # fmt: skip


def test_every_statistic_of_one_column_is_on_the_terminal(trainless: Run, data_dir: Path) -> None:
    rows = "\n".join(f"{index},{index % 97},{index % 89 if index else ''}" for index in range(1200))
    Path("mine.csv").write_text(f"arch_index,one,other\n{rows}\n")
    arguments = ("bench", "correlate", "--scores", "mine.csv", "--key", "arch_index", "--draws", "5", "--column")
    alone = trainless(*arguments, "one").out
    assert [line.split("│")[5].strip() for line in alone.splitlines() if line.startswith("│")] == [*NAMES]
    assert "1,200 of 1,200" in alone
    assert "best_of_100: expected accuracy of the best by score of 100 random networks; ± its deviation" in alone
    both = trainless(*arguments, "one,other").out
    assert "1,199 of 1,200" in both
    assert "Not shown here: seeds, spearman_top10%" in both
    everything = trainless(*arguments, "one,other", "--all").out
    assert everything.count("│ kendall_top10%") == 3  # one; other with failures last, and out
    row = json.loads(trainless(*arguments, "one,other", "--json").out)["rows"][0]
    assert {f"{name}{end}" for name in NAMES for end in ("", "_low", "_high")} <= set(row)


@pytest.mark.parametrize("width", [70, 80, 120, 300])
def test_a_sheet_fits_the_terminal_and_keeps_its_first_columns(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    cell = Interval(0.5, 0.4, 0.6)
    rows = tuple((f"a_long_name_{place}", "last", Share(15_624, 15_625), *(cell,) * 6) for place in range(3))
    columns = ("scores", "failures", "coverage", *(f"statistic_{place}" for place in range(6)))
    sheet = Sheet("t", columns, rows, ("note",), columns[:6])
    found = fitting(sheet, width)
    Console(width=width).print(_table_of_sheet(found, width))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert {f"a_long_name_{place}" for place in range(3)} <= {line.split()[1] for line in lines if line.startswith("│")}
    assert all("15,624 of 15,625" in line for line in lines if line.startswith("│"))
    left = [name for name in columns if name not in found.columns]
    assert left == list(columns[len(found.columns) :])
    assert all(name in found.notes[-1] for name in left)
    assert (width == 300) == (found == sheet)


@pytest.mark.slow
def test_missing_data_is_told_once(trainless: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(Path.cwd()))
    for form in ([], ["--markdown"]):
        answer = trainless("bench", "paper", "vkdnw", "--draws", "0", *form)
        assert answer.code == 0
        assert " ".join(answer.out.split()).count("nb201_all.csv.gz is for the reader to bring") == 1


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
    printed = trainless(
        *arguments, "--proxies", "params,snip", "--task", "noise:3x8x8:10", "--batch", "8", "--csv", "-"
    )
    assert printed.out.splitlines() == lines  # and nothing else
    assert "(0.0 per second once 1 process on cpu had begun)" in printed.err
    assert "--seeds a was given; expected a whole number" in trainless(*arguments, "--seeds", "a").err
