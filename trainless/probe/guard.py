"""The guard: a network is recorded as what it computes, or refused with the reason.

It is asked before anything is recorded, on a few samples, once for each network and norm mode. What cannot be checked
is refused as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trainless.core.errors import InputError, TrainlessError, Unscorable
from trainless.core.text import message, one_line
from trainless.probe.axes import name_of
from trainless.probe.blocks import QUESTIONS
from trainless.probe.layers import is_ours, modules, removed_after, tied
from trainless.probe.norms import BY_HAND, AsInTraining, Norm, Statistics, is_known, normalised
from trainless.probe.points import Double, in_precision_of
from trainless.probe.probe import FEW, IN_PLACE, Probe, quiet_randomness
from trainless.probe.running import as_before, other_precision, own_buffers, run

_NEAR = {torch.float32: 1e-4, torch.float64: 1e-7}
_LARGE = 2.0**16  # times an input, beside which what is added to a variance vanishes
_CHECKED: set[tuple[frozenset[type], str]] = set()
"""Kinds of modules of ours, together, and norm modes in which a network of these passed."""


@dataclass
class Verdict:
    """What was found on a few samples about a private network, once.

    Attributes:
        refusals: For each norm mode that was looked at, why it cannot hold; empty where it does.
        draws: Whether its forward pass draws random numbers.
        size: The largest output with norms over the batch.
        hidden: Whether it computes by code whose calls cannot be followed.
    """

    refusals: dict[str, str] = field(default_factory=dict)
    draws: bool = False
    size: float = 0.0
    hidden: bool = False


class RecordedPass(Protocol):
    """A recorded pass on some samples with the network's own weights, in a norm mode."""

    def __call__(self, p: Probe, x: Tensor, mode: Norm, given: Statistics | None = None) -> tuple[Tensor, Statistics]:
        """The outputs, and the statistics of the batch where samples alone had none."""
        ...


_VERDICTS: WeakKeyDictionary[nn.Module, Verdict] = WeakKeyDictionary()


def verdict_on(net: nn.Module) -> Verdict:
    """What is known about a private network so far."""
    return _VERDICTS.setdefault(net, Verdict())


def checked(p: Probe, recorded: RecordedPass) -> Verdict:
    """Check a network in training's mode and in the probe's; raise what was found, whenever it is asked again.

    With norms over the batch, outputs must be those of the untouched network. In every other mode no sample may touch
    another, and where each is normalised alone, outputs must be those of the sample alone: if they are, samples do not
    touch one another without norms either. Of networks all of whose code is PyTorch's and ours, the first of its kinds
    of modules is checked.
    """
    verdict = verdict_on(p.net)
    before: tuple[str, ...] = ("batch",) if p.norm in ("batch", "isolated") else ("batch", "isolated")
    for mode in dict.fromkeys((*before, p.norm)):
        if mode not in verdict.refusals:
            kinds = frozenset(type(module) for _, module in modules(p.net)), mode
            known = is_ours(p.net) and kinds in _CHECKED
            verdict.refusals[mode] = "" if known else _refusal(p, mode, recorded)
            if is_ours(p.net) and not verdict.refusals[mode]:
                _CHECKED.add(kinds)
        if verdict.refusals[mode] and mode in ("batch", p.norm):
            raise (InputError if mode == "batch" else Unscorable)(verdict.refusals[mode])
    return verdict


def _refusal(p: Probe, mode: str, recorded: RecordedPass) -> str:
    """Why a mode cannot hold; nothing where it does. What cannot be checked is refused."""
    check = {"batch": _as_it_computes, "off": _left_out}.get(mode, _each_alone)
    samples = [p.few] if p.few is not None else []
    samples += [p.x] if not samples or len(p.x) > len(samples[0]) else []  # it may want more samples than a few
    said = ""
    for few in samples:
        few = few if len(few) > 1 else torch.cat([few, few])  # so that a batch norm has something to see
        try:
            return check(replace(p, few=few, norm=cast(Norm, mode), _memo={}), recorded)
        except (TrainlessError, Unscorable) as error:
            said = message(error)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            said = f"{_name(p)} cannot be recorded as what it computes ({one_line(error)}): it is not scored"
    return said


