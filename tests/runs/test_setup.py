"""``search``: what is asked for and cannot be is refused before it begins, and what came to nothing is said."""

from __future__ import annotations

import csv
import inspect
import math
from pathlib import Path
from typing import Any

import pytest

from tests.execution.hostile import Sum
from trainless.core.arch import Proposal
from trainless.core.errors import InputError, UnknownName
from trainless.core.parameters import read
from trainless.core.task import Task
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.scoring.measures import Outcome
from trainless.searchers import make, registry
from trainless.searchers.assisted import WarmUp
from trainless.spaces import space
from trainless.spaces.nb201 import NasBench201

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))
ONE_SIGNAL = (
    *("random", "exhaustive", "local", "pmbga", "hyperband", "bohb", "reinforce", "teacup_reinforce"),
    *("g_rs", "g_hb", "g_reinforce", "warm_random"),
)
SEVERAL = ("evolution", "teg_evolution", "history_evolution", "teg_reinforce", "fpnas", "nsga2", "g_rea")


class Counted(Sum):
    """Counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __call__(self, proposal: Proposal) -> Outcome:
        self.asked += 1
        return super().__call__(proposal)


class Broken(Sum):
    """Never has a value; two reasons, one more frequent."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __call__(self, proposal: Proposal) -> Outcome:
        self.asked += 1
        name = next(iter(self.higher_is_better))
        return Outcome({name: math.nan}, {name: "no labels" if self.asked % 3 else "too deep"})


def helped(name: str) -> dict[str, Any]:
    return {"assist": "params"} if "proxy" in inspect.signature(registry[name]).parameters else {}


@pytest.mark.parametrize("name", ONE_SIGNAL)
def test_objectives_that_a_searcher_does_not_take_are_refused_at_once(name: str) -> None:
    measure = Counted()
    with pytest.raises(InputError, match=f"{name} follows one signal, and 2 would be told .*flops.*nsga2"):
        search(
            TASK,
            SPACE,
            name,
            evaluations=3,
            settings=SearchSettings(measure=measure, objectives=["flops"], **helped(name)),
        )
    assert measure.asked == 0


@pytest.mark.parametrize("name", SEVERAL)
def test_objectives_are_told_to_those_that_take_them(name: str) -> None:
    small = {"nsga2": {"population": 3}, "teg_evolution": {"population": 3, "tournament": 2}}.get(name, {})
    found = search(
        TASK,
        SPACE,
        name,
        evaluations=4,
        settings=SearchSettings(measure=Sum(), objectives=["flops"], searcher_args=small, **helped(name)),
    )
    assert found.spent.evaluations == 4


def test_regions_have_no_objectives() -> None:
    with pytest.raises(InputError, match="prune evaluates regions, which have no flops of their own"):
        search(TASK, SPACE, "prune", evaluations=3, settings=SearchSettings(measure=Sum(), objectives=["flops"]))


def test_pruning_needs_supernets() -> None:
    with pytest.raises(
        InputError, match="prune evaluates supernets, and nats-size builds none: choose another searcher"
    ):
        search(TASK, "nats-size", "prune", proxies="params", evaluations=3)


def test_optuna_says_how_many_objectives_to_ask_for() -> None:
    pytest.importorskip("optuna")
    with pytest.raises(InputError, match=r"made for 1 objective, and 2 would be told .*searcher-args objectives=2"):
        search(TASK, SPACE, "optuna", evaluations=3, settings=SearchSettings(measure=Sum(), objectives=["flops"]))
    found = search(
        TASK,
        SPACE,
        "optuna",
        evaluations=3,
        settings=SearchSettings(measure=Sum(), objectives=["flops"], searcher_args={"objectives": 2}),
    )
    assert found.spent.evaluations == 3


