"""Sample weights as repetition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainless.core.types import Array
from trainless.tasks.weights import MANY, RepeatedRows, repeated, rounded

WEIGHTS = st.lists(st.integers(0, 5), min_size=2, max_size=40).filter(any)


def shown(found: RepeatedRows, x: Array, y: Array) -> list[tuple[float, int, int]]:
    """What there is, in its order, without a word on which rows it came from."""
    rows = zip(found.rows, found.times, strict=True)
    return [(float(x[row, 0]), int(y[row]), int(times)) for row, times in rows]


@given(WEIGHTS, st.integers(1, 6), st.integers(0, 100))
def test_twice_the_weight_is_twice_in_the_data_in_any_order(given_: list[int], kinds: int, seed: int) -> None:
    weight, random = np.array(given_), np.random.default_rng(seed)
    x, y = random.integers(0, kinds, (len(weight), 1)).astype(np.float32), random.integers(0, 2, len(weight))
    many = np.repeat(np.arange(len(weight)), weight)
    order = random.permutation(len(many))
    found, again = repeated(x, y, weight), repeated(x[many][order], y[many][order], np.ones(len(many)))
    assert shown(found, x, y) == shown(again, x[many][order], y[many][order])
    assert found.cases == again.cases
    assert found.times.sum() == weight.sum()  # so few are cases of their own


def test_equal_samples_are_one_case_unless_they_say_too_little() -> None:
    x, y, weight = np.arange(MANY, dtype=np.float32)[:, None], np.arange(MANY) % 2, np.full(MANY, 2.0)
    weight[0] = 4.0
    found = repeated(x, y, weight)
    assert (found.cases, sorted(found.times.tolist())) == (False, [1] * (MANY - 1) + [2])
    assert repeated(x[1:], y[1:], weight[1:]).cases  # few different ones
    assert repeated(np.concatenate([x, x]), np.concatenate([y, 1 - y]), np.ones(2 * MANY)).cases  # labels contradict


def test_equal_samples_of_equal_number_are_there_once() -> None:
    x, y = np.arange(MANY, dtype=np.float32)[:, None], np.arange(MANY) % 2
    found = repeated(x, y, np.full(MANY, 3.0))
    assert found.times.tolist() == [1] * MANY


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=60), st.data())
def test_any_run_of_rounded_weights_has_its_share_to_within_one(weights: list[float], data: st.DataObject) -> None:
    weight = np.array(weights)
    times = rounded(weight)
    first = data.draw(st.integers(0, len(weights)))
    last = data.draw(st.integers(first, len(weights)))
    share = times.sum() * weight[first:last].sum() / weight.sum()
    assert abs(times[first:last].sum() - share) <= 1 + 1e-6
