"""One process of a sweep: it scores what it is sent and journals every architecture as it is finished."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from trainless.bench.journal import Journal, Pair
from trainless.bench.plan import Plan, open_proxies, open_space, open_task
from trainless.core.errors import TrainlessError
from trainless.core.scores import Record
from trainless.engine.asked import data_for, init_named
from trainless.engine.data import Data
from trainless.engine.evaluate import evaluate
from trainless.engine.memory import keep_warm
from trainless.engine.subjects import Member
from trainless.proxies.proxy import Proxy
from trainless.spaces.protocol import Space

READY, DONE, REFUSED = "ready", "done", "refused"
POISONED = 70  # a GPU context that failed once fails ever after: leave, and let a fresh process try
Job = tuple[str, list[Pair]]


def work(pipe: Connection, plan: Plan, writer: str) -> None:
    """Say that it is ready, then score what comes until nothing does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides
    torch.set_num_threads(1)
    keep_warm()
    try:
        space = open_space(plan)
        proxies = {proxy.name: proxy for proxy in open_proxies(plan.proxies)}
        data = data_for(plan.batch or None, open_task(plan.task), [], plan.device)
        space.check(data.task)
    except TrainlessError as error:
        pipe.send((REFUSED, str(error)))
        return
    journal = Journal(Path(plan.out), writer)
    pipe.send((READY, ""))
    try:
        while (jobs := pipe.recv()) is not None:
            for arch, pairs in jobs:
                journal.write(arch, score_arch(space, arch, pairs, proxies, data, plan.init))
                pipe.send((DONE, arch))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass
    finally:
        journal.close()


def score_arch(
    space: Space, arch: str, pairs: Sequence[Pair], proxies: dict[str, Proxy], data: Data, init: str
) -> list[Record]:
    """All records of one arch; a second try where memory ran out, because other processes share it."""
    records = _scored(space, arch, pairs, proxies, data, init)
    if any("out of memory" in record.status for record in records):
        torch.cuda.empty_cache()
        records = _scored(space, arch, pairs, proxies, data, init)
    if any("CUDA error" in record.status for record in records):
        os._exit(POISONED)
    return records


def _scored(
    space: Space, arch: str, pairs: Sequence[Pair], proxies: dict[str, Proxy], data: Data, init: str
) -> list[Record]:
    records: list[Record] = []
    for seed in dict.fromkeys(seed for _, seed in pairs):
        chosen = [proxies[name] for name, number in pairs if number == seed]
        try:
            member = Member(space, space.parse(arch))
            records += evaluate([member], data, chosen, [seed], init=init_named(init), fbe=False)
        except TrainlessError as error:
            records += failed(arch, [(proxy.name, seed) for proxy in chosen], " ".join(str(error).split()))
    return records


def failed(arch: str, pairs: Sequence[Pair], reason: str) -> list[Record]:
    """NaN for every proxy and seed, for one reason.

    Example:
        >>> [record.status for record in failed("a", [("snip", 0)], "the worker died")]
        ['the worker died']
    """
    return [Record(arch, proxy, math.nan, True, reason, seed=seed) for proxy, seed in pairs]
