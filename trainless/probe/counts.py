"""The size of a network: parameters, multiply–accumulates, parameter tensors and depth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from trainless.core.errors import InputError, Unscorable
from trainless.core.seeds import seeded
from trainless.core.text import one_line
from trainless.probe.layers import removed_after
from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, private_copy, quantity, quiet_randomness
from trainless.probe.running import run
from trainless.spaces.protocol import Counts


def count(net: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Counts:
    """Count a network for one sample without allocating weights or computing anything.

    Multiply–accumulates are those of convolutions, linear layers, matrix products, attention and recurrent
    cells; norms, activations, pooling and biases count nothing.

    Args:
        net: Any network; it is not touched.
        input_shape: The shape of one sample.
        dtype: Type of the inputs; integers for tokens.

    Example:
        >>> count(nn.Linear(4, 3), (4,))
        Counts(params=15, flops=12, layers=2)
    """
    parameters = list(net.parameters())
    structure = private_copy(net)
    tensors = itertools.chain(structure.named_parameters(), structure.named_buffers())
    shapes = {name: tensor.detach().to("meta") for name, tensor in tensors}
    x = torch.zeros((1, *input_shape), dtype=dtype, device="meta")
    try:  # what the network makes on its way, such as random numbers, has no values either
        with x.device, torch.no_grad(), seeded(0, x.device), counting(structure) as counter:
            torch.func.functional_call(structure, shapes, (x,), tie_weights=True)
    except (NotImplementedError, RuntimeError) as error:
        raise Unscorable(f"the network cannot be counted on shapes alone: {error}") from error
    return Counts(sum(tensor.numel() for tensor in parameters), counter.macs, len(parameters))


@quantity
def network_counts(p: Probe) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of the probe's network, from one sample."""
    try:
        with torch.no_grad(), quiet_randomness(p), counting(p.net) as counter:
            run(p.net, p.weights, p.x[:1])
    except (InputError, Unscorable):
        raise
    except Exception as error:  # whatever a network of somebody's raises on a sample alone
        raise Unscorable(f"the network cannot be counted on one sample: {one_line(error)}") from error
    return Counts(sum(tensor.numel() for tensor in p.weights.values()), counter.macs, len(p.weights))


@contextmanager
def counting(net: nn.Module) -> Iterator[Counter]:
    """Count what a private network multiplies within the block, its norms left out."""
    counter = Counter()
    hooks = [
        module.register_forward_hook(counter.recurrent, with_kwargs=True)
        for module in net.modules()
        if isinstance(module, nn.RNNBase | nn.RNNCellBase)
    ]
    with removed_after(hooks), normalised(net, "off"), counter:
        yield counter


class Counter(TorchFunctionMode):
    """Adds up the multiply–accumulates of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _COMPOSED:
            with _Products() as products:  # type: ignore[no-untyped-call]
                result = func(*args, **kwargs)
            self.macs += products.macs
            return result
        result = func(*args, **kwargs)
        if func in _COST:
            self.macs += _COST[func](result, *args, **kwargs)
        return result

    def recurrent(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A forward hook for recurrent modules: every weight matrix is applied once per step of every sequence."""
        x = args[0] if args else kwargs["input"]
        steps = math.prod((x.data if isinstance(x, PackedSequence) else x).shape[:-1])
        self.macs += steps * sum(tensor.numel() for tensor in module.parameters(recurse=False) if tensor.ndim == 2)


class _Products(TorchDispatchMode):
    """Adds up the matrix products that a function comes down to, whatever its notation."""

    macs = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        place = _OPERANDS.get(func.overloadpacket)
        if place is not None:
            left, right = args[place : place + 2]
            batch = math.prod(left.shape[:-2]) if func.overloadpacket is torch.ops.aten.addbmm else 1
            self.macs += batch * (1 if left.ndim == right.ndim == 1 else result.numel()) * left.shape[-1]
        return result


_ATEN = torch.ops.aten
_OPERANDS = {  # where the two factors stand
    **dict.fromkeys((_ATEN.mm, _ATEN.bmm, _ATEN.mv, _ATEN.dot, _ATEN.vdot), 0),
    **dict.fromkeys((_ATEN.addmm, _ATEN.baddbmm, _ATEN.addmv, _ATEN.addbmm), 1),
}


