"""One recorded forward pass: every linear map, norm, activation and block that the network went through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from trainless.core.errors import InputError, Unscorable
from trainless.probe.blocks import Flow, Stream
from trainless.probe.layers import (
    CONVOLUTIONS,
    EmbeddingLookup,
    Layer,
    Standardised,
    block_names,
    conv_of,
    modules,
    removed_after,
    tied,
)
from trainless.probe.layout import MemoryLayout, laid_out, run_in
from trainless.probe.norms import Statistics, is_known, normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness

_CHECKPOINTED = "the network recomputes its activations in the backward pass (checkpointing): turn that off to score it"
RECTIFIERS: frozenset[Callable[..., Any]] = frozenset(
    (F.relu, torch.relu, Tensor.relu, F.relu6, torch.relu_, Tensor.relu_)
)
_RELU = frozenset((F.relu, torch.relu, Tensor.relu))
_HANDS_ON = frozenset(  # calls that change a tensor, or its part in the graph, behind its version's back
    (
        *(Tensor.register_hook, Tensor.detach_, Tensor.requires_grad_, Tensor.set_, Tensor.numpy, Tensor.__array__),
        *(Tensor.__dlpack__, Tensor.data_ptr, Tensor.untyped_storage),
        *(getattr(Tensor, name).__get__ for name in ("data", "grad_fn")),
        *(getattr(Tensor, name).__set__ for name in ("data", "requires_grad")),
    )
)
ACTIVATIONS = RECTIFIERS | {F.leaky_relu_, F.elu_, F.leaky_relu, F.prelu, F.elu, F.gelu, F.silu, F.hardswish, F.mish}


@dataclass(eq=False)
class Activation:
    """A rectifier: where ``gate > 0`` it is open; ``times`` counts how often the same tensor was rectified."""

    gate: Tensor
    times: int = 1
    feeds_convolution: int = 0


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """The forward pass with its graph: leaves, outputs and everything on the way, in forward order."""

    x: Tensor
    weights: dict[str, Tensor]
    outputs: Tensor
    layers: list[Layer] = field(default_factory=list)
    norms: list[Standardised] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    blocks: dict[str, Tensor] = field(default_factory=dict)
    lookups: list[EmbeddingLookup] = field(default_factory=list)
    statistics: Statistics = field(default_factory=list)
    stream: Stream | None = None


@quantity
def trace(p: Probe) -> ForwardPass:
    """THE forward pass of a probe, graph kept; whatever needs one uses this one.

    A network that works in place may overwrite what was noted; it is then run once more on copies.
    """

    def recorded(layout: MemoryLayout) -> ForwardPass:
        found, spoilt = _record(p, layout, careful=False)
        return _record(p, layout, careful=True)[0] if spoilt else found

    return run_in("plain" if p.norm == "isolated" else p.layout, recorded)  # samples alone are slow in any other


def _record(p: Probe, layout: MemoryLayout, careful: bool) -> tuple[ForwardPass, bool]:
    """A recorded pass, and whether something that was noted has been overwritten since."""
    x = laid_out(p.x.detach().clone(), layout)
    if x.is_floating_point():
        x.requires_grad_()
    weights = {name: laid_out(tensor.detach(), layout).requires_grad_() for name, tensor in p.weights.items()}
    recorder = Recorder(p.net, weights, careful)
    wanted = set(block_names(p.net))
    hooks = [module.register_forward_hook(recorder.block(name)) for name, module in modules(p.net) if name in wanted]
    observe = recorder.norm if p.norm != "batch" else None
    norms = normalised(p.net, p.norm, p.kept_norms, observe)
    flow = Flow(x, weights, careful) if not wanted else None
    with removed_after(hooks), quiet_randomness(p), norms as rules, recorder, flow or nullcontext(), torch.enable_grad():
        outputs = run(p.net, weights, x)
    p.target.require(outputs)
    activations = list(recorder.activations.values())
    lists = recorder.layers, recorder.norms, activations, recorder.blocks, recorder.lookups, rules.statistics
    stream, changed = (None, False) if flow is None else flow.stream(outputs, recorder.norm_parameters())
    found = ForwardPass(x, weights, outputs, *lists, stream)
    return found, changed or recorder.spoilt()


def rectifiers(p: Probe) -> list[Activation]:
    """The rectifying activations of a probe, every one with samples along its first axis."""
    found = trace(p).activations
    if not found:
        raise Unscorable("the network has no rectifying activation")
    if any(len(activation.gate) != len(p.x) for activation in found):
        raise Unscorable("a rectifier's first axis is not the samples': their patterns cannot be told apart")
    return found


def leaves(t: ForwardPass) -> list[Tensor]:
    """The tensors to differentiate by so that gradients pass the whole network: the input, or embeddings of tokens."""
    if t.x.requires_grad:
        return [t.x]
    layers = {layer.weight for layer in t.layers}
    return [tensor for name, tensor in t.weights.items() if name not in layers] or list(t.weights.values())


def run(net: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """Call the network with these weights on a copy of the input and insist on one tensor."""
    buffers = _own_buffers(net, _other_precision(net, weights))
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks(_CHECKPOINTED):
            outputs = torch.func.functional_call(net, {**buffers, **weights}, (x.clone(),), tie_weights=tied(net))
    except RuntimeError as error:
        raise InputError(_CHECKPOINTED) if _CHECKPOINTED in str(error) else error from error
    if not isinstance(outputs, Tensor):
        raise InputError(
            f"the network returned a {type(outputs).__name__}; one tensor of logits or values is needed:"
            " choose it with the adapter argument, such as adapter=lambda out: out[0]"
        )
    return outputs


def _other_precision(net: nn.Module, weights: dict[str, Tensor]) -> torch.dtype | None:
    """The type of the weights where it is not that of the network's own."""
    own = next(net.parameters(), None)
    given = next(iter(weights.values()), None)
    return None if own is None or given is None or own.dtype == given.dtype else given.dtype


