"""Figures of searches against the numbers that they show."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tests.report.made import searched, tips, widths
from trainless.report.contents import SearchRecord
from trainless.report.search import (
    best_so_far_figure,
    networks_left,
    operations,
    operations_figure,
    pruning_figure,
    standings,
)


def test_standings_are_of_the_whole() -> None:
    one, two = searched(snip=[1.0, 5.0, 2.0]), searched("rl-01", snip=[4.0, np.nan])
    first, second = standings([one, two])
    assert first.tolist() == [1, 5, 2, 5]
    assert np.isnan(second[1])


def test_a_winner_stands_where_its_candidate_stood() -> None:
    """Each architecture is ranked once: a leaderboard's rows do not count a second time in a composite."""
    one = searched(snip=[1.0, 5.0, 2.0], naswot=[1.0, 2.0, 5.0])
    (values,) = standings([one])
    assert values.tolist() == [-4, -1, -1, -1]  # how many are better, by the one and by the other


def test_options_are_called_with_their_decisions() -> None:
    """A ``2`` could be of any decision, unless all have the same options."""
    archs = [(0, 1), (1, 1)]
    assert operations(archs, None, {"depth": ("1", "2"), "stages": ("1", "2", "3")}) == {
        "depth=1": 1,
        "depth=2": 1,
        "stages=2": 2,
    }
    assert operations(archs, None, {"first": ("conv", "skip"), "second": ("conv", "skip")}) == {"conv": 1, "skip": 3}


def test_pruning_ends_with_one() -> None:
    regions = (
        (frozenset({0, 1}), frozenset({0, 1, 2})),
        (frozenset({0}), frozenset({0, 1, 2})),
        (frozenset({0}), frozenset({1, 2})),
    )
    one = SearchRecord("prune-00", "prune", "", {}, regions, (1, 1, 2), {}, (), (), 3, 0.0, 0)
    assert networks_left(one).tolist() == [6, 6, 2]
    assert np.isnan(networks_left(searched(snip=[1.0, 2.0]))).all()


def test_operations_share_the_width() -> None:
    groups = {"all": Counter({"conv": 3, "skip": 1}), "won": Counter({"conv": 1, "skip": 1})}
    drawn = operations_figure(groups, ["conv", "skip"])
    conv, skip, won, also = widths(drawn)
    assert conv == pytest.approx(3 * skip, abs=0.05)
    assert won == pytest.approx(also, abs=0.02)
    assert conv + skip == pytest.approx(won + also, abs=0.05)
    assert "all: conv 75 % (3 of 4)" in tips(drawn)


def test_many_operations_end_with_the_others() -> None:
    counts = Counter({f"op{number}": 10 - number for number in range(10)})
    drawn = operations_figure({"all": counts}, list(counts))
    assert f"all: others {100 * (3 + 2 + 1) / 55:.1f} % (6 of 55)" in tips(drawn)


def test_best_so_far_only_rises() -> None:
    one = searched(snip=[1.0, 3.0, 2.0, 5.0])
    drawn = best_so_far_figure([one], standings([one]), "snip")
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", re.findall(r'd="([^"]+)"', drawn)[0])]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 3
    assert "rl-00: its winner, snip 5.000, after 4 candidates" in tips(drawn)


def test_pruning_goes_down_to_one() -> None:
    regions = tuple((frozenset(range(left)), frozenset({0, 1})) for left in (5, 4, 2))
    one = SearchRecord("prune-00", "prune", "", {}, regions, (1, 2, 3), {}, (), (), 3, 0.0, 0)
    drawn = pruning_figure([one])
    assert drawn is not None
    assert "prune-00: from 10 networks to one" in tips(drawn)
    assert pruning_figure([searched(snip=[1.0, 2.0])]) is None
