"""EPE-NAS (Lopes et al., 2021): do input gradients correlate within a class?"""

from __future__ import annotations

import torch

from trainless.core.errors import Unscorable
from trainless.probe.probe import Probe
from trainless.probe.quantities import output_gradient
from trainless.proxies.proxy import Setting, proxy
from trainless.proxies.zerocost import require_varying


@proxy(higher_is_better=True, labels=True, paper="lopes2021epenas", setting=Setting(batch=64))
def epe_nas(p: Probe, constant: float = 1e-5) -> float:
    """How little the input gradients of one class correlate, added up over classes.

    Σ_c |Σ_ij log(|ρ_ij| + k)|, ρ the correlation matrix of ∂(Σ outputs)/∂x over the samples of class c; above 100
    classes the mean over pairs of classes of |s_c − s_d|, s_c per sample.

    Fails:
        No gradient reaches an input, or it is the same everywhere, or the task has no classes.
    """
    if p.target.kind not in ("binary", "multiclass"):
        raise Unscorable("the task has no classes")
    gradients = output_gradient(p).flatten(1).double()
    rows = gradients - gradients.mean(1, keepdim=True)
    norms = rows.norm(dim=1, keepdim=True)
    require_varying(gradients, norms[:, 0] > 0)
    rows = rows / norms
    many = p.target.outputs > 100
    sums = []
    for label in p.y.unique():
        mine = rows[p.y == label]
        total = ((mine @ mine.T).abs() + constant).log().sum()
        sums.append(total / len(mine) if many else total)
    scores = torch.stack(sums)
    return float((scores[:, None] - scores[None]).abs().sum() / len(scores) if many else scores.abs().sum())