# parameters are called as PyTorch calls them, because they may be given by name
def _weighted(result: Tensor, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> int:  # noqa: A002
    """Convolutions and linear layers: each output number takes one fan-in of products."""
    return result.numel() * math.prod(weight.shape[1:])


def _transposed(result: Tensor, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> int:  # noqa: A002
    """Transposed convolutions: each input number takes part in one kernel of products."""
    return input.numel() * math.prod(weight.shape[1:])


def _attention(result: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> int:
    """Scores and weighted sums."""
    rows = math.prod(query.shape[:-1])
    return rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _product(result: Tensor, input: Tensor, *args: Any, **kwargs: Any) -> int:  # noqa: A002
    """Matrix products of activations."""
    return result.numel() * input.shape[-1]


def _bilinear(result: Tensor, input1: Tensor, input2: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> int:
    """Bilinear layers: each output number takes a matrix of products of two inputs."""
    return result.numel() * math.prod(weight.shape[1:])


def _multihead(
    result: tuple[Tensor, Tensor], query: Tensor, key: Tensor, value: Tensor, width: int, *args: Any, **kwargs: Any
) -> int:
    """``nn.MultiheadAttention``: four projections, scores and weighted sums."""
    long, short = query.numel() // query.shape[-1], key.numel() // key.shape[-1]
    batch = query.shape[1] if query.ndim == 3 else 1
    projections = long * width * (query.shape[-1] + width) + short * width * (key.shape[-1] + value.shape[-1])
    return projections + 2 * (long // batch) * (short // batch) * batch * width


_COST: dict[Callable[..., Any], Callable[..., int]] = {
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d, F.linear), _weighted),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), _transposed),
    **dict.fromkeys(
        (torch.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mm), _product
    ),
    F.bilinear: _bilinear,
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _multihead,
}

_COMPOSED: frozenset[Any] = frozenset(
    (
        *(torch.einsum, torch.tensordot, torch.chain_matmul, torch.linalg.multi_dot, torch.linalg.matmul),
        *(Tensor.__rmatmul__, torch.vdot, Tensor.vdot, torch.autograd.grad),
        *(
            getattr(place, name)
            for place in (torch, Tensor)
            for name in ("addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "inner")
        ),
    )
)

_DEEPENS: dict[Callable[..., Any], int] = {
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d, F.linear), 1),
    **dict.fromkeys((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), 1),
    **dict.fromkeys((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu), 1),
    **dict.fromkeys((torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell), 1),
    F.multi_head_attention_forward: 2,
}


def depth(net: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """The most convolutions and linear layers on one way from input to output, found by running one sample.

    Norms, activations, poolings, embeddings and sums add nothing. A recurrent cell counts at every step of the
    sequence, one of PyTorch's own recurrent modules once.

    Args:
        net: Any network; it is not touched.
        input_shape: The shape of one sample.
        dtype: Type of the inputs; integers for tokens.

    Example:
        >>> depth(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), (4,))
        2
    """
    ours = private_copy(net).eval()
    device = next((tensor.device for tensor in net.parameters()), None)
    x = torch.zeros((1, *input_shape), dtype=dtype, device=device)
    levels = _Levels()
    try:
        with torch.no_grad(), normalised(ours, "off"), levels:
            outputs = ours(x)
    except (NotImplementedError, RuntimeError) as error:
        raise Unscorable(f"the network cannot run on inputs of shape {tuple(x.shape)}: {error}") from error
    return levels.of(outputs)


class _Levels(TorchFunctionMode):
    """Remembers for every tensor how many layers it has gone through."""

    def __init__(self) -> None:
        super().__init__()
        self._known = WeakIdKeyDictionary()

    def of(self, *values: Any) -> int:
        return max((self._known.get(leaf, 0) for leaf in tree_leaves(values) if isinstance(leaf, Tensor)), default=0)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        level = self.of(args, kwargs) + _DEEPENS.get(func, 0)
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and level > self._known.get(leaf, 0):
                self._known[leaf] = level
        return result
