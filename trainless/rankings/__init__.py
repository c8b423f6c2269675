"""Rankings: functions from a whole table of scores to one number per candidate, the higher the better.

A candidate whose scores failed comes last and is counted: rank-based rankings put it last in the proxy that failed,
the others give it −inf. Each ranking knows the proxies that it needs (``proxies``).
"""

from __future__ import annotations

from trainless.core.registry import Registry
from trainless.rankings.fitted import Fitted, Ridge, fit_forest, fit_ridge
from trainless.rankings.incremental import Incremental
from trainless.rankings.learned import Learned, learn
from trainless.rankings.products import Consensus, Lexicographic, RankAggregate, RankProduct, RankSum
from trainless.rankings.ranking import LogSum, Ranking

__all__ = [
    "Consensus",
    "Fitted",
    "Incremental",
    "Learned",
    "Lexicographic",
    "LogSum",
    "RankAggregate",
    "RankProduct",
    "RankSum",
    "Ranking",
    "Ridge",
    "fit_forest",
    "fit_ridge",
    "learn",
    "ranking",
    "registry",
    "vkdnw_single",
]

vkdnw_single = Lexicographic("layers", "vkdnw", reference="Týbl & Neumann, 2025")
"""VKDNW_single: the number of layers first, the entropy within."""

_TEACUP = {"length": -0.5, "loss_ntk": -1.0, "loss_synflow": -1.0, "zico": 1.0}
_TEACUP_PUBLISHED = {
    "length/batches=4": -0.5,
    "loss_ntk/batches=4/coupling=joint": -1.0,
    "loss_synflow/batches=4": -1.0,
    "zico/batches=4/cumulative=true": 1.0,
}
_VKDNW = (vkdnw_single, "expressivity", "trainability", "flops", "jacov")
_FIRST = ("flops", "synflow", "meco", "expressivity", "swap", "isolated_jacov", "layer_entropy", "isometry")
_SECOND = (
    *("paths",) * 4,
    *("expressivity",) * 2,
    *("isolated_jacov",) * 4,
    *("layer_entropy", "isometry") * 2,
    *("meco", "swap", "swap"),
)
_MIXED = ("params", "naswot")

registry: Registry[Ranking] = Registry("ranking", "rankings")
registry.add("teacup", LogSum(_TEACUP, reference="Wu et al., 2024"))
registry.add("teacup-published", LogSum(_TEACUP_PUBLISHED, reference="Wu et al., 2024"))
registry.add("te-nas", RankSum(("ntk_condition", "linear_regions"), reference="Chen et al., 2021"))
registry.add("teg-nas", RankSum(("ntk_condition", "linear_regions", "ntk_mse"), reference="Chen et al., 2023"))
registry.add(
    "az-nas", RankProduct(("expressivity", "progressivity", "trainability", "flops"), reference="Lee & Ham, 2024")
)
registry.add("vkdnw-single", vkdnw_single)
registry.add("vkdnw-agg", RankProduct(_VKDNW, reference="Týbl & Neumann, 2025"))
registry.add("trainless-1", Consensus(_FIRST))
registry.add(
    "trainless-2", Consensus((*_SECOND, *_MIXED, "flops"), core=("paths", "expressivity"), size="flops", mixed=_MIXED)
)
CURRENT = "trainless-2"
"""The version of our ranking that the name ``trainless`` stands for."""
registry.add("trainless", registry[CURRENT])


def ranking(name: str) -> Ranking:
    """A published ranking by its name.

    Example:
        >>> ranking("az-nas").proxies
        ('expressivity', 'progressivity', 'trainability', 'flops')
    """
    return registry[name]
