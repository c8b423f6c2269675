from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainless.core.errors import InputError, UnknownName
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe.counts import count
from trainless.probe.probe import Probe
from trainless.scoring.costs import Built, Latency, costs, feasible, forward_backward_ms, measured_latency, memory
from trainless.spaces.custom import space_from
from trainless.spaces.moves import enumerate_archs, sample
from trainless.spaces.nb201 import NasBench201
from trainless.store import SqliteStore

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def test_counts_are_those_of_the_built_network() -> None:
    known = costs(SPACE, TASK)
    for arch in [(3, 1, 2, 0, 3, 1), (0, 0, 0, 1, 0, 0)]:
        net = count(SPACE.build(arch, TASK), TASK.input_shape)
        assert (known["params"](arch), known["flops"](arch), known["layers"](arch)) == (
            net.params,
            net.flops,
            net.layers,
        )


def test_sampling_is_uniform_over_what_is_feasible() -> None:
    known = costs(SPACE, TASK)
    few = feasible(SPACE, known, {"flops": known["flops"]((2, 1, 1, 1, 1, 1)), "layers": 1000})
    region = tuple(frozenset({1, 2, 3}) if place < 3 else frozenset({1}) for place in range(6))
    rng = np.random.default_rng(0)
    drawn = Counter(sample(SPACE, rng, feasible=few, region=region) for _ in range(2000))
    inside = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)]  # at most one cheap convolution
    assert {arch[:3] for arch in drawn} == set(inside)
    assert all(abs(number - 500) < 100 for number in drawn.values())  # 5 standard deviations of 500 in 2000


def test_a_limit_is_kept_by_everything_and_excludes_something() -> None:
    known = costs(SPACE, TASK)
    most = known["params"]((3, 1, 1, 1, 1, 1))
    kept = feasible(SPACE, known, {"params": most})
    inside = [arch for arch in enumerate_archs(SPACE) if kept(arch)]
    assert inside == [arch for arch in enumerate_archs(SPACE) if known["params"](arch) <= most]
    assert 0 < len(inside) < 15625
    assert not kept((9, 9, 9, 9, 9, 9))
    assert feasible(SPACE, known, {}) is None


def test_memory_is_weights_and_outputs() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 64, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.conv(x).flatten(1))

    class OneNet(NasBench201):
        def build(self, arch, task):
            return Net()

    expected = 4 * ((3 * 4 * 9 + 4) + (256 * 10 + 10) + 4 * 64 + 10)
    assert memory(OneNet(2, 1), (0,) * 6, TASK) == expected
    known = costs(SPACE, TASK, wanted=["memory"])
    assert known["memory"]((3,) * 6) > known["memory"]((1,) * 6) > 0


def test_latency_is_measured_once_and_found_again() -> None:
    arch = (3, 3, 3, 3, 3, 3)
    with SqliteStore(":memory:") as store:
        first = Latency(SPACE, TASK, store)(arch)
        assert 0 < first < 1
        assert Latency(SPACE, TASK, store)(arch) == first
        kept = feasible(SPACE, costs(SPACE, TASK, store=store, wanted=["latency"]), {"latency": first})
        assert kept(arch)
        assert not feasible(SPACE, {"latency": lambda arch: 2 * first}, {"latency": first})(arch)


def test_latency_is_the_median_in_seconds() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.004)
            return x

    threads = torch.get_num_threads()
    assert 0.004 <= measured_latency(Slow(), torch.zeros(1, 1)) < 0.05
    assert torch.get_num_threads() == threads


def test_a_slow_cost_is_asked_last() -> None:
    asked = []
    known = costs(SPACE, TASK) | {"latency": lambda arch: float(asked.append(arch) or 0.0)}
    kept = feasible(SPACE, known, {"latency": 1.0, "flops": known["flops"]((1,) * 6)})
    assert not kept((3,) * 6)
    assert asked == []
    assert kept((1,) * 6)
    assert asked == [(1,) * 6]


def test_a_given_cost_replaces_ours() -> None:
    table = {(1,) * 6: 0.001}
    known = costs(SPACE, TASK, given={"latency": table.__getitem__}, wanted=["latency"])
    assert known["latency"]((1,) * 6) == 0.001


def test_mistakes_are_named() -> None:
    with pytest.raises(UnknownName, match="no cost is called 'weight'"):
        costs(SPACE, TASK, wanted=["weight"])
    with pytest.raises(UnknownName, match="a limit on 'latency' was given"):
        feasible(SPACE, costs(SPACE, TASK), {"latency": 1.0})
    with pytest.raises(InputError, match="a limit of 0 on flops"):
        feasible(SPACE, costs(SPACE, TASK), {"flops": 0})


