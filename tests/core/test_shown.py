"""What objects show of themselves in a terminal and in a notebook."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from trainless.catalogue import list_spaces
from trainless.core.errors import InputError, UnknownName
from trainless.core.markup import MOST_ROWS, card
from trainless.core.scores import Record, Scores
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.report.draw import draw
from trainless.spaces import space
from trainless.spaces.custom import space_from


class Rows(HTMLParser):
    """The cells of the table of a page, row by row."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def scores(names: int = 3) -> Scores:
    found = [Record(f"net{n}", "snip", float(n), True) for n in range(names)]
    return Scores(
        [
            *found,
            *(
                Record(f"net{n}", "loss", math.nan if n == 1 else -n, False, *["no gradient"] * (n == 1))
                for n in range(names)
            ),
        ]
    )


def test_scores_say_first_what_failed() -> None:
    assert repr(scores()).startswith("Scores(1 of 6 failed: no gradient; 3 candidates, 2 proxies")
    page = scores()._repr_html_()
    assert page.index("1 of 6 failed") < page.index("Scores")
    assert Rows(page).rows == [
        ["candidate", "snip ↑", "loss ↓"],
        ["net0", "0.000", "0.000"],
        ["net1", "1.000", "failed"],
        ["net2", "2.000", "-2.000"],
    ]
    assert 'title="no gradient"' in page
    assert "failed" not in repr(Scores([Record("a", "snip", 1.0, True)]))
    assert repr(Scores()) == "Scores(nothing was scored)"


def test_of_many_candidates_the_first_are_shown_and_the_others_counted() -> None:
    page = Rows(scores(100)._repr_html_())
    assert len(page.rows) == 1 + MOST_ROWS
    assert f"… and {100 - MOST_ROWS} more" in page.text


def test_names_from_data_are_text() -> None:
    wild = Scores([Record("<script>alert(1)</script>", "snip", 1.0, True, "<img src=x>")])
    assert not re.search("<(script|img)", wild._repr_html_())
    task = Task("<b>x</b>", (1, 2), Target("binary", 2, ("<i>", "b")), Part(np.zeros((2, 1, 2)), np.array([0, 1])))
    assert not re.search("<(b>x|i>)", task._repr_html_())
    assert "<script>" not in card("<script>", "<script>", alarms=["<script>"], head=["<script>"], rows=[["<script>"]])


def test_a_task_counts_its_classes_by_case() -> None:
    windows = Part(np.zeros((5, 1, 4)), np.array([1, 1, 0, 0, 1]), records=np.array([3, 3, 5, 5, 9]))
    task = Task("ecg", (1, 4), Target("binary", 2, ("N", "A")), windows, notes=("2 were left out",))
    assert repr(task) == "Task(ecg: 1×4, 2 classes, 3 train)"
    shown = Rows(task._repr_html_())
    assert shown.rows == [["", "train"], ["N", "1"], ["A", "2"]]
    assert "2 were left out" in shown.text
    values = Task("ages", (3,), Target("regression", 1), Part(np.zeros((2, 3)), np.zeros(2)))
    assert repr(values) == "Task(ages: 3, 1 value, 2 train)"
    assert Rows(values._repr_html_()).rows == [["", "train"], ["cases", "2"]]
    assert "pure noise" in Task.noise((1, 4), 2)._repr_html_()


def test_a_space_shows_its_decisions() -> None:
    def mlp(choices):
        raise NotImplementedError

    own = space_from(mlp, {"depth": [1, 2], "width": [16, 32]})
    assert repr(own) == "mlp(depth=1|2, width=16|32)"
    shown = Rows(own._repr_html_())
    assert shown.rows[1:] == [["depth", "1, 2"], ["width", "16, 32"]]
    assert "4 combinations of 2 decisions" in shown.text
    for name in list_spaces():
        decisions = Rows(space(name)._repr_html_()).rows[1:]
        assert [row[0] for row in decisions] == [each.name for each in space(name).decisions][:MOST_ROWS]


def test_a_drawing_is_a_picture_of_its_architecture(tmp_path) -> None:
    made = draw("nb201", "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")
    assert repr(made) == "Drawing(|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|)"
    assert made._repr_svg_().startswith("<svg ")
    assert made.save(tmp_path / "net.svg").read_text("utf-8") == made._repr_svg_()
    assert made.save(tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        made.save(tmp_path / "net.jpg")


def test_correlations_are_of_the_candidates_that_both_scored() -> None:
    values = [(1.0, 4.0), (2.0, 3.0), (3.0, math.nan), (4.0, 1.0), (0.0, 9.0)]
    records = [Record(f"n{at}", "up", first, True) for at, (first, _) in enumerate(values)]
    records += [
        Record(f"n{at}", "down", second, False, *["x"] * math.isnan(second)) for at, (_, second) in enumerate(values)
    ]
    found = Scores(records).correlations()
    assert found[0, 1] == pytest.approx(1.0)  # the lower, the better: 9 4 3 1 against 0 1 2 4
    assert np.isnan(Scores(records[:2] + records[5:7]).correlations()[0, 1])
    with pytest.raises(UnknownName, match="was not scored"):
        Scores(records).plot("flops")
