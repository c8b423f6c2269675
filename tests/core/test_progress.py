"""A pace by hand."""

from __future__ import annotations

from trainless.core.progress import Pace


def test_a_pace_is_units_per_second() -> None:
    pace = Pace()
    for second in range(5):
        pace.at(2 * second, float(second))
    assert pace.rate == 2.0
