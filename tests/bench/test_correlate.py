"""Columns of scores against tables: what is asked, what failed, and how it is printed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from trainless.bench.correlate import (
    PEER_COLUMNS,
    Judged,
    beside_peers,
    board,
    columns_of_csv,
    columns_of_sweep,
    judge_proxy,
    open_columns,
)
from trainless.bench.figures import bars, pairs, scatter
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, places
from trainless.bench.settings import JudgeSettings
from trainless.bench.sheet import Interval, Share, Sheet, shown
from trainless.bench.tables.table import ColumnKey, Table
from trainless.core.errors import InputError
from trainless.runs.score_file import ScoreFile
from trainless.spaces.moves import arch_at
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201()
ARCHS = tuple(SPACE.format(arch_at(SPACE, index)) for index in range(15_000, 15_040))
ACCURACY = np.linspace(60, 94, len(ARCHS))


@pytest.fixture
def table() -> Table:
    columns = {ColumnKey("cifar10", "test", 200): ACCURACY.copy()}
    return Table("toy", "nb201", ARCHS, {frozenset(columns): lambda: columns})


def write(path: Path, rows: list[list[object]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def test_a_csv_by_number_and_by_notation_is_the_same_column(tmp_path: Path, table: Table) -> None:
    scores = np.random.default_rng(0).normal(size=20)
    by_number = write(tmp_path / "a.csv", [["arch_index", "mine"], *([i, s] for i, s in enumerate(scores))])
    by_text = write(tmp_path / "b.csv", [["arch_str", "mine"], *([ARCHS[i], s] for i, s in enumerate(scores))])
    one = columns_of_csv(by_number, "arch_index", ["mine"], table)["mine"]
    other = columns_of_csv(by_text, "arch_str", ["mine"], table)["mine"]
    np.testing.assert_array_equal(one.values, other.values)
    assert one.asked.sum() == 20
    sheet = board({"mine": one}, ACCURACY, np.full(40, True), title="t", draws=20)
    (row,) = json.loads(sheet.json())["rows"]
    assert row["spearman"] == pytest.approx(stats.spearmanr(scores, ACCURACY[:20])[0])
    assert row["kendall"] == pytest.approx(stats.kendalltau(scores, ACCURACY[:20])[0])
    assert "20 networks that every column has, of 40" in sheet.notes[0]


def test_failures_are_counted_in_one_row_and_left_out_in_the_other(tmp_path: Path, table: Table) -> None:
    scores = ["", "nan", *map(str, range(2, 40))]
    path = write(tmp_path / "a.csv", [["arch_index", "mine"], *([i, s] for i, s in enumerate(scores))])
    column = columns_of_csv(path, "arch_index", ["mine"], table)["mine"]
    sheet = board({"mine": column}, ACCURACY[::-1].copy(), np.full(40, True), title="t", draws=0)
    rows = json.loads(sheet.json())["rows"]
    assert [row["failures"] for row in rows] == ["last", "out"]
    assert rows[1]["spearman"] == pytest.approx(-1)
    low = np.array([-1, -1, *range(2, 40)])
    assert rows[0]["spearman"] == pytest.approx(stats.spearmanr(low, ACCURACY[::-1])[0])
    assert rows[0]["coverage"] == pytest.approx(38 / 40)


def test_rows_with_a_seed_are_seeds(tmp_path: Path, table: Table) -> None:
    rows = [[i, seed, i + seed] for i in range(5) for seed in (3, 7)]
    path = write(tmp_path / "a.csv", [["arch_index", "seed", "mine"], *rows])
    column = columns_of_csv(path, "arch_index", ["mine"], table)["mine"]
    assert column.values[:, :5].tolist() == [[3, 4, 5, 6, 7], [7, 8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("header", "first", "column", "key", "message"),
    [
        (["arch_index", "mine"], [0, 1.0], "other", "arch_index", "has no column 'other'; its columns are"),
        (["arch_index", "mine"], [99, 1.0], "mine", "arch_index", "expected 0 to 39"),
        (["arch_index", "mine"], ["x", 1.0], "mine", "arch_index", "should hold row numbers"),
        (["arch_str", "mine"], ["x", 1.0], "mine", "arch_str", "table toy does not have 'x'"),
        (["name", "mine"], ["x", 1.0], "mine", "name", "expected one of arch_index, arch_str"),
        (["arch_str", "mine"], ["x", 1.0], "", "arch_str", "no column was given"),
    ],
)
def test_files_that_do_not_fit_say_so(tmp_path, table, header, first, column, key, message) -> None:
    path = write(tmp_path / "a.csv", [header, first])
    with pytest.raises(InputError, match=message):
        open_columns(path, column, key, table)
    with pytest.raises(InputError, match="there is no file"):
        open_columns(str(tmp_path / "none.csv"), "mine", "arch_str", table)


def sweep_file(archs: tuple[str, ...], values: np.ndarray) -> ScoreFile:
    settings = {"proxies": {"mse": {"higher_is_better": False}}}
    codes = np.zeros((len(archs), 1, 1), np.uint16)
    codes[0] = 1
    return ScoreFile(archs, ("mse",), (0,), values[:, None, None], codes, settings=settings)


def test_a_sweep_of_canonical_networks_speaks_for_their_twins(tmp_path: Path, table: Table) -> None:
    canonical = tuple(dict.fromkeys(SPACE.format(SPACE.canonical(SPACE.parse(arch))) for arch in ARCHS))
    file = sweep_file(canonical, np.arange(len(canonical), dtype=float))
    rows = places(canonical, table)
    assert all(
        canonical[row] == SPACE.format(SPACE.canonical(SPACE.parse(a))) for a, row in zip(ARCHS, rows, strict=True)
    )
    column = columns_of_sweep(file, ["mse"], table)["mse"]
    assert not column.higher_is_better
    np.testing.assert_array_equal(column.asked, rows != 0)  # the first was never scored
    file.write(tmp_path / "scores.npz")
    again = open_columns(str(tmp_path / "scores.npz"), "", "arch_str", table)["mse"]
    np.testing.assert_array_equal(again.values, column.values)
    (tmp_path / "scores.csv").write_text(file.to_csv())
    assert (tmp_path / "scores.csv").read_text().splitlines()[:1] == ["arch_str,seed,mse"]


def test_too_few_networks_are_an_error() -> None:
    column = ScoreColumn(np.zeros((1, 40)), np.zeros(40, bool))
    with pytest.raises(InputError, match="0 networks of the population have scores"):
        board({"mine": column}, ACCURACY, np.full(40, True), title="t")


def test_a_sheet_is_the_same_in_every_form() -> None:
    sheet = Sheet("T", ("name", "value"), (("a|b", 0.5), ("c", float("nan"))), ("note",), ("value",))
    assert json.loads(sheet.json()) == {
        "title": "T",
        "rows": [{"name": "a|b", "value": 0.5}, {"name": "c", "value": None}],
        "notes": ["note"],
    }
    assert list(csv.reader(io.StringIO(sheet.csv()))) == [["name", "value"], ["a|b", "0.5"], ["c", ""]]
    assert "| a\\|b | 0.500 |" in sheet.markdown()
    assert sheet.shortened().columns == ("value",)
    assert "Not shown here: name" in sheet.shortened().notes[-1]


def test_pictures_are_written_and_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scores = np.where(np.arange(40) % 7 == 0, np.nan, np.arange(40.0))
    files = [scatter(tmp_path / f"{i}.svg", scores, ACCURACY, name="mine", truth="accuracy") for i in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()
    bars(tmp_path / "bars.svg", {"a": (0.5, 0.4, 0.6), "b": (0.7, np.nan, np.nan)}, label="ρ", marked=["a"])
    pairs(tmp_path / "pairs.png", np.array([0.1, 0.9]), np.array([0.2, 0.8]), label="ρ")
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        pairs(tmp_path / "pairs.xyz", np.array([0.1]), np.array([0.2]), label="ρ")


STATISTICS = (
    *("spearman", "kendall", "ndcg_1000", "spearman_top10%", "kendall_top10%", "top10%_in_top10%", "top64_in_top5%"),
    *("best_of_100", "best_of_1000", "regret"),
)


def scored(count: int, seeds: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    accuracy = rng.normal(80, 5, count)
    return accuracy + rng.normal(0, 5, (seeds, count)), accuracy


def test_every_statistic_is_listed_with_its_value_and_interval() -> None:
    count = 1200
    scores, accuracy = scored(count)
    column = ScoreColumn(scores, np.full(count, True))
    sheet = board({"mine": column}, accuracy, np.full(count, True), title="t", draws=50)
    (row,) = json.loads(sheet.json())["rows"]
    by_score, by_truth = np.argsort(-scores[0]), np.argsort(-accuracy)
    top = by_truth[:120]
    chance = {k: [math.comb(count - 1 - i, k - 1) / math.comb(count, k) for i in range(count)] for k in (100, 1000)}
    best = {k: sum(p * accuracy[at] for p, at in zip(chance[k], by_score, strict=True)) for k in chance}
    spread = {
        k: math.sqrt(sum(p * (accuracy[at] - best[k]) ** 2 for p, at in zip(chance[k], by_score, strict=True)))
        for k in chance
    }
    gains, places = 2**accuracy - 1, np.log2(np.arange(2, 1002))
    expected = {
        "spearman": stats.spearmanr(scores[0], accuracy).statistic,
        "kendall": stats.kendalltau(scores[0], accuracy).statistic,
        "ndcg_1000": (gains[by_score[:1000]] / places).sum() / (gains[by_truth[:1000]] / places).sum(),
        "spearman_top10%": stats.spearmanr(scores[0, top], accuracy[top]).statistic,
        "kendall_top10%": stats.kendalltau(scores[0, top], accuracy[top]).statistic,
        "top10%_in_top10%": len({*by_score[:120]} & {*top}) / 120,
        "top64_in_top5%": len({*by_score[:64]} & {*by_truth[:60]}),
        "best_of_100": best[100],
        "best_of_1000": best[1000],
        "regret": accuracy.max() - accuracy[by_score[0]],
    }
    assert tuple(expected) == STATISTICS
    for name, value in expected.items():
        assert row[name] == pytest.approx(value), name
        assert row[f"{name}_low"] <= row[f"{name}_high"], name
    assert [row[f"best_of_{k}_std"] for k in (100, 1000)] == pytest.approx([spread[100], spread[1000]])
    assert (row["coverage"], row["coverage_count"], row["coverage_of"]) == (1, 1200, 1200)
    for name in STATISTICS:
        assert f"| {name} |" in sheet.markdown()
    assert next(csv.DictReader(io.StringIO(sheet.csv())))["regret_high"] == str(row["regret_high"])


def test_unfolded_every_estimate_has_a_line_of_its_own() -> None:
    scores, accuracy = scored(150, seeds=2)
    scores[1, 7] = np.nan
    sheet = board({"mine": ScoreColumn(scores, np.full(150, True))}, accuracy, np.full(150, True), title="t", draws=10)
    lines = sheet.unfolded()
    assert lines.columns[3:] == ("coverage", "statistic", "value", "low", "high", "± std", "± over seeds")
    assert [line[4] for line in lines.rows] == [*STATISTICS, *STATISTICS]  # failures last, and out
    assert lines.rows[0][:3] == ("mine", "last", 2)
    assert lines.cells()[0][3] == "299 of 300"
    assert lines.rows[10][:2] == ("mine", "out")
    low = np.where(np.isnan(scores), -1e9, scores)
    each = [stats.kendalltau(row, accuracy).statistic for row in low]
    assert lines.rows[1][5] == pytest.approx(np.mean(each))
    assert lines.rows[1][9] == pytest.approx(np.std(each))
    assert "Not covered: best_of_1000 (there are fewer than 1,000 networks)." in lines.notes


def test_nearly_all_is_never_shown_as_all() -> None:
    assert Share(15_624, 15_625).shown() == "15,624 of 15,625"
    assert shown(Share(9_999, 10_000)) == "9,999 of 10,000"
    scores, accuracy = scored(3000)
    scores[0, 5] = np.nan
    sheet = board({"mine": ScoreColumn(scores, np.full(3000, True))}, accuracy, np.full(3000, True), title="t", draws=0)
    assert "| mine | last | 1 | 2,999 of 3,000 |" in sheet.markdown()
    assert "2,999 of 3,000" in sheet.shortened().cells()[0]
    assert math.isnan(Share(0, 0).value)


def test_twins_are_counted_and_explained() -> None:
    canonical = tuple(dict.fromkeys(SPACE.format(SPACE.canonical(SPACE.parse(arch))) for arch in ARCHS))
    archs = tuple(dict.fromkeys([*ARCHS, *canonical]))
    codes = np.zeros((len(canonical), 1, 1), np.uint16)
    file = ScoreFile(canonical, ("mse",), (0,), np.random.default_rng(0).normal(size=codes.shape), codes)
    columns = columns_of_sweep(file, ["mse"], Table("toy", "nb201", archs, {}))
    own, accuracy, everything = len(canonical), np.linspace(60, 94, len(archs)), np.full(len(archs), True)
    notes = board(columns, accuracy, everything, title="t", draws=0).notes
    assert any(f"{own} of them were scored themselves; {len(archs) - own} have a twin's" in note for note in notes)
    alone = {"mse": ScoreColumn(columns["mse"].values, columns["mse"].asked)}
    assert not any("twin" in note for note in board(alone, accuracy, everything, title="t", draws=0).notes)


def spearman_of_snip(judged: Judged) -> float:
    rows = json.loads(judged.sheet.json())["rows"]
    return next(row["spearman"] for row in rows if row["scores"] == "snip")


@pytest.mark.slow
def test_a_proxy_of_ones_own_is_ranked_among_the_built_in_ones(tmp_path: Path, data_dir: Path) -> None:
    mine = tmp_path / "my_file.py"
    mine.write_text(
        "import trainless as tl\n\n\n"
        "@tl.proxy(higher_is_better=True, paper='none')\n"
        "def my_parameters(p):\n"
        "    'Number of parameters.'\n"
        "    return sum(tensor.numel() for tensor in p.weights.values())\n"
    )
    library = ScoreLibrary(tmp_path / "none")
    settings = JudgeSettings(
        proxy=f"{mine}:my_parameters", out=str(tmp_path / "sweep"), sample=12, against="params,snip", draws=10,
        space_args="channels=4,cells=1", batch=8, task="noise:3x8x8:10", workers=1,
    )  # fmt: skip
    judged = judge_proxy(library, settings)
    rows = {row[0]: row for row in judged.sheet.rows}
    same = [repr(rows[name][4:]) for name in ("my_parameters", "params")]
    assert same[0] == same[1]  # the same quantity has the same statistics
    assert set(rows) == {"my_parameters", "params", "snip"}
    assert judged.chosen.sum() == 12
    assert "Built-in scores were computed on the same networks and inputs (no scores of nb201" in judged.sheet.notes[4]
    assert re.match(r"my_parameters is number [123] of 3 by Spearman's ρ, which is ", judged.sheet.notes[0])
    empty = [name for name, *_ in zip(judged.sheet.columns, *judged.sheet.cells(), strict=True) if "best_of" in name]
    assert empty
    assert not set(empty) & set(judged.sheet.shortened().columns)  # there are too few networks for it
    archs = library.table("nb201").archs
    full = {"space": "nb201(channels=16, cells=5)", "proxies": {"snip": {"higher_is_better": True}}}
    values = np.arange(len(archs), dtype=float)[:, None, None]
    codes = np.zeros(values.shape, np.uint16)
    ScoreFile(archs, ("snip",), (0,), values, codes, settings=full).write(tmp_path / "nb201.npz")
    fewer = replace(settings, against="snip", draws=0)
    stored = judge_proxy(ScoreLibrary(tmp_path), fewer)
    assert stored.sheet.notes[0] == (
        "NOT LIKE FOR LIKE: my_parameters was scored on nb201(channels=4, cells=1), the built-in proxies on"
        " nb201(channels=16, cells=5), whose scores are stored. --rescore scores them all on the same networks."
    )
    again = judge_proxy(ScoreLibrary(tmp_path), replace(fewer, rescore=True))
    assert not any("NOT LIKE" in note for note in again.sheet.notes)
    found = [spearman_of_snip(each) for each in (judged, again, stored)]
    assert found[0] == found[1] != found[2]
    with pytest.raises(InputError, match="a sample of 3 was given"):
        judge_proxy(library, replace(settings, sample=3))


def test_missing_scores_say_which(tmp_path: Path, data_dir: Path) -> None:
    with pytest.raises(Missing, match=r"nb201\.npz is not in"):
        ScoreLibrary(tmp_path).ours("nb201", "snip")


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("arch_index,dataset,s\n0,a,1\n0,b,2\n1,a,3\n1,b,4\n", "", "arch_index 0 more than once: give the rows"),
        ("arch_index,dataset,s\n0,a,1\n", "dataset=c", "has no row with dataset=c"),
        ("arch_index,dataset,s\n", "", "has no row: expected one row per network"),
        ("arch_index,dataset,s\n0.5,a,1\n", "", "should hold row numbers"),
        ("arch_index,s\n0,1\n", "dataset=a", "has no column 'dataset'"),
    ],
)
def test_rows_that_are_not_one_per_network_are_refused(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    table = Table("toy", "letters", ("a", "b"), {})
    with pytest.raises(InputError, match=message):
        columns_of_csv(path, "arch_index", ["s"], table, where)


def test_where_picks_the_rows_that_are_meant(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("arch_index,dataset,s\n0,a,1\n0,b,2\n1,a,3\n1,b,4\n")
    found = columns_of_csv(path, "arch_index", ["s"], Table("toy", "letters", ("a", "b"), {}), "dataset=b")
    assert found["s"].values.tolist() == [[2.0, 4.0]]


def test_what_has_no_value_has_no_interval() -> None:
    constant = ScoreColumn(np.ones((1, 40)), np.ones(40, bool))
    sheet = board({"same": constant}, np.arange(40.0), np.ones(40, bool), title="", draws=20)
    undefined = sheet.rows[0][sheet.columns.index("kendall")]
    assert isinstance(undefined, Interval)
    assert np.isnan([undefined.value, undefined.low, undefined.high]).all()


def test_infinite_scores_are_failures_and_said_to_be() -> None:
    values = np.arange(40.0)[None]
    values[0, :3] = np.inf
    sheet = board(
        {"wild": ScoreColumn(values, np.ones(40, bool))}, np.arange(40.0), np.ones(40, bool), title="", draws=5
    )
    assert "wild: 3 infinite scores count as failures." in sheet.notes
    assert sheet.rows[0][sheet.columns.index("coverage")] == Share(37, 40)


def test_columns_and_files_that_cannot_be_meant_are_refused(tmp_path: Path, table: Table) -> None:
    path = tmp_path / "letters.csv"
    path.write_text("arch_index,score\n0,a\n1,b\n")
    with pytest.raises(InputError, match="the column score has no finite number, but a"):
        columns_of_csv(path, "arch_index", ["score"], table)
    value, code = np.ones((1, 1, 1)), np.zeros((1, 1, 1), np.uint16)
    other = ScoreFile(("x",), ("snip",), (0,), value, code, settings={"space": "nb101(…)"})
    with pytest.raises(InputError, match=f"the scores are of the space nb101, the table {table.name} of {table.space}"):
        columns_of_sweep(other, ["snip"], table)


def test_a_table_without_rows_keeps_its_head() -> None:
    assert Sheet("none", ("proxy", "networks"), ()).csv() == "proxy,networks\n"


@pytest.mark.slow
def test_theirs_is_what_their_file_says_and_sizes_agree(data_dir: Path) -> None:
    """By scipy, from the files themselves."""
    found = {(row[0], row[1]): dict(zip(PEER_COLUMNS, row, strict=True)) for row in beside_peers(ScoreLibrary()).rows}
    with gzip.open(data_dir / "nb201/nb201_all.csv.gz", "rt") as file:
        accuracy = {row["arch_str"]: row["ImageNet16-120_test_acc_200"] for row in csv.DictReader(file)}
    with gzip.open(data_dir / "nb201/nb201_zc_suite_zero_9445.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == "ImageNet16-120"]
    truth = np.array([float(accuracy[row["arch_str"]]) for row in rows])
    for proxy in ("fisher", "snip"):
        expected = stats.spearmanr([float(row[proxy]) for row in rows], truth).statistic
        line = found[proxy, "ImageNet16-120"]
        assert line["networks"] == 9445
        np.testing.assert_allclose(line["theirs"], expected, atol=1e-6)
    assert found["params", "cifar10"]["between"] > 0.999
    assert found["synflow", "cifar10"]["between"] > 0.999
