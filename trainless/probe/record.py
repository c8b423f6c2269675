"""One recorded forward pass: every linear map, norm, activation and block that the network went through."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trainless.core.errors import InputError, Unscorable
from trainless.core.seeds import random_states
from trainless.probe.activations import RELU, WATCHED, Gate, Gates
from trainless.probe.axes import Axes
from trainless.probe.blocks import Flow, Stream
from trainless.probe.layers import (
    CONVOLUTIONS,
    EmbeddingLookup,
    Layer,
    Standardised,
    block_names,
    conv_of,
    is_ours,
    modules,
    removed_after,
    tied,
)
from trainless.probe.layout import MemoryLayout, laid_out, run_in
from trainless.probe.norms import AsInTraining, Norm, NormRules, Observer, Rule, Statistics, normalised
from trainless.probe.points import Double, in_precision_of
from trainless.probe.probe import FEW, IN_PLACE, Probe, quantity, quiet_randomness
from trainless.probe.running import other_precision, own_buffers, run
from trainless.probe.tokens import Embedded, Tokens, chosen, side_by_side

_HANDS_ON = frozenset(  # calls that change a tensor, or its part in the graph, behind its version's back
    (
        *(Tensor.register_hook, Tensor.detach_, Tensor.requires_grad_, Tensor.set_, Tensor.numpy, Tensor.__array__),
        *(Tensor.__dlpack__, Tensor.data_ptr, Tensor.untyped_storage),
        *(getattr(Tensor, name).__get__ for name in ("data", "grad_fn")),
        *(getattr(Tensor, name).__set__ for name in ("data", "requires_grad")),
    )
)


@dataclass(eq=False)
class Activation:
    """A rectifier: where ``gate > 0`` it is open; ``times`` counts how often the same tensor was rectified.

    ``axes`` says where its samples lie; it is None where what is rectified does not depend on them.
    """

    gate: Tensor
    kind: str = "ReLU"
    times: int = 1
    feeds_convolution: int = 0
    axes: Axes | None = field(default_factory=Axes)


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
    embedded: list[Embedded] = field(default_factory=list)

    def inputs(self) -> list[Tensor]:
        """What gradients with respect to the input are taken at: the input, or what tokens were looked up as."""
        return [self.x] if self.x.requires_grad else [each.output for each in self.embedded]

    def at_input(self, gradients: list[Tensor]) -> Tensor:
        """The gradients at ``inputs()`` as one: shaped like the input, or as one row per sample where it is tokens."""
        if self.x.requires_grad:
            return gradients[0]
        return side_by_side(self.embedded, gradients, len(self.x))


@quantity
def trace(p: Probe) -> ForwardPass:
    """THE forward pass of a probe, graph kept; whatever needs one uses this one.

    A network that works in place may overwrite what was noted; it is then run once more on copies.
    """

    def recorded(layout: MemoryLayout) -> ForwardPass:
        found, spoilt = _record(p, layout, careful=False)
        return _record(p, layout, careful=True)[0] if spoilt else found

    return run_in("plain" if p.norm == "isolated" else p.layout, recorded)  # samples alone are slow in any other


def record(p: Probe, inner: AbstractContextManager[Any]) -> ForwardPass:
    """A pass within a context of the caller's, such as a mode that changes what operations do."""
    return _record(p, "given", False, inner)[0]


