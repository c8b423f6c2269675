"""Regions and archs."""

from __future__ import annotations

import pytest

from trainless.core.arch import Decision, arch_of, is_region, region_of, whole


def test_an_arch_is_a_region_of_singletons() -> None:
    assert arch_of(region_of((2, 0))) == (2, 0)
    assert whole([Decision("a", ("x", "y"))]) == (frozenset({0, 1}),)
    assert is_region(region_of((0, 1)))
    assert not is_region((0, 1))
    with pytest.raises(ValueError, match="is not one arch"):
        arch_of((frozenset({0, 1}),))
