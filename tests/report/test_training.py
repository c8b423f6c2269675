"""Samples, losses and costs as they are shown."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.report.made import tips, widths
from trainless.learn.checkpoint import Epoch
from trainless.report.training import balance_figure, costs_figure, loss_figure, shown_of, tiles, trace
from trainless.tasks import task

RANDOM = np.random.default_rng(3)


def test_a_trace_keeps_its_peaks() -> None:
    signal = RANDOM.normal(size=(1, 10_007))
    kept = trace(signal)
    assert kept.shape == (1, 800)
    assert (kept.min(), kept.max()) == (signal.min(), signal.max())


def test_large_images_are_thinned() -> None:
    image = np.kron(np.arange(4.0).reshape(1, 2, 2), np.ones((1, 400, 400)))
    kept = tiles(image)
    assert max(kept.shape[1:3]) <= 160
    assert [int(kept[0, y, x, 0]) for y in (0, -1) for x in (0, -1)] == [0, 85, 170, 255]


def test_what_is_shown_of_data() -> None:
    y = np.arange(60) % 3
    data = task((RANDOM.normal(size=(60, 1, 6, 6)).astype(np.float32), y))
    shown = shown_of(data, np.array([2, 0]))
    assert shown["counts"].sum() == 60
    assert sorted(shown["examples_y"].tolist()) == [0, 1, 2]
    assert shown["cases_x"].shape == (2, 1, 6, 6, 1)
    assert np.array_equal(shown["cases_x"][0], tiles(np.asarray(data.part("test").x)[2].astype(float)))


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
