"""Looking at one network at one point: its weights, inputs, norm mode and seed.

A proxy of one's own finds here the probe, the quantities that proxies share on it, and the points to move it to.
"""

from trainless.probe.counts import network_counts
from trainless.probe.features import block_scatters, blocks
from trainless.probe.kernels import condition, kernel, sample_statistics, spectrum
from trainless.probe.norms import Norm
from trainless.probe.patterns import activation_patterns
from trainless.probe.per_sample import loss_cotangent, stream
from trainless.probe.points import (
    Constant,
    Crops,
    Double,
    First,
    Gaussian,
    Kaiming,
    Magnitude,
    Noise,
    Ones,
    Own,
    RealData,
    Uniform,
)
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import (
    gradient,
    loss_gradients,
    losses,
    output_gradient,
    weight_gradients,
    weight_names,
)
from trainless.probe.record import trace

__all__ = ["Constant", "Crops", "Double", "First", "Gaussian", "Kaiming", "Magnitude", "Noise", "Norm", "Ones"]
__all__ += ["Own", "Probe", "RealData", "Uniform", "activation_patterns", "block_scatters", "blocks", "condition"]
__all__ += ["gradient", "kernel", "loss_cotangent", "loss_gradients", "losses", "network_counts"]
__all__ += ["output_gradient", "quantity", "sample_statistics", "spectrum", "stream", "trace", "weight_gradients"]
__all__ += ["weight_names"]