def _record(
    p: Probe, layout: MemoryLayout, careful: bool, inner: AbstractContextManager[Any] | None = None
) -> tuple[ForwardPass, bool]:
    """A recorded pass, and whether something that was noted has been overwritten since."""
    verdict = guard(p)  # before the hooks, which its passes would call too
    x = laid_out(p.x.detach().clone(), layout)
    if x.is_floating_point():
        x.requires_grad_()
    weights = {name: laid_out(tensor.detach(), layout).requires_grad_() for name, tensor in p.weights.items()}
    recorder = Recorder(p.net, weights, careful)
    recorder.tokens = None if x.is_floating_point() else Tokens(x)
    wanted = set(block_names(p.net))
    hooks = [module.register_forward_hook(recorder.block(name)) for name, module in modules(p.net) if name in wanted]
    passing = prepared(p, recorder.norm if p.norm != "batch" else None)
    flow = recorder.flow = Flow(x, weights, careful) if not wanted and inner is None else None
    modes = inner or nullcontext(), passing, recorder, flow or nullcontext()
    with removed_after(hooks), modes[0], modes[1] as rules, modes[2], modes[3], torch.enable_grad():
        outputs = run(p.net, weights, x)
    p.target.require(outputs)
    verdict.lone |= bool(rules.statistics)
    activations = list(recorder.activations.values())
    lists = recorder.layers, recorder.norms, activations, recorder.blocks, recorder.lookups, rules.statistics
    stream, changed = (None, False) if flow is None else flow.stream(outputs, recorder.norm_parameters())
    found = ForwardPass(x, weights, outputs, *lists, stream, chosen(recorder.embedded))
    return found, changed or recorder.spoilt()


@contextmanager
def prepared(
    p: Probe,
    observe: Observer | None = None,
    *,
    norm: Rule | None = None,
    statistics: Statistics | None = None,
    samples: int | None = None,
) -> Iterator[NormRules]:
    """Let a probe's network be run within the block: norms by its mode, randomness by its seed, checked once.

    Args:
        p: The probe.
        observe: Sees every batch norm; see ``Observer``.
        norm: Another rule for norms than the probe's mode.
        statistics: Those of the whole batch, for a pass of one sample.
        samples: How many samples the pass has, unless those of the probe.
    """
    guard(p)
    rule, count = norm or p.norm, len(p.x) if samples is None else samples
    with quiet_randomness(p), normalised(p.net, rule, p.kept_norms, observe, statistics, count) as rules:
        yield rules


@quantity
def remarks(p: Probe) -> tuple[str, ...]:
    """What a reader of a network's scores should know of how it was run: nothing here is silent.

    Example:
        >>> from trainless.core.target import Target
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2))
        >>> remarks(Probe.of(net, (torch.randn(4, 4), torch.tensor([0, 1, 0, 1])), Target("binary", 2)))
        ('activation patterns are those of GELU',)
    """
    kinds = sorted({activation.kind for activation in trace(p).activations} - {"ReLU"})
    said = [f"activation patterns are those of {', '.join(kinds)}"] if kinds else []
    if guard(p).draws:
        said.append("the network draws random numbers as it runs: they are fixed by the seed")
    if guard(p).lone:
        said.append("batch norms that see one value per channel and sample take the batch's statistics as constants")
    return tuple(said)


@dataclass
class Verdict:
    """What was found on a few samples about a private network, once.

    Attributes:
        modes: For each norm mode that was looked at, why it cannot hold; empty where it does.
        draws: Whether its forward pass draws random numbers.
        lone: Whether samples had to be normalised alone where that cannot be.
    """

    modes: dict[str, str] = field(default_factory=dict)
    draws: bool = False
    lone: bool = False


_VERDICTS: WeakKeyDictionary[nn.Module, Verdict] = WeakKeyDictionary()


def guard(p: Probe) -> Verdict:
    """Check on a few samples, once for each network and norm mode, that it is recorded as what it computes.

    With norms over the batch, outputs must be those of the untouched network; with samples normalised alone, those of
    each sample alone. Networks all of whose code is PyTorch's and ours need no check.
    """
    verdict = _VERDICTS.setdefault(p.net, Verdict())
    if not verdict.modes:
        verdict.modes["batch"] = ""  # what runs below is not checked itself
        if not is_ours(p.net):
            for some in (p, replace(p, few=None)):  # it may want more samples than a few
                with suppress(Exception):  # what does not run at all says why when it is run
                    verdict.modes["batch"] = _as_it_computes(some, verdict)
                    break
    if verdict.modes["batch"]:
        raise InputError(verdict.modes["batch"])
    if p.norm not in verdict.modes:
        verdict.modes[p.norm] = ""
        if p.norm in ("isolated", "fresh") and not is_ours(p.net):
            with suppress(Exception):
                verdict.modes[p.norm] = _each_alone(p, p.norm)
    if verdict.modes[p.norm]:
        raise Unscorable(verdict.modes[p.norm])
    return verdict


