"""The estimators against scikit-learn's own checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_classifiers_train,
    estimator_checks_generator,
    parametrize_with_checks,
)

from trainless import rankings as ranking
from trainless.designs.settings import DesignSettings
from trainless.estimators import TrainlessClassifier, TrainlessRegressor, load


def small(**changes: Any) -> DesignSettings:
    numbers: dict[str, Any] = {"searches": 1, "evaluations": 2, "members": 1, "epochs": 2, "methods": ("genetic",)}
    thin: dict[str, Any] = {"space_args": {"channels": 3, "cells": 1}, "searcher_args": {}, "ranking": "fewest"}
    thin |= {"space": "nb201", "plain": False, "classical": False, "folds": 1}
    return DesignSettings(**{**numbers, **thin, **changes})


ROWS: dict[str, Any] = {"space": "mlp", "space_args": {}}
if "fewest" not in ranking.registry:
    ranking.registry.add("fewest", ranking.RankSum(("params",)))


CHECKED = [TrainlessClassifier(settings=small(**ROWS)), TrainlessRegressor(settings=small(**ROWS))]
ACCURATE = TrainlessClassifier(settings=small(**ROWS, classical=True))  # for the check that wants an accuracy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(clone(ACCURATE) if check.func is check_classifiers_train else estimator)


def test_no_check_is_left_out_that_another_classifier_or_regressor_has() -> None:
    """Those that scikit-learn's own perceptrons have, but for what only sparse input and several labels have."""
    for mine, theirs in zip(CHECKED, (MLPClassifier(), MLPRegressor()), strict=True):
        checked = [{name_of(check) for _, check in estimator_checks_generator(each)} for each in (mine, theirs)]
        missing = checked[1] - checked[0]
        assert all("sparse" in name or "multilabel" in name for name in missing), missing
        assert len(checked[0]) >= 45


def name_of(check: Any) -> str:
    return str(check.func.__name__)


def test_an_answer_does_not_depend_on_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    regressor = TrainlessRegressor(settings=small(**ROWS)).fit(x, x.sum(1))
    together, order = regressor.predict(x), np.random.default_rng(1).permutation(40)
    assert np.allclose(np.concatenate([regressor.predict(x[[row]]) for row in range(40)]), together, 1e-5, 1e-5)
    assert np.allclose(regressor.predict(x[order]), together[order], 1e-5, 1e-5)


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
    regressor = TrainlessRegressor(settings=small(**ROWS, epochs=4)).fit(x, y)
    ends = regressor.predict_set(x)
    assert ends.shape == (100, 2)
    assert (ends[:, 0] <= regressor.predict(x)).all()
    assert (regressor.predict(x) <= ends[:, 1]).all()
    two = clone(regressor).fit(x, np.stack([y, -y], 1))
    assert two.predict(x).shape == (100, 2)
    assert two.predict_set(x).shape == (100, 2, 2)


def test_mistakes_are_value_errors() -> None:
    with pytest.raises(ValueError, match="one class was given"):
        TrainlessClassifier(settings=small(**ROWS)).fit(np.ones((20, 8)) * np.arange(20)[:, None], np.zeros(20))
    with pytest.raises(ValueError, match="all inputs of the train part are the same"):
        TrainlessClassifier(settings=small(**ROWS)).fit(np.ones((20, 8)), np.arange(20) % 2)


def test_in_a_cross_validation(images: tuple[Any, Any]) -> None:
    scores = cross_val_score(TrainlessClassifier(settings=small(epochs=6)), *images, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()


@pytest.fixture(scope="module")
def noise() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    return random.normal(size=(90, 1, 6, 6)).astype(np.float32), np.arange(90) % 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TrainlessClassifier, TrainlessRegressor])
def test_a_weight_is_the_same_as_so_many_copies_to_the_last_bit(kind: Any, noise: tuple[Any, Any]) -> None:
    x, y = noise
    weight = np.random.default_rng(0).integers(0, 4, len(x))
    weighted = kind(settings=small()).fit(x, y, sample_weight=weight)
    order = np.random.default_rng(1).permutation(weight.sum())
    copied = kind(settings=small()).fit(np.repeat(x, weight, axis=0)[order], np.repeat(y, weight)[order])
    assert np.array_equal(weighted.predict(x), copied.predict(x))
    assert np.array_equal(weighted.predict_set(x), copied.predict_set(x))
    plain = kind(settings=small()).fit(x, y)
    assert not np.array_equal(weighted.predict(x), plain.predict(x))


@pytest.mark.slow
def test_weights_are_what_is_learnt(noise: tuple[Any, Any]) -> None:
    """Where nothing can be told apart, the network's answer is the share of each class's weight."""
    x, y = noise
    for factor in (1.0, 3.0, 3.7):
        weighted = TrainlessClassifier(settings=small()).fit(x, y, sample_weight=np.where(y == 1, factor, 1.0))
        uncalibrated = replace(weighted.predictor_, temperature=1.0).predict(x).mean
        assert uncalibrated[:, 1].mean() == pytest.approx(factor / (1 + factor), abs=0.08)


def test_weights_that_cannot_be_are_refused(noise: tuple[Any, Any]) -> None:
    x, y = noise
    with pytest.raises(ValueError, match="expected weights of 0 or more"):
        TrainlessClassifier().fit(x, y, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match="must contain at least one non-zero"):
        TrainlessRegressor().fit(x, y, sample_weight=np.zeros(90))
    with pytest.raises(ValueError, match="class 1 has too little weight"):
        TrainlessClassifier().fit(x, y, sample_weight=np.where(y == 1, 1e-9, 1.0))


@pytest.mark.slow
def test_signals_with_and_without_channels_in_a_pipeline_of_data_frames() -> None:
    random = np.random.default_rng(0)
    y = np.array(["quiet", "loud"])[np.arange(60) % 2]
    phase, time = random.uniform(0, 6, 60), np.arange(24) / 3
    x = np.sin(phase[:, None] + time) * np.where(y == "loud", 3.0, 1.0)[:, None] + 0.1 * random.normal(size=(60, 24))
    flat = TrainlessClassifier(settings=small(epochs=6)).fit(x, y)
    assert flat.predictor_.task.input_shape == (1, 24)
    both = TrainlessClassifier(settings=small(epochs=6)).fit(np.stack([x, -x], 1), y)
    assert both.predict_proba(np.stack([x, -x], 1)).shape == (60, 2)
    pipeline = make_pipeline(FunctionTransformer(), TrainlessClassifier(settings=small(epochs=6)))
    pipeline.set_output(transform="pandas").fit(pd.DataFrame(x, columns=[f"t{n}" for n in range(24)]), y)
    assert pipeline[-1].feature_names_in_.tolist() == [f"t{n}" for n in range(24)]
    assert set(pipeline.predict(pd.DataFrame(x, columns=[f"t{n}" for n in range(24)]))) <= {"quiet", "loud"}


@pytest.mark.slow
def test_tables_have_columns_of_their_own() -> None:
    """Wine: thirteen measurements on scales from a tenth to a thousand."""
    x, y = load_wine(return_X_y=True)
    settings = DesignSettings(members=2, epochs=15, evaluations=2)
    model = TrainlessClassifier(settings=settings).fit(x[::2], y[::2])
    assert model.predictor_.task.input_shape == (13,)
    assert model.score(x[1::2], y[1::2]) > 0.9
    grid = TrainlessClassifier(settings=small()).fit(x[::2], y[::2])
    assert grid.predictor_.task.input_shape == (1, 13)  # a space of cells sees signals
