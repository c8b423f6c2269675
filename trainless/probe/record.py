"""One recorded forward pass: every linear map, norm, activation and block that the network went through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainless.core.errors import InputError, Unscorable
from trainless.core.seeds import random_states
from trainless.probe.activations import RELU, Gate, Gates, watched
from trainless.probe.axes import Axes, name_of
from trainless.probe.blocks import QUESTIONS, Flow, Stream
from trainless.probe.formulas import Formula, operation
from trainless.probe.guard import Verdict, checked, verdict_on
from trainless.probe.layers import (
    CONVOLUTIONS,
    EmbeddingLookup,
    Layer,
    Spread,
    Standardised,
    block_names,
    conv_of,
    modules,
    removed_after,
)
from trainless.probe.layout import MemoryLayout, laid_out, run_in
from trainless.probe.norms import Norm, NormRules, Observer, Rule, Statistics, normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness, remark
from trainless.probe.running import run
from trainless.probe.tokens import Embedded, Tokens, chosen, side_by_side

_HANDS_ON = frozenset(  # calls that change a tensor, or its part in the graph, behind its version's back
    (
        *(Tensor.register_hook, Tensor.detach_, Tensor.requires_grad_, Tensor.set_, Tensor.numpy, Tensor.__array__),
        *(Tensor.__dlpack__, Tensor.data_ptr, Tensor.untyped_storage),
        *(getattr(Tensor, name).__get__ for name in ("data", "grad_fn")),
        *(getattr(Tensor, name).__set__ for name in ("data", "requires_grad")),
    )
)


@functools.lru_cache(maxsize=4096)
def _asks(func: Callable[..., Any]) -> bool:
    """Whether a function asks something about a tensor, computes nothing and hands nothing on."""
    return name_of(func) in QUESTIONS and func not in _HANDS_ON


_SAMPLE_NORMS = frozenset(("layer_norm", "group_norm", "rms_norm"))
_SPREADS, _REPEATS = frozenset(("add", "iadd", "radd", "mul", "rmul")), frozenset(("expand", "repeat", "tile"))


def _standardised(func: Callable[..., Any], shape: Any, none: tuple[None, ...], how: tuple[Any, ...], x: Tensor) -> Any:
    """What a norm gives without scale and bias."""
    return func(x, shape, *none, *how)


DRAWS = "the network draws random numbers as it runs: the seed fixes them"
SILENCED = "dropout that the network keeps on in evaluation is switched off"
LONE = "batch norms that see one value per channel and sample take the batch's statistics as constants"


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
    spread: list[Spread] = field(default_factory=list)
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

    A network that works in place may overwrite what was noted; it is then run once more on copies. So is one that
    computes more than its outputs need, so that its blocks are those of what it needs.
    """

    def recorded(layout: MemoryLayout) -> ForwardPass:
        found, spoilt, unused = _record(p, layout)
        return _record(p, layout, spoilt, unused)[0] if spoilt or unused else found

    return run_in("plain" if p.norm == "isolated" else p.layout, recorded)  # samples alone are slow in any other


def record(p: Probe, inner: AbstractContextManager[Any]) -> ForwardPass:
    """A pass within a context of the caller's, such as a mode that changes what operations do."""
    return _record(p, "given", inner=inner)[0]


def _record(
    p: Probe,
    layout: MemoryLayout,
    careful: bool = False,
    dead: frozenset[int] = frozenset(),
    inner: AbstractContextManager[Any] | None = None,
) -> tuple[ForwardPass, bool, frozenset[int]]:
    """A recorded pass, whether anything noted has been overwritten since, and what the outputs do not need."""
    guard(p)  # before the hooks, which its passes would call too
    x = laid_out(p.x.detach().clone(), layout)
    if x.is_floating_point():
        x.requires_grad_()
    weights = {name: laid_out(tensor.detach(), layout).requires_grad_() for name, tensor in p.weights.items()}
    recorder = Recorder(p.net, weights, careful)
    recorder.samples = len(x) if p.norm in ("isolated", "fresh") else 0
    recorder.tokens = None if x.is_floating_point() else Tokens(x)
    wanted = set(block_names(p.net))
    hooks = [module.register_forward_hook(recorder.block(name)) for name, module in modules(p.net) if name in wanted]
    passing = prepared(p, recorder.norm if p.norm != "batch" else None)
    flow = recorder.flow = Flow(x, weights, careful, dead) if not wanted and inner is None else None
    modes = inner or nullcontext(), passing, recorder, flow or nullcontext()
    with removed_after(hooks), modes[0], modes[1] as rules, modes[2], modes[3], torch.enable_grad():
        outputs = run(p.net, weights, x)
    p.target.require(outputs)
    activations = list(recorder.activations.values())
    lists = (
        recorder.layers,
        recorder.norms,
        recorder.spread,
        activations,
        recorder.blocks,
        recorder.lookups,
        rules.statistics,
    )
    stream, changed = (None, False) if flow is None else flow.stream(outputs, recorder.norm_parameters())
    found = ForwardPass(x, weights, outputs, *lists, stream, chosen(recorder.embedded))
    unused = frozenset[int]() if flow is None else flow.unused(outputs)
    return found, changed or recorder.spoilt(), unused


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
    if guard(p).draws:
        remark([DRAWS])
    rule, count = norm or p.norm, len(p.x) if samples is None else samples
    if observe is not None and rule == "batch":
        _require_seen_norms(p)
    with quiet_randomness(p), normalised(p.net, rule, p.kept_norms, observe, statistics, count) as rules:
        yield rules
    remark([said for said, holds in ((LONE, rules.statistics), (SILENCED, rules.silenced)) if holds])


