"""The numbers behind the figures, against scikit-learn and naive loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from trainless.report.contents import SearchRecord
from trainless.report.doubt import error_curve, in_doubt, referral, reliability
from trainless.report.landscape import landscape, places, positions, smoothed
from trainless.report.result import confusion, roc
from trainless.report.search import networks_left, standings
from trainless.report.training import shown_of, tiles, trace
from trainless.tasks import task

RANDOM = np.random.default_rng(0)
ARCHS = tuple(itertools.product(range(3), range(2), range(4)))


def searched(name: str = "rl-00", ranking: str = "", **values: list[float]) -> SearchRecord:
    columns = {key: np.array(column) for key, column in values.items()}
    count = len(next(iter(columns.values())))
    best = int(np.argmax(next(iter(columns.values()))))
    scores = {key: float(column[best]) for key, column in columns.items()}
    directions = dict.fromkeys(columns, True)
    steps = tuple(range(1, count + 1))
    return SearchRecord(
        name, "rl", ranking, directions, ARCHS[:count], steps, columns, (ARCHS[best],), (scores,), count, 1.0, 0
    )


@pytest.mark.parametrize("digits", [1, 6])
def test_the_area_under_the_roc_is_the_auc(digits: int) -> None:
    positive, score = RANDOM.random(200) < 0.3, RANDOM.random(200).round(digits)
    xs, ys = roc(positive, score)
    assert np.trapezoid(ys, xs) == pytest.approx(roc_auc_score(positive, score))
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1, 1)


def test_confusions_are_counted() -> None:
    y, label = RANDOM.integers(4, size=100), RANDOM.integers(4, size=100)
    assert np.array_equal(confusion(y, label, 4), confusion_matrix(y, label, labels=range(4)))


def test_reliability_of_each_bin() -> None:
    p = RANDOM.dirichlet(np.ones(3), 300)
    y = RANDOM.integers(3, size=300)
    said, right, count = reliability(p, y, bins=5)
    for place in range(5):
        inside = [k for k in range(300) if min(int(p[k].max() * 5), 4) == place]
        assert count[place] == len(inside)
        if inside:
            assert said[place] == pytest.approx(np.mean([p[k].max() for k in inside]))
            assert right[place] == pytest.approx(np.mean([p[k].argmax() == y[k] for k in inside]))


def test_referral_is_a_threshold() -> None:
    doubt, correct = RANDOM.random(60).round(1), RANDOM.random(60) < 0.7
    shares, right = referral(doubt, correct)
    for threshold, share, accuracy in zip(np.unique(doubt), shares, right, strict=True):
        answered = doubt <= threshold
        assert share == pytest.approx(1 - answered.mean())
        assert accuracy == pytest.approx(correct[answered].mean())


def test_the_error_of_the_surest() -> None:
    error, spread = RANDOM.random(40), RANDOM.random(40)
    half = error[np.argsort(spread)[:20]].mean()
    assert error_curve(error, spread, np.array([0.5, 1.0])).tolist() == pytest.approx([half, error.mean()])


def test_the_widest_interval_is_in_doubt() -> None:
    low = np.zeros((4, 1))
    said = {"variance": np.ones(4), "low": low, "high": np.array([[1.0], [3.0], [2.0], [0.5]]), "mean": low}
    assert in_doubt(said, 2).tolist() == [1, 2]


def test_standings_are_of_the_whole() -> None:
    one, two = searched(snip=[1.0, 5.0, 2.0]), searched("rl-01", snip=[4.0, np.nan])
    first, second = standings([one, two])
    assert first.tolist() == [1, 5, 2, 5]
    assert np.isnan(second[1])


def test_pruning_ends_with_one() -> None:
    regions = (
        (frozenset({0, 1}), frozenset({0, 1, 2})),
        (frozenset({0}), frozenset({0, 1, 2})),
        (frozenset({0}), frozenset({1, 2})),
    )
    one = SearchRecord("prune-00", "prune", "", {}, regions, (1, 1, 2), {}, (), (), 3, 0.0, 0)
    assert networks_left(one).tolist() == [6, 6, 2]
    assert np.isnan(networks_left(searched(snip=[1.0, 2.0]))).all()


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
