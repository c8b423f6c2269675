"""A search as it was asked for: what is fixed, and how its parts are made from it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.scoring.request import Init, init_named, select
from trainless.scoring.costs import Cost, Tried, costs, feasible
from trainless.execution.engine import perform
from trainless.runs.loop import Loop
from trainless.scoring.measures import ByProxies, Measure, canonical_key
from trainless.runs.signals import signal_for
from trainless.store import Store
from trainless.proxies.proxy import Proxy
from trainless.rankings import Consensus, Ranking, RankProduct, RankSum
from trainless.rankings import ranking as named_ranking
from trainless.searchers import registry as searchers
from trainless.searchers.evolution import Evolution
from trainless.searchers.history import HistoryEvolution
from trainless.searchers.making import made, require_columns
from trainless.searchers.prune import Prune
from trainless.core.arch import (Proposal)
from trainless.searchers.searcher import (Searcher)
from trainless.core.types import (Json)
from trainless.spaces import space as named_space
from trainless.spaces.moves import Feasible
from trainless.spaces.protocol import Space, Supernet, key
from trainless.tasks import task as named_task

Factory = Callable[..., Searcher]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that decides what a run comes to, but for its budget."""

    task: Task
    space: Space
    searcher: Factory
    name: str
    proxies: tuple[Proxy, ...]
    ranking: Ranking | None
    ranking_name: str
    measure: Measure | None
    parameters: Mapping[str, Any]
    assist: Proxy | None
    limits: Mapping[str, float]
    given: Mapping[str, Cost]
    objectives: tuple[str, ...]
    seed: int
    score_seed: int
    init: Init
    batch: int
    device: str
    parent: Json | None = None

    @classmethod
    def of(
        cls,
        task: Task | str,
        space: Space | str,
        searcher: str | Factory,
        *,
        proxies: str | Proxy | Sequence[str | Proxy] | None,
        ranking: str | Ranking | None,
        measure: Measure | None,
        parameters: Mapping[str, Any],
        assist: str | Proxy | None,
        limits: Mapping[str, float],
        given: Mapping[str, Cost],
        objectives: tuple[str, ...],
        seed: int,
        init: str,
        batch: int,
        device: str,
    ) -> Plan:
        """Look up what was named, or say what is missing."""
        led = named_ranking(ranking) if isinstance(ranking, str) else ranking
        wanted = [*(select(proxies) if proxies else []), *(select(led.proxies) if led else [])]
        chosen = tuple({proxy.name: proxy for proxy in wanted}.values())
        if measure is None and not chosen:
            raise InputError(
                "nothing to search by was given; expected a ranking, such as ranking='az-nas', or proxies, such as"
                " proxies='synflow' (trainless list rankings, trainless list proxies)"
            )
        if measure is not None and chosen:
            raise InputError("a measure was given together with proxies or a ranking; expected one of them")
        opened = named_space(space) if isinstance(space, str) else space
        data = named_task(task) if isinstance(task, str) else task
        if measure is None:
            opened.check(data)
        return cls(
            data,
            opened,
            searchers[searcher] if isinstance(searcher, str) else searcher,
            searcher if isinstance(searcher, str) else getattr(searcher, "__qualname__", repr(searcher)),
            chosen,
            led,
            ranking if isinstance(ranking, str) else "" if led is None else repr(led),
            measure,
            dict(parameters),
            select(assist)[0] if assist else None,
            dict(limits),
            dict(given),
            objectives,
            seed,
            seed,
            init_named(init),
            batch,
            device,
        )

    def described(self) -> Json:
        """What ``run.json`` says and a resumed run must ask for again."""
        return {
            "task": {"name": self.task.name, "fingerprint": self.task.fingerprint},
            "space": key(self.space),
            "decisions": {decision.name: list(decision.options) for decision in self.space.decisions},
            "searcher": self.name,
            "searcher_args": {name: _plain(value) for name, value in self.parameters.items()},
            "proxies": [f"{proxy.name} v{proxy.version}" for proxy in self.proxies],
            "ranking": self.ranking_name,
            "higher_is_better": self._directions(),
            "assist": f"{self.assist.name} v{self.assist.version}" if self.assist else "",
            "limits": dict(self.limits),
            "costs": sorted(self.given),
            "objectives": list(self.objectives),
            "seed": self.seed,
            "score_seed": self.score_seed,
            "init": self.init,
            "batch": self.batch,
            "device": self.device,
        }

    def _directions(self) -> dict[str, bool]:
        """The columns that are measured, and whether more of each is better."""
        if self.measure is not None:
            return dict(self.measure.higher_is_better)
        return {proxy.name: proxy.higher_is_better for proxy in self.proxies}

    def child(self, configuration: Json, step: int, seed: int) -> Plan:
        """The plan of a fork: the parent's scores go on, the searcher's randomness is another."""
        if step < 1:
            raise InputError(f"a fork from step {step} was asked for; expected 1 or more")
        parent = {"seed": configuration["seed"], "step": step, "parent": configuration.get("parent")}
        return dataclasses.replace(self, seed=seed, score_seed=configuration["score_seed"], parent=parent)

    def measure_at(self, store: Path | str) -> Measure:
        """What measures proposals, with a store."""
        return self.measure or self._scoring(self.proxies, store)

    def _scoring(self, proxies: Sequence[Proxy], store: Path | str) -> ByProxies:
        return ByProxies(
            self.space,
            self.task,
            proxies,
            seed=self.score_seed,
            init=self.init,
            batch=self.batch,
            device=self.device,
            store=str(store),
        )

    def loop(
        self, measure: Measure, store: Store, ahead: int, tried: Tried = lambda name, tried, least: None
    ) -> tuple[Loop, dict[str, Cost]]:
        """A search at its beginning, and the costs that its leaderboard shows."""
        wanted = tuple(dict.fromkeys((*self.limits, *self.objectives)))
        known = costs(self.space, self.task, store=store, given=self.given, wanted=wanted)
        allowed = feasible(self.space, known, self.limits, tried)
        searcher = self._searcher(allowed, store)
        columns = ranks_itself(searcher, self.ranking)
        self._require_told(searcher, list(measure.higher_is_better), columns)
        signal = signal_for(self.ranking, measure.higher_is_better, columns=columns, name=self.ranking_name)
        objectives = {name: known[name] for name in self.objectives}
        return Loop(searcher, signal, canonical_key(self.space, allowed), ahead, objectives), known

    def _require_told(self, searcher: Searcher, measured: list[str], columns: bool) -> None:
        """Refuse what the searcher could not be told, before anything is measured."""
        if isinstance(searcher, Prune) and self.measure is None and not isinstance(self.space, Supernet):
            raise InputError(
                f"{self.name} evaluates supernets, and {self.space.name} builds none: choose another searcher, such as"
                " evolution, or a space with supernets, such as nb201 or darts"
            )
        if isinstance(searcher, Prune) and self.objectives:
            raise InputError(
                f"{self.name} evaluates regions, which have no {' or '.join(self.objectives)} of their own: leave out"
                " the objectives, give limits instead (--max-flops), or choose nsga2"
            )
        told = measured if columns or self.ranking is None else [self.ranking_name]
        require_columns(self.name, searcher, [*told, *self.objectives])

    def _searcher(self, allowed: Feasible | None, store: Store) -> Searcher:
        proxy = None if self.assist is None else self._assistant(self.assist, store)
        return made(
            self.name, self.searcher, self.space, self.parameters, seed=self.seed, feasible=allowed, proxy=proxy
        )

    def _assistant(self, proxy: Proxy, store: Store) -> Callable[[Arch], float]:
        """A proxy as a function of an arch, higher is better; its scores are kept with all others."""
        measure = self._scoring([proxy], store.url)
        sign = 1.0 if proxy.higher_is_better else -1.0
        twin = canonical_key(self.space, None)

        @functools.cache
        def value(arch: Arch) -> float:
            found = sign * perform(measure, Proposal(twin(arch))).values[proxy.name]
            return found if math.isfinite(found) else math.nan

        return value


def ranks_itself(searcher: Searcher, ranking: Ranking | None) -> bool:
    """Whether a searcher does the ranking on the proxies themselves, as its paper has it.

    Pruning ranks a region within its own round, evolution over the history is AZ-NAS's with a product of ranks, and a
    tournament by sums of ranks is TEG-NAS's.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> ranks_itself(Prune(NasBench201()), named_ranking("teacup"))
        True
    """
    if isinstance(ranking, Consensus):
        return isinstance(searcher, Prune)
    if isinstance(ranking, (RankSum, RankProduct)) and all(isinstance(part, str) for part in ranking.parts):
        kind = Evolution if isinstance(ranking, RankSum) else HistoryEvolution
        return isinstance(searcher, (kind, Prune))
    return ranking is not None and isinstance(searcher, Prune)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
