"""Zen-NAS (Lin et al., 2021): expected Gaussian complexity."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.layout import laid_out, run_in
from trainless.probe.norms import channel_variances
from trainless.probe.points import Gaussian, Noise
from trainless.probe.probe import Probe
from trainless.probe.record import Recorder, prepared
from trainless.probe.running import run
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
)
def zen(p: Probe, step: float = 0.01, samples: int = 16) -> float:
    """Reaction of the features before the pooling to a small change of the input, norms compensated.

    log mean_n Σ |f(x) − f(x + step · ε)| + Σ_norms log √(mean channel variance), ε ~ N(0, 1).

    Args:
        p: The probe.
        step: Size of the change.
        samples: How many samples of the batch to use; the paper's 16.

    Differences:
        Variances are the batch's own; the program reads running averages that drift from repeat to repeat.
        Features are the last rectifier's outputs (of an activation that is no ReLU, its inputs).

    Fails:
        Token inputs, no rectifier, or features that do not react.
    """
    if not p.x.is_floating_point():
        raise Unscorable("the inputs are tokens: they cannot be changed a little")
    x = p.x[:samples]
    noise = torch.randn(x.shape, generator=p.generator("zen")).to(x.device, x.dtype)
    features, logarithms = run_in(p.layout, lambda layout: _features(p, laid_out(x, layout)))
    moved, _ = run_in(p.layout, lambda layout: _features(p, laid_out(x + step * noise, layout), noting=False))
    difference = float((features - moved).abs().flatten(1).sum(1).double().mean())
    if not difference > 0:
        raise Unscorable("the features do not react to the input")
    return math.log(difference) + math.fsum(logarithms)


def _features(p: Probe, x: Tensor, noting: bool = True) -> tuple[Tensor, list[float]]:
    """The last rectifier's outputs and, where noted, each batch norm's log standard deviation."""
    found, spoilt = _recorded(p, x, noting, careful=False)
    return _recorded(p, x, noting, careful=True)[0] if spoilt else found


def _recorded(p: Probe, x: Tensor, noting: bool, careful: bool) -> tuple[tuple[Tensor, list[float]], bool]:
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
    with torch.no_grad(), prepared(p, note), recorder:
        run(p.net, p.weights, x)
    if not recorder.activations:
        raise Unscorable("the network has no rectifying activation")
    return (list(recorder.activations.values())[-1].gate, logarithms), recorder.spoilt()
