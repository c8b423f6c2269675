"""What a sweep is to do, in words that travel to a bare machine and into every worker process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
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
        task: A task's name, ``noise:3x32x32:10``, or a file or folder.
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
