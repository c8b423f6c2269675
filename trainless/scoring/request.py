"""Reading what was asked: which proxies, at which setting, on which data, with which seeds."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import torch

from trainless.core.errors import InputError, UnknownName
from trainless.core.machine import device_named
from trainless.core.processes import physical_memory
from trainless.core.task import Task
from trainless.core.user_files import load_file
from trainless.core.vocabulary import LAST_SEED
from trainless.probe.points import Kaiming, Own, RealData
from trainless.proxies.proxy import Proxy, Setting, registry
from trainless.scoring.batches import (
    CPU,
    BatchSource,
    Shape,
    as_batch,
    fingerprint,
    infer_target,
    require_labels,
    task_of_batch,
)

Init: TypeAlias = Literal["own", "kaiming", "paper"]
"""Weights as the network was made; drawn anew by He et al.'s rule; or each proxy at its paper's setting."""
BATCH = 64
FLOAT = 4  # bytes


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
    batch: object,
    task: Task | None,
    device: str | torch.device | None = None,
    inputs: Mapping[str, Sequence[int]] | str | None = None,
) -> BatchSource:
    """Where the batches come from: a given batch, or a task and how many samples to draw.

    Args:
        batch: ``(x, y)``, or the number of samples.
        task: Where inputs and labels come from, unless a batch is given.
        device: Where to work; None: where a given network or batch is.
        inputs: Input shapes of networks that take others, by name; or ``"own"``.
    """
    where, shapes = _device(device), input_shapes(inputs)
    if batch is None or isinstance(batch, int):
        if task is None:
            raise InputError(
                "nothing to score on was given; expected batch=(x, y) or task=, such as task=tl.task('digits')"
            )
        if batch is not None and batch < 1:
            raise InputError(f"batch={batch} was given; expected (x, y) or at least 1 sample to draw")
        return BatchSource(task, size=batch or 0, device=where or CPU, asked=where is not None, inputs=shapes)
    x, y = as_batch(batch)
    require_labels(x, y, None if task is None else task.target)
    if task is None:
        known = task_of_batch((x, y), infer_target(y))
    else:
        known = dataclasses.replace(task, fingerprint=fingerprint(x, y, task.fingerprint))
    return BatchSource(
        known, (x, y), device=where or x.device, asked=where is not None, inferred=task is None, inputs=shapes
    )


def input_shapes(inputs: Mapping[str, Sequence[int]] | str | None) -> Mapping[str, Shape] | Literal["own"]:
    """Input shapes by the names of networks, or ``"own"``.

    Example:
        >>> input_shapes({"inception": [3, 299, 299]})
        {'inception': (3, 299, 299)}
    """
    if inputs == "own":
        return "own"
    given = inputs if isinstance(inputs, Mapping) else {"": ()} if inputs else {}
    try:
        shapes = {name: tuple(map(int, shape)) for name, shape in given.items()}
    except (TypeError, ValueError):
        shapes = {"": ()}
    if not all(shape and min(shape) > 0 for shape in shapes.values()):
        raise InputError(
            f"inputs={inputs!r} was given; expected shapes by the networks' names, such as"
            " {'inception': (3, 299, 299)}, or 'own' for each network's own"
        )
    return shapes


def require_named(inputs: Mapping[str, Shape] | Literal["own"], names: Sequence[str]) -> None:
    """Raise InputError where input shapes are given for networks that there are not."""
    unknown = [name for name in ({} if inputs == "own" else inputs) if name not in names]
    if unknown:
        raise InputError(f"inputs for {', '.join(unknown)} were given; the networks are {', '.join(names[:20])}")


def _device(device: str | torch.device | None) -> torch.device | None:
    """Where to work, if that was told."""
    return None if device is None else torch.device(device_named(str(device)))


class PortableProxies:
    """Proxies that travel to other processes by their names and the modules that register them.

    Example:
        >>> [proxy.name for proxy in PortableProxies(select("snip")).found]
        ['snip']
    """

    def __init__(self, proxies: Iterable[Proxy]) -> None:
        self._proxies: list[Proxy] | None = list(proxies)
        self._names: Sequence[str] = [proxy.name for proxy in self._proxies]
        self._modules: Sequence[str] = ()

    @property
    def found(self) -> list[Proxy]:
        """The proxies, here."""
        if self._proxies is None:
            for module in self._modules:
                importlib.import_module(module)
            self._proxies = select(self._names)
        return self._proxies

    def __getstate__(self) -> dict[str, Any]:
        for proxy in self.found:
            if proxy.name not in registry or registry[proxy.name] != proxy:
                raise InputError(
                    f"the proxy {proxy.name!r} is not registered, so other processes cannot find it: define it in a"
                    " module by @trainless.proxy, or use workers=1"
                )
        modules = sorted({proxy.fn.__module__ for proxy in self.found} - {"__main__"})
        return {**self.__dict__, "_proxies": None, "_modules": modules}


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
