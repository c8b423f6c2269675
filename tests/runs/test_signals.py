from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.scores import Scores
from trainless.core.task import Task
from trainless.execution.executor import guarded
from trainless.rankings import Lexicographic, LogSum, Ranking, RankProduct, RankSum
from trainless.runs.signals import Pointwise, Relative, SeveralColumns, Whole, scores_of, signal_for
from trainless.scoring.measures import ByFunction, ByProxies, Lookup, canonical_key
from trainless.scoring.request import select
from trainless.spaces.nb201 import NasBench201
from trainless.store import SqliteStore

UP = {"a": True, "b": False}
ROWS = [{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 4.0}, {"a": 2.0, "b": math.nan}, {"a": 3.0, "b": 1.0}]
SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def told(signal, rows) -> list[float]:
    return [next(iter(signal.tell(place, row).values())) for place, row in enumerate(rows)]


def test_one_proxy_is_told_with_its_sign() -> None:
    signal = signal_for(None, {"b": False})
    assert isinstance(signal, Pointwise)
    assert told(signal, ROWS)[:2] == [-5.0, -4.0]
    assert math.isnan(signal.tell(2, ROWS[2])["b"])
    assert signal.tell(3, ROWS[3]) == {"b": -1.0}
    assert signal.best() == (3, -1.0)


def test_several_proxies_are_columns_and_stand_by_their_ranks() -> None:
    signal = signal_for(None, UP)
    assert isinstance(signal, SeveralColumns)
    rows = [signal.tell(place, row) for place, row in enumerate(ROWS)]
    assert rows[0] == {"a": 1.0, "b": -5.0}
    # a: 3, 0, 2, 0 candidates are better; b: 2, 1, 3 (failed), 0
    np.testing.assert_array_equal(signal.standing(scores_of(dict(zip("wxyz", ROWS, strict=True)), UP)), [-5, -1, -5, 0])
    assert signal.best()[0] == 3


def naive_rank_sum(rows) -> list[float]:
    """The share of the space that is expected to be better, summed over columns, with its sign turned."""

    def better(one: float, other: float) -> bool:
        return not math.isnan(one) and (math.isnan(other) or one > other)

    out = []
    for n in range(1, len(rows) + 1):
        total = 0
        for name, up in UP.items():
            values = [row[name] if up else -row[name] for row in rows[:n]]
            total += 1 + sum(better(value, values[-1]) for value in values[:-1])
        out.append(-total / (n + 1))
    return out


numbers = st.one_of(st.integers(-3, 3).map(float), st.just(math.nan))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.fixed_dictionaries({"a": numbers, "b": numbers}), min_size=1, max_size=12))
def test_a_ranking_is_the_rank_among_everything_seen(rows) -> None:
    assert told(signal_for(RankSum(("a", "b")), UP), rows) == pytest.approx(naive_rank_sum(rows))
    product = RankProduct(("a", "b"))
    shift = [2 * math.log(n / (n + 1)) for n in range(1, len(rows) + 1)]
    whole = [value + more for value, more in zip(told(Whole(product, UP), rows), shift, strict=True)]
    assert told(signal_for(product, UP), rows) == pytest.approx(whole)


def test_a_twin_that_comes_again_counts_once() -> None:
    signal = Relative(RankSum(("a",)), {"a": True})
    for key, value in (("x", 1.0), ("y", 2.0)):
        signal.tell(key, {"a": value})
    assert [signal.tell("x", {"a": 1.0})["ranking"] for _ in range(3)] == [-2 / 3] * 3
    assert signal.best() == ("y", 0.0)


def test_a_pointwise_ranking_needs_no_history_and_its_failure_is_nan() -> None:
    signal = signal_for(LogSum({"a": 2.0, "b": -1.0}), UP, name="mine")
    assert signal.tell("x", {"a": 100.0, "b": 10.0}) == {"mine": 3.0}
    assert math.isnan(signal.tell("y", {"a": math.nan, "b": 10.0})["mine"])
    assert signal.best() == ("x", 3.0)


def test_lexicographic_orders_as_it_says() -> None:
    signal = signal_for(Lexicographic("a", "b"), {"a": True, "b": True})
    rows = [{"a": 1.0, "b": 0.9}, {"a": 2.0, "b": 0.1}, {"a": 1.0, "b": 0.1}]
    values = told(signal, rows)
    assert values == pytest.approx([math.log(1 / 2), math.log(2 / 3), math.log(1 / 4)])
    assert signal.best()[0] == 1


def test_pruning_is_told_the_proxies_of_a_ranking() -> None:
    signal = signal_for(LogSum({"a": -0.5, "b": 1.0}), UP, columns=True)
    assert signal.tell("x", {"a": 2.0, "b": 3.0}) == {"a": -2.0, "b": 3.0}  # the weights carry the directions
    signal = signal_for(RankSum(("a", "b")), UP, columns=True)
    assert signal.tell("x", {"a": 2.0, "b": 3.0}) == {"a": 2.0, "b": -3.0}
    scores = scores_of({"x": {"a": 2.0, "b": 3.0}, "y": {"a": 1.0, "b": 4.0}}, UP)
    np.testing.assert_array_equal(signal.standing(scores), [0, -2])  # the ranking's own order