def _require_seen_norms(p: Probe) -> None:
    """Raise Unscorable where the network normalises batches in a way that an observer cannot see."""
    try:
        guard(replace(p, norm="isolated", _memo={}))
    except Unscorable as error:
        raise Unscorable(
            f"{type(p.net).__name__} normalises batches, or mixes samples, by code of its own, which this measure has"
            " to see: write its norms as nn.BatchNorm or F.batch_norm"
        ) from error


def guard(p: Probe) -> Verdict:
    """Check, once for each network and norm mode, that it is recorded as what it computes; see :mod:`.guard`."""
    return checked(p, _alone)


def require_followed(p: Probe) -> None:
    """Raise Unscorable where a network computes by code whose calls cannot be followed: layers would be missed."""
    if guard(p).hidden:
        raise Unscorable(
            f"{type(p.net).__name__} computes by code that cannot be followed (a TorchScript function, or torch.vmap),"
            " which this measure has to see: write it as plain operations on the batch"
        )


class _Hidden(TorchDispatchMode):
    """Notes what is computed of inputs and weights while no function of PyTorch's has been called that a recorder sees.

    What is computed of sizes and places alone, as the relative positions of DeBERTa's tokens, is no part of a layer.
    """

    def __init__(self, recorder: Recorder, given: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder, self.found = recorder, False
        self.made = {_place(each): each for each in given}  # held, so that another tensor's memory is another

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(_place(each) in self.made for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)):
            self.found |= not self.recorder.busy and func.overloadpacket in _COMPUTE
            self.made.update((_place(each), each) for each in tree_leaves(result) if isinstance(each, Tensor))
        return result


def _place(tensor: Tensor) -> int:
    """Where a tensor's numbers lie, which its views share."""
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


_aten = torch.ops.aten
_COMPUTE = frozenset(
    (
        *(_aten.mul, _aten.mul_, _aten.sigmoid, _aten.relu, _aten.relu_, _aten.gelu, _aten.silu, _aten.clamp),
        *(_aten.clamp_min, _aten.hardtanh, _aten.leaky_relu, _aten.elu, _aten.tanh, _aten.where, _aten.maximum),
        *(_aten.convolution, _aten.mm, _aten.addmm, _aten.bmm, _aten.native_batch_norm, _aten.native_layer_norm),
        *(_aten.hardswish, _aten.hardsigmoid, _aten.mish, _aten.softplus, _aten.threshold, _aten.add, _aten.add_),
    )
)


