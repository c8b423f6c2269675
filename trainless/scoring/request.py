"""Reading what was asked: which proxies, at which setting, on which data, with which seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import torch

from trainless.core.errors import InputError, UnknownName
from trainless.core.processes import physical_memory
from trainless.core.task import Task
from trainless.core.text import one_line
from trainless.core.user_files import load_file
from trainless.probe.points import Kaiming, Own, RealData
from trainless.proxies.proxy import Proxy, Setting, registry
from trainless.scoring.batches import (
    CPU,
    Batch,
    BatchSource,
    fingerprint,
    infer_target,
    require_batch,
    require_labels,
    task_of_batch,
)
from trainless.scoring.subjects import Given, Subject, trial

Init: TypeAlias = Literal["own", "kaiming", "paper"]
"""Weights as the network was made; drawn anew by He et al.'s rule; or each proxy at its paper's setting."""
BATCH = 64
FLOAT = 4  # bytes
LAST_SEED = 2**53 - 1  # what every program that reads JSON can hold exactly


def select(proxies: str | Proxy | Iterable[str | Proxy]) -> list[Proxy]:
    """The proxies that are meant: ``"all"``, names and patterns (with commas between them), or proxies themselves.

    A name may carry options, as in ``zico/batches=4``; a pattern stands for plain names alone; ``file.py:name`` is a
    proxy of one's own, whose file is imported.

    Example:
        >>> [proxy.name for proxy in select("snip,param*,zico/cumulative=true/batches=4")]
        ['snip', 'params', 'zico/batches=4/cumulative=true']
    """
    if isinstance(proxies, Proxy):
        return [proxies]
    parts: Iterable[str | Proxy] = proxies.split(",") if isinstance(proxies, str) else proxies
    chosen: dict[str, Proxy] = {}
    for part in parts:
        for each in [part] if isinstance(part, Proxy) else _named(part.strip()) if part.strip() else []:
            chosen.setdefault(each.name, each)
    if not chosen:
        raise InputError("no proxies were given; expected names such as snip,naswot or all (trainless list proxies)")
    return list(chosen.values())


def _named(text: str) -> list[Proxy]:
    if ".py:" in text:
        return [proxy_in_file(text)]
    if text != "all" and not any(sign in text for sign in "*?["):
        return [registry[text]]
    names = registry.names("*" if text == "all" else text)
    if not names:
        raise UnknownName(f"no proxy matches {text!r} (trainless list proxies)")
    return [registry[name] for name in names]


def proxy_in_file(text: str) -> Proxy:
    """Import the proxy that ``file.py:name`` stands for, or with options ``file.py:name/option=value``."""
    path, _, named = text.rpartition(":")
    name, slash, options = named.partition("/")
    if not path:
        raise InputError(f"the proxy {text!r} was given; expected FILE.py:NAME")
    found = vars(load_file(Path(path))).get(name)
    if not isinstance(found, Proxy):
        raise InputError(f"{path} has no proxy {name!r}: put @trainless.proxy(higher_is_better=…, paper=…) above it")
    return found.having_text(options) if slash else found


def init_named(text: str) -> Init:
    """The initialisation that is meant.

    Example:
        >>> init_named("paper")
        'paper'
    """
    if text not in (known := get_args(Init)):
        raise InputError(f"init={text!r} was given; expected {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")
    return cast(Init, text)


def setting_for(proxy: Proxy, init: Init, data: BatchSource) -> Setting:
    """Weights, inputs, batch and network size at which a proxy is to be computed."""
    plain = Setting(weights=Kaiming() if init == "kaiming" else Own(), inputs=RealData(), batch=BATCH)
    setting = proxy.setting if init == "paper" else plain
    if data.given:
        return dataclasses.replace(setting, batch=len(data.given[0]))
    return dataclasses.replace(setting, batch=int(min(data.size or setting.batch, data.most)))


def samples_wanted(proxies: Sequence[Proxy], init: Init, data: BatchSource) -> int:
    """The largest batch that is asked for, however many samples there are.

    Example:
        >>> samples_wanted(select("snip"), "own", BatchSource(Task.noise((3, 8, 8))))
        64
    """
    return data.size or (max(proxy.setting.batch for proxy in proxies) if init == "paper" else BATCH)


def require_room(proxies: Sequence[Proxy], init: Init, data: BatchSource) -> None:
    """Raise InputError where a batch alone is more than the machine's memory."""
    if data.given:
        return
    n = int(min(samples_wanted(proxies, init, data), data.most))
    needed, there = FLOAT * n * math.prod(data.task.input_shape), physical_memory()
    if needed > there:
        raise InputError(
            f"a batch of {n} inputs of {'x'.join(map(str, data.task.input_shape))} takes {needed / 1e9:,.1f} GB, but"
            f" this machine has {there / 1e9:,.1f} GB: give smaller inputs (--input) or a smaller batch (--batch)"
        )


def data_for(
    batch: Batch | int | None, task: Task | None, subjects: Sequence[Subject], device: str | torch.device | None = None
) -> BatchSource:
    """Where the batches for these subjects come from: a given batch, or a task and how many samples to draw."""
    where = _device(subjects, device)
    if batch is None or isinstance(batch, int):
        if task is None:
            raise InputError(
                "nothing to score on was given; expected batch=(x, y) or task=, such as task=tl.task('digits')"
            )
        if batch is not None and batch < 1:
            raise InputError(f"batch={batch} was given; expected (x, y) or at least 1 sample to draw")
        return BatchSource(task, size=batch or 0, device=where or CPU)
    require_batch(batch)
    x, y = batch
    if task is not None:
        require_labels(y, task.target)
    where = where or x.device
    if task is not None:
        marked = dataclasses.replace(task, fingerprint=fingerprint(x, y, task.fingerprint))
        return BatchSource(marked, batch, device=where)
    first = subjects[0]
    outputs = trial(first.private, x[:2].to(where), first.name) if isinstance(first, Given) else None
    return BatchSource(task_of_batch(batch, infer_target(y, outputs)), batch, device=where)


def _device(subjects: Sequence[Subject], device: str | torch.device | None) -> torch.device | None:
    """Where to work: where a given network is, else as told, else not decided."""
    try:
        told = None if device is None else torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device={device!r} was given; expected cpu, cuda or cuda:1 ({one_line(error)})") from error
    if told is not None and told.type == "meta":
        raise InputError("device 'meta' was asked for, which computes nothing; expected cpu, cuda or cuda:1")
    if told is not None and told.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for, but PyTorch sees no CUDA device here: use cpu")
    for subject in subjects:
        if isinstance(subject, Given):
            if told is not None and told.type != subject.device.type:
                raise InputError(
                    f"the network is on {subject.device}, not on {told}: move it there first, net.to('{told}')"
                )
            return subject.device
    return told


def seed_list(seed: int, seeds: int | Sequence[int] | None) -> list[int]:
    """The seeds that are meant: one, so many from the first one on, or those that are given.

    Example:
        >>> seed_list(5, 3), seed_list(0, [2, 7])
        ([5, 6, 7], [2, 7])
    """
    if seeds is None or isinstance(seeds, int):
        numbers: Sequence[int] = range(seed, seed + (1 if seeds is None else seeds))
    else:
        numbers = seeds
    if not numbers or min(numbers) < 0:
        raise InputError(f"seed={seed} and seeds={seeds} were given; expected at least one seed, none below 0")
    if max(numbers) > LAST_SEED:
        raise InputError(f"the seed {max(numbers)} was given; expected 0 to {LAST_SEED}: choose a smaller one")
    return list(numbers)
