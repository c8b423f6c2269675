"""The plane of all architectures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.made import ARCHS, searched
from trainless.report.landscape import landscape, places, positions, smoothed

RANDOM = np.random.default_rng(3)


def test_the_plane_is_that_of_principal_components() -> None:
    one = searched(snip=list(range(24)))
    plane = landscape([one], (3, 2, 4))
    assert plane is not None
    vectors = positions(ARCHS, (3, 2, 4))
    centred = vectors - vectors.mean(0)
    power = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    assert plane.explained == pytest.approx(power[:2] / power.sum())
    assert np.square(plane.points).sum(0) == pytest.approx(power[:2])
    assert plane.values["snip"].tolist() == list(range(24))
    assert plane.winners[0] == pytest.approx(plane.points[23])
    assert plane.ways[0][-1] == pytest.approx(plane.winners[0])


def test_few_archs_have_no_plane() -> None:
    assert landscape([searched(snip=[1.0, 2.0])], (3, 2, 4)) is None


def test_places_are_shares_that_are_beaten() -> None:
    values = np.array([3.0, np.nan, 1.0, 2.0, 2.0])
    found = places(values, higher=True)
    assert found[[0, 2, 3, 4]].tolist() == pytest.approx([1, 0, 0.5, 0.5])
    assert np.isnan(found[1])


def test_smoothing_is_a_weighted_mean() -> None:
    points, values, grid = RANDOM.random((6, 2)), RANDOM.random(6), RANDOM.random((3, 2))
    found, _ = smoothed(points, values, grid, 0.3)
    for at, value in zip(grid, found, strict=True):
        weights = [np.exp(-((at - point) ** 2).sum() / 0.18) for point in points]
        assert value == pytest.approx(np.average(values, weights=weights))