def _alone(p: Probe, x: Tensor, mode: Norm, given: Statistics | None = None) -> tuple[Tensor, Statistics]:
    """A recorded pass on some samples with the network's own weights, noting whether it drew random numbers."""
    for careful in (False, True):
        recorder = Recorder(p.net, p.weights, careful)
        norms = normalised(p.net, mode, statistics=given or None, samples=len(x))
        hidden = _Hidden(recorder, (x, *p.weights.values())) if mode == "batch" else None
        with quiet_randomness(p), norms as rules:
            before = random_states(x.device)  # not recorded: it reads tensors' memory
            with recorder, hidden or nullcontext():
                outputs = run(p.net, p.weights, x)
            verdict_on(p.net).draws |= random_states(x.device) != before
        verdict_on(p.net).hidden |= recorder.transformed or (hidden is not None and hidden.found)
        if not recorder.spoilt():
            break
    return outputs.detach(), rules.statistics


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
        self.spread: list[Spread] = []
        self.samples = 0  # where parameters' gradients may be asked for each of them
        self.handled = False
        self.busy = 0  # calls under way
        self.transformed = False  # whether tensors were met that stand for others, as within torch.vmap
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
        self.busy += 1
        try:
            return self._called(func, args, kwargs)
        finally:
            self.busy -= 1

    def _called(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        if _asks(func):
            return func(*args, **(kwargs or {}))
        if func in RELU and len(args) == 1 and not any((kwargs or {}).values()) and self._may_share(args[0]):
            return self._relu(args[0])
        self.handled |= func in _HANDS_ON
        looking = watched(func)
        coming = self._coming(func, args, kwargs or {}) if looking else None
        result = func(*args, **(kwargs or {}))
        if (looking or func in CONVOLUTIONS or func is F.linear) and isinstance(result, Tensor):
            self.transformed |= torch._C._functorch.is_functorch_wrapped_tensor(result)
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
        if looking:
            with torch._C.DisableTorchFunction():  # what is looked at here is no part of the network
                gate = self.gates.met(func, result, args, kwargs or {}, coming)
            if gate is not None:
                made = args[0] if result is None else result
                self._activation(gate, made[0] if isinstance(made, tuple) else made)
        if self.samples and isinstance(result, Tensor) and self._spreads(func, result, *args, **(kwargs or {})):
            return self._handed_on(result)
        return result

    def _spreads(self, func: Callable[..., Any], output: Tensor, *args: Any, **kwargs: Any) -> bool:
        """Note a parameter that acts on all samples alike, or a norm of each sample; whether it is one."""
        name = operation(func)
        if name in _SAMPLE_NORMS:
            return self._sample_norm(func, output, *args, **kwargs)
        tensors = [each for each in args if isinstance(each, Tensor)]
        if name in _REPEATS:
            own, others = tensors[0], None
        elif name in _SPREADS and len(tensors) == 2 == len(args) and not kwargs:
            own, others = (tensors[0], tensors[1]) if id(tensors[0]) in self.names else (tensors[1], tensors[0])
        else:
            return False
        wide = own.ndim - output.ndim
        if id(own) not in self.names or others is own or wide > 0 or (others is not None and self.flow is None):
            return False  # without a flow nobody knows what comes from the input
        inner = zip(own.shape[1 if wide == 0 else 0 :], output.shape[1 if wide == 0 else -wide :], strict=True)
        alike = len(output) == self.samples and (wide < 0 or len(own) == 1) and all(a in (1, b) for a, b in inner)
        axes = Axes() if others is None else self._axes(others)
        if not alike or axes is None or (others is None and output.shape.count(self.samples) > 1):
            return False
        factor = self._noted(others) if name in ("mul", "rmul") and others is not None else None
        self.spread.append(Spread(self.names[id(own)], tuple(own.shape), output, factor, axes))
        return True

    def _sample_norm(
        self,
        func: Callable[..., Any],
        output: Tensor,
        input: Tensor,  # noqa: A002 - torch's own keyword
        shape: Any = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float | None = None,
        **named: Any,
    ) -> bool:
        by_groups, by_square = operation(func) == "group_norm", operation(func) == "rms_norm"
        if by_square and not isinstance(bias, Tensor):  # which has none
            bias, eps = None, bias if bias is not None else eps
        if named or shape is None or weight is None or id(weight) not in self.names:
            return False
        how = () if eps is None else (eps,)
        standardise = functools.partial(_standardised, func, shape, (None,) * (1 if by_square else 2), how)
        last = 0 if by_groups else len(weight.shape)
        names = self.names[id(weight)], None if bias is None else self.names.get(id(bias))
        self.norms.append(Standardised(*names, self._noted(input), output, standardise, last, self._axes(input)))
        return True

    def _coming(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Formula | None:
        with torch._C.DisableTorchFunction():
            return self.gates.coming(func, args, kwargs)

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

    def _axes(self, entering: Tensor) -> Axes | None:
        return Axes() if self.flow is None else self.flow.entered(entering)

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
        own = self._name(weight)
        if own is None:
            if id(weight) in self.own:
                raise InputError(
                    "a layer takes a parameter of the network from somewhere else than its module, such as a list: "
                    "use it as an attribute of the module that holds it"
                )
            return
        conv = conv_of(weight, *how, **named) if func in CONVOLUTIONS else None
        name = self.names.get(id(bias)) if bias is not None else None
        axes = self._axes(input)
        self.layers.append(Layer(own, name, self._noted(input), output, conv, axes))

    def _name(self, weight: Tensor) -> str | None:
        """The name of a parameter, also where it comes in another shape."""
        base = weight._base
        whole = base is not None and base.numel() == weight.numel() and base.is_contiguous() and weight.is_contiguous()
        return self.names.get(id(weight)) or (self.names.get(id(base)) if whole else None)

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
            axes = self._axes(input)
            self.lookups.append(EmbeddingLookup(self.names[id(weight)], self._noted(input), output, shape, axes))

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
            seen = self.activations[key] = Activation(self._noted(gate), met.kind, axes=self._axes(x))
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
