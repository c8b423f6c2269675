from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import ndcg_score

from trainless.bench.correlation import (
    at_top,
    best_of,
    kendall,
    ndcg,
    regret,
    spearman,
    top_hits,
    top_overlap,
)
from trainless.bench.statistics import MEANINGS, evaluate, evaluate_all
from trainless.bench.weighted_order import order_of, running, sample_of
from trainless.core.errors import InputError

TOY = np.arange(10.0, 101.0, 10.0)
DAMAGED_TOP = TOY[[0, 1, 2, 3, 4, 5, 8, 9, 6, 7]]
PERFECT_TOP = TOY[[3, 2, 1, 0, 4, 5, 6, 7, 8, 9]]


def draw_best_of(
    scores: np.ndarray, accuracy: np.ndarray, count: int, *, draws: int = 500, seed: int = 0
) -> tuple[float, float]:
    """The papers' protocol: draw ``count`` networks, take the best by score, failures last, again and again."""
    rng = np.random.default_rng(seed)
    picks = np.empty(draws)
    for draw in range(draws):
        drawn = rng.choice(len(scores), count, replace=False)
        known = np.where(np.isfinite(scores[drawn]), scores[drawn], -np.inf)
        picks[draw] = accuracy[rng.choice(drawn[known == known.max()])]
    return float(picks.mean()), float(picks.std())


def scikit_learns_ndcg(scores: np.ndarray, accuracy: np.ndarray, top: int, ignore_ties: bool = False) -> float:
    with np.errstate(invalid="ignore"):  # it casts the gains to integers to see what kind they are
        return float(ndcg_score((2**accuracy - 1)[None], scores[None], k=top, ignore_ties=ignore_ties))


