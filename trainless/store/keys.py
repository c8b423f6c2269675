"""The key of a score, its result, and the protocol of a store."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trainless.core.errors import InputError


class StoreError(InputError):
    """A store that cannot be used: the end of a run, never the failure of a candidate."""


LONGEST = 600  # characters of an arch in an index; PostgreSQL takes 2,700 bytes of a whole entry


class Key(NamedTuple):
    """Everything that a score depends on.

    The space has its parameters (``"network"`` for a network of the user's, whose arch is its fingerprint), the setting
    is weights, inputs, batch size and network size, written out, and the task is the data's fingerprint.
    """

    space: str
    arch: str
    proxy: str
    version: int
    setting: str
    task: str
    seed: int


@dataclass(frozen=True)
class Result:
    """A value, or NaN and the reason, what it cost, and what is to be known of how it came about."""

    value: float
    status: str
    ms: float
    fbe: float
    notes: str = ""


class Row(NamedTuple):
    """A result with its key, and when it was kept, in seconds since 1970."""

    key: Key
    result: Result
    kept: float


class Count(NamedTuple):
    """The numbers of results and of failures of one proxy in one setting."""

    space: str
    task: str
    proxy: str
    version: int
    setting: str
    seed: int
    scores: int
    failures: int


@dataclass(frozen=True)
class Selection:
    """Which scores are meant; what is left out means all.

    A space is with its parameters or its name alone; ``failures`` alone, ``before`` a time in seconds since 1970.
    """

    space: str = ""
    task: str = ""
    proxy: str = ""
    version: int | None = None
    failures: bool = False
    before: float | None = None

    def covers(self, context: Context) -> bool:
        return (
            self.space in ("", context.space, context.space.partition("(")[0])
            and self.task in ("", context.task)
            and self.proxy in ("", context.proxy)
            and self.version in (None, context.version)
        )


class Store(Protocol):
    """Finds and keeps results; the first result of a key stays."""

    @property
    def url(self) -> str:
        """The place that opens the same store again."""

    def find(self, keys: Iterable[Key]) -> dict[Key, Result]:
        """The results that are there, by key."""

    def keep(self, results: Iterable[tuple[Key, Result]]) -> None:
        """Write results down for good, all or none; what this process had claimed of them is free again."""

    def claim(self, keys: Iterable[Key]) -> set[Key]:
        """Those of the keys that this process is to compute: not scored and not claimed by another that lives."""

    def release(self, keys: Collection[Key]) -> None:
        """Give back what was claimed and not kept."""

    def close(self) -> None:
        """Let go of the file or the connection."""


class Context(NamedTuple):
    """A key without its arch: what the scores of one column have in common."""

    space: str
    proxy: str
    version: int
    setting: str
    task: str
    seed: int

    @property
    def number(self) -> int:
        """The same 63 bits on every machine, so that merged stores agree."""
        return _digest(self)


@functools.lru_cache(maxsize=10_000)
def _digest(context: Context) -> int:
    digest = hashlib.blake2b(json.dumps(context).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def context_of(key: Key) -> Context:
    """A key without its arch."""
    return Context(key.space, *key[2:])


def brief(arch: str) -> str:
    """An arch as it is in the index: itself, or where it is very long, its beginning and a digest."""
    if len(arch) <= LONGEST:
        return arch
    return f"{arch[:500]}#{hashlib.blake2b(arch.encode(), digest_size=16).hexdigest()}"


def number(column: float | None) -> float:
    """A column's value; nothing is NaN."""
    return math.nan if column is None else float(column)


def column(part: float | str) -> float | str | None:
    """A value as a database holds it: nothing for NaN, and no NUL in texts, which PostgreSQL refuses."""
    if isinstance(part, str):
        return part.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return None if math.isnan(part) else part
