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
from trainless.designs.budget import StepSeconds, least_epochs, plan_within, prunings, search_numbers, training_numbers
from trainless.designs.ensemble import draws_for
from trainless.designs.planning import ladder_of, no_pruning, recipe_of, scored_samples, trials, widest
from trainless.designs.settings import DesignSettings
from trainless.learn.recipe import recipe
from trainless.searchers.prune import Prune
from trainless.searchers.searcher import Told
from trainless.spaces import space
from trainless.spaces.nb201 import NasBench201
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
    fast = replace(FAST, searcher_args={"prune": arguments})
    assert no_pruning(replace(fast, evaluations=wanted), NasBench201()) == ""
    assert f"it takes {wanted} evaluations" in no_pruning(replace(fast, evaluations=wanted - 1), NasBench201())


def test_pruning_is_left_out_where_it_cannot_count() -> None:
    fast = FAST

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


@given(
    epoch=st.floats(0.01, 10),
    seconds=st.floats(30, 10_000),
    members=st.integers(1, 30),
    baseline=st.integers(0, 10),
    epochs=st.integers(5, 200),
    workers=st.integers(1, 8),
)
@settings(max_examples=100, deadline=None)
def test_training_fits_or_is_the_least(
    epoch: float, seconds: float, members: int, baseline: int, epochs: int, workers: int
) -> None:
    few, fewer, number, expected = training_numbers(epoch, seconds, members, baseline, epochs, workers)
    assert 1 <= few <= members
    assert 0 <= fewer <= baseline
    assert budget.LEAST_EPOCHS <= number <= epochs
    slower = epoch * (budget.CROWDED if workers > 1 else 1)
    assert expected == pytest.approx(math.ceil((few + fewer) / workers) * number * slower)
    assert expected <= seconds or number == budget.LEAST_EPOCHS


@given(seconds=st.floats(1, 1000), score=st.floats(0.01, 2), pruning=st.floats(0, 100), workers=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_searches_fit_or_are_the_least(seconds: float, score: float, pruning: float, workers: int) -> None:
    number, prune, expected = search_numbers(StepSeconds(score, pruning, 1.0), seconds, 1, 1000, workers)
    assert budget.LEAST_EVALUATIONS <= number <= 1000
    assert expected <= seconds + 1e-6 or (number == budget.LEAST_EVALUATIONS and not prune)
    assert not prune or pruning > 0


def test_the_widest_that_fits_is_planned() -> None:
    ladder = [space("nb201", channels=channels, cells=1) for channels in (4, 8, 16)]
    pace = {4: 0.1, 8: 0.2, 16: 100.0}
    own = DesignSettings(searches=1, evaluations=100, members=4, baseline=0)

    def measured(rung: NasBench201) -> StepSeconds:
        return StepSeconds(0.01, 0.1, pace[rung.channels])

    chosen, _, numbers = plan_within(60.0, ladder, measured, own, 10)
    assert chosen == ladder[1]
    assert (numbers.members, numbers.epochs) == (4, 10)
    chosen, _, numbers = plan_within(3.0, ladder, measured, own, 10)
    assert chosen == ladder[0]
    assert numbers.members * numbers.epochs < 40
    assert numbers.search_seconds + numbers.train_seconds < 3.0
    with pytest.raises(InputError, match=r"a time budget of 2 s was given, and the least takes about .* s here: give"):
        plan_within(2.0, ladder[2:], measured, own, 10)
    with pytest.raises(InputError, match=r"a time budget of 5 s was given, and .* s here, 12 s of them to start: give"):
        plan_within(-7.0, ladder[:1], measured, own, 10, gone=12.0)


def test_the_pace_is_measured() -> None:
    from trainless.scoring.measures import ByProxies
    from trainless.scoring.request import select

    task, thin = blobs(), space("nb201", **THIN)
    pace = budget.pace_of(thin, ByProxies(thin, task, select("params")), task, recipe("default"), small(), 60.0)
    assert 0 < pace.score < 5
    assert 0 < pace.epoch < 30
    measure = ByProxies(thin, task, select("params"))
    without = budget.pace_of(thin, measure, task, recipe("default"), small(), 60.0, prune=False)
    assert without.pruning == 0 < pace.pruning


def test_the_width_follows_the_work() -> None:
    fast = FAST
    digits, large = Task.noise((1, 8, 8)), blobs(200, side=32)
    ladder = ladder_of(fast)
    few = blobs(200, side=8)
    assert widest(fast, ladder, few, recipe_of(fast, few)).channels >= 8  # type: ignore[attr-defined]
    order = [ladder.index(widest(fast, ladder, one, recipe_of(fast, one))) for one in (large, few)]
    assert order == sorted(order)
    assert ladder.index(widest(replace(fast, device="cuda"), ladder, large, recipe_of(fast, large))) >= order[0]
    assert ladder_of(replace(fast, space="nats-size")) == [space("nats-size")]
    assert digits.train is None


def test_small_data_have_small_batches_and_no_pruning_without_supernets() -> None:
    assert recipe_of(small().resolved(), blobs(40)).batch == 8
    names = [trial.name for trial in trials(TEACUP, space("nb101"))]
    assert len(names) == 20
    assert not any(name.startswith("prune") for name in names)
    seeds = [trial.seed for seed in (0, 1) for trial in trials(replace(TEACUP, seed=seed), NasBench201())]
    assert len(set(seeds)) == 60


def test_small_numbers_of_a_plan() -> None:
    digits = load("digits")
    assert least_epochs(digits, recipe("default")) == 5
    assert scored_samples(digits) == 0
    assert [draws_for(Task.noise((1, 8, 8), classes)) for classes in (2, 1000)] == [1000, 100]
