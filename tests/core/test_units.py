"""Numbers with units."""

from __future__ import annotations

import pytest

from trainless.core.errors import InputError
from trainless.core.units import budget_of, quantity, seconds_of


def test_units() -> None:
    assert quantity("1.5k", "params") == 1500
    assert quantity("2e6", "flops") == 2e6
    assert quantity("1gb", "memory") == 1e9
    assert quantity("250us", "latency") == pytest.approx(0.00025)
    assert seconds_of("1.5h") == 5400
    with pytest.raises(InputError, match="'50X' was given; expected a number such as 50M"):
        quantity("50X", "flops")
    with pytest.raises(InputError, match="'soon' was given; expected a time"):
        seconds_of("soon")
    with pytest.raises(InputError, match="a limit of 0 on flops"):
        quantity("0", "flops")


def test_times() -> None:
    assert [seconds_of(value) for value in ("10m", "12000s", 2.5, None)] == [600.0, 12000.0, 2.5, None]
    assert [budget_of(value) for value in ("30m", None)] == [1800.0, None]
    with pytest.raises(InputError, match="more than 0"):
        budget_of("0s")
