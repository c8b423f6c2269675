"""One recorded forward pass: every linear map, norm, activation and block that the network went through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from trainless.core.errors import InputError, Unscorable
from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.structure import modules

CONVOLUTIONS: dict[Callable[..., Any], int] = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
RECTIFIERS: frozenset[Callable[..., Any]] = frozenset((F.relu, torch.relu, Tensor.relu, F.relu6))
ACTIVATIONS = RECTIFIERS | {F.leaky_relu, F.prelu, F.elu, F.gelu, F.silu, F.hardswish, F.mish}


@dataclass(frozen=True, eq=False)
class Conv:
    """Stride, padding, dilation and groups of a convolution, one number per axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Layer:
    """One application of a convolution or linear layer: ``output = weight ∗ x (+ bias)``."""

    weight: str
    bias: str | None
    x: Tensor
    output: Tensor
    conv: Conv | None


@dataclass(frozen=True, eq=False)
class Standardised:
    """One application of a batch norm: ``output = weight · x̂ + bias``."""

    weight: str
    bias: str
    x: Tensor
    output: Tensor


@dataclass(eq=False)
class Activation:
    """A rectifier: where ``gate > 0`` it is open; ``times`` counts how often the same tensor was rectified."""

    gate: Tensor
    times: int = 1
    feeds_convolution: int = 0


@dataclass(frozen=True, eq=False)
class Trace:
    """The forward pass with its graph: leaves, outputs and everything on the way, in forward order."""

    x: Tensor
    weights: dict[str, Tensor]
    outputs: Tensor
    layers: list[Layer] = field(default_factory=list)
    norms: list[Standardised] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    blocks: dict[str, Tensor] = field(default_factory=dict)


@quantity
def trace(p: Probe) -> Trace:
    """THE forward pass of a probe, graph kept; whatever needs one uses this one."""
    x = p.x.detach().clone()
    if x.is_floating_point():
        x.requires_grad_()
    weights = {name: tensor.detach().requires_grad_() for name, tensor in p.weights.items()}
    recorder = Recorder(p.net, weights)
    wanted = set(block_names(p.net))
    hooks = [module.register_forward_hook(recorder.block(name)) for name, module in modules(p.net) if name in wanted]
    observe = recorder.norm if p.norm != "batch" else None
    try:
        with quiet_randomness(p), normalised(p.net, p.norm, p.kept_norms, observe), recorder, torch.enable_grad():
            outputs = run(p.net, weights, x)
    finally:
        for hook in hooks:
            hook.remove()
    p.target.require(outputs)
    return Trace(
        x, weights, outputs, recorder.layers, recorder.norms, list(recorder.activations.values()), recorder.blocks
    )


def rectifiers(p: Probe) -> list[Activation]:
    """The rectifying activations of a probe, every one with samples along its first axis."""
    found = trace(p).activations
    if not found:
        raise Unscorable("the network has no rectifying activation")
    if any(len(activation.gate) != len(p.x) for activation in found):
        raise Unscorable("a rectifier's first axis is not the samples': their patterns cannot be told apart")
    return found


def leaves(t: Trace) -> list[Tensor]:
    """What to differentiate by so that gradients pass through the whole network: the input, or embeddings of tokens."""
    if t.x.requires_grad:
        return [t.x]
    layers = {layer.weight for layer in t.layers}
    return [tensor for name, tensor in t.weights.items() if name not in layers] or list(t.weights.values())


def run(net: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """Call the network with these weights and insist on one tensor."""
    inputs = x.clone() if x.requires_grad else x
    buffers = _own_buffers(net, x.dtype if x.is_floating_point() else None)
    outputs = torch.func.functional_call(net, {**buffers, **weights}, (inputs,), tie_weights=True)
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the network returned a {type(outputs).__name__}; one tensor of logits or values is needed:"
            " choose it with the adapter argument, such as adapter=lambda out: out[0]"
        )
    return outputs


def _own_buffers(net: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Copies of the buffers that a forward pass may change, such as spectral norm's; batch norms never reach theirs."""
    return {
        f"{name}.{own}" if name else own: buffer.to(dtype if buffer.is_floating_point() else None, copy=True)
        for name, module in modules(net)
        if not isinstance(module, _BatchNorm)
        for own, buffer in module.named_buffers(recurse=False)
    }


def block_names(net: nn.Module) -> tuple[str, ...]:
    """The modules between which information flows block by block.

    A network of ours names them; of any other network they are its children, a list or sequence of modules
    standing for its members.
    """
    named = getattr(net, "block_names", ())
    if named:
        return tuple(named)
    names: list[str] = []
    for name, child in net.named_children():
        if isinstance(child, nn.ModuleList | nn.Sequential):
            names += [f"{name}.{inner}" for inner, _ in child.named_children()]
        else:
            names.append(name)
    return tuple(names)


class Recorder(TorchFunctionMode):
    """Notes each call of interest while the network runs."""

    def __init__(self, net: nn.Module, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.names = {id(tensor): name for name, tensor in weights.items()}
        self.modules = {module: name for name, module in modules(net)}
        self.layers: list[Layer] = []
        self.norms: list[Standardised] = []
        self.activations: dict[int, Activation] = {}
        self.rectified: dict[int, Activation] = {}
        self.alive: list[Tensor] = []  # so that an id stays that tensor's
        self.blocks: dict[str, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in CONVOLUTIONS or func is F.linear:
            self._layer(func, result, *args, **(kwargs or {}))
        elif func in ACTIVATIONS:
            self._activation(func, args[0] if args else (kwargs or {})["input"], result)
        return result

    def _layer(
        self,
        func: Callable[..., Any],
        output: Tensor,
        input: Tensor,  # noqa: A002 - torch's own keyword
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
    ) -> None:
        if id(input) in self.rectified:
            self.rectified[id(input)].feeds_convolution += func is not F.linear
        if id(weight) not in self.names:
            return
        conv = None
        if func in CONVOLUTIONS:
            conv = _conv(tuple(weight.shape[2:]), stride, padding, dilation, groups)
        name = self.names.get(id(bias)) if bias is not None else None
        self.layers.append(Layer(self.names[id(weight)], name, input.detach(), output, conv))

    def _activation(self, func: Callable[..., Any], x: Tensor, output: Tensor) -> None:
        if id(x) in self.activations:
            seen = self.activations[id(x)]
            seen.times += 1
        else:
            # a ReLU's output is kept for the backward pass anyway, and is positive where its input is
            gate = output if func in RECTIFIERS else x
            seen = self.activations[id(x)] = Activation(gate.detach())
            self.alive.append(x)
        self.rectified[id(output)] = seen
        self.alive.append(output)

    def norm(self, module: nn.Module, x: Tensor, standard: Tensor, output: Tensor) -> None:
        """Note a batch norm: the observer of ``normalised``."""
        name = self.modules[module]
        self.norms.append(Standardised(f"{name}.weight", f"{name}.bias", standard.detach(), output))

    def block(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        """A forward hook that keeps a block's output."""

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                self.blocks[name] = output

        return keep


def _conv(
    kernel: tuple[int, ...],
    stride: int | tuple[int, ...],
    padding: str | int | tuple[int, ...],
    dilation: int | tuple[int, ...],
    groups: int,
) -> Conv:
    def each(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * len(kernel) if isinstance(value, int) else tuple(value) * (len(kernel) // len(value))

    if isinstance(padding, str):
        wide = [(size - 1) * step for size, step in zip(kernel, each(dilation), strict=True)]
        padding = tuple(total // 2 for total in wide) if padding == "same" else 0
    return Conv(kernel, each(stride), each(padding), each(dilation), groups)