_NEAR = {torch.float32: 1e-4, torch.float64: 1e-7}


def _as_it_computes(p: Probe, verdict: Verdict) -> str:
    """Compare the recorded pass with the untouched network; where it needs to work in place, it may."""
    far = _deviation(p, lambda q, x: (_alone(q, x, "batch", verdict)[0], _untouched(q, x)))
    changed = [module for _, module in modules(p.net) if module in IN_PLACE]
    if far and changed:
        for module in changed:
            vars(module)["inplace"] = True
        far = _deviation(p, lambda q, x: (_alone(q, x, "batch", verdict)[0], _untouched(q, x)))
    said = f"{type(p.net).__name__} computes something else when it is recorded: its outputs deviate by {far:.2g} of"
    return f"{said} their size from those of the untouched network, so that no score would be its own" if far else ""


def _each_alone(p: Probe, mode: Norm) -> str:
    """Compare a sample's outputs in two batches, and with those of the sample alone where that can be run."""

    def outputs(q: Probe, x: Tensor) -> tuple[Tensor, Tensor]:
        first, statistics = _alone(q, x[:2], mode)
        others = [_alone(q, torch.stack([x[0], x[-1]]), mode, given=statistics)[0][:1]]
        if mode == "isolated" and not statistics:
            with suppress(RuntimeError, ValueError):
                others.append(_untouched(q, x[:1]))
        size = _alone(q, x[:2], "batch")[0].abs().nan_to_num(0, 0, 0).amax()  # alone, it may be zero but for rounding
        unit = torch.full_like(first[:1], 1.0) * size
        return torch.cat([first[:1].expand(len(others), *first.shape[1:]), unit]), torch.cat([*others, unit])

    far = _deviation(p, outputs) if p.few is not None and len(p.few) == FEW else 0.0
    said = f"{type(p.net).__name__} lets samples of a batch touch one another by code of its own (a sample's outputs"
    return f"{said} deviate by {far:.2g} of their size): it has no measure of each sample alone" if far else ""


def _deviation(p: Probe, outputs: Callable[[Probe, Tensor], tuple[Tensor, Tensor]]) -> float:
    """How far two outputs are apart, relative to their size; 0 where it is rounding, in double precision if need be."""
    own = {name: tensor.detach().requires_grad_() for name, tensor in p.net.named_parameters()}
    x = in_precision_of(own.values(), p.x if p.few is None else p.few)
    q = replace(p, weights=own, x=x.detach().requires_grad_(x.is_floating_point()), _memo={})
    with torch.enable_grad():
        far = _apart(*outputs(q, q.x))
        if far <= _NEAR.get(x.dtype, 1e-4):
            return 0.0
        wide = {name: tensor.detach().double().requires_grad_() for name, tensor in own.items()}
        double = replace(q, weights=wide, x=Double()(q.x, q.generator), _memo={})
        try:
            exact = _apart(*outputs(double, double.x))
        except (RuntimeError, TypeError):  # it insists on its own precision
            return 0.0 if far <= 1e-2 else far
        return 0.0 if exact <= _NEAR[torch.float64] else exact


