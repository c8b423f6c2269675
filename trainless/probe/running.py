"""Running a network as a function of its weights: its own code, its own buffers untouched, one tensor of outputs."""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from trainless.core.errors import InputError, TrainlessError, Unscorable
from trainless.probe.copies import together
from trainless.probe.layers import CONVOLUTIONS, is_ours, modules, tied
from trainless.probe.norms import leaves_buffers

_CHECKPOINTED = "the network recomputes its activations in the backward pass (checkpointing): turn that off to score it"


@contextmanager
def at_a_point(where: str) -> Iterator[None]:
    """Let what a network's own code refuses at another point than the batch's be a reason of the network's.

    Example:
        >>> with at_a_point("in double precision"):
        ...     torch.zeros(2) @ torch.zeros(3)
        Traceback (most recent call last):
        trainless.core.errors.Unscorable: the network does not run in double precision
    """
    try:
        yield
    except (TrainlessError, Unscorable, torch.OutOfMemoryError):
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise Unscorable(f"the network does not run {where}") from error


def run(net: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """Call the network with these weights on a copy of the input and insist on one tensor."""
    precision = other_precision(net, weights)
    with torch._C.DisableTorchFunction():  # who watches the network is not to see its buffers copied
        buffers = own_buffers(net, precision)
    mixing = nullcontext() if precision is None else _OnePrecision(precision)
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks(_CHECKPOINTED), mixing, as_before(net):
            outputs = torch.func.functional_call(net, {**buffers, **weights}, (x.clone(),), tie_weights=tied(net))
    except RuntimeError as error:
        raise InputError(_CHECKPOINTED) if _CHECKPOINTED in str(error) else error from error
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the network returned a {type(outputs).__name__}; one tensor of logits or values is needed:"
            " choose it with the adapter argument, such as adapter=lambda out: out[0]"
        )
    return outputs


_OF_TORCH = frozenset(vars(nn.Module()))
_CONTAINERS = (dict, list, set, OrderedDict, deque)


@contextmanager
def as_before(net: nn.Module) -> Iterator[None]:
    """Undo what a pass leaves behind in attributes, such as counters and caches, so that every pass is the first."""
    if is_ours(net):
        yield
        return
    held = []
    for _, module in modules(net):
        if type(module).__module__.startswith("torch.nn.modules."):
            continue
        own = vars(module)
        inside = [(value, copy.copy(value)) for key, value in own.items() if _filled(key, value)]
        held.append((own, dict(own), inside))
    try:
        yield
    finally:
        for own, before, inside in held:
            if any(own.get(key) is not value for key, value in before.items()) or len(own) != len(before):
                own.clear()
                own.update(before)
            for value, contents in inside:
                if len(value) != len(contents) or any(
                    a is not b for a, b in zip(_all(value), _all(contents), strict=True)
                ):
                    _refilled(value, contents)


def _filled(key: str, value: object) -> bool:
    return type(value) in _CONTAINERS and key not in _OF_TORCH


def _all(held: Any) -> Iterator[Any]:
    """What is in a container, keys and values."""
    yield from held
    if isinstance(held, dict):
        yield from held.values()


def _refilled(held: Any, contents: Any) -> None:
    held.clear()
    (held.extend if isinstance(held, (list, deque)) else held.update)(contents)


class _OnePrecision(TorchFunctionMode):
    """Lets products take numbers that a network makes in its own precision when its weights have another."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _PRODUCTS:
            args, kwargs = tree_map_only(Tensor, self._widened, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _widened(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor


_PRODUCTS: frozenset[Callable[..., Any]] = frozenset(
    (
        *(F.linear, *CONVOLUTIONS, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, torch.einsum),
        *(torch.matmul, torch.bmm, torch.mm, torch.addmm, torch.baddbmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm),
        *(Tensor.mm, F.scaled_dot_product_attention, F.layer_norm, F.group_norm),
    )
)


def other_precision(net: nn.Module, weights: dict[str, Tensor]) -> torch.dtype | None:
    """The type of the weights where it is not that of the network's own."""
    own = next(net.parameters(), None)
    given = next(iter(weights.values()), None)
    return None if own is None or given is None or own.dtype == given.dtype else given.dtype


def own_buffers(net: nn.Module, dtype: torch.dtype | None, every: bool = False) -> dict[str, Tensor]:
    """Copies of the buffers that a forward pass may change, such as spectral norm's; batch norms never reach theirs."""
    parameters = {id(tensor) for _, module in modules(net) for tensor in module._parameters.values()}
    named = {
        f"{name}.{own}" if name else own: buffer
        for name, module in modules(net)
        if every or not leaves_buffers(module)
        for own, buffer in module._buffers.items()
        if buffer is not None and id(buffer) not in parameters
    }
    each = {id(buffer): buffer for buffer in named.values()}  # two modules may hold the same one
    same = [buffer for buffer in each.values() if buffer.is_cuda and (dtype is None or not buffer.is_floating_point())]
    copies = together(same)
    copies |= {
        at: buffer.to(dtype if buffer.is_floating_point() else None, copy=True)
        for at, buffer in each.items()
        if at not in copies
    }
    return {name: copies[id(buffer)] for name, buffer in named.items()}
