"""A search as its settings have it: names looked up, and its measure, searcher and loop made."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Json
from trainless.execution.executor import perform
from trainless.proxies.proxy import Proxy
from trainless.rankings import Ranking
from trainless.rankings import ranking as named_ranking
from trainless.runs.loop import Loop
from trainless.runs.settings import SearchSettings
from trainless.runs.signals import signal_for
from trainless.scoring.costs import Cost, Tried, costs, feasible
from trainless.scoring.measures import ByProxies, Measure, canonical_key
from trainless.scoring.request import init_named, select
from trainless.searchers import registry as searchers
from trainless.searchers.searcher import Searcher, made, require_columns
from trainless.spaces import space as named_space
from trainless.spaces.moves import Feasible
from trainless.spaces.protocol import Space, Supernet, key
from trainless.store import Store
from trainless.tasks import task as named_task


@dataclass(frozen=True, eq=False)
class SearchSetup:
    """Everything that decides what a run comes to, but for its budget.

    ``proxies`` are empty where the settings have a measure. A fork keeps its parent's ``score_seed``; ``parent`` has
    the seed, step and parent of the run that it is a fork of.
    """

    task: Task
    space: Space
    settings: SearchSettings
    proxies: tuple[Proxy, ...]
    ranking: Ranking | None
    assist: Proxy | None
    score_seed: int
    parent: Json | None = None

    @property
    def searcher_name(self) -> str:
        """The searcher's name in errors and ``run.json``."""
        given = self.settings.searcher
        return given if isinstance(given, str) else getattr(given, "__qualname__", repr(given))

    @property
    def ranking_name(self) -> str:
        """The ranking's name in the told column and ``run.json``; empty without one."""
        given = self.settings.ranking
        return given if isinstance(given, str) else "" if given is None else repr(given)

    def described(self) -> Json:
        """The settings that ``run.json`` holds and a resumed run must repeat."""
        asked = self.settings
        measured = {proxy.name: proxy.higher_is_better for proxy in self.proxies}
        return {
            "task": {"name": self.task.name, "fingerprint": self.task.fingerprint},
            "space": key(self.space),
            "decisions": {decision.name: list(decision.options) for decision in self.space.decisions},
            "searcher": self.searcher_name,
            "searcher_args": {name: _plain(value) for name, value in asked.searcher_args.items()},
            "proxies": [f"{proxy.name} v{proxy.version}" for proxy in self.proxies],
            "ranking": self.ranking_name,
            "higher_is_better": measured if asked.measure is None else dict(asked.measure.higher_is_better),
            "assist": f"{self.assist.name} v{self.assist.version}" if self.assist else "",
            "limits": asked.limits,
            "costs": sorted(asked.costs),
            "objectives": list(asked.objectives),
            "seed": asked.seed,
            "score_seed": self.score_seed,
            "init": asked.init,
            "batch": asked.batch,
            "device": asked.device,
        }

    def child_of(self, configuration: Json) -> SearchSetup:
        """The setup of a fork: the parent's scores go on, the searcher's randomness is another."""
        parent = {"seed": configuration["seed"], "step": self.settings.step, "parent": configuration.get("parent")}
        return replace(self, score_seed=configuration["score_seed"], parent=parent)

    def measure_at(self, store: str) -> Measure:
        return self.settings.measure or self._scoring(self.proxies, store)

    def _scoring(self, proxies: Sequence[Proxy], store: str) -> ByProxies:
        asked, seed, init = self.settings, self.score_seed, init_named(self.settings.init)
        return ByProxies(
            self.space, self.task, proxies, seed=seed, init=init, batch=asked.batch, device=asked.device, store=store
        )

    def loop(
        self, measure: Measure, store: Store, ahead: int, tried: Tried = lambda name, tried, least: None
    ) -> tuple[Loop, dict[str, Cost]]:
        """A search at its beginning, and the costs that its leaderboard shows."""
        asked = self.settings
        wanted = tuple(dict.fromkeys((*asked.limits, *asked.objectives)))
        known = costs(self.space, self.task, store=store, given=asked.costs, wanted=wanted)
        allowed = feasible(self.space, known, asked.limits, tried)
        searcher = self._searcher(allowed, store)
        columns = self.ranking is not None and searcher.forms(self.ranking)
        self._require_told(searcher, list(measure.higher_is_better), columns)
        signal = signal_for(self.ranking, measure.higher_is_better, columns=columns, name=self.ranking_name)
        objectives = {name: known[name] for name in asked.objectives}
        return Loop(searcher, signal, canonical_key(self.space, allowed), ahead, objectives), known

    def _require_told(self, searcher: Searcher, measured: list[str], columns: bool) -> None:
        """Refuse what the searcher could not be told, before anything is measured."""
        name, objectives = self.searcher_name, self.settings.objectives
        if searcher.regions and self.settings.measure is None and not isinstance(self.space, Supernet):
            raise InputError(
                f"{name} evaluates supernets, and {self.space.name} builds none: choose another searcher, such as"
                " evolution, or a space with supernets, such as nb201 or darts"
            )
        if searcher.regions and objectives:
            raise InputError(
                f"{name} evaluates regions, which have no {' or '.join(objectives)} of their own: leave out"
                " the objectives, give limits instead (--max-flops), or choose nsga2"
            )
        told = measured if columns or self.ranking is None else [self.ranking_name]
        require_columns(name, searcher, [*told, *objectives])

    def _searcher(self, allowed: Feasible | None, store: Store) -> Searcher:
        asked = self.settings
        proxy = None if self.assist is None else self._assistant(self.assist, store)
        factory = searchers[asked.searcher] if isinstance(asked.searcher, str) else asked.searcher
        name, arguments = self.searcher_name, asked.searcher_args
        return made(name, factory, self.space, arguments, seed=asked.seed, feasible=allowed, proxy=proxy)

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


def open_search(task: Task | str, space: Space | str, settings: SearchSettings) -> SearchSetup:
    """Look up what was named, or say what is missing."""
    led = named_ranking(settings.ranking) if isinstance(settings.ranking, str) else settings.ranking
    wanted = [*(select(settings.proxies) if settings.proxies else []), *(select(led.proxies) if led else [])]
    chosen = tuple({proxy.name: proxy for proxy in wanted}.values())
    if settings.measure is None and not chosen:
        raise InputError(
            "nothing to search by was given; expected a ranking or proxies: --ranking az-nas, or --proxies synflow, in"
            " Python ranking='az-nas' or proxies='synflow' (trainless list rankings, trainless list proxies)"
        )
    if settings.measure is not None and chosen:
        raise InputError("a measure was given together with proxies or a ranking; expected one of them")
    opened = named_space(space) if isinstance(space, str) else space
    data = named_task(task) if isinstance(task, str) else task
    if settings.measure is None:
        opened.check(data)
    if isinstance(settings.searcher, str):
        searchers[settings.searcher]
    init_named(settings.init)
    assist = select(settings.assist)[0] if settings.assist else None
    return SearchSetup(data, opened, settings, chosen, led, assist, settings.seed)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
