"""Paths (first proposed here): how many ways lead through a network, from the places of its input to its output."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trainless.core.errors import Unscorable
from trainless.probe.layers import block_names, removed_after
from trainless.probe.points import Draw, Ones, Parameters, is_bias
from trainless.probe.probe import Probe
from trainless.probe.record import prepared
from trainless.probe.running import at_a_point, run
from trainless.probe.scales import Scales
from trainless.proxies.proxy import proxy

_OPEN = frozenset(
    (
        *(F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, F.relu6, F.leaky_relu, F.prelu, F.elu, F.selu),
        *(F.celu, F.gelu, F.silu, F.mish, F.hardswish, F.softplus, F.hardtanh, F.tanh, torch.tanh, Tensor.tanh),
        *(torch.selu, torch.celu, torch.prelu),
    )
)
_GATES = frozenset((torch.sigmoid, Tensor.sigmoid, F.sigmoid, F.hardsigmoid))
_SOFTMAX = frozenset((F.softmax, torch.softmax, Tensor.softmax))


@proxy(higher_is_better=True, data=False, paper="trainless", aspect="depth")
def paths(p: Probe) -> float:
    """Logarithm of the number of ways from the places of the input to a place of the output, channels averaged.

    log mean f(1), f the network whose kernels are 1 / (channels that enter): a convolution adds one way for each place
    of its kernel, streams that are summed add theirs, layers in a row multiply. A pooling averages, activations are
    open, attention has a way from each token, and nothing is normalised. Where a network names its blocks, the
    sum of this over the blocks, each entered by ones: cells with two inputs are looked at whole.

    It counts depth and kernels along the ways that there are, and nothing else: not the width, not the weights, not the
    data. Deep networks of which most is bypassed have few ways, and kernels that are larger than their map count for
    the places that it has.

    Fails:
        No way from input to output, or tokens whose embeddings cannot be reached.
    """
    q = p.once(weights=_Averaging(), x=Ones(), norm="off")
    blocks = [q.net.get_submodule(name) for name in block_names(q.net)] if q.x.is_floating_point() else []
    found: list[float] = []
    scales = Scales()

    def ones(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(torch.ones_like(each) if isinstance(each, Tensor) else each for each in inputs)

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        found.append(_logarithm(output if isinstance(output, Tensor) else output[0], scales))

    with at_a_point("with constant weights"), torch.no_grad(), prepared(q), scales, _Ways():
        hooks = [block.register_forward_pre_hook(ones) for block in blocks]
        with removed_after([*hooks, *(block.register_forward_hook(keep) for block in blocks)]):
            whole = _logarithm(run(q.net, q.weights, q.x), scales)
    total = math.fsum(found) if found else whole
    if total == math.inf:
        raise Unscorable("the number of ways is beyond double precision")
    if not math.isfinite(total):
        raise Unscorable("no way leads from the input to the output")
    return total


def _logarithm(values: Tensor, scales: Scales) -> float:
    """Log of their mean; −∞ where there is none that is positive."""
    with torch._C.DisableTorchFunction():
        mean = float(values.mean())
    if not mean > 0:
        return -math.inf
    return math.log(mean) + scales.of(values) * math.log(2) if mean < math.inf else math.inf


@dataclass(frozen=True)
class _Averaging:
    """Kernels and matrices average over what enters and add up over their places; scales are 1, biases 0."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return {name: self._of(name, tensor) for name, tensor in own.items()}

    def _of(self, name: str, tensor: Tensor) -> Tensor:
        value = 0.0 if is_bias(name) else 1.0 / tensor.shape[1] if tensor.ndim > 1 else 1.0
        return torch.full_like(tensor, value, dtype=torch.float64)


class _Ways(TorchFunctionMode):
    """Lets activations be open, and attention add up over what it would average."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _OPEN:
            return args[0] if args else kwargs["input"]
        if func in _GATES:
            return torch.ones_like(args[0] if args else kwargs["input"])
        if func is F.glu:
            x, axis = args[0] if args else kwargs["input"], args[1] if len(args) > 1 else kwargs.get("dim", -1)
            return x.chunk(2, axis)[0]
        if func is F.embedding:
            return torch.ones_like(func(*args, **kwargs))
        result = func(*args, **kwargs)
        if func in _SOFTMAX:
            axis = args[1] if len(args) > 1 else kwargs.get("dim", -1)
            return result * result.shape[axis]
        if func is F.scaled_dot_product_attention:
            key = args[1] if len(args) > 1 else kwargs["key"]
            return result * key.shape[-2]
        if func is F.multi_head_attention_forward:
            key = args[1] if len(args) > 1 else kwargs["key"]
            return (result[0] * key.shape[0], *result[1:])
        return result
