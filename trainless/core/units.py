"""Numbers with units, as people write them: 50M, 1.5k, 64MB, 5ms, 10m."""

from __future__ import annotations

import math
import re

from trainless.core.errors import InputError

PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9, "b": 1e9, "B": 1e9, "T": 1e12}
BYTES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "k": 1e3, "m": 1e6, "g": 1e9}
SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def quantity(value: float | str, name: str) -> float:
    """The most of a cost; latencies are times, memory is bytes, everything else takes k, M and G.

    Example:
        >>> quantity("50M", "flops"), quantity("5ms", "latency"), quantity("64MB", "memory"), quantity(3, "layers")
        (50000000.0, 0.005, 64000000.0, 3.0)
    """
    if name == "latency":
        found = seconds_of(value)
    elif name == "memory":
        found = _read(value, BYTES, "bytes such as 64MB", fold=True)
    else:
        found = _read(value, PREFIX, "a number such as 50M, 1.5k or 2e6")
    if found is None or not found > 0:
        raise InputError(f"a limit of {value} on {name} was given; expected more than 0")
    return found


def seconds_of(value: float | str | None) -> float | None:
    """A time in seconds."""
    return None if value is None else _read(value, SECONDS, "a time such as 90s, 10m, 2h or 5ms")


def budget_of(value: float | str | None) -> float | None:
    """A time budget in seconds, which is more than nothing; None for none."""
    found = seconds_of(value)
    if found is not None and not 0 < found < math.inf:
        raise InputError(f"a time budget of {value} was given; expected more than 0, such as 30m")
    return found


def _read(value: float | str, units: dict[str, float], expected: str, *, fold: bool = False) -> float:
    if not isinstance(value, str):
        return float(value)
    found = _NUMBER.fullmatch(value)
    unit = found.group(2).lower() if found and fold else found.group(2) if found else ""
    if found is None or unit not in units:
        raise InputError(f"{value!r} was given; expected {expected}")
    return float(found.group(1)) * units[unit]