def test_a_ranking_needs_its_proxies() -> None:
    with pytest.raises(InputError, match="the ranking needs 'zico', which is not measured"):
        signal_for(LogSum({"zico": 1.0}), UP)


def test_any_other_ranking_sees_everything() -> None:
    class Centred(Ranking):
        proxies = ("a",)

        def __call__(self, scores: Scores) -> np.ndarray:
            return scores.column("a") - scores.column("a").mean()

    signal = signal_for(Centred(), {"a": True})
    assert told(signal, [{"a": 1.0}, {"a": 3.0}, {"a": 5.0}]) == [0.0, 1.0, 2.0]
    assert signal.best() == (2, 2.0)


def test_a_table_has_fidelities_and_costs() -> None:
    table = Lookup("acc", [(0,), (1,)], {0.1: np.array([1.0, 2.0]), 1.0: np.array([5.0, np.nan])}, np.array([10.0, 20]))
    assert table(Proposal((1,), 0.05)).values == {"acc": 2.0}
    assert table(Proposal((1,), 0.05)).cost == pytest.approx(2.0)
    assert table(Proposal((0,), 0.5)).values == {"acc": 5.0}
    assert table(Proposal((1,))).failures == {"acc": "the table has no value"}
    with pytest.raises(InputError, match="no row for \\(7,\\)"):
        table(Proposal((7,)))
    with pytest.raises(InputError, match="2 archs were given with a column of 1"):
        Lookup("acc", [(0,), (1,)], {1.0: np.ones(1)}, np.ones(2))


def test_a_function_is_called_once_per_arch_and_fidelity(tmp_path) -> None:
    calls = []

    def train(arch, fidelity):
        calls.append((arch, fidelity))
        return fidelity * sum(arch) if arch[0] else math.inf

    measure = ByFunction("accuracy", train, SPACE, store=str(tmp_path / "s.sqlite"))
    for _ in range(2):
        assert measure(Proposal((1,) * 6, 0.5)).values == {"accuracy": 3.0}
        assert measure(Proposal((1,) * 6)).values == {"accuracy": 6.0}
        assert "inf" in measure(Proposal((0,) * 6)).failures["accuracy"]
    assert calls == [((1,) * 6, 0.5), ((1,) * 6, 1.0), ((0,) * 6, 1.0)]
    measure.close()


def test_scores_are_kept_when_they_exist(tmp_path) -> None:
    path = tmp_path / "scores.sqlite"
    measure = ByProxies(SPACE, TASK, select("params,naswot"), batch=8, store=str(path))
    outcome = measure(Proposal((1,) * 6))
    assert outcome.values["params"] == SPACE.counts((1,) * 6, TASK).params
    with SqliteStore(path) as store:
        rows = [(row.key.proxy, row.result.value) for row in store.rows()]
    assert dict(rows).keys() == {"params", "naswot"}
    assert measure(Proposal((1,) * 6)) == outcome
    measure.close()


def test_a_region_alone_in_a_cell_is_scored() -> None:
    """The cell of a region of singletons is the cell of its arch, so the paper's setting scores them alike."""
    arch = (3, 1, 2, 0, 3, 1)
    measure = ByProxies(SPACE, TASK, select("linear_regions"), init="paper", batch=60)
    region = tuple(frozenset({option}) for option in arch)
    open_region = tuple(frozenset({option, 3}) for option in arch)
    assert measure(Proposal(region)).values == measure(Proposal(arch)).values
    assert measure(Proposal(open_region)).values["linear_regions"] > 1


def test_twins_share_a_key_unless_the_canonical_one_breaks_a_limit() -> None:
    arch = (3, 0, 0, 1, 0, 0)
    assert canonical_key(SPACE, None)(arch) == (0, 0, 0, 1, 0, 0)
    assert canonical_key(SPACE, lambda other: other == arch)(arch) == arch
    region = tuple(frozenset({0, 1}) for _ in arch)
    assert canonical_key(SPACE, None)(region) == region
    for wrong in ((0, 0, 0, -1, 0, 0), (0, 0, 0, 5, 0, 0), (0,) * 5, (0, 0, 0, 1.5, 0, 0), (0, 0, 0, "1", 0, 0)):
        with pytest.raises(InputError, match="was proposed, which nb201 has no options for"):
            canonical_key(SPACE, None)(wrong)


def test_whatever_goes_wrong_has_a_reason() -> None:
    def broken(arch, fidelity):
        raise ZeroDivisionError("no\nway")

    measure = ByFunction("accuracy", broken, SPACE)
    outcome = guarded(measure, Proposal((1,) * 6))
    assert outcome.failures == {"accuracy": "ZeroDivisionError: no way"}
    assert measure.failed("why").failures == {"accuracy": "why"}
