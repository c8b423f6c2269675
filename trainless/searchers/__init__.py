"""Search methods: ask/tell over decisions and numbers, none of which imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainless.core.exports import lazy_exports
from trainless.core.registry import Registry

if TYPE_CHECKING:
    from trainless.searchers.searcher import Incumbent, Searcher, SignalSearcher, Told, room
    from trainless.searchers.state import kept
    from trainless.spaces.moves import Choices

__all__ = ["Incumbent", "Searcher", "SignalSearcher", "Told", "kept", "make", "registry", "room"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"searcher": ("Incumbent", "Searcher", "SignalSearcher", "Told", "room"), "state": ("kept",)}
)

registry: Registry[Callable[..., Searcher]] = Registry("searcher", "searchers")
for _name, _where in {
    "random": "simple:Random",
    "exhaustive": "simple:Exhaustive",
    "local": "simple:Local",
    "evolution": "evolution:Evolution",
    "teg_evolution": "evolution:teg_evolution",
    "history_evolution": "evolution:HistoryEvolution",
    "reinforce": "reinforce:Reinforce",
    "teg_reinforce": "reinforce:teg_reinforce",
    "teacup_reinforce": "reinforce:teacup_reinforce",
    "fpnas": "reinforce:FpNas",
    "pmbga": "reinforce:Pmbga",
    "prune": "prune:Prune",
    "hyperband": "hyperband:Hyperband",
    "bohb": "hyperband:Bohb",
    "nsga2": "pareto:Nsga2",
    "optuna": "optuna_sampler:OptunaSearcher",
    "g_rs": "assisted:g_rs",
    "a_rea": "assisted:a_rea",
    "g_rea": "assisted:g_rea",
    "g_reinforce": "assisted:g_reinforce",
    "g_hb": "assisted:g_hb",
    "warm_random": "assisted:warm_random",
    "warm_evolution": "assisted:warm_evolution",
    "move_evolution": "assisted:move_evolution",
    "learned": "learned:LearnedSearch",
}.items():
    registry.add(_name, f"trainless.searchers.{_where}")


def make(name: str, space: Choices, **parameters: Any) -> Searcher:
    """Make a searcher by its name, with its parameters.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> len(make("evolution", NasBench201(), seed=0).ask())
        1
    """
    from trainless.searchers.searcher import made

    plain = {each: value for each, value in parameters.items() if each not in ("seed", "feasible", "proxy")}
    return made(name, registry[name], space, plain, **{each: parameters[each] for each in parameters.keys() - plain})
