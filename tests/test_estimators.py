"""The estimators against scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from trainless import rankings as ranking
from trainless.designs.settings import DesignSettings
from trainless.estimators import TrainlessClassifier, TrainlessRegressor, load


def small(**changes: Any) -> DesignSettings:
    numbers: dict[str, Any] = {"searches": 1, "evaluations": 2, "members": 1, "epochs": 2, "methods": ("genetic",)}
    thin: dict[str, Any] = {"space_args": {"channels": 3, "cells": 1}, "searcher_args": {}, "ranking": "fewest"}
    thin |= {"space": "nb201", "plain": False, "classical": False, "folds": 1}
    return DesignSettings(**{**numbers, **thin, **changes})


WIDER = small(epochs=16, space_args={"channels": 8, "cells": 1})  # one check wants an accuracy
if "fewest" not in ranking.registry:
    ranking.registry.add("fewest", ranking.RankSum(("params",)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([TrainlessClassifier(settings=WIDER), TrainlessRegressor(settings=small())])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def images() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.array(["benign", "malignant"])[np.arange(120) % 2]
    return random.normal(size=(120, 1, 8, 8)) + 2.0 * (y == "malignant")[:, None, None, None], y


@pytest.fixture(scope="module")
def fitted(images: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> TrainlessClassifier:
    out = str(tmp_path_factory.mktemp("fit") / "run")
    return TrainlessClassifier(out=out, settings=small(epochs=6)).fit(*images)


def test_images_with_names_of_classes(images: tuple[Any, Any], fitted: TrainlessClassifier) -> None:
    x, y = images
    p = fitted.predict_proba(x)
    assert p.shape == (120, 2)
    assert np.allclose(p.sum(1), 1)
    assert set(fitted.predict(x)) <= {"benign", "malignant"}
    assert fitted.score(x, y) > 0.8
    sets = fitted.predict_set(x)
    assert sets[np.arange(120), p.argmax(1)].all()
    unsure = fitted.predict_uncertainty(x)
    assert {"variance", "total", "aleatoric", "epistemic", "like_training"} <= set(unsure)
    assert np.allclose(unsure["total"], unsure["aleatoric"] + unsure["epistemic"])


def test_promises_that_cannot_be_are_refused_at_once(images: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"coverage=1.5 was given; expected a number between 0 and 1"):
        TrainlessClassifier(settings=small(coverage=1.5)).fit(*images)
    with pytest.raises(ValueError, match=r"accuracy=2 was given; expected a number between 0 and 1"):
        TrainlessRegressor(settings=small(accuracy=2)).fit(images[0], np.arange(120.0))


def test_what_was_fitted_can_be_loaded(images: tuple[Any, Any], fitted: TrainlessClassifier) -> None:
    again = load(fitted.out or "")
    assert np.array_equal(again.predict(images[0].astype(np.float32)).mean, fitted.predict_proba(images[0]))


@pytest.mark.slow
def test_intervals_of_values() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=100) * 50
    x = y[:, None] + random.normal(size=(100, 10))
    regressor = TrainlessRegressor(settings=small(epochs=4)).fit(x, y)
    ends = regressor.predict_set(x)
    assert ends.shape == (100, 2)
    assert (ends[:, 0] <= regressor.predict(x)).all()
    assert (regressor.predict(x) <= ends[:, 1]).all()
    two = clone(regressor).fit(x, np.stack([y, -y], 1))
    assert two.predict(x).shape == (100, 2)
    assert two.predict_set(x).shape == (100, 2, 2)


def test_mistakes_are_value_errors() -> None:
    with pytest.raises(ValueError, match="one class was given"):
        TrainlessClassifier(settings=small(epochs=6)).fit(np.ones((20, 8)) * np.arange(20)[:, None], np.zeros(20))
    with pytest.raises(ValueError, match="all inputs of the train part are the same"):
        TrainlessClassifier(settings=small(epochs=6)).fit(np.ones((20, 8)), np.arange(20) % 2)


def test_in_a_cross_validation(images: tuple[Any, Any]) -> None:
    scores = cross_val_score(TrainlessClassifier(settings=small(epochs=6)), *images, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
