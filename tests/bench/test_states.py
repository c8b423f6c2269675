"""The list of every table and figure of the papers, and where each stands."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.conftest import SHARED
from trainless.bench.papers import compare, definitions
from trainless.bench.papers.states import Item, Outcome, agrees, items, outcome, record, recorded, states
from trainless.bench.score_library import ScoreLibrary
from trainless.core.errors import InputError

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


def test_an_outcome_counts_what_a_sheet_shows(data_dir: Path, tmp_path: Path) -> None:
    library, definition = ScoreLibrary(tmp_path), definitions()["epsilon:headline"]
    found = outcome(definition, compare(definition, library, draws=5), library, 5, 500)
    assert (found.judged, found.absent) == (8, 8)  # the authors' scores, and ours, which are not there
    assert found.agreed >= 6  # ρ, τ and the overlap of both tasks are of the same scores
    assert found.lacking == ("no stored scores of nb201",)
    item = Item("epsilon", "table 9", ("epsilon:headline",), "a headline")
    assert [each.word for each in states(tmp_path, [item])] == ["not run"]
    record(tmp_path, {"epsilon:headline": found})
    assert recorded(tmp_path) == {"epsilon:headline": found}
    (state,) = states(tmp_path, [item])
    assert (state.word, state.figures) == ("partly", f"{found.agreed} of 8 agree, 8 without ours")
    assert state.why == "no stored scores of nb201"
    record(tmp_path, {"epsilon:headline": dataclasses.replace(found, definition="another")})
    (state,) = states(tmp_path, [item])
    assert state.why.endswith("changed since then; run: trainless bench paper epsilon:headline --record")


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (Outcome(4, 4), "reproduced"),
        (Outcome(4, 4, 1), "partly"),
        (Outcome(2, 4), "partly"),
        (Outcome(1, 4), "not reproduced"),
        (Outcome(0, 0, 3), "needs data"),
        (Outcome(0, 0, 0, 3), "no figures printed"),
    ],
)
def test_a_state_is_what_the_counts_say(found: Outcome, word: str, tmp_path: Path) -> None:
    record(tmp_path, {"epsilon:headline": found})
    (state,) = states(tmp_path, [Item("epsilon", "table 9", ("epsilon:headline",), "")])
    assert state.word == word


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "papers.json").write_text("[1]")
    with pytest.raises(InputError, match=r"papers.json .*trainless bench paper all --record"):
        states(tmp_path)
