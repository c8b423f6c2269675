"""Conformal sets on real data: over random calibration splits they cover as often as the beta-binomial law says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import betabinom

from trainless.core.task import Part, PartName, Task
from trainless.learn.calibration import fit_sets, quantile
from trainless.learn.loop import train
from trainless.learn.predictor import predict_part
from trainless.learn.recipe import recipe
from trainless.spaces.nb201 import NasBench201
from trainless.tasks import task

SPLITS, COVERAGE = 20, 0.9
ARCH = (3, 1, 0, 1, 0, 2)


def some(made: Task, part: PartName, most: int) -> Part:
    """Random samples of a part."""
    held = made.part(part)
    return held.take(held.rows_of(np.sort(np.random.default_rng(0).permutation(held.cases)[:most])))


def answers(name: str) -> tuple[np.ndarray, np.ndarray]:
    """What a thin network that saw a few samples says of validation and test samples, and the truth."""
    made = task(name)
    parts: tuple[PartName, ...] = ("valid", "test")
    few, most = (32, 80) if made.dims == 3 else (160, 200)
    seen = replace(made, train=some(made, "train", few), valid=some(made, "valid", most), test=some(made, "test", most))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = NasBench201(2, 1).build(ARCH, seen)
    kept = train(net, seen, recipe("default", epochs=2, warmup=0, batch=32, keep="last", patience=0)).net
    p = np.concatenate([predict_part(kept, seen, part) for part in parts])
    return p, np.concatenate([np.asarray(seen.part(part).truth) for part in parts])


def check(p: np.ndarray, y: np.ndarray) -> None:
    """Of m samples the k-th smallest of n other scores covers Betabinom(m, k, n + 1 − k), whatever the scores are.

    That is exact for every random split where no two scores are equal, with the sampling of both halves in it, and
    splits are independent; so the mean over them is within four of its errors.
    """
    n = len(y) // 2
    rank = math.ceil((n + 1) * COVERAGE)
    law = betabinom(len(y) - n, rank, n + 1 - rank)
    misfit = 1 - p[np.arange(len(y)), y]
    assert len(np.unique(misfit)) > 0.98 * len(y)
    bare, whole = [], []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(y))
        fitting, testing = order[:n], order[n:]
        sets = fit_sets(p[fitting], y[fitting], COVERAGE).sets(p[testing])
        whole.append(int(sets[np.arange(len(testing)), y[testing]].sum()))
        bare.append(int((misfit[testing] <= quantile(misfit[fitting], COVERAGE)).sum()))
        assert law.ppf(1e-5) <= bare[-1] <= law.ppf(1 - 1e-5)
        assert whole[-1] >= bare[-1]
    error = law.std() / math.sqrt(SPLITS)
    assert np.mean(bare) == pytest.approx(law.mean(), abs=4 * error)
    assert np.mean(whole) >= law.mean() - 4 * error


def test_the_law_itself() -> None:
    """By brute force: three calibration scores, two others, all orders of five values, k = 2."""
    from itertools import permutations

    counts = [sum(score <= sorted(order[:3])[1] for score in order[3:]) for order in permutations(range(5))]
    law = betabinom(2, 2, 3 + 1 - 2)
    assert np.bincount(counts, minlength=3) / len(counts) == pytest.approx(law.pmf([0, 1, 2]))


@pytest.mark.parametrize("name", ["digits", "ecg-sim", "nodule-sim"])
@pytest.mark.slow
def test_sets_cover_on_data_that_are_always_there(name: str) -> None:
    check(*answers(name))


@pytest.mark.parametrize("name", ["breastmnist", "pneumoniamnist", "adrenalmnist3d", "cinc2017", "cinc2017-windows"])
@pytest.mark.slow
def test_sets_cover_on_real_data(name: str, data_dir: Path) -> None:
    check(*answers(name))
