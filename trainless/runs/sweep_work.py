"""What a worker of a sweep does: it scores an architecture and journals it as soon as it is finished."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainless.core.errors import TrainlessError
from trainless.core.scores import Record
from trainless.core.text import message
from trainless.proxies.proxy import Proxy
from trainless.runs.score_file import Journal, ProxySeed
from trainless.runs.settings import SweepSettings
from trainless.scoring.batches import BatchSource
from trainless.scoring.beside import side_by_side
from trainless.scoring.evaluate import evaluate
from trainless.scoring.request import data_for, init_named, select
from trainless.scoring.subjects import ArchSubject
from trainless.spaces import open_space
from trainless.spaces.protocol import Space
from trainless.store import Store, StoreError, store_at
from trainless.tasks import task as open_task

POISONED = 70  # a GPU context that failed once fails ever after: leave, and let a fresh process try
Lacking = tuple[str, list[ProxySeed]]
"""An arch, and the proxies and seeds that it still lacks."""


@dataclass(frozen=True)
class _Opened:
    """What a worker needs, opened where it works by the words of the settings."""

    space: Space
    proxies: dict[str, Proxy]
    data: BatchSource
    store: Store | None
    journal: Journal


class SweepWork:
    """Work whose jobs are some archs, scored and written down; the result is why they were not, or empty."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._held: _Opened | None = None

    def __call__(self, job: tuple[Lacking, ...]) -> str:
        """Score archs, side by side as far as that goes."""
        opened = self._opened()
        known = self._side_by_side(opened, job)
        for arch, wanted in job:
            done = known.get(arch, [])
            there = {(record.proxy, record.seed) for record in done}
            if done:
                opened.journal.write(arch, done)
            if missing := [each for each in wanted if each not in there]:
                self._alone(opened, (arch, missing))
        return ""

    def _side_by_side(self, opened: _Opened, job: tuple[Lacking, ...]) -> dict[str, list[Record]]:
        """By arch, the scores that come of running networks side by side."""
        found: dict[str, list[Record]] = {}
        if len(job) < 2 or opened.store is not None:
            return found
        for seed in dict.fromkeys(seed for _, wanted in job for _, seed in wanted):
            lacking = {opened.space.parse(arch): {name for name, own in wanted if own == seed} for arch, wanted in job}
            names = [name for name in opened.proxies if any(name in those for those in lacking.values())]
            how: Any = (opened.data, [opened.proxies[name] for name in names], seed, init_named(self._settings.init))
            for arch, records in side_by_side(
                opened.space, [arch for arch, those in lacking.items() if those], *how
            ).items():
                kept = [record for record in records if record.proxy in lacking[arch]]
                found.setdefault(opened.space.format(arch), []).extend(kept)
        return found

    def _alone(self, opened: _Opened, lacking: Lacking) -> None:
        """Score one arch; a second try where memory ran out, because other processes share it."""
        records = self._scored(opened, *lacking)
        if any("out of memory" in record.status for record in records):
            torch.cuda.empty_cache()
            records = self._scored(opened, *lacking)
        if any("CUDA error" in record.status for record in records):
            os._exit(POISONED)
        opened.journal.write(lacking[0], records)

    def failed(self, reason: str) -> str:
        return reason

    def close(self) -> None:
        if self._held is not None:
            if self._held.store is not None:
                self._held.store.close()
            self._held.journal.close()
            self._held = None

    def _opened(self) -> _Opened:
        if self._held is None:
            asked = self._settings
            self._held = _Opened(
                open_space(asked.space, asked.space_args),
                {proxy.name: proxy for proxy in select(asked.proxies)},
                data_for(asked.batch or None, open_task(asked.task), asked.device),
                store_at(asked.shared) if asked.shared else None,
                Journal(Path(asked.out), f"w{os.getpid()}"),
            )
        return self._held

    def _scored(self, opened: _Opened, arch: str, wanted: Sequence[ProxySeed]) -> list[Record]:
        records: list[Record] = []
        init = init_named(self._settings.init)
        for seed in dict.fromkeys(seed for _, seed in wanted):
            chosen = [opened.proxies[name] for name, number in wanted if number == seed]
            try:
                member = ArchSubject(opened.space, opened.space.parse(arch))
                records += evaluate([member], opened.data, chosen, [seed], init=init, store=opened.store)
            except StoreError:
                raise
            except TrainlessError as error:
                records += failed_records(arch, [(proxy.name, seed) for proxy in chosen], message(error))
        return records

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}


def failed_records(arch: str, wanted: Sequence[ProxySeed], reason: str) -> list[Record]:
    """NaN for every proxy and seed, for one reason."""
    return [Record(arch, proxy, math.nan, True, reason, seed=seed) for proxy, seed in wanted]
