"""SWAP-NAS (Peng et al., 2024): sample-wise activation patterns."""

from __future__ import annotations

from trainless.probe.patterns import distinct_columns, patterns
from trainless.probe.points import Gaussian
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Setting, proxy


@proxy(
    higher_is_better=True,
    paper="peng2024swap",
    setting=Setting(weights=Gaussian(), batch=16, network="thin", repeats=3),
)
def swap(p: Probe) -> float:
    """Number of distinct patterns that units show over the samples.

    |{(a_u(x_1) > 0, …, a_u(x_N) > 0) : units u}|, one row per unit where NASWOT has one per sample.

    Differences:
        The paper's regularisation by size is left out; it averages 32 draws, the setting here 3. With 16 samples a
        full NAS-Bench-201 network shows nearly all 65,536 patterns there are, so the setting takes a thin network.

    Fails:
        The network has no rectifier.
    """
    return float(distinct_columns(patterns(p)))
