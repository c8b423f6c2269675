"""Each method against what its paper says, computed by hand or by a plain loop."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.searchers.toys import Parity, Toy
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.ranks import RankTable, dense_ranks, order, rank_sum
from trainless.searchers.assisted import a_rea, best_draw, best_mutation, best_neighbour, move_evolution, warm_evolution
from trainless.searchers.evolution import Evolution, HistoryEvolution, teg_evolution
from trainless.searchers.hyperband import Density, Hyperband, brackets
from trainless.searchers.pareto import Nsga2, fronts
from trainless.searchers.policy import Adam, Policy, Reward, draw, most_probable
from trainless.searchers.prune import Prune
from trainless.searchers.reinforce import FpNas, Pmbga, Reinforce, teacup_reinforce, teg_reinforce
from trainless.searchers.searcher import Told
from trainless.searchers.stopping import Budget, Patience, Spent, diversity, entropy
from trainless.spaces.moves import distance, neighbours, sample
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201()


def told(proposals, *columns):
    table = {f"c{place}": np.array(values, dtype=float) for place, values in enumerate(columns)}
    return Told(tuple(proposals), table)


def drive(searcher, value, steps=10_000):
    asked = []
    for _ in range(steps):
        proposals = searcher.ask()
        if not proposals:
            break
        asked += [p.candidate for p in proposals]
        searcher.tell(Told.of(proposals, [value(p.candidate) for p in proposals]))
    return asked


# --- evolution


def test_evolution_kills_the_oldest_and_breeds_the_best_of_the_tournament() -> None:
    searcher = Evolution(SPACE, population=3, tournament=50, seed=0)
    first = [p for _ in range(3) for p in searcher.ask()]
    searcher.tell(Told.of(first, [1.0, 3.0, 2.0]))
    for _ in range(5):
        assert distance(first[1].arch, searcher.ask()[0].arch) == 1
    members = [tuple(arch) for arch, _ in searcher.state()["members"]]
    searcher.tell(Told.of([(0,) * 6, (1,) * 6], [0.0, 0.5]))
    assert [tuple(arch) for arch, _ in searcher.state()["members"]] == [members[2], (0,) * 6, (1,) * 6]
    assert searcher.best() == first[1].arch


def test_teg_evolution_breeds_the_lowest_sum_of_ranks() -> None:
    searcher = teg_evolution(SPACE, population=4, tournament=4)
    archs = [(place,) * 6 for place in range(4)]
    searcher.ask(4)
    searcher.tell(told(map(Proposal, archs), [9, 8, 1, 2], [1, 8, 9, 2], [5, 6, 1, 2]))
    assert searcher.best() == archs[1]
    assert all(distance(archs[1], searcher.ask()[0].arch) == 1 for _ in range(5))


def test_evolution_stops_when_diversity_no_longer_falls() -> None:
    searcher = Evolution(SPACE, population=5, tournament=2, patience=3, seed=0)
    assert 8 <= len(drive(searcher, lambda arch: 0.0)) < 500


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=2, max_size=12))
@settings(max_examples=40, deadline=None)
def test_diversity_is_the_mean_pairwise_distance(archs) -> None:
    pairs = [distance(a, b) for a, b in itertools.combinations(archs, 2)]
    assert diversity(archs) == pytest.approx(np.mean(pairs))


# --- ranks


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, 3.0, math.nan]), min_size=2, max_size=2), min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_running_ranks_equal_a_fresh_ranking(rows) -> None:
    table = RankTable()
    for row in rows:
        table.add(row)
    clean = np.nan_to_num(np.array(rows), nan=-1e9)
    expected = sum(np.log(stats.rankdata(column)) for column in clean.T)
    np.testing.assert_allclose(table.scores(), expected)


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, math.nan]), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_dense_ranks(values) -> None:
    clean = [-math.inf if math.isnan(v) else v for v in values]
    levels = sorted(set(clean), reverse=True)
    assert dense_ranks(np.array(values)).tolist() == [levels.index(v) for v in clean]
    ordered = [clean[place] for place in order(np.array(values))]
    assert ordered == sorted(clean, reverse=True)


# --- history evolution


def test_history_evolution_follows_the_published_phases() -> None:
    start = (2,) * 6
    searcher = HistoryEvolution(SPACE, population=8, first=3, start=start, evaluations=40)
    early = [searcher.ask()[0].arch for _ in range(3)]
    assert all(distance(start, arch) == 1 for arch in early)
    archs = [(0,) * 6, (1,) * 6, (3,) * 6]
    searcher.tell(Told.of(archs, [0.0, 1.0, 2.0]))
    assert all(min(distance(a, p.arch) for a in archs) == 2 for p in searcher.ask(10))
    more = [(4, 4, 4, 4, 4, place) for place in range(4)]
    searcher.tell(Told.of(more, [-1.0, -2.0, -3.0, -4.0]))
    searcher.tell(Told.of([(0, 0, 0, 3, 3, 3)], [-9.0]))
    members = [*archs, *more]
    assert all(min(distance(a, p.arch) for a in members) <= 1 for p in searcher.ask(20))
    assert searcher.best() == (3,) * 6


# --- policies


def test_policy_gradient_is_the_derivative_of_the_log_probability() -> None:
    policy = Policy([2, 3, 4], rng=np.random.default_rng(0), scale=1.0)
    arch, eps = (1, 0, 3), 1e-6

    def log_probability() -> float:
        return sum(math.log(p[option]) for p, option in zip(policy.probabilities(), arch, strict=True))

    exact = policy.gradient(arch)
    for place in ((0, 0), (0, 1), (1, 2), (2, 3)):
        policy.logits[place] += eps
        up = log_probability()
        policy.logits[place] -= 2 * eps
        down = log_probability()
        policy.logits[place] += eps
        assert exact[place] == pytest.approx((up - down) / (2 * eps), abs=1e-6)
    assert policy.entropy() == pytest.approx(sum(stats.entropy(p) for p in policy.probabilities()))


def test_adam_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
    optimiser, ours, value = torch.optim.Adam([weight], lr=0.1), Adam(0.1), np.array([1.0, -2.0, 3.0])
    rng = np.random.default_rng(0)
    for _ in range(7):
        gradient = rng.standard_normal(3)
        weight.grad = torch.tensor(gradient)
        optimiser.step()
        value -= ours.step(gradient)
    np.testing.assert_allclose(value, weight.detach().numpy(), rtol=1e-12)


def test_draws_follow_the_probabilities() -> None:
    table = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0]])
    rng = np.random.default_rng(0)
    counts = Counter(draw(table, rng) for _ in range(5000))
    support = [(a, b) for a in range(3) for b in range(2)]
    assert set(counts) <= set(support)
    expected = [5000 * table[0][a] * table[1][b] for a, b in support]
    assert stats.chisquare([counts[arch] for arch in support], expected).pvalue > 1e-3


@given(st.integers(0, 1000), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_most_probable_is_the_best_of_all_accepted(seed, skip) -> None:
    rng = np.random.default_rng(seed)
    probabilities = [rng.dirichlet(np.ones(count)) for count in (2, 3, 4)]
    ranked = sorted(
        itertools.product(range(2), range(3), range(4)),
        key=lambda arch: -math.prod(p[option] for p, option in zip(probabilities, arch, strict=True)),
    )
    assert most_probable(probabilities, lambda arch: arch in ranked[skip:]) == ranked[skip]


def test_reinforce_makes_one_step_of_adam_on_the_papers_gradient() -> None:
    searcher = Reinforce(SPACE, seed=0, rate=0.5)
    before = np.log(np.array(searcher.probabilities()))
    arch = searcher.ask()[0].arch
    searcher.tell(Told.of([arch], [5.0]))
    np.testing.assert_array_equal(np.log(np.array(searcher.probabilities())), before)  # r − b = 0 at first
    searcher.tell(Told.of([arch], [6.0]))
    baseline = (0.1 * 6.0 + 0.9 * 0.1 * 5.0) / (1 - 0.9**2)
    onehot = np.eye(5)[list(arch)]
    gradient = (6.0 - baseline) * (onehot - np.exp(before))
    moments = 0.1 * gradient / (1 - 0.9**2), 0.001 * gradient**2 / (1 - 0.999**2)
    logits = before + 0.5 * moments[0] / (np.sqrt(moments[1]) + 1e-8)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(searcher.probabilities()), expected, rtol=1e-9)


def test_reward_of_changes_is_eq_16() -> None:
    reward = Reward("change")
    kappa, r = [-50.0, -40.0, -60.0, -45.0], [10.0, 30.0, 20.0, 20.0]
    got = [reward(row) for row in zip(kappa, r, strict=True)]
    for step in range(1, 4):
        expected = sum(
            (values[step] - values[step - 1]) / (max(values[: step + 1]) - min(values[: step + 1]))
            for values in (kappa, r)
        )
        assert got[step] == pytest.approx(expected)
    windowed = Reward("change", window=2)
    assert [windowed((v,)) for v in (0.0, 10.0, 9.0)] == [0.0, 1.0, -1.0]


def test_a_missing_value_counts_as_the_worst_so_far() -> None:
    reward = Reward("value")
    assert math.isnan(reward((math.nan,)))
    assert [reward((v,)) for v in (3.0, 1.0, math.nan, -math.inf)] == [3.0, 1.0, 1.0, 1.0]
    with pytest.raises(InputError, match="2 columns were told: choose reward='change'"):
        reward((1.0, 2.0))


def test_teg_reinforce_learns_from_several_columns_and_answers_with_its_policy() -> None:
    searcher = teg_reinforce(SPACE, seed=0, rate=0.1, iterations=400)
    while proposals := searcher.ask():
        archs = [p.arch for p in proposals]
        searcher.tell(told(proposals, [a.count(3) for a in archs], [-a.count(0) for a in archs]))
    assert searcher.best() == most_probable(searcher.probabilities(), lambda arch: True)
    assert searcher.best().count(3) >= 3


def test_teacup_reinforce_updates_every_ten_and_loses_patience() -> None:
    searcher = teacup_reinforce(SPACE, seed=0)
    assert len(searcher.ask()) == 10
    before = searcher.state()["policy"]
    searcher.tell(Told.of([(0,) * 6, (1,) * 6] * 4, [0.0, 1.0] * 4))
    assert searcher.state()["policy"] == before
    searcher.tell(Told.of([(0,) * 6, (1,) * 6], [0.0, 1.0]))
    assert searcher.state()["policy"] != before
    stuck = teacup_reinforce(SPACE, seed=0)
    assert len(drive(stuck, lambda arch: 1.0)) == 10 * 31


def test_fpnas_step_is_eq_20() -> None:
    searcher = FpNas(SPACE, seed=0, reward="value")
    proposals = searcher.ask()
    assert len(proposals) == math.ceil(0.25 * 6 * math.log(5)) == 3
    rewards = np.array([1.0, 2.0, 0.5])
    searcher.tell(Told.of(proposals, rewards))
    weights = np.exp(rewards) / np.exp(rewards).sum()
    logits = 0.1 * sum(w * (np.eye(5)[list(p.arch)] - 0.2) for w, p in zip(weights, proposals, strict=True))
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(searcher.probabilities()), expected, rtol=1e-12)


# --- pmbga


def test_pmbga_posterior_counts_the_survivors_of_the_buffer() -> None:
    searcher = Pmbga(SPACE, seed=0, batch=2, sets=2, posterior="mean")
    searcher.ask(4)
    searcher.tell(Told.of([(0,) * 6, (1,) * 6], [100.0, 0.0]))
    searcher.tell(Told.of([(2,) * 6, (3,) * 6], [2.0, 4.0]))
    searcher.tell(Told.of([(4,) * 6, (4,) * 6], [8.0, math.nan]))
    # the buffer holds (2, 2.0), (3, 4.0), (4, 8.0), (4, NaN); the mean is 14/3, the survivor (4, 8.0)
    np.testing.assert_allclose(searcher.state()["theta"], np.array([[1, 1, 1, 1, 2]] * 6) / 6)
    assert searcher.best() == (0,) * 6


def test_pmbga_runs_the_papers_schedule() -> None:
    assert len(drive(Pmbga(SPACE, seed=0, patience=None), lambda arch: float(sum(arch)))) == 50 + 100 * 10


# --- pruning


def test_pruning_nb201_as_te_nas_takes_three_rounds_of_the_expected_regions() -> None:
    searcher = Prune(SPACE)
    sizes = []
    while proposals := searcher.ask():
        sizes.append(len(proposals))
        worth = [sum(sum({1: 0.0, 2: 3.0, 3: 5.0, 4: 1.0}[o] for o in part) for part in p.candidate) for p in proposals]
        searcher.tell(told(proposals, worth, worth))
    assert sizes == [1 + 6 * 4, 1 + 6 * 3, 1 + 6 * 2]
    assert searcher.best() == (3,) * 6


def test_pruning_by_the_sum_of_ranks_of_opposed_columns() -> None:
    searcher = Prune(Parity(), first=())
    proposals = searcher.ask()
    assert len(proposals) == 9
    base, cuts = proposals[0].candidate, proposals[1:]
    up, down = [10.0], [-20.0]
    for proposal in cuts:
        place = next(i for i in range(4) if proposal.candidate[i] != base[i])
        gone_one = 1 not in proposal.candidate[place]
        up.append(10.0 + (2.0 if gone_one else 1.0))  # closing 'one' is better in both columns
        down.append(-20.0 + (2.0 if gone_one else -2.0))
    searcher.tell(told(proposals, up, down))
    assert searcher.best() == (0, 0, 0, 0)
    assert searcher.ask() == []


def test_pruning_never_leaves_the_valid_archs() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        searcher = Prune(Parity(), seed=seed, first=(), feasible=lambda arch: sum(arch) == 2)
        while proposals := searcher.ask():
            searcher.tell(told(proposals, rng.random(len(proposals))))
        assert sum(searcher.best()) == 2


# --- multi-fidelity


def test_hyperband_promotes_the_best_third() -> None:
    assert brackets(1 / 9, 3)[0] == ([9, 3, 1], [1 / 9, 1 / 3, 1.0])
    searcher = Hyperband(SPACE, seed=0, iterations=1)
    rung = [p for _ in range(9) for p in searcher.ask()]
    assert {p.fidelity for p in rung} == {1 / 9}
    values = [3.0, 9.0, 1.0, math.nan, 8.0, 2.0, 7.0, 0.0, 5.0]
    for place in (8, 0, 3, 1, 2, 7, 6, 5, 4):
        searcher.tell(Told.of([rung[place]], [values[place]]))
    middle = searcher.ask(9)
    assert [p.arch for p in middle] == [rung[place].arch for place in (1, 4, 6)]
    searcher.tell(Told.of(middle, [1.0, 3.0, 2.0]))
    last = searcher.ask(9)
    assert [(p.arch, p.fidelity) for p in last] == [(rung[4].arch, 1.0)]
    searcher.tell(Told.of(last, [0.0]))
    assert searcher.ask() == []
    assert searcher.best() == rung[4].arch


def test_hyperband_opens_a_bracket_rather_than_wait() -> None:
    searcher = Hyperband(SPACE, iterations=2)
    assert [round(p.fidelity, 3) for p in searcher.ask(20)] == [0.111] * 9 + [0.333] * 3


def test_density_sums_to_one_and_draws_from_itself() -> None:
    rng = np.random.default_rng(0)
    counts = [2, 3, 4]
    density = Density(rng.integers(0, counts, size=(9, 3)), np.array(counts, dtype=float), 0.3)
    archs = list(itertools.product(range(2), range(3), range(4)))
    chances = density(np.array(archs))
    assert chances.sum() == pytest.approx(1.0)
    drawn = Counter(density.draw(rng, counts) for _ in range(5000))
    assert stats.chisquare([drawn[arch] for arch in archs], 5000 * chances).pvalue > 1e-3


# --- Pareto


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_fronts_by_peeling(rows) -> None:
    matrix = np.array(rows, dtype=float)
    left, level = set(range(len(rows))), 0
    expected = {}
    while left:
        best = {
            i for i in left if not any((matrix[j] >= matrix[i]).all() and (matrix[j] > matrix[i]).any() for j in left)
        }
        expected.update(dict.fromkeys(best, level))
        left, level = left - best, level + 1
    assert fronts(matrix).tolist() == [expected[i] for i in range(len(rows))]


def test_nsga2_finds_the_true_front_of_the_toy_space() -> None:
    searcher = Nsga2(Toy(), population=12, generations=12, seed=0)
    while proposals := searcher.ask():
        archs = [p.arch for p in proposals]
        searcher.tell(told(proposals, [a[0] + a[1] for a in archs], [-a[1] - a[2] for a in archs]))
    values = {tuple(row) for _, row in searcher.front()}
    assert values == {(1.0, 0.0), (3.0, -2.0)}


# --- assistance


def test_best_of_pool_follows_the_proxy() -> None:
    rng = np.random.default_rng(0)
    plain = np.mean([sum(best_draw(SPACE, sum, pool=1)(rng)) for _ in range(200)])
    assisted = np.mean([sum(best_draw(SPACE, sum, pool=10)(rng)) for _ in range(200)])
    # the best of ten of a sum of mean 12 and deviation 3.46 lies 1.54 deviations higher
    assert plain == pytest.approx(12.0, abs=0.8)
    assert assisted == pytest.approx(12 + 1.54 * math.sqrt(12), abs=0.8)
    children = {best_mutation(SPACE, sum, pool=200)((0,) * 6, rng) for _ in range(20)}
    assert all(sum(child) == 4 for child in children)
    assert best_neighbour(SPACE, lambda a: float(a == (0, 0, 4, 0, 0, 0)), probability=1.0)((0,) * 6, rng) == (
        (0, 0, 4, 0, 0, 0)
    )
    assert best_neighbour(SPACE, sum, probability=0.0)((0,) * 6, rng) in neighbours(SPACE, (0,) * 6)


def test_warm_up_seeds_the_population_with_the_best_of_the_pool() -> None:
    searcher = warm_evolution(SPACE, proxy=sum, pool=500, keep=8, seed=0)
    first = [p.arch for _ in range(8) for p in searcher.ask()]
    assert [sum(arch) for arch in first] == sorted(map(sum, first), reverse=True)
    assert min(map(sum, first)) >= 18
    assert searcher.ask() == []
    searcher.tell(Told.of(first, [float(arch == first[5]) for arch in first]))
    assert min(distance(arch, searcher.ask()[0].arch) for arch in first) == 1
    assert searcher.best() == first[5]


def test_a_rea_begins_with_the_better_half_of_twice_as_many() -> None:
    rng = np.random.default_rng([3, 1])  # the stream of a warm-up
    drawn = [sample(SPACE, rng) for _ in range(20)]
    searcher = a_rea(SPACE, proxy=sum, seed=3)
    first = [p.arch for _ in range(10) for p in searcher.ask()]
    assert sorted(map(sum, first)) == sorted(map(sum, drawn))[10:]
    searcher.tell(Told.of(first, [float(arch == first[5]) for arch in first]))
    assert (searcher.inner.population, searcher.inner.tournament) == (10, 3)  # type: ignore[attr-defined]
    assert min(distance(arch, searcher.ask()[0].arch) for arch in first) == 1


def test_both_kinds_of_move() -> None:
    archs = [(place,) * 6 for place in range(4)]
    by_parent = move_evolution(SPACE, proxy=sum, population=4, tournament=4)
    by_child = move_evolution(SPACE, proxy=sum, kind="neighbour", population=4, tournament=4)
    for searcher in (by_parent, by_child):
        searcher.ask(4)
        searcher.tell(Told.of(archs, [9.0, 0.0, 0.0, 0.0]))
    assert all(distance((3,) * 6, by_parent.ask()[0].arch) == 1 for _ in range(10))
    children = [by_child.ask()[0].arch for _ in range(60)]
    assert all(distance((0,) * 6, child) == 1 for child in children)
    assert 0.6 < np.mean([sum(child) == 4 for child in children]) < 0.98
    with pytest.raises(InputError, match=r"expected 'parent' \(epsilon\) or 'neighbour'"):
        move_evolution(SPACE, proxy=sum, kind="else")


def test_g_reinforce_learns_from_the_action_behind_the_mutant() -> None:
    searcher = Reinforce(SPACE, seed=0, vary=lambda arch, rng: (0,) * 6)
    assert searcher.ask()[0].arch == (0,) * 6
    (evaluated, actions), *_ = searcher.state()["actions"]
    assert evaluated == [0] * 6
    assert actions != [[0] * 6]
    searcher.tell(Told.of([(0,) * 6], [1.0]))
    assert not searcher.state()["actions"]


# --- stopping


def test_budgets_and_patience() -> None:
    budget = Budget(evaluations=3, simulated=10.0)
    spent = Spent().plus(simulated=4.0).plus(simulated=6.0)
    assert budget.allows(spent)
    assert budget.exhausted(spent)
    assert not budget.allows(spent.plus(simulated=0.1))
    with pytest.raises(InputError, match="a budget of seconds=0 was given; expected a positive number"):
        Budget(seconds=0)
    falling = Patience(2, falling=True)
    assert [falling.over(v) for v in (3.0, 2.0, 2.5, math.nan)] == [False, False, False, True]
    assert entropy([np.array([1.0, 0.0])]) == 0.0
    with pytest.raises(InputError, match="patience=0 was given"):
        Patience(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Evolution(SPACE, population=2, tournament=3, replacement=False), "tournament no larger than"),
        (lambda: Reinforce(SPACE, rate=0.0), "expected a positive batch"),
        (lambda: Hyperband(SPACE, eta=1.0), "eta > 1"),
        (lambda: Pmbga(SPACE, batch=0), "expected positive numbers"),
        (lambda: Prune(SPACE, number=0), "expected at least 1 option"),
        (lambda: Nsga2(SPACE, population=1), "at least 2"),
        (lambda: HistoryEvolution(SPACE, population=1), "at least 2"),
        (lambda: best_draw(SPACE, sum, pool=0), "at least 1 architecture"),
    ],
)
def test_impossible_parameters_say_so(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_rank_sum_is_the_sum_of_dense_ranks() -> None:
    assert rank_sum(np.array([[3.0, 1.0], [3.0, 2.0], [1.0, 2.0]])).tolist() == [1, 0, 1]
