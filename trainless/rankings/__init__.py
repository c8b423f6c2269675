"""Rankings: functions from a whole table of scores to one number per candidate, the higher the better.

A candidate whose scores failed comes last and is counted: rank-based rankings put it last in the proxy that failed,
the others give it −inf. Each ranking knows the proxies that it needs (``proxies``).
"""

from __future__ import annotations

from trainless.core.registry import Registry
from trainless.rankings.fitted import Fitted, Ridge, fit_forest, fit_ridge
from trainless.rankings.incremental import Incremental
from trainless.rankings.learned import Learned, learn
from trainless.rankings.products import Consensus, Lexicographic, RankProduct, RankSum
from trainless.rankings.ranking import LogSum, Ranking

__all__ = [
    "Consensus",
    "Fitted",
    "Incremental",
    "Learned",
    "Lexicographic",
    "LogSum",
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

vkdnw_single = Lexicographic("layers", "vkdnw")
"""VKDNW_single: the number of layers first, the entropy within."""

registry: Registry[Ranking] = Registry("ranking", "rankings")
registry.add("teacup", LogSum({"length": -0.5, "loss_ntk": -1.0, "loss_synflow": -1.0, "zico": 1.0}))
registry.add("te-nas", RankSum(("ntk_condition", "linear_regions")))
registry.add("teg-nas", RankSum(("ntk_condition", "linear_regions", "ntk_mse")))
registry.add("az-nas", RankProduct(("expressivity", "progressivity", "trainability", "flops")))
registry.add("vkdnw-single", vkdnw_single)
registry.add("vkdnw-agg", RankProduct((vkdnw_single, "expressivity", "trainability", "flops", "jacov")))
registry.add(
    "trainless",
    Consensus(("flops", "synflow", "meco", "expressivity", "swap", "isolated_jacov", "layer_entropy", "isometry")),
)


def ranking(name: str) -> Ranking:
    """A published ranking by its name.

    Example:
        >>> ranking("az-nas").proxies
        ('expressivity', 'progressivity', 'trainability', 'flops')
    """
    return registry[name]
