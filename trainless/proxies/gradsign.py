"""GradSign (Zhang & Jia, 2022): do the samples' gradients agree in sign?"""

from __future__ import annotations

import math

from trainless.probe.kernels import sample_statistics
from trainless.probe.norms import Norm
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(("Zhang", "Jia"), "GradSign: Model Performance Inference with Theoretical Insights", "ICLR", 2022)


@proxy(
    higher_is_better=True,
    labels=True,
    paper=PAPER,
    aspect="convergence and generalisation",
    setting=Setting(batch=64),
    version=2,
)
def gradsign(p: Probe, norm: Norm = "isolated") -> float:
    """Agreement of the samples' gradient signs, weight by weight: denser sample-wise optima.

    Σ_θ |Σ_i sign(∂ℓ_i/∂θ)| over convolution and linear weights, every sample normalised on its own.

    Args:
        p: The probe.
        norm: How batch norms work; ``"isolated"`` normalises every sample on its own.

    Differences:
        The paper leaves batch norm open; its program sends samples through one by one, so each is normalised
        alone, and so it is here, in one batched pass. The sum is its search programs' (one script takes the mean).

    Fails:
        Batch norm sees a single value per channel and sample: a batch of one cannot be normalised.
    """
    return math.fsum(sample_statistics(p.at(norm=norm), "loss").agreement.values())