def _name(p: Probe) -> str:
    return type(p.net).__name__


def _as_it_computes(p: Probe, recorded: RecordedPass) -> str:
    """Compare the recorded pass with the untouched network; where it needs to work in place, it may."""

    def outputs(q: Probe, x: Tensor) -> tuple[Tensor, Tensor]:
        with met:
            found = recorded(q, x, "batch")[0]
        verdict_on(p.net).size = float(found.abs().nan_to_num(0, 0, 0).amax()) if found.numel() else 0.0
        return found, untouched(q, x)

    met = _OwnParameters(p.net)
    far = _deviation(p, outputs)
    if met.foreign:
        return (
            f"{_name(p)} works with {met.foreign} that is not taken from its modules (but from a list, a closure, a"
            " global or a module that is not registered), so that its gradient would be missed: hold it as an attribute"
            " of the module that uses it"
        )
    changed = [module for _, module in modules(p.net) if module in IN_PLACE]
    if far and changed:
        for module in changed:
            vars(module)["inplace"] = True
        far = _deviation(p, outputs)
    if far and (again := _deviation(p, lambda q, x: (untouched(q, x), untouched(q, x)))):
        return _unsteady(p, again)
    said = f"{_name(p)} computes something else when it is recorded: its outputs deviate by {far:.2g} of"
    return f"{said} their size from those of the untouched network, so that no score would be its own" if far else ""


def _unsteady(p: Probe, far: float) -> str:
    return (
        f"{_name(p)} gives other outputs each time it runs on the same inputs (they deviate by {far:.2g} of their"
        " size): it draws random numbers that no seed fixes, or remembers what it has seen; make it a function of"
        " its inputs"
    )


def _each_alone(p: Probe, recorded: RecordedPass) -> str:
    """Compare a sample's outputs beside another with those of the sample alone, or in another batch."""
    mode, verdict = p.norm, verdict_on(p.net)
    if mode != "isolated" and not verdict.refusals["isolated"]:
        return ""

    def outputs(q: Probe, x: Tensor) -> tuple[Tensor, Tensor]:
        first, statistics = recorded(q, x[:2], mode)
        alone = None
        if mode == "isolated" and not statistics and not verdict.draws:
            with suppress(RuntimeError, ValueError):  # not every network takes a sample alone
                alone = untouched(q, x[:1])
        if alone is None:
            other = x[-1] if len(x) >= FEW else x[0]
            alone = recorded(q, torch.stack([x[0], other]), mode, statistics)[0][:1]
        # alone, outputs may be zero but for rounding; without norms, they have no other size than their own
        size = float(first.abs().nan_to_num(0, 0, 0).amax()) if mode == "off" else verdict.size
        unit = torch.full_like(first[:1], size)
        return torch.cat([first[:1], unit]), torch.cat([alone, unit])

    def again(q: Probe, x: Tensor) -> tuple[Tensor, Tensor]:
        once, statistics = recorded(q, x[:2], mode)
        return once, recorded(q, x[:2], mode, statistics)[0]

    far = _deviation(p, outputs)
    if far and (unsteady := _deviation(p, again)):
        return _unsteady(p, unsteady)
    said = f"{_name(p)} lets samples of a batch touch one another by code of its own (a sample's outputs"
    return f"{said} deviate by {far:.2g} of their size): it has no measure of each sample alone" if far else ""


