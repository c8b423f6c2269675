"""Reading what was asked: which proxies, at which setting, on which data, with which seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import torch

from trainless.core.errors import InputError, UnknownName
from trainless.core.task import Task
from trainless.engine.data import CPU, Batch, Data, fingerprint, infer_target, require_batch, task_of_batch
from trainless.engine.subjects import Given, Subject, one_line, trial
from trainless.probe.inputs import Data as Samples
from trainless.probe.weights import Own
from trainless.proxies.proxy import Proxy, Setting, registry

Init: TypeAlias = Literal["own", "paper"]
BATCH = 64


def select(proxies: str | Proxy | Iterable[str | Proxy]) -> list[Proxy]:
    """The proxies that are meant: ``"all"``, names and patterns (with commas between them), or proxies themselves.

    Example:
        >>> [proxy.name for proxy in select("snip,param*")]
        ['snip', 'params']
    """
    if isinstance(proxies, Proxy):
        return [proxies]
    parts: Iterable[str | Proxy] = proxies.split(",") if isinstance(proxies, str) else proxies
    chosen: dict[str, Proxy] = {}
    for part in parts:
        for each in [part] if isinstance(part, Proxy) else _named(part.strip()):
            chosen.setdefault(each.name, each)
    if not chosen:
        raise InputError("no proxies were given; expected names such as snip,naswot or all (trainless list proxies)")
    return list(chosen.values())


def _named(text: str) -> list[Proxy]:
    if text != "all" and not any(sign in text for sign in "*?["):
        return [registry[text]]
    names = registry.names("*" if text == "all" else text)
    if not names:
        raise UnknownName(f"no proxy matches {text!r} (trainless list proxies)")
    return [registry[name] for name in names]


def init_named(text: str) -> Init:
    """The initialisation that is meant.

    Example:
        >>> init_named("paper")
        'paper'
    """
    if text not in ("own", "paper"):
        raise InputError(f"init={text!r} was given; expected 'own' or 'paper'")
    return "paper" if text == "paper" else "own"


def setting_for(proxy: Proxy, init: Init, data: Data) -> Setting:
    """Weights, inputs, batch and network size at which a proxy is to be computed."""
    setting = proxy.setting if init == "paper" else Setting(weights=Own(), inputs=Samples(), batch=BATCH)
    size = len(data.given[0]) if data.given else data.size
    return dataclasses.replace(setting, batch=size or setting.batch)


def data_for(
    batch: Batch | int | None, task: Task | None, subjects: Sequence[Subject], device: str | torch.device | None = None
) -> Data:
    """Where the batches for these subjects come from: a given batch, or a task and how many samples to draw."""
    where = _device(subjects, device)
    if batch is None or isinstance(batch, int):
        if task is None:
            raise InputError(
                "nothing to score on was given; expected batch=(x, y) or task=, such as task=tl.task('digits')"
            )
        if batch is not None and batch < 1:
            raise InputError(f"batch={batch} was given; expected (x, y) or at least 1 sample to draw")
        return Data(task, size=batch or 0, device=where or CPU)
    require_batch(batch)
    x, y = batch
    where = where or x.device
    if task is not None:
        marked = dataclasses.replace(task, fingerprint=fingerprint(x, y, task.fingerprint))
        return Data(marked, batch, device=where)
    first = subjects[0]
    outputs = trial(first.private, x[:2].to(where), first.name) if isinstance(first, Given) else None
    return Data(task_of_batch(batch, infer_target(y, outputs)), batch, device=where)


def _device(subjects: Sequence[Subject], device: str | torch.device | None) -> torch.device | None:
    """Where to work: where a given network is, else as told, else not decided."""
    try:
        told = None if device is None else torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device={device!r} was given; expected cpu, cuda or cuda:1 ({one_line(error)})") from error
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
    numbers = [seed] if seeds is None else list(range(seed, seed + seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or min(numbers) < 0:
        raise InputError(f"seed={seed} and seeds={seeds} were given; expected at least one seed, none below 0")
    return numbers
