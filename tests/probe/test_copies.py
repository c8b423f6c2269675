"""Copies are those of ``copy.deepcopy``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cases import CASES, Case
from trainless.probe.copies import copied, together


def same(one: Any, other: Any, seen: set[int]) -> None:
    """Two objects hold the same, attribute by attribute, and nothing that can be changed is shared."""
    assert type(one) is type(other)
    if id(one) in seen:
        return
    seen.add(id(one))
    if isinstance(one, Tensor):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr() or not one.numel()
    elif isinstance(one, nn.Module):
        assert one is not other
        assert set(vars(one)) == set(vars(other))
        same(vars(one), vars(other), seen)
    elif isinstance(one, dict):
        assert one is not other
        assert set(one) == set(other)
        for key in one:
            same(one[key], other[key], seen)
    elif isinstance(one, (list, tuple)):
        for left, right in zip(one, other, strict=True):
            same(left, right, seen)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_copy_holds_the_same_and_shares_nothing(case: Case) -> None:
    net = case.make()
    twin = copied(net, {})
    same(net, twin, set())
    same(copy.deepcopy(net), twin, set())


class Entangled(nn.Module):
    """Modules that hold one dictionary, one another, and a tensor of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {}
        self.first, self.second = nn.Linear(2, 2), nn.ReLU()
        self.second.above = [self]  # type: ignore[assignment]
        self.second.cache = self.cache  # type: ignore[assignment]
        self.first.hook = self.first.register_forward_hook(self.note)  # type: ignore[assignment]

    def note(self, *_: Any) -> None:
        self.cache["called"] = True


class OwnWay(nn.Module):
    """Says itself how it is copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnWay:
        made = OwnWay()
        made.copies = 1  # type: ignore[assignment]
        return made


class Stateful(nn.Module):
    """Leaves something out of its state."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = object()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "handle": None}


def test_what_modules_share_their_copies_share() -> None:
    net = Entangled()
    twin: Any = copied(net, {})
    assert twin.second.cache is twin.cache is not net.cache
    assert twin.second.above[0] is twin
    twin.first(torch.ones(1, 2))
    assert twin.cache == {"called": True}
    assert not net.cache


def test_a_way_of_ones_own_is_respected() -> None:
    twin: Any = copied(nn.Sequential(OwnWay(), Stateful(), nn.LSTM(2, 3)), {})
    assert twin[0].copies == 1
    assert twin[1].handle is None
    assert twin[2](torch.ones(1, 1, 2))[0].shape == (1, 1, 3)


def test_the_memo_says_what_is_shared() -> None:
    net = nn.BatchNorm1d(2)
    twin = copied(net, {id(net.weight): net.weight})
    assert twin.weight is net.weight
    assert twin.running_mean is not net.running_mean


def test_tensors_copiedtogether_are_apart() -> None:
    tensors = [torch.ones(2), torch.zeros(()), torch.arange(3), torch.ones(2, 2)]
    twins = together(tensors)
    assert all(torch.equal(twins[id(each)], each) for each in tensors)
    twins[id(tensors[0])].add_(1)
    assert tensors[0].tolist() == [1, 1]
    assert twins[id(tensors[3])].tolist() == [[1, 1], [1, 1]]