def _apart(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return math.inf
    gap = torch.where((one == other) | (one.isnan() & other.isnan()), 0, (one - other).abs())
    scale = other.abs().nan_to_num(0, 0, 0).amax() if other.numel() else 0
    return float((gap / (scale + torch.finfo(other.dtype).tiny)).nan_to_num(math.inf).amax()) if gap.numel() else 0.0


def _alone(
    p: Probe, x: Tensor, mode: Norm, verdict: Verdict | None = None, given: Statistics | None = None
) -> tuple[Tensor, Statistics]:
    """A recorded pass on some samples with the network's own weights, and whether it drew random numbers."""
    for careful in (False, True):
        recorder = Recorder(p.net, p.weights, careful)
        norms = normalised(p.net, mode, statistics=given or None, samples=len(x))
        with quiet_randomness(p), norms as rules:
            before = random_states(x.device)  # not recorded: it reads tensors' memory
            with recorder:
                outputs = run(p.net, p.weights, x)
            if verdict is not None:
                verdict.draws |= random_states(x.device) != before
        if not recorder.spoilt():
            break
    return outputs.detach(), rules.statistics


def _untouched(p: Probe, x: Tensor) -> Tensor:
    """The outputs of the network as it was given, in evaluation mode with norms that see the batch."""
    changed = [module for _, module in modules(p.net) if module in IN_PLACE]
    flags = [module.inplace for module in changed]
    buffers = own_buffers(p.net, other_precision(p.net, p.weights), every=True)
    try:
        for module in changed:
            vars(module)["inplace"] = True
        with quiet_randomness(p), AsInTraining():
            tensors = {**buffers, **p.weights}
            outputs = torch.func.functional_call(p.net, tensors, (x.clone(),), tie_weights=tied(p.net))
        return cast(Tensor, outputs).detach()
    finally:
        for module, flag in zip(changed, flags, strict=True):
            vars(module)["inplace"] = flag


def leaves(t: ForwardPass) -> list[Tensor]:
    """The tensors to differentiate by so that gradients pass the whole network: the input, or embeddings of tokens."""
    if t.x.requires_grad:
        return [t.x]
    layers = {layer.weight for layer in t.layers}
    others = [tensor for name, tensor in t.weights.items() if name not in layers] or list(t.weights.values())
    return [*t.inputs(), *others]


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
        self.gates = Gates()
        self.flow: Flow | None = None
        self.tokens: Tokens | None = None
        self.embedded: list[Embedded] = []
        self.activations: dict[tuple[int, int], Activation] = {}
        self.rectified: dict[int, Activation] = {}
        self.relus: dict[tuple[int, bool, bool], tuple[int, Tensor, int]] = {}
        self.alive: list[Tensor] = []  # so that an id stays that tensor's
        self.blocks: dict[str, Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in RELU and len(args) == 1 and not any((kwargs or {}).values()) and self._may_share(args[0]):
            return self._relu(args[0])
        self.handled |= func in _HANDS_ON
        result = func(*args, **(kwargs or {}))
        if self.tokens is not None and (found := self.tokens.met(func, result, args, kwargs or {}, self.names)):
            self.embedded.append(found)
            if func is not F.embedding:
                return self._handed_on(result) if found.output is result else result
        if func in CONVOLUTIONS or func is F.linear:
            self._layer(func, result, *args, **(kwargs or {}))
            return self._handed_on(result)
        if func is F.embedding:
            self._lookup(result, *args, **(kwargs or {}))
            return self._handed_on(result)
        if func in WATCHED and (gate := self.gates.met(func, result, args, kwargs or {})) is not None:
            self._activation(gate, result)
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

    def _activation(self, met: Gate, output: Tensor) -> None:
        x = met.x
        in_place = output is x
        key = id(x), 0 if x.is_inference() else x._version
        if key in self.activations and not in_place:
            seen = self.activations[key]
            seen.times += 1
        else:
            # a ReLU's output is kept for the backward pass anyway, and is positive where its input is
            gate = output if met.alike or in_place else x
            gate = gate - 0.5 if in_place and met.kind == "hardsigmoid" else gate
            key = key if not in_place else (-len(self.alive) - 1, 0)
            axes = Axes() if self.flow is None else self.flow.entered(x)
            seen = self.activations[key] = Activation(self._noted(gate), met.kind, axes=axes)
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
        self._activation(Gate("ReLU", x, True), output)
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