def _left_out(p: Probe, recorded: RecordedPass) -> str:
    """Find the norms that are written by hand, so that they can be left out too, and then check each sample alone."""
    found: list[nn.Module] = []
    BY_HAND[p.net] = found
    own, x = _at_own_weights(p)
    mixed: list[str] = []
    for _ in range(2):  # once more without those that were found: what is around them is no norm
        mixed.clear()
        candidates = [(name, module) for name, module in modules(p.net) if _may_normalise(module)]
        finder = _ByHand(found, mixed, {id(tensor) for tensor in own.values()})
        hooks = [module.register_forward_hook(finder.met(name)) for name, module in candidates]
        if not hooks:
            break
        with removed_after(hooks), quiet_randomness(p), torch.no_grad(), normalised(p.net, "off", samples=len(x)):
            run(p.net, own, x)
        if not mixed:
            break
    if mixed:
        return (
            f"{mixed[0]} of {_name(p)} normalises and does more by code of its own, so that its norm cannot be left out"
            " as this measure needs: write the norm as a module or a function of PyTorch's, or as a module of its own"
        )
    touched = _each_alone(p, recorded)
    return touched.replace("it has no measure of each sample alone", "its norms cannot be left out") if touched else ""


def _may_normalise(module: nn.Module) -> bool:
    """Whether a module is somebody's own and holds nothing but scales and biases."""
    own = not type(module).__module__.startswith("torch.nn.modules.") or "forward" in vars(module)
    return own and not is_known(module) and all(t.numel() == max(t.shape, default=1) for t in module.parameters())


