"""Figures of a test against the numbers that they show, and those against naive ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from tests.report.made import tips, widths
from trainless.report.doubt import confidence_figure
from trainless.report.result import (
    beside_figure,
    confusion,
    confusion_figure,
    metrics_figure,
    roc,
    roc_figure,
    values_figure,
)

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("digits", [1, 6])
def test_the_area_under_the_roc_is_the_auc(digits: int) -> None:
    positive, score = RANDOM.random(200) < 0.3, RANDOM.random(200).round(digits)
    xs, ys = roc(positive, score)
    assert np.trapezoid(ys, xs) == pytest.approx(roc_auc_score(positive, score))
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1, 1)


def test_confusions_are_counted() -> None:
    y, label = RANDOM.integers(4, size=100), RANDOM.integers(4, size=100)
    assert np.array_equal(confusion(y, label, 4), confusion_matrix(y, label, labels=range(4)))


def test_confusions_of_many_classes_are_the_worst() -> None:
    y = RANDOM.integers(60, size=400)
    label = np.where(y == 7, 9, y)
    drawn = confusion_figure(y, label, [f"class {number}" for number in range(60)])
    count = int((y == 7).sum())
    assert f"{count} of {count} class 7 taken for class 9" in tips(drawn)
    assert drawn.count('class="label"') <= 40  # names at the sides; two titles and at most so many numbers
    assert 1 < drawn.count('class="title"') <= 20 * 20 + 2


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


def test_what_is_simpler_stands_beside_the_ensemble_on_one_scale() -> None:
    rows = [
        ("this ensemble", {"value": 0.9, "low": 0.8, "high": 1.0}),
        ("trees", {"value": 0.7, "low": 0.6, "high": 0.8}),
        ("a network", {"value": 0.8, "low": None, "high": None}),
    ]
    drawn = beside_figure("auc", rows, 0.5)
    found = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', drawn)]
    assert found[0] - found[2] == pytest.approx(found[2] - found[1], abs=0.02)  # 0.9, 0.7 and 0.8 are as far apart
    chance = float(re.findall(r'<line x1="([\d.]+)"[^>]*data-tip="chance"', drawn)[0])
    assert (found[0] - chance) / (found[0] - found[1]) == pytest.approx(2, abs=0.01)
    assert drawn.count("hollow") == 2  # told from the ensemble by shape, not by colour alone
    wide = widths(drawn)
    assert wide[0] == pytest.approx(found[0] - found[1], abs=0.02)  # from 0.8 to 1
    assert "this ensemble: 0.900 [0.800, 1.000]" in drawn
    errors = beside_figure("mae", [("this ensemble", {"value": 2.0, "low": 1.0, "high": 3.0})], None)
    assert "chance" not in errors


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
