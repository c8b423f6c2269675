"""Figures against the numbers that they show."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tests.report.test_measured import searched
from trainless.learn.checkpoint import Epoch
from trainless.report.contents import SearchRecord
from trainless.report.doubt import confidence_figure
from trainless.report.result import confusion_figure, metrics_figure, roc_figure, values_figure
from trainless.report.search import best_so_far_figure, operations_figure, pruning_figure, standings
from trainless.report.training import balance_figure, costs_figure, loss_figure

RANDOM = np.random.default_rng(3)


def tips(drawn: str) -> list[str]:
    return [tip.replace("\u00a0", " ") for tip in re.findall(r'data-tip="([^"]*)"', drawn)]


def widths(drawn: str) -> list[float]:
    return [float(width) for width in re.findall(r'<rect [^>]*?width="([\d.]+)"', drawn)]


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


def test_confusions_of_many_classes_are_the_worst() -> None:
    y = RANDOM.integers(60, size=400)
    label = np.where(y == 7, 9, y)
    drawn = confusion_figure(y, label, [f"class {number}" for number in range(60)])
    count = int((y == 7).sum())
    assert f"{count} of {count} class 7 taken for class 9" in tips(drawn)
    assert drawn.count('class="on"') + drawn.count('class="label"') <= 20 * 20 + 40


def test_an_undecided_roc_is_the_diagonal() -> None:
    p = np.full((10, 2), 0.5)
    drawn = roc_figure(np.arange(10) % 2, p, p[None], None, ["a", "b"])
    diagonal, member, own = re.findall(r'd="([^"]+)"', drawn)[:3]
    assert diagonal == member == own


def test_values_lie_where_they_are() -> None:
    y = np.array([0.0, 1.0, 2.0])
    drawn = values_figure(y, y, y - 1, y + np.array([np.inf, 1, 1]), "")
    dots = [(float(x), float(at)) for x, at in re.findall(r'<circle [^>]*?cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    (x0, y0), (x1, y1), (x2, y2) = dots
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.02)
    assert not re.search(r"\b(nan|inf)\b", drawn)
    assert "true 0.000, predicted 0.000, interval -1.000 to ∞" in tips(drawn)


def test_curves_say_their_values() -> None:
    own = {"shares": [0.5, 1.0], "accuracy": [1.0, 0.75], "area": 0.875}
    assert "different architectures: 75 % right on the surest 100 %" in tips(confidence_figure(own, None))
    test = {
        "ensemble": {
            "accuracy": {"value": 0.9, "low": 0.8, "high": 1.0},
            "auc": {"value": None, "low": None, "high": None},
        },
        "members": {"accuracy": [0.7, None], "auc": [None, None]},
    }
    assert tips(metrics_figure(test)) == ["the ensemble: accuracy 0.900 [0.800, 1.000]", "a member: accuracy 0.700"]


def test_bars_are_in_proportion() -> None:
    long, short_one = widths(costs_figure({"a": (100.0, "c0"), "b": (25.0, "c1")}))
    assert long == pytest.approx(4 * short_one, abs=0.05)
    one, two = widths(balance_figure([[2, 4], [0, 0], [0, 0]], ["a", "b"]))[::3]
    assert two == pytest.approx(2 * one, abs=0.02)


def test_a_member_that_diverged_leaves_a_gap() -> None:
    history = [Epoch(0, 0.1, 1.0, 1.0, 0.5, 1.0), Epoch(1, 0.1, np.nan, np.inf, np.nan, 1.0)]
    drawn = loss_figure({"00": history}, {"00": "c0"})
    assert not re.search(r"\b(nan|inf)\b", drawn)
    assert "member 00: least validation loss 1.000 after epoch 1" in tips(drawn)