class _ByHand:
    """Tells modules that normalise: they give the same whatever their input is multiplied by.

    A norm that does nothing else gives the same once more on what it gave, but for its scale and bias.
    """

    def __init__(self, found: list[nn.Module], mixed: list[str], weights: set[int]) -> None:
        self.found, self.mixed, self.weights = found, mixed, weights
        self.left_out = set(found)
        self.busy = False

    def met(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        """The forward hook of a module."""

        def look(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            x = inputs[0] if len(inputs) == 1 else None
            alike = isinstance(x, Tensor) and isinstance(output, Tensor) and x.shape == output.shape
            if self.busy or module in self.left_out or not alike or not cast(Tensor, x).is_floating_point():
                return
            if not self.weights.isdisjoint((id(x), id(cast(Tensor, x)._base))):  # what normalises weights is no layer
                return
            self.busy = True
            try:
                self._judge(name, module, cast(Tensor, x))
            finally:
                self.busy = False

        return look

    def _judge(self, name: str, module: nn.Module, x: Tensor) -> None:
        size = x.abs().amax() if x.numel() else x.new_zeros(())
        if not 0 < float(size) < math.inf:
            return
        x = x / size
        large, larger = module(x * _LARGE), module(x * (2 * _LARGE))
        moved = module((x + 0.01 * torch.randn_like(x)) * _LARGE)
        steps = float(((moved - large).abs() <= 1e-6 * large.abs().amax()).double().mean())  # a sign has them as well
        spread = float((large - large.flatten()[0]).abs().amax())
        saturated = _apart(module(x * 0.5), large) > 0.1  # as a sigmoid is that sees large numbers
        if _apart(larger, large) > 1e-4 or spread == 0 or steps > 0.9 or saturated:
            return
        if any(_idempotent(module, neutral, x) for neutral in _neutral(module)):
            if module not in self.found:
                self.found.append(module)
        else:
            self.mixed.append(f"{type(module).__name__} ({name})" if name else type(module).__name__)


def _neutral(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Parameters by which a norm neither scales nor shifts: scales of 1, or of 0 where they are added to 1."""
    named = dict(module.named_parameters())
    for scale in (1.0, 0.0):
        yield {n: torch.full_like(t, 0.0 if "bias" in n or "beta" in n else scale) for n, t in named.items()}


def _idempotent(module: nn.Module, neutral: dict[str, Tensor], x: Tensor) -> bool:
    once = torch.func.functional_call(module, neutral, (x * _LARGE,))
    twice = torch.func.functional_call(module, neutral, (once * _LARGE,))
    return bool(once.abs().amax() > 0) and _apart(twice, once) <= 1e-4


class _OwnParameters(TorchFunctionMode):
    """Notes parameters that a pass takes from somewhere else than the modules, which hold other tensors then."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.own = {id(tensor) for tensor in net.parameters()}
        self.foreign = ""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if name_of(func) not in QUESTIONS and func not in _LOOKING:
            for each in (*args, *(kwargs or {}).values()):
                if issubclass(type(each), nn.Parameter) and (each.requires_grad or id(each) in self.own):
                    self.foreign = f"a parameter of shape {tuple(each.shape)}"
        return func(*args, **(kwargs or {}))


_LOOKING = frozenset(  # at a parameter, not working with it
    (
        *(Tensor.detach, Tensor.requires_grad_, Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point),
        *(getattr(Tensor, name).__get__ for name in ("shape", "device", "dtype", "requires_grad", "is_cuda", "ndim")),
        *(getattr(Tensor, name).__get__ for name in ("grad_fn", "_base", "layout", "is_sparse", "is_meta", "data")),
    )
)


def _at_own_weights(p: Probe) -> tuple[dict[str, Tensor], Tensor]:
    own = {name: tensor.detach().requires_grad_() for name, tensor in p.net.named_parameters()}
    x = in_precision_of(own.values(), p.x if p.few is None else p.few)
    return own, x.detach().requires_grad_(x.is_floating_point())


def _deviation(p: Probe, outputs: Callable[[Probe, Tensor], tuple[Tensor, Tensor]]) -> float:
    """How far two outputs are apart, relative to their size; 0 where it is rounding, in double precision if need be."""
    own, x = _at_own_weights(p)
    q = replace(p, weights=own, x=x, _memo={})
    with torch.enable_grad():
        far = _apart(*outputs(q, x))
        if far <= _NEAR.get(x.dtype, 1e-4):
            return 0.0
        wide = {name: tensor.detach().double().requires_grad_() for name, tensor in own.items()}
        double = replace(q, weights=wide, x=Double()(q.x, q.generator), _memo={})
        try:
            exact = _apart(*outputs(double, double.x))
        except (RuntimeError, TypeError):  # it insists on its own precision
            return 0.0 if far <= 10 * _rounding(q) else far
        return 0.0 if exact <= _NEAR[torch.float64] else exact


def _rounding(p: Probe) -> float:
    """How far the untouched network's outputs move where its inputs and weights do by a few rounding errors."""
    source = p.generator("rounding")

    def nudged(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.randn(tensor.shape, generator=source, dtype=torch.float32).to(tensor)
        moved = tensor.detach() * (1 + 2 * torch.finfo(tensor.dtype).eps * noise)
        return moved.requires_grad_(tensor.requires_grad)

    near = replace(p, weights={name: nudged(tensor) for name, tensor in p.weights.items()}, _memo={})
    return _apart(untouched(near, nudged(p.x)), untouched(p, p.x))


def _apart(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return math.inf
    gap = torch.where((one == other) | (one.isnan() & other.isnan()), 0, (one - other).abs())
    scale = other.abs().nan_to_num(0, 0, 0).amax() if other.numel() else 0
    return float((gap / (scale + torch.finfo(other.dtype).tiny)).nan_to_num(math.inf).amax()) if gap.numel() else 0.0


def untouched(p: Probe, x: Tensor) -> Tensor:
    """The outputs of the network as it was given, in evaluation mode with norms that see the batch."""
    changed = [module for _, module in modules(p.net) if module in IN_PLACE]
    flags = [module.inplace for module in changed]
    buffers = own_buffers(p.net, other_precision(p.net, p.weights), every=True)
    try:
        for module in changed:
            vars(module)["inplace"] = True
        norms = AsInTraining(p.net)
        with quiet_randomness(p), norms, norms.inside.watched(), as_before(p.net):
            tensors = {**buffers, **p.weights}
            outputs = torch.func.functional_call(p.net, tensors, (x.clone(),), tie_weights=tied(p.net))
        return cast(Tensor, outputs).detach()
    finally:
        for module, flag in zip(changed, flags, strict=True):
            vars(module)["inplace"] = flag
