"""Charts against the data that they draw."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainless.report.chart import Plot, bounds, chart, frame, line, path, ticks
from trainless.report.page import Markup, duration, joined, percent, rounded, table, tag

NUMBER = st.floats(-1e6, 1e6, allow_nan=False)


def points(d: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", d)]


def place(plane: Plot, x: float, y: float) -> tuple[float, float]:
    """The coordinates by the rule of three, written out."""
    across = plane.x.start + (x - plane.x.low) / (plane.x.high - plane.x.low) * (plane.x.stop - plane.x.start)
    upward = plane.y.start - (y - plane.y.low) / (plane.y.high - plane.y.low) * (plane.y.start - plane.y.stop)
    return across, upward


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=20))
def test_a_path_goes_through_the_data(data: list[tuple[float, float]]) -> None:
    plane = frame(bounds([x for x, _ in data]), bounds([y for _, y in data]))
    drawn = points(path(plane, [x for x, _ in data], [y for _, y in data]))
    assert drawn == [pytest.approx(place(plane, x, y), abs=0.006) for x, y in data]
    assert all(plane.x.start - 0.01 <= x <= plane.x.stop + 0.01 for x, _ in drawn)


def test_a_step_is_level_until_the_next() -> None:
    plane = frame((0, 2), (0, 1), width=214, height=158, left=0)
    assert points(path(plane, [0, 1, 2], [0, 1, 1], step=True)) == [
        (0, 112),
        (100, 112),
        (100, 12),
        (200, 12),
        (200, 12),
    ]


def test_what_is_missing_leaves_a_gap() -> None:
    plane = frame((0, 3), (0, 1))
    assert path(plane, [0, 1, 2, 3], [0, math.nan, 1, 1]).count("M") == 2
    assert path(plane, [0], [math.inf]) == ""


def test_a_logarithm_is_even_in_decades() -> None:
    plane = frame((0, 1), (1, 100), y_log=True)
    assert plane.y(10) == pytest.approx((plane.y(1) + plane.y(100)) / 2)


@settings(max_examples=50, deadline=None)
@given(NUMBER, st.floats(1e-6, 1e6))
def test_ticks_are_even_and_within(low: float, width: float) -> None:
    found = ticks(low, low + width)
    slack = 1e-6 * (abs(low) + width)
    assert 2 <= len(found) <= 8 or width < 1e-9 * abs(low) + 1e-5
    assert all(low - slack <= value <= low + width + slack for value in found)
    apart = np.diff(found)
    assert np.allclose(apart, apart[:1], rtol=1e-3, atol=slack)


def test_a_chart_is_sound_xml() -> None:
    plane = frame((0, 1), (0, 1), x_title="<x>", y_title='"y" & z')
    root = ET.fromstring(chart(plane, "a < b", line(plane, [0, 1], [0, 1], "c0", tip="<tip>")))  # noqa: S314
    assert root.find("title") is not None
    assert root.find("title").text == "a < b"  # type: ignore[union-attr]
    assert [mark.get("data-tip") for mark in root.iter("path")] == ["<tip>"]


def test_only_markup_passes_unescaped() -> None:
    assert tag("p", "<b>", Markup("<i>x</i>")) == "<p>&lt;b&gt;<i>x</i></p>"
    assert joined(["&", None, Markup("&amp;")]) == "&amp;&amp;"
    assert "&lt;td&gt;" in table(["a"], [["<td>"]])
    assert tag("a", "x", href="\"'><script>") == '<a href="&quot;&#39;&gt;&lt;script&gt;">x</a>'
    assert "\u202e" not in tag("p", "left\u202etfel\x00")


def test_numbers_as_people_read_them() -> None:
    assert [percent(0.5, 0), percent(0.9996), percent(0.0004)] == ["50\u00a0%", ">99.9\u00a0%", "<0.1\u00a0%"]
    assert [rounded(math.nan), rounded(math.inf), rounded(0.0)] == ["–", "∞", "0.000"]
    assert [duration(0.25), duration(7200), duration(100 * 86400)] == ["0.2 s", "2 h", "100 days"]