def _own_buffers(net: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Copies of the buffers that a forward pass may change, such as spectral norm's; batch norms never reach theirs."""
    parameters = {id(tensor) for _, module in modules(net) for tensor in module._parameters.values()}
    named = {
        f"{name}.{own}" if name else own: buffer
        for name, module in modules(net)
        if not (is_known(module) and isinstance(module, _BatchNorm))
        for own, buffer in module._buffers.items()
        if buffer is not None and id(buffer) not in parameters
    }
    each = {id(buffer): buffer for buffer in named.values()}  # two modules may hold the same one
    copies = {at: buffer.to(dtype if buffer.is_floating_point() else None, copy=True) for at, buffer in each.items()}
    return {name: copies[id(buffer)] for name, buffer in named.items()}


class Recorder(TorchFunctionMode):
    """Notes each call of interest while the network runs.

    Args:
        net: The network.
        weights: Its parameters, as they are passed to it.
        careful: Note copies and hand copies on, so that nothing the network does in place can reach what was noted.
    """

    def __init__(self, net: nn.Module, weights: dict[str, Tensor], careful: bool = False) -> None:
        super().__init__()
        self.careful = careful
        self.versions: list[tuple[Tensor, int]] = []
        self.names = {id(tensor): name for name, tensor in weights.items()}
        self.modules = {module: name for name, module in modules(net)}
        self.layers: list[Layer] = []
        self.lookups: list[EmbeddingLookup] = []
        self.norms: list[Standardised] = []
        self.handled = False
        self.own = {id(tensor) for module in self.modules for tensor in module._parameters.values()}
        self.activations: dict[tuple[int, int], Activation] = {}
        self.rectified: dict[int, Activation] = {}
        self.relus: dict[tuple[int, bool, bool], tuple[int, Tensor, int]] = {}
        self.alive: list[Tensor] = []  # so that an id stays that tensor's
        self.blocks: dict[str, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _RELU and len(args) == 1 and not any((kwargs or {}).values()) and self._may_share(args[0]):
            return self._relu(args[0])
        self.handled |= func in _HANDS_ON
        result = func(*args, **(kwargs or {}))
        if func in CONVOLUTIONS or func is F.linear:
            self._layer(func, result, *args, **(kwargs or {}))
            return self._handed_on(result)
        if func is F.embedding:
            self._lookup(result, *args, **(kwargs or {}))
            return self._handed_on(result)
        if func in ACTIVATIONS:
            self._activation(func, args[0] if args else (kwargs or {})["input"], result)
        return result

    def spoilt(self) -> bool:
        """Whether a tensor that was noted has been written to since, or may have been handled otherwise."""
        return self.handled or any(tensor._version != version for tensor, version in self.versions)

    def _noted(self, tensor: Tensor) -> Tensor:
        """The part of a tensor to keep: itself and its version, or a copy."""
        if self.careful or tensor.is_inference():
            return tensor.detach().clone()
        self.versions.append((tensor, tensor._version))
        return tensor.detach()

    def _handed_on(self, tensor: Tensor) -> Tensor:
        """The tensor that the network continues with."""
        if self.careful:
            return tensor.clone()
        if tensor.is_inference():
            return tensor
        self.versions.append((tensor, tensor._version))
        return tensor

    def _layer(
        self,
        func: Callable[..., Any],
        output: Tensor,
        input: Tensor,  # noqa: A002 - torch's own keyword
        weight: Tensor,
        bias: Tensor | None = None,
        *how: Any,
        **named: Any,
    ) -> None:
        if id(input) in self.rectified:
            self.rectified[id(input)].feeds_convolution += func is not F.linear
        if id(weight) not in self.names:
            if id(weight) in self.own:
                raise InputError(
                    "a layer takes a parameter of the network from somewhere else than its module, such as a list: "
                    "use it as an attribute of the module that holds it"
                )
            return
        conv = conv_of(weight, *how, **named) if func in CONVOLUTIONS else None
        name = self.names.get(id(bias)) if bias is not None else None
        self.layers.append(Layer(self.names[id(weight)], name, self._noted(input), output, conv))

    def _lookup(
        self,
        output: Tensor,
        input: Tensor,  # noqa: A002 - torch's own keyword
        weight: Tensor,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> None:
        """Note a lookup that gives gradients to every row alike."""
        plain = padding_idx is None and max_norm is None and not scale_grad_by_freq and not sparse
        if plain and id(weight) in self.names:
            shape = (weight.shape[0], weight.shape[1])
            self.lookups.append(EmbeddingLookup(self.names[id(weight)], self._noted(input), output, shape))

    def _activation(self, func: Callable[..., Any], x: Tensor, output: Tensor) -> None:
        in_place = output is x
        key = id(x), 0 if x.is_inference() else x._version
        if key in self.activations and not in_place:
            seen = self.activations[key]
            seen.times += 1
        else:
            # a ReLU's output is kept for the backward pass anyway, and is positive where its input is
            gate = output if func in RECTIFIERS or in_place else x
            key = key if not in_place else (-len(self.alive) - 1, 0)
            seen = self.activations[key] = Activation(self._noted(gate))
            self.alive.append(x)
        self.rectified[id(output)] = seen
        self.alive.append(output)

    def _may_share(self, x: object) -> bool:
        """Whether what comes of a tensor may be handed out twice."""
        return not self.careful and type(x) is Tensor and not x.is_inference() and not torch.is_inference_mode_enabled()

    def _relu(self, x: Tensor) -> Tensor:
        """Rectify a tensor once, however many branches ask for it; again only if it or the result was written to."""
        key = id(x), x.requires_grad, torch.is_grad_enabled()
        before, output, after = self.relus.get(key, (-1, x, 0))
        if (x._version, output._version) != (before, after):
            output = torch.relu(x)
            self.relus[key] = x._version, output, output._version
        self._activation(F.relu, x, output)
        return output

    def norm(self, weight: Tensor | None, bias: Tensor | None, x: Tensor, standard: Tensor, output: Tensor) -> Tensor:
        """Note a batch norm: the observer of ``normalised``."""
        if weight is None or id(weight) not in self.names:
            return output
        names = self.names[id(weight)], None if bias is None else self.names.get(id(bias))
        self.norms.append(Standardised(*names, self._noted(standard), output))
        return self._handed_on(output)

    def norm_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters of the batch norms that were noted, and what these gave."""
        return ((name, at.output) for at in self.norms for name in (at.weight, at.bias) if name is not None)

    def block(self, name: str) -> Callable[[nn.Module, Any, Any], Any]:
        """A forward hook that keeps a block's output."""

        def keep(module: nn.Module, inputs: Any, output: Any) -> Any:
            if not isinstance(output, Tensor) or not output.is_floating_point():
                return output
            self.blocks[name] = output
            return self._handed_on(output)

        return keep
