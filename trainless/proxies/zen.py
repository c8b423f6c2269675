"""Zen-NAS (Lin et al., 2021): expected Gaussian complexity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from trainless.core.errors import Unscorable
from trainless.probe.layout import laid_out, run_in
from trainless.probe.norms import channel_variances
from trainless.probe.points import Gaussian, Noise
from trainless.probe.probe import Probe
from trainless.probe.record import Recorder, prepared, require_followed
from trainless.probe.running import run
from trainless.probe.tokens import Embedded, Tokens, chosen, side_by_side
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Lin", "Wang", "Sun", "Chen", "Sun", "Qian", "Li", "Jin"),
    "Zen-NAS: A Zero-Shot NAS for High-Performance Image Recognition",
    "ICCV",
    2021,
)


@proxy(
    higher_is_better=True,
    data=False,
    paper=PAPER,
    aspect="expressivity",
    setting=Setting(weights=Gaussian(), inputs=Noise()),
    version=3,
)
def zen(p: Probe, step: float = 0.01, samples: int = 16) -> float:
    """Reaction of the features before the pooling to a small change of the input, norms compensated.

    log mean_n Σ |f(x) − f(x + step · ε)| + Σ_norms log √(mean channel variance), ε ~ N(0, 1).

    Args:
        p: The probe.
        step: Size of the change.
        samples: How many samples of the batch to use; the paper's 16.

    The input of a network of tokens is what it looks them up as: that is what is changed.

    Differences:
        Variances are the batch's own; the program reads running averages that drift from repeat to repeat.
        Features are the last rectifier's outputs (of an activation that is no ReLU, its inputs).

    Fails:
        No rectifier, features that do not react, or tokens that are not looked up in a table.
    """
    require_followed(p)
    x = p.x[:samples]
    if x.is_floating_point():
        noise = torch.randn(x.shape, generator=p.generator("zen")).to(x.device, x.dtype)
        features, logarithms = run_in(p.layout, lambda layout: _features(p, laid_out(x, layout)))
        moved, _ = run_in(p.layout, lambda layout: _features(p, laid_out(x + step * noise, layout), noting=False))
    else:
        plain = _Lookups(p, x)
        features, logarithms = _features(p, x, lookups=plain)
        moving = _Lookups(p, x, plain.moves(step, p.generator("zen")))
        moved, _ = _features(p, x, noting=False, lookups=moving)
    if features.ndim < 2:
        raise Unscorable("the last rectifier mixes samples and positions: what each sample moves cannot be told")
    difference = float((features - moved).abs().flatten(1).sum(1).double().sum()) / len(x)
    if not difference > 0:
        raise Unscorable("the features do not react to the input")
    return math.log(difference) + math.fsum(logarithms)


class _Lookups(TorchFunctionMode):
    """Finds what tokens are looked up as, and moves it.

    Args:
        p: The probe.
        x: The tokens.
        by: By how much, lookup by lookup.
    """

    def __init__(self, p: Probe, x: Tensor, by: Sequence[Tensor | None] = ()) -> None:
        super().__init__()
        self.own, self.x, self.by = frozenset(map(id, p.weights.values())), x, by

    def __enter__(self) -> _Lookups:
        self.tokens, self.found = Tokens(self.x), list[Embedded]()  # anew: a pass may be run twice
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def moves(self, step: float, source: torch.Generator) -> list[Tensor | None]:
        """Noise for each lookup that counts; the same for every order of its axes."""
        counted = {id(each) for each in chosen(self.found)}
        side_by_side(chosen(self.found), [each.output for each in chosen(self.found)], len(self.x))
        return [self._noise(each, source) * step if id(each) in counted else None for each in self.found]

    def _noise(self, each: Embedded, source: torch.Generator) -> Tensor:
        axis = each.axes.samples or 0
        shape = each.output.movedim(axis, 0).shape
        return torch.randn(shape, generator=source).to(each.output).movedim(0, axis)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        found = self.tokens.met(func, result, args, kwargs or {}, self.own)
        if found is None:
            return result
        self.found.append(found)
        by = self.by[len(self.found) - 1] if len(self.found) <= len(self.by) else None
        if by is None:
            return result
        return found.output + by if found.output is result else (found.output + by, *result[1:])


def _features(p: Probe, x: Tensor, noting: bool = True, lookups: _Lookups | None = None) -> tuple[Tensor, list[float]]:
    """The last rectifier's outputs and, where noted, each batch norm's log standard deviation."""
    found, spoilt = _recorded(p, x, noting, lookups, careful=False)
    return _recorded(p, x, noting, lookups, careful=True)[0] if spoilt else found


def _recorded(
    p: Probe, x: Tensor, noting: bool, lookups: _Lookups | None, careful: bool
) -> tuple[tuple[Tensor, list[float]], bool]:
    logarithms: list[float] = []

    def note(weight: object, bias: object, inputs: Tensor, standard: Tensor, output: Tensor) -> Tensor:
        if not noting:
            return output
        count = inputs.numel() // inputs.shape[1]
        variance = float(channel_variances(inputs).double().mean()) * count / max(1, count - 1)
        if variance > 0:
            logarithms.append(0.5 * math.log(variance))
        return output

    recorder = Recorder(p.net, {}, careful)
    with torch.no_grad(), prepared(p, note), recorder, lookups or nullcontext():
        run(p.net, p.weights, x)
    if not recorder.activations:
        raise Unscorable("the network has no rectifying activation")
    return (list(recorder.activations.values())[-1].gate, logarithms), recorder.spoilt()
