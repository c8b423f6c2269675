from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.stats import norm, spearmanr

from trainless.core.errors import InputError
from trainless.core.scores import Record, Scores
from trainless.rankings import LogSum, Ranking, RankProduct, learn
from trainless.rankings.gaussian_process import (
    LEVEL,
    POWERS,
    Belief,
    Kernel,
    Posterior,
    _Evidence,
    believe,
    expected_improvement,
    fit_warp,
    normal_scores,
)
from trainless.runs.signals import signal_for
from trainless.searchers import make
from trainless.searchers.searcher import Told
from trainless.spaces.nb201 import NasBench201
from trainless.testing import check_searcher

KERNEL = Kernel(0.7, 0.05, (0.3, 0.1), (0.4, 0.2), (1.3, 0.8))


def table(columns: dict[str, list[float]]) -> Scores:
    return Scores(
        [
            Record(f"net{row}", proxy, value, True, "ok" if value == value else "failed")
            for proxy, values in columns.items()
            for row, value in enumerate(values)
        ]
    )


def small_problem(seed: int, count: int = 12) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(count, 3)), rng.normal(size=(count, 5))]
    rows = rng.permutation(count)[: count // 2]
    return blocks, rng.normal(size=count), rows, rng.normal(size=len(rows))


def covariance_by_hand(blocks: list[np.ndarray], i: int, j: int) -> float:
    total = LEVEL
    for b, block in enumerate(blocks):
        x, y, width = block[i], block[j], block.shape[1]
        far = math.sqrt(5) * math.sqrt(sum((x - y) ** 2) / width) / KERNEL.scales[b]
        total += KERNEL.linear[b] * sum(x * y) / width
        total += KERNEL.curved[b] * (1 + far + far**2 / 3) * math.exp(-far)
    return total


def test_the_posterior_is_the_conditional_of_a_joint_normal() -> None:
    blocks, trend, rows, values = small_problem(0)
    count = len(trend)
    joint = np.array([[covariance_by_hand(blocks, i, j) for j in range(count)] for i in range(count)])
    inverse = np.linalg.inv(joint[np.ix_(rows, rows)] + KERNEL.noise * np.eye(len(rows)))
    mean = KERNEL.slope * trend + joint[:, rows] @ inverse @ (values - KERNEL.slope * trend[rows])
    covariance = joint - joint[:, rows] @ inverse @ joint[rows]
    found = Posterior(KERNEL, blocks, trend, rows, values)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert found.variance == pytest.approx(np.diag(covariance), rel=1e-9)
    assert found.covariance(4) == pytest.approx(covariance[4], rel=1e-8, abs=1e-10)


def test_the_gradient_of_the_evidence_is_its_difference() -> None:
    blocks, trend, rows, values = small_problem(1)
    evidence = _Evidence([block[rows] for block in blocks], trend[rows], values)
    at = np.log([0.7, 0.05, 0.3, 0.1, 0.4, 0.2, 1.3, 0.8])
    assert check_grad(lambda x: evidence(x)[0], lambda x: evidence(x)[1], at) < 1e-4


def test_the_evidence_is_the_density_of_a_joint_normal() -> None:
    from scipy.stats import multivariate_normal

    blocks, trend, rows, values = small_problem(2)
    joint = np.array([[covariance_by_hand(blocks, i, j) for j in rows] for i in rows]) + KERNEL.noise * np.eye(
        len(rows)
    )
    density = multivariate_normal(KERNEL.slope * trend[rows], joint).logpdf(values)
    surprise, _ = _Evidence([block[rows] for block in blocks], trend[rows], values)(
        np.log([KERNEL.slope, KERNEL.noise, *KERNEL.linear, *KERNEL.curved, *KERNEL.scales])
    )
    assert -surprise - 0.5 * len(rows) * math.log(2 * math.pi) == pytest.approx(density, rel=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_a_warp_is_scipys_and_goes_back(power: float) -> None:
    from scipy.stats import yeojohnson

    from trainless.rankings.gaussian_process import _power, _root

    values = np.linspace(-3, 2, 11)
    assert _power(values, power) == pytest.approx(yeojohnson(values, power))
    assert _root(_power(values, power), power) == pytest.approx(values)


def test_moments_are_those_of_draws() -> None:
    warp = fit_warp([10.0, 80.0, 88.0, 90.0, 91.0, 92.0, 93.0])
    drawn = warp.back(0.3 + 0.4 * np.random.default_rng(0).normal(size=200_000))
    mean, deviation = warp.moments(np.array([0.3]), np.array([0.4]))
    assert mean[0] == pytest.approx(drawn.mean(), rel=1e-3)
    assert deviation[0] == pytest.approx(drawn.std(), rel=2e-2)


def test_expected_improvement_is_the_mean_of_draws() -> None:
    draws = np.random.default_rng(0).normal(0.5, 0.8, 400_000)
    expected = np.maximum(draws - 1.0, 0).mean()
    assert expected_improvement(np.array([0.5]), np.array([0.8]), 1.0)[0] == pytest.approx(expected, rel=1e-2)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say_on_draws_from_the_model() -> None:
    rng, inside = np.random.default_rng(3), []
    for _ in range(8):
        blocks = [rng.normal(size=(200, 4))]
        trend = normal_scores(rng.normal(size=200))
        kernel = Kernel(0.9, 0.1, (0.1,), (0.2,), (1.0,))
        f = rng.multivariate_normal(kernel.slope * trend, kernel.between(blocks, blocks), method="cholesky")
        y = 90 + 3 * (f + math.sqrt(kernel.noise) * rng.normal(size=200))
        low, high = believe(trend, blocks, dict(enumerate(y[:64].tolist()))).interval(0.9)
        inside.append(((low <= y) & (y <= high))[64:].mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def noisy(seed: int, count: int = 400) -> tuple[Scores, np.ndarray]:
    """A proxy that is right on the whole and one that knows the rest."""
    rng = np.random.default_rng(seed)
    good, other = rng.normal(size=count), rng.normal(size=count)
    accuracy = 95 - np.exp(0.5 - 0.8 * good - 0.6 * other + 0.1 * rng.normal(size=count))
    return table({"synflow": good.tolist(), "jacov": other.tolist()}), accuracy


def test_nothing_trained_is_exactly_the_prior() -> None:
    scores, _ = noisy(0)
    for prior in (RankProduct(("synflow", "jacov")), LogSum({"synflow": 1.0})):
        learned = learn(prior, scores, {})
        assert learned.values.tolist() == prior(scores).tolist() == learned(scores).tolist()
        assert np.isnan(learned.mean).all()
        assert np.isnan(learned.deviation).all()
        order = np.argsort(-prior(scores), kind="stable")
        assert learned.next(3) == [scores.candidates[row] for row in order[:3]]


@pytest.mark.parametrize("same", [1, 4])
def test_equal_accuracies_teach_no_order(same: int) -> None:
    scores, _ = noisy(0)
    prior = RankProduct(("synflow",))
    trained = dict.fromkeys(scores.candidates[:same], 90.0)
    learned = learn(prior, scores, trained)
    assert learned.values.tolist() == prior(scores).tolist()
    assert not set(learned.next(50)) & set(trained)


def test_more_trained_networks_rank_better_and_few_do_no_harm() -> None:
    prior, gains = RankProduct(("synflow",)), {}
    for seed in range(4):
        scores, accuracy = noisy(seed, 250)
        fixed = spearmanr(prior(scores)[64:], accuracy[64:]).statistic
        for size in (4, 16, 64):
            trained = dict(zip(scores.candidates[:size], accuracy.tolist(), strict=False))
            values = learn(prior, scores, trained).values
            gains.setdefault(size, []).append(spearmanr(values[64:], accuracy[64:]).statistic - fixed)
    means = [float(np.mean(each)) for each in gains.values()]
    assert means[0] > -0.02
    assert means[1] > means[0]
    assert means[2] > 0.15  # the prior alone has a correlation of about 0.8


def test_other_scores_are_ranked_by_what_was_learned() -> None:
    scores, accuracy = noisy(5)
    trained = dict(zip(scores.candidates[:100], accuracy.tolist(), strict=False))
    learned = learn(RankProduct(("synflow",)), scores, trained)
    assert isinstance(learned, Ranking)
    assert learned(scores) == pytest.approx(learned.values)
    other, truth = noisy(6)
    assert spearmanr(learned(other), truth).statistic > spearmanr(learned.prior(other), truth).statistic + 0.1
    signal = signal_for(learned, dict.fromkeys(learned.proxies, True))
    assert math.isfinite(next(iter(signal.tell("a", {"synflow": 1.0, "jacov": 0.0}).values())))
    assert repr(learned) == repr(learn(RankProduct(("synflow",)), scores, trained))


def test_a_failure_is_a_feature() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=200)
    failed = rng.random(200) < 0.3
    accuracy = np.where(failed, 94.0, 80.0 + values)
    scores = table({"synflow": rng.normal(size=200).tolist(), "jacov": np.where(failed, np.nan, values).tolist()})
    trained = dict(zip(scores.candidates[:60], accuracy.tolist(), strict=False))
    learned = learn(RankProduct(("synflow",)), scores, trained)
    assert learned.values[60:][failed[60:]].min() > learned.values[60:][~failed[60:]].max()


NUMBER = st.sampled_from([0.0, 1.0, 2.0, math.inf, -math.inf, math.nan])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=12), st.lists(NUMBER, max_size=6), st.integers(1, 14))
def test_whatever_is_given_every_candidate_has_a_value(rows, told, count) -> None:
    scores = table({"synflow": [row[0] for row in rows], "jacov": [row[1] for row in rows]})
    trained = dict(zip(scores.candidates, told, strict=False))
    learned = learn(RankProduct(("synflow", "jacov")), scores, trained)
    assert np.isfinite(learned.values).all()
    chosen = learned.next(count)
    assert len(chosen) == len(set(chosen)) == min(count, len(rows) - len(trained))
    assert not set(chosen) & set(trained)
    low, high = learned.interval()
    assert learned.belief.posterior is None or (low <= high).all()


