"""What opens and closes in a network, seen where PyTorch's kernels are called; shares no code with the probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


def entered(net: nn.Module, run: Callable[[], object]) -> list[Tensor]:
    """What enters each activation of a network that opens and closes while it runs, in order.

    Example:
        >>> net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.GELU())
        >>> [float(each) for each in entered(net, lambda: net(torch.zeros(1)))]
        [0.0, 0.0]
    """
    seen = _Gates()
    hooks = []
    for module in net.modules():
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):  # what is inside a cell has no pattern, but of a ReLU
            if getattr(module, "nonlinearity", "") == "relu":
                hooks.append(module.register_forward_hook(seen.step_by_step))
            hooks += [module.register_forward_pre_hook(seen.look_away), module.register_forward_hook(seen.look_again)]
    try:
        with seen:
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen.inputs


def by_sample(gate: Tensor, moved: Sequence[Tensor]) -> Tensor | None:
    """A tensor as one row per sample: of an axis along which every place is moved by one sample alone.

    Args:
        gate: The tensor.
        moved: For each sample, where the tensor changes when this sample's input does.

    Example:
        >>> by_sample(torch.arange(4), [torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1, 0, 1])]).tolist()
        [[0, 2], [1, 3]]
    """
    for axis in range(gate.ndim) if moved else ():
        movers = torch.stack([each.movedim(axis, 0).flatten(1).any(1) if gate.ndim > 1 else each > 0 for each in moved])
        each = movers.sum(1)
        if bool((movers.sum(0) == 1).all()) and bool((each == each[0]).all()):
            return torch.stack([gate.movedim(axis, 0)[row] for row in movers])
    return gate if gate.ndim and len(gate) == len(moved) else None


class _Gates(TorchDispatchMode):
    """Keeps what enters each activation that opens and closes, also where it is written out in simpler operations.

    Written out are: a clamp from zero; ``1 + tanh(u)`` and ``1 + erf(u)``, as in GELU; ``x · Φ(x)``, the same; ``x ·
    sigmoid(c · x)``, as in SiLU; ``relu6(x + 3)``, a hard sigmoid of ``x``; a choice between ``x`` and something by the
    sign of ``x``; ``x`` times whether it is positive; the larger of ``x`` and zero or a part of ``x``; ``x + |x|``; and
    one half of a tensor times the sigmoid of the other.
    """

    KINDS = frozenset(
        (
            *(aten.relu, aten.relu_, aten.relu6, aten.relu6_, aten.gelu, aten.gelu_, aten.hardsigmoid),
            *(aten.silu, aten.silu_, aten.mish, aten.mish_, aten.hardswish, aten.hardswish_, aten.elu, aten.elu_),
            *(aten.celu, aten.celu_, aten.selu, aten.selu_, aten.leaky_relu, aten.leaky_relu_, aten._prelu_kernel),
            *(aten.softplus, aten.threshold, aten.threshold_, aten.rrelu_with_noise, aten.hardsigmoid_),
        )
    )
    CLIPPED = frozenset((aten.hardtanh, aten.hardtanh_, aten.clamp, aten.clamp_, aten.clamp_min, aten.clamp_min_))
    SQUASHED = frozenset((aten.tanh, aten.erf, aten.special_erf, aten.special_ndtr, aten.sigmoid))
    COMPARED = frozenset((aten.gt, aten.ge, aten.lt, aten.le))
    NOTED = SQUASHED | COMPARED
    NOTED |= frozenset((aten.add, aten.mul, aten._to_copy, aten.abs, aten.div, aten.detach, aten.exp, aten.neg))

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs: list[Tensor] = []
        self.away = False
        self.made: dict[int, tuple[Any, list[Any], Tensor]] = {}  # operation, arguments and result, by the result

    def look_away(self, *event: Any) -> None:
        """Keep nothing from here on."""
        self.away = True

    def look_again(self, *event: Any) -> None:
        """Keep what comes."""
        self.away = False

    def step_by_step(self, module: nn.Module, given: Any, output: Any) -> None:
        """Keep what enters the rectifiers of a recurrent module, written out."""
        x, state = given[0], given[1] if len(given) > 1 else None
        if isinstance(module, nn.RNNCell):
            before = torch.zeros_like(output) if state is None else state
            entering = x @ module.weight_ih.T + before @ module.weight_hh.T
            self.inputs.append((entering + module.bias_ih + module.bias_hh).detach())
            return
        if not isinstance(module, nn.RNN) or state is not None or not isinstance(x, Tensor):
            return
        steps = x.transpose(0, 1) if module.batch_first else x
        for layer in range(module.num_layers):
            ways = []
            for end in ("", "_reverse") if module.bidirectional else ("",):
                own = {
                    name: cast(Tensor, getattr(module, f"{name}_l{layer}{end}", torch.zeros(())))
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                }
                before, found = x.new_zeros(steps.shape[1], module.hidden_size), []
                for step in steps.flip(0) if end else steps:
                    entering = step @ own["weight_ih"].T + before @ own["weight_hh"].T
                    found.append(entering + own["bias_ih"] + own["bias_hh"])
                    before = found[-1].clamp(min=0)
                ways.append(torch.stack(found[::-1] if end else found))
            entered = torch.cat(ways, -1)
            self.inputs.append((entered.transpose(0, 1) if module.batch_first else entered).detach().clone())
            steps = entered.clamp(min=0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, given = func.overloadpacket, list(args)
        if not self.away:
            entered = self._entered(kind, given)
            if entered is not None:
                self.inputs.append(entered.detach().clone())
        result = func(*args, **(kwargs or {}))
        if kind in self.NOTED:
            self.made[id(result)] = kind, given, result  # the result is held, so that its id stays its own
        return result

    def _from(self, tensor: Any, *kinds: Any) -> list[Any]:
        """The arguments that a tensor was made from by one of these operations."""
        kind, given, _ = self.made.get(id(tensor), (None, [], None))
        return given if kind in kinds else []

    def _entered(self, kind: Any, given: list[Any]) -> Tensor | None:
        """What entered the activation that this call is or completes."""
        if kind in self.KINDS:
            entered: Tensor = given[0]
            return entered
        if kind is aten.glu:
            gate: Tensor = given[0].chunk(2, given[1] if len(given) > 1 else -1)[1]
            return gate
        if kind in self.CLIPPED:
            return self._clipped(kind in (aten.hardtanh, aten.hardtanh_), given)
        if kind is aten.add and _is(given[1], 1):
            return next(iter(self._from(given[0], aten.tanh, aten.erf, aten.special_erf)), None)
        if kind in (aten.mul, aten.mul_):
            for x, other in (given[:2], given[1::-1]):
                inside = next(iter(self._from(other, aten.sigmoid, aten.special_ndtr)), None)
                if inside is not None and any(x is each for each in (inside, *self._from(inside, aten.mul))):
                    return cast(Tensor, x)
                if inside is not None and isinstance(x, Tensor) and _halves(x, inside):
                    return cast(Tensor, inside)
        return self._chosen(kind, given)

    def _chosen(self, kind: Any, given: list[Any]) -> Tensor | None:
        """What entered a choice by its own sign."""
        if kind is aten.where:
            asked = self._compared(given[0])
            return cast(Tensor, asked) if any(asked is each for each in given[1:]) else None
        if kind in (aten.mul, aten.mul_):
            pairs = [(given[0], given[1]), (given[1], given[0])]
            return next((x for x, other in pairs if isinstance(x, Tensor) and self._compared(other) is x), None)
        if kind in (aten.masked_fill, aten.masked_fill_) and _is(given[2], 0):
            return cast(Tensor, given[0]) if self._compared(given[1]) is given[0] else None
        if kind is aten.index_put_ and _is(given[2], 0) and len(given[1]) == 1:
            return cast(Tensor, self._compared(given[1][0]))
        if kind is aten.maximum:
            for x, other in (given[:2], given[1::-1]):
                if not bool(other.any()) or any(x is each for each in self._from(other, aten.mul)):
                    return cast(Tensor, x)
        if kind is aten.div:  # by 1 + exp(-x): SiLU
            turned = next(iter(self._from(next(iter(self._from(given[1], aten.add)), None), aten.exp)), None)
            return cast(Tensor, given[0]) if any(given[0] is each for each in self._from(turned, aten.neg)) else None
        if kind is aten.add:
            for x, other in (given[:2], given[1::-1]):
                if any(x is each for each in self._from(other, aten.abs)):
                    return cast(Tensor, x)
        return None

    def _compared(self, mask: Any) -> Any:
        """The tensor whose sign a mask says, however it was converted."""
        mask = next(iter(self._from(mask, aten._to_copy)), mask)
        compared = self._from(mask, *self.COMPARED)
        x = next(iter(self._from(compared[0], aten.detach)), compared[0]) if compared else None
        return x if compared and _is(compared[1], 0) else None

    def _clipped(self, symmetric: bool, given: list[Any]) -> Tensor | None:
        limits: list[Any] = [-1.0, 1.0] if symmetric else [None, None]
        x, low, high = [*given, *limits[len(given) - 1 :]]
        if low != 0:
            return cast(Tensor, x) if symmetric else None
        shifted = self._from(x, aten.add)
        if high == 1 and shifted and _is(shifted[1], 0.5):
            return next(iter(self._from(shifted[0], aten.div, aten.mul)), cast(Tensor, x))
        return shifted[0] if high == 6 and shifted and _is(shifted[1], 3) else cast(Tensor, x)


def _halves(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are parts of one in memory."""
    same = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return same and one.shape == other.shape and one.data_ptr() != other.data_ptr()


def _is(value: Any, number: float) -> bool:
    """Whether an argument is this number; scalars may come as tensors."""
    return bool(value == number) if not isinstance(value, Tensor) or value.ndim == 0 else False