@st.composite
def columns(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and accuracies with ties, and how often each network is drawn."""
    size = draw(st.integers(4, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([2, 5, 1000]))
    scores = rng.integers(levels, size=size).astype(float)
    accuracy = np.round(50 + 5 * scores / levels + rng.normal(0, 3, size), draw(st.sampled_from([0, 6])))
    counts = np.bincount(rng.integers(size, size=size), minlength=size)
    return scores, accuracy, counts


@settings(max_examples=40, deadline=None)
@given(columns())
def test_correlations_of_a_draw_are_scipys_on_the_repeated_networks(case) -> None:
    scores, accuracy, counts = case
    weights = np.stack([np.ones(len(scores)), counts], axis=1).astype(float)
    sample = sample_of(scores, accuracy, weights)
    for draw, times in enumerate((np.ones(len(scores), int), counts)):
        one, other = np.repeat(scores, times), np.repeat(accuracy, times)
        if len(set(one)) < 2 or len(set(other)) < 2:
            assert math.isnan(spearman(sample)[draw])
            assert math.isnan(kendall(sample)[draw])
            continue
        assert spearman(sample)[draw] == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)
        assert kendall(sample)[draw] == pytest.approx(stats.kendalltau(one, other).statistic, abs=1e-12)


def test_draws_in_single_precision_are_those_of_scipy() -> None:
    rng = np.random.default_rng(9)
    accuracy = rng.normal(90, 3, 2500).round(1)
    scores = (accuracy + rng.normal(0, 3, 2500)).round(2)
    scores[:300] = -1e9
    counts = np.stack([np.bincount(rng.integers(2500, size=2500), minlength=2500) for _ in range(3)], axis=1)
    sample = sample_of(scores, accuracy, counts.astype(np.float32))
    for draw, times in enumerate(counts.T):
        one, other = np.repeat(scores, times), np.repeat(accuracy, times)
        top = other >= np.sort(other)[::-1][len(other) // 10 - 1]
        assert spearman(sample)[draw] == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-6)
        assert kendall(sample)[draw] == pytest.approx(stats.kendalltau(one, other).statistic, abs=1e-6)
        expected = stats.kendalltau(one[top], other[top]).statistic
        assert kendall(at_top(sample, 0.1))[draw] == pytest.approx(expected, abs=1e-6)
        assert regret(sample)[draw] == pytest.approx(other.max() - other[one == one.max()].mean(), abs=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (10, 2), (17, 5), (100, 4)])
def test_running_sums_are_numpys(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).integers(9, size=shape).astype(float)
    np.testing.assert_array_equal(running(values), np.cumsum(values, axis=0))


def test_best_of_draws_with_unequal_numbers_of_networks() -> None:
    accuracy, scores = np.array([50.0, 60.0, 90.0, 80.0]), np.array([1.0, 5.0, 3.0, 5.0])
    counts = np.array([[1, 0, 2, 1], [2, 2, 1, 1], [0, 0, 1, 0]])
    mean, deviation = best_of(sample_of(scores, accuracy, counts.T.astype(float)), 2)
    for draw, times in enumerate(counts):
        drawn = np.repeat(np.arange(4), times)
        picks = []
        for pair in itertools.combinations(drawn, 2):
            best = [at for at in pair if scores[at] == scores[list(pair)].max()]
            picks += [accuracy[at] for at in best] * (2 // len(best))
        assert math.isnan(mean[draw]) if not picks else mean[draw] == pytest.approx(np.mean(picks))
        assert math.isnan(deviation[draw]) if not picks else deviation[draw] == pytest.approx(np.std(picks))


def test_kendall_of_many_networks_with_a_giant_tie() -> None:
    rng = np.random.default_rng(0)
    accuracy = rng.normal(90, 3, 3000).round(2)
    scores = accuracy + rng.normal(0, 3, 3000)
    scores[:1200] = -1e9
    found = kendall(sample_of(scores, accuracy))[0]
    assert found == pytest.approx(stats.kendalltau(scores, accuracy).statistic, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(columns())
def test_top_correlation_takes_those_at_least_as_good_as_the_last_of_the_best_tenth(case) -> None:
    scores, accuracy, _ = case
    top = accuracy >= np.sort(accuracy)[::-1][max(1, len(accuracy) // 10) - 1]
    sample = at_top(sample_of(scores, accuracy), 0.1)
    if len(set(scores[top])) < 2 or len(set(accuracy[top])) < 2:
        assert math.isnan(spearman(sample)[0])
    else:
        assert spearman(sample)[0] == pytest.approx(stats.spearmanr(scores[top], accuracy[top]).statistic)
        assert kendall(sample)[0] == pytest.approx(stats.kendalltau(scores[top], accuracy[top]).statistic)


def test_the_toy_example_of_vkdnw() -> None:
    assert ndcg(sample_of(PERFECT_TOP, TOY), top=5)[0] == 1
    assert ndcg(sample_of(DAMAGED_TOP, TOY), top=5)[0] == pytest.approx(0.5, abs=2e-3)
    assert kendall(sample_of(DAMAGED_TOP, TOY))[0] > kendall(sample_of(PERFECT_TOP, TOY))[0]
    assert spearman(sample_of(DAMAGED_TOP, TOY))[0] > spearman(sample_of(PERFECT_TOP, TOY))[0]


@settings(max_examples=30, deadline=None)
@given(columns(), st.sampled_from([1, 3, 10, 1000]))
def test_ndcg_is_scikit_learns(case, top: int) -> None:
    scores, accuracy, counts = case
    sample = sample_of(scores, accuracy, np.stack([np.ones(len(scores)), counts], axis=1).astype(float))
    for draw, times in enumerate((np.ones(len(scores), int), counts)):
        expected = scikit_learns_ndcg(np.repeat(scores, times), np.repeat(accuracy, times), top)
        assert ndcg(sample, top)[draw] == pytest.approx(expected, rel=1e-9)


def test_ndcg_without_ties_is_the_published_programs() -> None:
    rng = np.random.default_rng(1)
    accuracy, scores = rng.uniform(60, 95, 3000), rng.normal(size=3000)
    expected = scikit_learns_ndcg(scores, accuracy, 1000, ignore_ties=True)
    assert ndcg(sample_of(scores, accuracy), 1000)[0] == pytest.approx(expected, rel=1e-12)


def test_overlaps_against_sets() -> None:
    rng = np.random.default_rng(2)
    accuracy = rng.normal(size=2000)
    scores = accuracy + rng.normal(size=2000)
    by_score, by_truth = np.argsort(-scores), np.argsort(-accuracy)
    sample = sample_of(scores, accuracy)
    assert top_overlap(sample)[0] == pytest.approx(len({*by_score[:200]} & {*by_truth[:200]}) / 200)
    assert top_hits(sample)[0] == len({*by_score[:64]} & {*by_truth[:100]})


def test_tied_scores_give_the_mean_over_all_orders() -> None:
    accuracy, scores = np.array([50.0, 60.0, 70.0, 80.0]), np.array([1.0, 2.0, 2.0, 2.0])
    orders = [[*order, 0] for order in itertools.permutations([1, 2, 3])]
    sample = sample_of(scores, accuracy)
    hits = [sum(accuracy[i] >= 70 for i in order[:2]) / 2 for order in orders]
    assert top_overlap(sample, 0.5)[0] == pytest.approx(np.mean(hits))
    gains = [scikit_learns_ndcg(-np.argsort(order).astype(float), accuracy, 2) for order in orders]
    assert ndcg(sample, 2)[0] == pytest.approx(np.mean(gains))
    assert regret(sample)[0] == pytest.approx(80 - np.mean([60, 70, 80]))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_best_of_is_the_mean_over_all_choices(count: int) -> None:
    accuracy, scores = np.array([50.0, 60.0, 90.0, 80.0, 55.0]), np.array([1.0, 5.0, 3.0, 4.0, 2.0])
    chosen = [accuracy[max(c, key=scores.__getitem__)] for c in itertools.combinations(range(5), count)]
    mean, deviation = best_of(sample_of(scores, accuracy), count)
    assert mean[0] == pytest.approx(np.mean(chosen))
    assert deviation[0] == pytest.approx(np.std(chosen))


def test_best_of_agrees_with_the_papers_draws_and_needs_enough_networks() -> None:
    rng = np.random.default_rng(3)
    accuracy = rng.normal(90, 2, 800)
    scores = accuracy + rng.normal(0, 2, 800)
    mean, deviation = best_of(sample_of(scores, accuracy), 50)
    drawn = draw_best_of(scores, accuracy, 50)
    assert drawn[0] == pytest.approx(mean[0], abs=4 * deviation[0] / math.sqrt(500))
    assert drawn[1] == pytest.approx(deviation[0], rel=0.2)
    assert math.isnan(best_of(sample_of(scores, accuracy), 801)[0][0])


def test_failures_come_last_or_are_left_out() -> None:
    scores = np.array([3.0, np.nan, 1.0, np.inf, 2.0])
    accuracy = np.array([70.0, 95.0, 50.0, 90.0, 60.0])
    ours, papers = evaluate(scores, accuracy, draws=0)
    known = [0, 2, 4]
    assert (ours.failures, papers.failures, ours.coverage) == ("last", "out", 0.6)
    assert papers.statistics["kendall"].value == pytest.approx(1)
    expected = stats.kendalltau(np.where(np.isin(range(5), known), scores, -9), accuracy).statistic
    assert ours.statistics["kendall"].value == pytest.approx(expected)
    assert ours.statistics["regret"].value == pytest.approx(25)
    assert papers.statistics["regret"].value == 0


def test_a_lower_is_better_proxy_is_turned_round() -> None:
    ours, _ = evaluate([3.0, 2.0, 1.0], [1.0, 2.0, 3.0], higher_is_better=False, draws=0)
    assert ours.statistics["spearman"].value == pytest.approx(1)


def test_intervals_cover_the_value_and_narrow_with_more_networks() -> None:
    rng = np.random.default_rng(4)

    def width(size: int) -> float:
        accuracy = rng.normal(80, 5, size)
        ours, _ = evaluate(accuracy + rng.normal(0, 5, size), accuracy, draws=200)
        for name in ("spearman", "kendall"):
            assert ours.statistics[name].low < ours.statistics[name].value < ours.statistics[name].high
        return ours.statistics["kendall"].high - ours.statistics["kendall"].low

    # the standard error of a U-statistic falls with the square root of the sample
    assert width(100) / width(1600) == pytest.approx(4, rel=0.35)


def test_bootstrap_matches_a_plain_loop() -> None:
    rng = np.random.default_rng(5)
    accuracy = rng.normal(80, 5, 60)
    scores = accuracy + rng.normal(0, 5, 60)
    loop = []
    for _ in range(2000):
        drawn = rng.integers(60, size=60)
        loop.append(stats.kendalltau(scores[drawn], accuracy[drawn]).statistic)
    ours, _ = evaluate(scores, accuracy, draws=2000)
    estimate = ours.statistics["kendall"]
    assert (estimate.low, estimate.high) == pytest.approx(np.quantile(loop, [0.025, 0.975]), abs=0.03)


def test_seeds_are_averaged_and_share_the_draws() -> None:
    accuracy = np.array([1.0, 2.0, 3.0, 4.0])
    ours, _ = evaluate([[1, 2, 3, 4], [4, 3, 2, 1]], accuracy, draws=50)
    estimate = ours.statistics["spearman"]
    assert (estimate.value, estimate.seed_std, ours.seeds) == (pytest.approx(0), pytest.approx(1), 2)
    assert (estimate.low, estimate.high) == (pytest.approx(-1), pytest.approx(1))


def test_all_failed_is_nan_and_everything_has_a_meaning() -> None:
    ours, papers = evaluate([np.nan, np.nan, np.nan], [1.0, 2.0, 3.0], draws=5)
    assert ours.coverage == 0
    assert math.isnan(ours.statistics["spearman"].value)
    assert math.isnan(papers.statistics["spearman"].value)
    assert set(ours.statistics) == set(papers.statistics) == set(MEANINGS)


def test_ndcg_of_perplexities_is_not_made_up() -> None:
    ours, _ = evaluate([1.0, 2.0, 3.0], [-300.0, -200.0, -100.0], draws=0)
    assert math.isnan(ours.statistics["ndcg_1000"].value)


def test_many_proxies_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(6)
    accuracy = rng.normal(80, 5, 50)
    columns = {name: rng.normal(size=50) for name in "abc"}
    together = evaluate_all(columns, accuracy, higher_is_better={"b": False}, draws=20)
    assert [ours.name for ours, _ in together] == ["a", "b", "c"]
    alone = evaluate(columns["b"], accuracy, name="b", higher_is_better=False, draws=20)
    assert repr(together[1]) == repr(alone)


def test_order_groups_equals() -> None:
    order = order_of(np.array([2.0, 5.0, 2.0, np.nan, np.nan]))
    assert order.group.tolist() == [1, 0, 1, 2, 2]
    assert order.sizes.tolist() == [1, 2, 2]


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"scores of shape \(1, 3\) were given for accuracies of shape \(2,\)"):
        evaluate([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InputError, match="1 of 3 accuracies are not finite: choose the population first"):
        evaluate([1.0, 2.0, 3.0], [1.0, 2.0, np.nan])
    with pytest.raises(InputError, match="1 networks were given; expected at least 2"):
        evaluate([1.0], [1.0])


@pytest.mark.slow
def test_a_minute_on_two_cores_is_enough_for_30_proxies_with_failures() -> None:
    rng = np.random.default_rng(7)
    accuracy = rng.normal(85, 8, 15_625).round(2)
    scores = accuracy + rng.normal(0, 5, 15_625)
    scores[:300] = np.nan  # so that both versions are computed
    began = time.process_time()
    evaluate_all({"one": scores}, accuracy, workers=1)
    assert time.process_time() - began < 60 * 2 / 30