def test_a_failed_training_counts_as_the_worst() -> None:
    scores, accuracy = noisy(8, 40)
    worst = float(accuracy[:9].min())
    known = dict(zip(scores.candidates[:9], accuracy.tolist(), strict=False))
    prior = RankProduct(("synflow",))
    failed = learn(prior, scores, {**known, "net9": math.nan})
    assert failed.values.tolist() == learn(prior, scores, {**known, "net9": worst}).values.tolist()


def test_a_batch_is_diverse() -> None:
    x = np.repeat(np.linspace(-1, 1, 8), 5)[:, None]  # five copies of each
    kernel = Kernel(0.0001, 0.01, (0.0001,), (1.0,), (0.3,))
    belief = believe(np.zeros(40), [x], {0: 1.0, 39: 2.0, 17: 1.5}, kernel=kernel)
    chosen = belief.next(2)
    assert x[chosen[0], 0] != x[chosen[1], 0]  # the copies of the first promised as much as it did
    assert belief.next(1, pending=chosen[:1]) == chosen[1:2]


def test_next_finds_better_networks_than_chance() -> None:
    scores, accuracy = noisy(9)
    place = {name: row for row, name in enumerate(scores.candidates)}
    rows = list(range(8))
    for _ in range(4):
        trained = {scores.candidates[row]: float(accuracy[row]) for row in rows}
        rows += [place[name] for name in learn(RankProduct(("synflow",)), scores, trained).next(4)]
    assert accuracy[rows].max() >= np.sort(accuracy)[-4]