def test_an_impossible_latency_is_given_up_with_what_was_seen() -> None:
    told: list[tuple[str, int, float]] = []
    seconds = {arch: 0.001 * (1 + sum(arch)) for arch in enumerate_archs(SPACE)}
    known = {"latency": Built(seconds.__getitem__)}
    kept = feasible(SPACE, known, {"latency": 1e-6}, lambda *each: told.append(each))
    with pytest.raises(InputError, match=r"300 networks were measured here, and none keeps the limit: the least"):
        sample(SPACE, np.random.default_rng(0), feasible=kept)
    assert [count for _, count, _ in told] == list(range(1, 301))  # every arch counts once
    assert told[-1][2] == min(least for _, _, least in told)
    assert f"is {1000 * told[-1][2]:.3g} ms, above the limit of 0.001 ms: allow more (--max-latency)" in kept.refused()


def test_a_possible_latency_is_not_given_up() -> None:
    seen: list[tuple[int, ...]] = []

    def latency(arch: tuple[int, ...]) -> float:
        seen.append(arch)
        return 1.0 if len(seen) > 1 else 0.1

    kept = feasible(SPACE, {"latency": Built(latency)}, {"latency": 0.5})
    answers = [kept(arch) for _, arch in zip(range(400), enumerate_archs(SPACE), strict=False)]
    assert answers == [True] + [False] * 399
    assert kept.refused() == ""


def test_limits_that_nothing_keeps_together_are_named() -> None:
    known = {"params": lambda arch: 1.0 + arch[0], "flops": lambda arch: 5.0 - arch[0]}
    kept = feasible(SPACE, known, {"params": 2, "flops": 2})
    with pytest.raises(InputError, match="the least flops seen among networks that keep the limits on params are 4, "):
        sample(SPACE, np.random.default_rng(0), feasible=kept, tries=3000)
    with pytest.raises(InputError, match=r"the least params seen are 1, above the limit of 0\.5"):
        sample(SPACE, np.random.default_rng(0), feasible=feasible(SPACE, known, {"params": 0.5}), tries=3000)


def test_a_table_is_asked_as_often_as_sampling_likes() -> None:
    seconds = dict.fromkeys(enumerate_archs(SPACE), 1.0) | {(4,) * 6: 0.1}
    kept = feasible(SPACE, {"latency": seconds.__getitem__}, {"latency": 0.5})
    assert [arch for arch in enumerate_archs(SPACE) if kept(arch)] == [(4,) * 6]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_space_that_cannot_count_is_counted_in_outline(lazy: bool) -> None:
    def net(choices: dict[str, int]) -> nn.Module:
        first = nn.LazyLinear(choices["width"]) if lazy else nn.Linear(192, choices["width"])
        return nn.Sequential(nn.Flatten(), first, nn.Linear(choices["width"], 10))

    space = space_from(net, {"width": [4, 8, 16]})
    known = costs(space, TASK, wanted=["params", "flops", "layers", "memory"])
    for arch, width in (((0,), 4), ((2,), 16)):
        weights = 193 * width + (width + 1) * 10
        assert known["params"](arch) == weights
        assert known["flops"](arch) == 192 * width + width * 10
        assert known["layers"](arch) == 4
        assert known["memory"](arch) == 4 * (weights + 192 + width + 10)
    kept = feasible(space, known, {"params": 2000})
    assert [kept((place,)) for place in range(3)] == [True, True, False]


def test_a_build_that_fails_in_outline_says_so() -> None:
    def net(choices: dict[str, int]) -> nn.Module:
        return nn.Linear(1, int(torch.ones(2).sum()))

    space = space_from(net, {"a": [1]})
    with pytest.raises(InputError, match=r"net: a=1 cannot be made in outline \(.*: mend its build, or leave out"):
        costs(space, TASK, wanted=["params"])["params"]((0,))


class SlowAtFirst(nn.Linear):
    """Takes its time in the first pass, as an LSTM does."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).passes += 1
        time.sleep(0.4 if self.passes == 1 else 0.001)
        return super().forward(x)


def test_the_unit_of_costs_is_measured_after_a_first_pass() -> None:
    p = Probe.of(SlowAtFirst(3, 2), (torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)), Target("binary", 2))
    SlowAtFirst.passes = 0
    assert forward_backward_ms(p) < 350
    assert SlowAtFirst.passes == 2
