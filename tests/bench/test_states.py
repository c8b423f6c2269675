"""The list of every table and figure of the papers, and where each stands."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.conftest import SHARED
from trainless.bench.papers import COLUMNS, definitions, stored
from trainless.bench.papers.states import Agreement, Item, State, agrees, items, states, tally
from trainless.bench.score_library import results_directory
from trainless.bench.sheet import Sheet

# As the papers number them: their tables, figures and, where they have one, a supplement's.
NUMBERED = {
    "teacup": (
        "figure 1, figure 2, figure 3, figure 4, figure 5, figure 6A, figure 6B, table 1, supplementary table 1,"
        " supplementary table 2, supplementary table 3, supplementary figure 1, supplementary figure 2,"
        " supplementary figure 3"
    ),
    "epsilon": "table 1, table 2, table 3, table 4, figure 1, figure 2, figure 3",
    "gradsign": (
        "table 2.1, figure 3.1, table 5.1, table 5.2, table 5.3, table 5.4, table 5.5, figure A.1, figure A.2,"
        " table A.1, table A.2, figure A.3, table A.3"
    ),
    "teg-nas": (
        "figure 1, figure 2, figure 3, figure 4, figure 5, figure 6, figure 7, table 1, table 2, table 3, table 4,"
        " table 5"
    ),
    "vkdnw": (
        "figure 1, figure 2, figure 3, figure 4, table I, table II, table III, table IV, table V, table VI,"
        " table VII, table VIII, table IX"
    ),
}
CAPTION = re.compile(
    r"^\W*((?:Supplementary )?)(Table|Fig\.|Figure)\s+([A-Z]?\.?[0-9IVX]+(?:\.[0-9]+)?)[.:](?!\d)", re.I
)


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_table_and_figure_of_a_paper_is_listed(paper: str) -> None:
    listed = [each.label for each in items() if each.paper == paper]
    assert len(set(listed)) == len(listed)
    assert set(re.split(r",\s*", NUMBERED[paper])) <= set(listed)


@pytest.mark.parametrize("paper", [name for name in NUMBERED if name != "epsilon"])
def test_the_numbers_are_those_of_the_captions_in_the_papers(paper: str) -> None:
    text = SHARED / "papers" / f"{paper}.txt"
    if not text.is_file():
        pytest.skip("no papers beside the checkout")
    lines = text.read_text("utf-8", "replace").splitlines()
    found = {
        f"{match[1].lower()}{'figure' if match[2].lower().startswith('fig') else 'table'} {match[3]}"
        for line in lines
        if (match := CAPTION.match(line))
    }
    known = {label.rstrip("AB") if label.startswith("figure 6") else label for label in NUMBERED[paper].split(", ")}
    assert found == known


def test_every_definition_stands_with_an_item_and_every_item_has_a_way_or_a_reason() -> None:
    found, known = list(items()), definitions()
    assert {name for each in found for name in each.definitions} == set(known)
    for each in found:
        assert each.definitions or each.kind, each.label
        assert each.kind != "needs data" or each.why, each.label


@pytest.mark.parametrize(
    ("statistic", "published", "ours", "low", "high", "holds"),
    [
        ("spearman", 0.87, 0.845, 0.84, 0.85, True),
        ("spearman", 0.87, 0.80, 0.7, 0.9, True),
        ("spearman", 0.87, 0.80, 0.79, 0.81, False),
        ("mean", 93.9, 93.5, float("nan"), float("nan"), True),
        ("best_of_100", 93.9, 93.3, 93.2, 93.4, False),
        ("top64_in_top5%", 59, 55, float("nan"), float("nan"), True),
    ],
)
def test_a_figure_agrees_within_our_interval_or_the_tolerance(
    statistic: str, published: float, ours: float, low: float, high: float, holds: bool
) -> None:
    assert agrees(statistic, published, ours, low, high) is holds


DEFINITION = definitions()["epsilon:headline"]
ITEM = Item("epsilon", "table 9", (DEFINITION.name,), "a headline")


def sheet(ours: dict[int, float | None]) -> Sheet:
    """A sheet of the headline in which ours is the published figure but for some rows."""
    rows = [
        (row.label, task, "test", name, value)
        for row in DEFINITION.rows
        for task, figures in row.published.items()
        for name, value in figures.items()
    ]
    made = []
    for place, row in enumerate(rows):
        mine = ours.get(place, row[4])
        made.append((*row, mine, *(None,) * 7, "" if mine is not None else "no data here: no such scores"))
    return Sheet("t", COLUMNS, tuple(made))


@pytest.mark.parametrize(
    ("ours", "word", "figures", "why"),
    [
        ({}, "reproduced", "16 of 16 agree", ""),
        ({0: 0.5, 1: 0.71}, "partly", "15 of 16 agree", ""),  # 0.70 is published
        (dict.fromkeys(range(3)), "partly", "13 of 13 agree, 3 without ours", "no such scores"),
        (dict.fromkeys(range(9), 0.1), "not reproduced", "7 of 16 agree", ""),
        (dict.fromkeys(range(16)), "needs data", "16 without ours", "no such scores"),
    ],
)
def test_a_state_is_what_the_stored_figures_say(
    ours: dict[int, float | None], word: str, figures: str, why: str, tmp_path: Path
) -> None:
    stored.write({DEFINITION.name: sheet(ours)}, tmp_path / stored.FILE)
    assert states(tmp_path, [ITEM]) == [State(ITEM, word, figures, why)]


def test_what_is_not_stored_or_was_changed_is_not_measured(tmp_path: Path) -> None:
    (state,) = states(tmp_path, [ITEM])
    assert (state.word, state.why) == ("not measured", "run: python -m benchmarks.measure_results epsilon:headline")
    first = sheet({})
    rows = ((*first.rows[0][:4], 0.88, *first.rows[0][5:]), *first.rows[1:])
    for other in (dataclasses.replace(first, rows=rows), dataclasses.replace(first, rows=first.rows[1:])):
        stored.write({DEFINITION.name: other}, tmp_path / stored.FILE)
        assert [each.word for each in states(tmp_path, [ITEM])] == ["not measured"]


def test_curves_have_no_figures_and_what_is_quoted_is_no_figure_of_the_paper() -> None:
    curves = definitions()["epsilon:warmup"]
    rows = tuple((row.label, "cifar10", "test", "mean", None, 90.0, *(None,) * 7, "") for row in curves.rows)
    assert tally(curves, Sheet("t", COLUMNS, rows)).word == "no figures printed"
    searches = definitions()["teg-nas:table2"]
    quoted = Sheet("t", COLUMNS, (("RSPS", "cifar10", "test", "mean", 87.66, *(None,) * 8, "no data here: quoted"),))
    assert tally(searches, quoted) == Agreement()


def test_the_stored_results_are_of_the_definitions_as_they_are() -> None:
    assert [each.item.label for each in states(results_directory()) if each.word == "not measured"] == []