def test_mistakes_are_named() -> None:
    scores, _ = noisy(0, 5)
    prior = RankProduct(("synflow",))
    with pytest.raises(InputError, match="an accuracy of 'x' was given, which is none of the 5 candidates: score it"):
        learn(prior, scores, {"x": 1.0})
    with pytest.raises(InputError, match=r"structure of shape \(2, 2\) was given; expected finite numbers, 5 cand"):
        learn(prior, scores, {}, structure=np.zeros((2, 2)))
    learned = learn(prior, scores, {"net0": 1.0, "net1": 2.0}, structure=np.eye(5))
    with pytest.raises(InputError, match="learned from the structure of 5 candidates, and 'net5' is none of them"):
        learned(noisy(0, 6)[0])
    with pytest.raises(InputError, match="count=0 was given; expected at least 1"):
        learned.next(0)
    with pytest.raises(InputError, match=r"level=1\.5 was given; expected a probability"):
        learned.interval(1.5)
    with pytest.raises(InputError, match="pool=1 was given; expected at least 2"):
        make("learned", NasBench201(), proxy=sum, pool=1)
    assert Belief(np.zeros(2), np.array([0])).next(5) == [1]


@pytest.mark.slow
def test_the_searcher_keeps_the_contract() -> None:
    space = NasBench201()
    check_searcher(lambda seed: make("learned", space, seed=seed, proxy=sum, pool=20), space, steps=4)


def test_the_searcher_ends_when_the_space_does() -> None:
    searcher, told = make("learned", NasBench201(), proxy=sum, pool=10, feasible=lambda arch: sum(arch) < 2), set()
    while proposals := searcher.ask():
        told |= {each.arch for each in proposals}
        searcher.tell(Told.of(proposals, [-float(sum(each.arch)) for each in proposals]))
    assert len(told) == 7  # all zeros, which is the best, and its neighbours with a 1 in one of six places


def test_the_searcher_learns_what_its_proxy_does_not_know() -> None:
    space, weights = NasBench201(), (5, 1, 4, 2, 3, 3)

    def accuracy(arch: tuple[int, ...]) -> float:
        return float(sum(weight * (option == 3) for weight, option in zip(weights, arch, strict=True)))

    searcher = make("learned", space, proxy=lambda arch: float(arch.count(3)), pool=200, seed=1)
    for _ in range(15):
        proposals = searcher.ask(2)
        searcher.tell(Told.of(proposals, [accuracy(each.arch) for each in proposals]))
    assert accuracy(searcher.best()) == 18.0


def test_normal_scores_are_quantiles() -> None:
    assert normal_scores([3.0, 1.0, 1.0, math.nan]) == pytest.approx(norm.ppf([3.5 / 4, 2 / 4, 2 / 4, 0.5 / 4]))
