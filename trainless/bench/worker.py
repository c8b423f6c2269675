"""What a process of a sweep does: it scores an architecture and journals it as soon as it is finished."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trainless.bench.journal import Journal, Pair
from trainless.bench.plan import Plan
from trainless.core.errors import TrainlessError
from trainless.core.scores import Record
from trainless.core.text import message
from trainless.proxies.proxy import Proxy
from trainless.scoring.batches import BatchSource
from trainless.scoring.evaluate import evaluate
from trainless.scoring.request import data_for, init_named, select
from trainless.scoring.subjects import ArchSubject
from trainless.spaces import open_space
from trainless.spaces.protocol import Space
from trainless.store import Store, StoreError, store_at
from trainless.tasks import task as open_task

POISONED = 70  # a GPU context that failed once fails ever after: leave, and let a fresh process try
Missing = tuple[str, list[Pair]]
"""An arch, and the pairs of proxy and seed that it still misses."""


class Sweeping:
    """Work whose jobs are archs, each scored and written down; the result is why one was not, empty where it was.

    Args:
        plan: The sweep; what it needs is opened where it works, by its words.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._opened: tuple[Space, dict[str, Proxy], BatchSource, Journal] | None = None
        self._store: Store | None = None

    def __call__(self, missing: Missing) -> str:
        arch, pairs = missing
        space, proxies, data, journal = self._open()
        journal.write(arch, score_arch(space, arch, pairs, proxies, data, self._plan.init, self._store))
        return ""

    def failed(self, reason: str) -> str:
        return reason

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._opened is not None:
            self._opened[-1].close()
            self._opened = None

    def _open(self) -> tuple[Space, dict[str, Proxy], BatchSource, Journal]:
        if self._opened is None:
            plan, space = self._plan, open_space(self._plan.space, self._plan.space_args)
            proxies = {proxy.name: proxy for proxy in select(plan.proxies)}
            data = data_for(plan.batch or None, open_task(plan.task), [], plan.device)
            self._store = store_at(plan.store) if plan.store else None
            self._opened = space, proxies, data, Journal(Path(plan.out), f"w{os.getpid()}")
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_store": None}


def score_arch(
    space: Space,
    arch: str,
    pairs: Sequence[Pair],
    proxies: dict[str, Proxy],
    data: BatchSource,
    init: str,
    store: Store | None = None,
) -> list[Record]:
    """All records of one arch; a second try where memory ran out, because other processes share it."""
    records = _scored(space, arch, pairs, proxies, data, init, store)
    if any("out of memory" in record.status for record in records):
        torch.cuda.empty_cache()
        records = _scored(space, arch, pairs, proxies, data, init, store)
    if any("CUDA error" in record.status for record in records):
        os._exit(POISONED)
    return records


def _scored(
    space: Space,
    arch: str,
    pairs: Sequence[Pair],
    proxies: dict[str, Proxy],
    data: BatchSource,
    init: str,
    store: Store | None,
) -> list[Record]:
    records: list[Record] = []
    for seed in dict.fromkeys(seed for _, seed in pairs):
        chosen = [proxies[name] for name, number in pairs if number == seed]
        try:
            member = ArchSubject(space, space.parse(arch))
            records += evaluate([member], data, chosen, [seed], init=init_named(init), store=store, fbe=False)
        except StoreError:
            raise
        except TrainlessError as error:
            records += failed(arch, [(proxy.name, seed) for proxy in chosen], message(error))
    return records


def failed(arch: str, pairs: Sequence[Pair], reason: str) -> list[Record]:
    """NaN for every proxy and seed, for one reason.

    Example:
        >>> [record.status for record in failed("a", [("snip", 0)], "the worker died")]
        ['the worker died']
    """
    return [Record(arch, proxy, math.nan, True, reason, seed=seed) for proxy, seed in pairs]