def test_every_searcher_says_how_many_columns_it_takes() -> None:
    for name in registry.names():
        searcher = make(name, SPACE, seed=0, **({"proxy": sum} if helped(name) else {}))
        assert searcher.columns in (1, None)
        assert isinstance(searcher, WarmUp) == (name.startswith("warm_") or name == "a_rea")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "evolution",
            {"popualtion": 3},
            r"no parameter 'popualtion'; did you mean 'population'\? it has: population=10",
        ),
        ("evolution", {"zzz": 3}, r"no parameter 'zzz'; it has: .*replacement=true \(true or false\), iterations=none"),
        (
            "evolution",
            {"population": "many"},
            "population=many was given; expected a whole number, such as population=10",
        ),
        ("evolution", {"population": 2.5}, r"population=2\.5 was given; expected a whole number"),
        ("evolution", {"population": True}, "population=true was given; expected a whole number"),
        ("reinforce", {"rate": "fast"}, r"rate=fast was given; expected a number, such as rate=0\.5"),
        ("reinforce", {"reward": "cash"}, "reward=cash was given; expected value or change, such as reward=value"),
        ("reinforce", {"window": "x"}, "window=x was given; expected a whole number or none$"),
        ("teg_evolution", {"tournaments": 3}, r"did you mean 'tournament'\? it has: population=256"),
        ("warm_evolution", {"draw_": 1}, r"it has: pool=3000 \(a whole number\), keep=64"),
        ("move_evolution", {"kind": "away"}, "kind=away was given; expected parent or neighbour"),
        ("evolution", {"iterations": -4}, "evolution: iterations=-4 was given; expected 0 or more"),
        ("evolution", {"vary": "x"}, "evolution: vary is a function, which can be given from Python only"),
        ("random", {"seed": 3}, r"seed is no parameter of the searcher's own here: give it by --seed"),
        ("random", {"feasible": 3}, "give it by the limits, such as --max-flops"),
        ("random", {"proxy": 3}, "random has no parameter 'proxy'"),
    ],
)
def test_wrong_parameters_are_named_without_words_of_python(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        search(
            TASK,
            SPACE,
            name,
            evaluations=1,
            settings=SearchSettings(measure=Sum(), searcher_args=given, **helped(name)),
        )
    assert not any(word in str(caught.value) for word in ("TypeError", "__init__", "keyword"))


def test_parameters_may_come_as_text() -> None:
    given = {"replacement": "false", "iterations": "none", "population": 4.0, "tournament": 2}
    made = read("evolution", registry["evolution"], given)
    assert made == {"replacement": False, "iterations": None, "population": 4, "tournament": 2}
    assert isinstance(made["population"], int)


def test_one_text_is_a_collection_of_one() -> None:
    assert read("prune", registry["prune"], {"first": "ntk_condition"}) == {"first": ("ntk_condition",)}
    assert space("transformer", patches=4).patches == (4,)


def test_assistance_is_asked_for_and_refused() -> None:
    with pytest.raises(InputError, match="g_rs is assisted by a proxy: name it, such as --assist synflow"):
        search(TASK, SPACE, "g_rs", evaluations=1, settings=SearchSettings(measure=Sum()))
    with pytest.raises(InputError, match="random takes no proxy to assist it: leave that out, or choose"):
        search(TASK, SPACE, "random", evaluations=1, settings=SearchSettings(measure=Sum(), assist="params"))


@pytest.mark.parametrize("name", ["random", "evolution", "prune"])
def test_a_search_in_which_nothing_was_scored_says_why(name: str, tmp_path: Path) -> None:
    for _ in range(2):  # the second goes on where the first ended
        with pytest.raises(
            InputError, match=r"none of \d+ candidates could be scored; most often .*: no labels"
        ) as caught:
            search(TASK, SPACE, name, evaluations=12, out=tmp_path / "run", settings=SearchSettings(measure=Broken()))
    assert str(tmp_path / "run" / "leaderboard.csv") in str(caught.value)
    with (tmp_path / "run" / "leaderboard.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert name == "prune" or {row["status"] for row in rows} == {"sum: no labels", "sum: too deep"}


def test_a_folder_takes_the_mended_command_after_a_mistake(tmp_path: Path) -> None:
    mistakes: list[dict[str, Any]] = [
        {"searcher_args": {"populaton": 3}},
        {"objectives": ["carbon"]},
        {"constraints": {"params": 1}},
    ]
    for mistake in mistakes:
        with pytest.raises((InputError, UnknownName)):
            search(
                TASK,
                SPACE,
                "evolution",
                evaluations=3,
                out=tmp_path / "run",
                settings=SearchSettings(measure=Sum(), **mistake),
            )
    search(
        TASK, SPACE, "evolution", evaluations=3, out=tmp_path / "run", seed=4, settings=SearchSettings(measure=Sum())
    )
    with pytest.raises(InputError, match="holds a run with seed 4"):
        search(
            TASK,
            SPACE,
            "evolution",
            evaluations=3,
            out=tmp_path / "run",
            seed=5,
            settings=SearchSettings(measure=Sum()),
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["random", "evolution", "local"])
def test_the_best_is_written_as_in_the_leaderboard(name: str, seed: int) -> None:
    found = search(TASK, SPACE, name, evaluations=40, seed=seed, settings=SearchSettings(measure=Sum()))
    assert SPACE.canonical(found.best) == found.best
    assert found.best in [place.arch for place in found.places]
    assert found.places[0].scores == next(place for place in found.places if place.arch == found.best).scores
