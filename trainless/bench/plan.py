"""What a sweep is to do, in words that travel to a bare machine and into every worker process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.core.text import one_line
from trainless.core.user_files import load_file
from trainless.proxies.proxy import Proxy
from trainless.scoring.request import select
from trainless.spaces import space as find_space
from trainless.spaces.moves import enumerate_archs, sample, size
from trainless.spaces.protocol import Space

LARGEST = 10_000_000


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Args:
        out: The folder that holds its journals and, at the end, ``scores.npz``.
        space: The space's name.
        space_args: Its parameters, such as ``channels=16,cells=5``.
        archs: ``canonical`` (one of each set of twins), ``all``, ``sample:500`` or a file with one notation per line.
        proxies: ``all``, names (``zico/batches=4`` with an option) and patterns, or ``file.py:name`` for a proxy of
            one's own, with commas between them.
        init: ``paper`` or ``own``, as for ``score``.
        batch: Samples per batch; 0 leaves it to each proxy's setting.
        task: ``file.npz`` with arrays ``x`` and ``y``, ``noise:3x32x32:10``, or a task's name.
        seeds: The seeds.
        processes: How many worker processes.
        device: ``cpu`` or ``cuda``.
        limit_s: Seconds after which no arch is begun; infinite where there is no limit.
        timeout: Seconds that one arch may take; 0 for as long as it likes.
        memory_limit: Bytes that one worker may take; 0 for as much as there is.
        engine: ``local`` or ``ray``.
        address: Of a Ray cluster; empty starts one here.
        store: A store that the workers share with other sweeps and machines; empty for none.
    """

    out: str
    space: str = "nb201"
    space_args: str = ""
    archs: str = "canonical"
    proxies: str = "all"
    init: str = "paper"
    batch: int = 0
    task: str = "noise:3x32x32:10"
    seeds: tuple[int, ...] = (0,)
    processes: int = 1
    device: str = "cpu"
    limit_s: float = math.inf
    timeout: float = 0.0
    memory_limit: int = 0
    engine: str = "local"
    address: str = ""
    store: str = ""


def open_space(plan: Plan) -> Space:
    """The space with its parameters."""
    pairs = [part.partition("=") for part in plan.space_args.split(",") if part]
    if any(not name or not value for name, _, value in pairs):
        raise InputError(f"space arguments {plan.space_args!r} were given; expected name=value,name=value")
    return find_space(plan.space, **{name: int(value) if value.isdigit() else value for name, _, value in pairs})


def open_archs(text: str, space: Space) -> list[Arch]:
    """The archs that are meant, each once.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> len(open_archs("sample:20", NasBench201()))
        20
    """
    if text in ("canonical", "all"):
        if size(space) > LARGEST:
            raise InputError(f"{space.name} has {size(space):,} archs, too many to go through: give sample:500 instead")
        return list(enumerate_archs(space, canonical=text == "canonical"))
    if text.startswith("sample:"):
        count = text.removeprefix("sample:")
        if not count.isdigit() or int(count) < 1:
            raise InputError(f"archs {text!r} were given; expected a number of at least 1, such as sample:500")
        if int(count) > size(space):
            raise InputError(f"archs {text!r} were given, but {space.name} has {size(space):,}: give fewer, or all")
        return list(_drawn(space, int(count)))
    if not Path(text).is_file():
        raise InputError(f"archs {text!r} were given; expected canonical, all, sample:500 or a file that exists")
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    found = list(dict.fromkeys(space.parse(line.strip()) for line in lines if line.strip()))
    if not found:
        raise InputError(f"{text} has no archs: expected one notation per line")
    return found


def _drawn(space: Space, count: int) -> Iterator[Arch]:
    """Distinct archs drawn uniformly, always the same."""
    rng, seen = np.random.default_rng(0), set[Arch]()
    for _ in range(100 * count):
        arch = sample(space, rng)
        if arch not in seen:
            seen.add(arch)
            yield arch
        if len(seen) == count:
            return
    raise InputError(f"{space.name} has not {count} distinct archs to draw: give fewer, or all")


def open_task(text: str) -> Task:
    """The task that is meant; one from a file of arrays needs nothing but NumPy.

    Bytes are normalised per channel; floats are taken as they are.

    Example:
        >>> open_task("noise:3x8x8:10").input_shape
        (3, 8, 8)
    """
    if text.startswith("noise:"):
        _, shape, *classes = text.split(":")
        try:
            return Task.noise([int(part) for part in shape.split("x")], int(classes[0]) if classes else 10)
        except ValueError:
            raise InputError(f"task {text!r} was given; expected noise:SHAPE:CLASSES as in noise:3x32x32:10") from None
    if text.endswith(".npz") and Path(text).is_file():
        with np.load(text, allow_pickle=False) as file:
            if not {"x", "y"} <= set(file.files):
                raise InputError(f"{text} holds {', '.join(file.files)}; expected arrays x (N, C, …) and y (N)")
            return _of_arrays(Path(text).stem, Part(file["x"], file["y"]))
    from trainless.tasks import task

    return task(text)


def _of_arrays(name: str, part: Part) -> Task:
    x, y = np.asarray(part.x), np.asarray(part.y)
    if x.ndim < 2 or len(x) != len(y) or not len(x):
        raise InputError(f"{name} has x of shape {x.shape} and y of {y.shape}; expected (N, C, …) and (N)")
    if np.issubdtype(y.dtype, np.floating):
        target = Target("regression", int(np.prod(y.shape[1:], initial=1)))
    else:
        classes = max(2, int(y.max()) + 1)
        target = Target("binary" if classes == 2 else "multiclass", classes)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    if not np.issubdtype(x.dtype, np.floating):
        axes = (0, *range(2, x.ndim))
        mean = tuple(x.mean(axes, dtype=np.float64).tolist())
        std = tuple(np.maximum(x.std(axes, dtype=np.float64), 1e-6).tolist())
    return Task(name, tuple(x.shape[1:]), target, part, mean=mean, std=std)


def open_proxies(text: str) -> list[Proxy]:
    """The proxies that are meant, those in files of one's own among them.

    Example:
        >>> [proxy.name for proxy in open_proxies("snip,params")]
        ['snip', 'params']
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return select([proxy_in_file(part) if ".py:" in part else part for part in parts])


def proxy_in_file(text: str) -> Proxy:
    """The proxy that ``file.py:name`` stands for, or with options ``file.py:name/option=value``."""
    path, _, named = text.rpartition(":")
    name, slash, options = named.partition("/")
    if not path:
        raise InputError(f"the proxy {text!r} was given; expected FILE.py:NAME")
    try:
        found = vars(load_file(Path(path))).get(name)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"importing {path} failed ({one_line(error)}): mend it") from error
    if not isinstance(found, Proxy):
        raise InputError(f"{path} has no proxy {name!r}: put @trainless.proxy(higher_is_better=…, paper=…) above it")
    return found.having_text(options) if slash else found
