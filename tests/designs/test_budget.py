"""Plans within a time budget, against their own arithmetic done again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.designs.tiny import THIN, blobs, small
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.designs import budget
from trainless.designs.budget import evaluations_within, members_within
from trainless.designs.ensemble import draws_for
from trainless.designs.planning import (
    densest_flops,
    ladder_of,
    no_pruning,
    plains,
    prunings,
    recipe_of,
    scored_samples,
    trials,
    widest,
)
from trainless.designs.settings import DesignSettings
from trainless.learn.recipe import recipe
from trainless.searchers import Told, make
from trainless.searchers.prune import Prune
from trainless.spaces import space
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.residual import Residual
from trainless.tasks import task as load

FAST, TEACUP = DesignSettings().resolved(), DesignSettings(preset="teacup").resolved()


def test_prunings_is_what_a_pruning_asks_for() -> None:
    searcher, asked = Prune(NasBench201(), first=()), 0
    while proposals := searcher.ask():
        asked += len(proposals)
        searcher.tell(Told.of(proposals, np.zeros(len(proposals))))
    assert prunings(NasBench201()) == asked


@pytest.mark.parametrize(("arguments", "wanted"), [({}, 57), ({"number": 2}, 1 + 24 + 1 + 12), ({"number": 4}, 25)])
def test_a_presets_pruning_is_counted_as_it_asks(arguments: dict[str, Any], wanted: int) -> None:
    """Of 5 options on 6 edges one is closed first, then ``number`` per round: 1 + 24, then 1 + 18, and so on."""
    searcher, asked = Prune(NasBench201(), **arguments), 0
    while proposals := searcher.ask():
        asked += len(proposals)
        searcher.tell(Told.of(proposals, np.zeros(len(proposals))))
    assert asked == wanted
    fast = replace(FAST, methods=("rl", "genetic", "prune"), searcher_args={"prune": arguments})
    assert no_pruning(replace(fast, evaluations=wanted), NasBench201()) == ""
    assert f"it takes {wanted} evaluations" in no_pruning(replace(fast, evaluations=wanted - 1), NasBench201())


def test_pruning_is_left_out_where_it_cannot_count() -> None:
    fast = replace(FAST, methods=("rl", "genetic", "prune"), members=5)

    def names(settings: DesignSettings) -> list[str]:
        return [trial.name for trial in trials(settings, NasBench201())]

    assert names(fast) == ["rl-00", "genetic-00", "prune-00"]
    assert names(replace(fast, evaluations=20)) == ["rl-00", "genetic-00"]
    assert names(replace(fast, members=2)) == ["rl-00", "genetic-00"]
    assert names(replace(fast, members=3)) == ["rl-00", "genetic-00", "prune-00"]
    assert "2 members leave it no place" in no_pruning(replace(fast, members=2), NasBench201())
    alone = replace(fast, methods=("prune",), evaluations=1, members=1)
    assert names(alone) == ["prune-00"]
    assert len(names(TEACUP)) == 30


@given(seconds=st.floats(5, 10_000), good=st.floats(0.01, 3000), most=st.integers(1, 30), workers=st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_rounds_fit_into_the_time_that_there_is(seconds: float, good: float, most: int, workers: int) -> None:
    members, length = members_within(seconds, good, most, workers)
    slower = good * (budget.CROWDED if workers > 1 else 1)
    rounds = math.ceil(members / workers)
    assert 1 <= members <= most
    assert rounds * length <= seconds * (1 + 1e-9)
    assert rounds == 1 or length >= slower * (1 - 1e-9)  # further members only where all are trained well
    if members < min(most, workers * (rounds + 1)):
        assert seconds < (rounds + 1) * slower * (1 + 1e-9)
    assert length <= budget.FULL * slower * (1 + 1e-9)


@given(seconds=st.floats(1, 1000), score=st.floats(0.01, 2), searches=st.integers(1, 6), workers=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_searches_fit_or_are_the_least(seconds: float, score: float, searches: int, workers: int) -> None:
    number = evaluations_within(seconds, score, searches, 1000, workers)
    assert budget.LEAST_EVALUATIONS <= number <= 1000
    slower, start = (budget.CROWDED, budget.START) if workers > 1 else (1.0, 0.0)
    took = searches * (number * score * slower / workers + start)
    assert took <= seconds + 1e-6 or number == budget.LEAST_EVALUATIONS


def test_a_budget_that_is_too_small_says_what_is_enough() -> None:
    with pytest.raises(InputError, match=r"a time budget of 12 s was given, and the least takes about 30 s here: give"):
        budget.require_time(12.0, 8.0, 5.0)
    budget.require_time(60.0, 8.0, 5.0)


def test_the_pace_is_measured() -> None:
    from trainless.scoring.measures import ByProxies
    from trainless.scoring.request import select

    task, thin = blobs(), space("nb201", **THIN)
    assert 0 < budget.score_seconds(thin, ByProxies(thin, task, select("params")), 0, 60.0) < 5
    assert 0 < budget.epoch_seconds(thin, (1, 0, 0, 3, 0, 0), task, recipe("default"), "cpu") < 30


def test_the_width_follows_what_may_be_spent() -> None:
    cells = replace(FAST, space="nb201")
    few = blobs(200, side=8)
    ladder = ladder_of(cells, few)
    costs = [densest_flops(rung, few) for rung in ladder]
    assert costs == sorted(costs)
    for flops in (0.0, costs[2], costs[2] + 1, math.inf):
        chosen = ladder.index(widest(ladder, few, flops))
        assert costs[chosen] <= flops or chosen == 0
        assert chosen + 1 == len(ladder) or costs[chosen + 1] > flops
    assert ladder_of(replace(cells, space="nats-size"), few) == [space("nats-size")]
    near = ladder_of(FAST, blobs(20, side=64))[0]
    assert near.strides == (1, 2, 4)[: len(near.strides)]  # type: ignore[attr-defined]


def test_plain_networks_keep_limits() -> None:
    task = blobs(40, side=28)
    every = plains(task)
    assert Residual().plain(task) == every[-1]
    few = plains(task, {"params": 100_000})
    assert few
    assert set(few) < set(every)
    assert all(Residual().counts(arch, task).params <= 100_000 for arch in few)
    assert plains(task, {"latency": 1.0}) == []
    assert plains(Task.noise((1, 2, 2))) == []


def test_small_data_have_small_batches_and_no_pruning_without_supernets() -> None:
    assert recipe_of(small().resolved(), blobs(40)).batch == 8
    names = [trial.name for trial in trials(TEACUP, space("nb101"))]
    assert len(names) == 20
    assert not any(name.startswith("prune") for name in names)
    seeds = [trial.seed for seed in (0, 1) for trial in trials(replace(TEACUP, seed=seed), NasBench201())]
    assert len(set(seeds)) == 60


def test_teacups_genetic_search_has_all_of_its_evaluations() -> None:
    """A buffer of five times ten at random, and a hundred iterations of ten (TEACUP)."""
    searcher, count = make("pmbga", NasBench201(), seed=0, patience=None), 0
    while proposals := searcher.ask():
        count += len(proposals)
        searcher.tell(Told.of(proposals, [float(sum(each.arch)) for each in proposals]))
    assert count == 1050 == TEACUP.evaluations


def test_small_numbers_of_a_plan() -> None:
    digits = load("digits")
    assert scored_samples(digits, "trainless") == 0
    assert scored_samples(digits, "teacup-published") == 32  # four mini-batches of eight
    assert scored_samples(blobs(40), "teacup-published") == scored_samples(blobs(40), "teacup") // 8 * 8 <= 32
    assert [draws_for(Task.noise((1, 8, 8), classes)) for classes in (2, 1000)] == [1000, 100]
