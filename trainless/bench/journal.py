"""Journals of a sweep: every score is a line on disk as soon as its architecture is finished, and is never lost."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from trainless.core.scores import MACHINE, Record
from trainless.core.text import undamaged
from trainless.store.score_file import ABSENT, COLUMNS, OK, ScoreFile, read_scores

Pair = tuple[str, int]


class Journal:
    """One writer's file; a new one each time, so that a line cut short by a crash is never continued."""

    def __init__(self, folder: Path, writer: str) -> None:
        number = 0
        while (path := folder / f"journal-{writer}-{number}.csv").exists():
            number += 1
        self._file: TextIO = path.open("x", newline="", encoding="utf-8")
        self._rows = csv.writer(self._file)
        self._rows.writerow(COLUMNS)

    def write(self, arch: str, records: Iterable[Record]) -> None:
        """Write an arch's records and flush them."""
        self._rows.writerows((arch, r.proxy, r.seed, repr(r.value), r.status, f"{r.ms:.3f}") for r in records)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class KnownScores:
    """What the journals of a folder hold, by proxy and seed, then arch.

    Example:
        >>> known = KnownScores()
        >>> known.add("a", "snip", 0, 1.5, "ok", 3.0)
        >>> known.missing("a", [("snip", 0), ("snip", 1)])
        [('snip', 1)]
    """

    values: dict[Pair, dict[str, tuple[float, str]]] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def add(self, arch: str, proxy: str, seed: int, value: float, status: str, ms: float) -> None:
        """Take in one row; a later one replaces an earlier one."""
        self.values.setdefault((proxy, seed), {})[arch] = (value, status)
        if math.isfinite(ms):
            self.times.setdefault(proxy, []).append(ms)

    def missing(self, arch: str, pairs: Sequence[Pair]) -> list[Pair]:
        """Those of the pairs of proxy and seed with which this arch was not scored yet.

        A failure of the machine, such as memory that other processes held, says nothing of the arch: it is tried again.
        """
        unknown = (math.nan, MACHINE)
        return [pair for pair in pairs if self.values.get(pair, {}).get(arch, unknown)[1].startswith(MACHINE)]

    def to_file(self, archs: Sequence[str], proxies: Sequence[str], seeds: Sequence[int]) -> ScoreFile:
        """Everything as arrays, with what is not there marked."""
        values = np.full((len(archs), len(proxies), len(seeds)), np.nan)
        codes = np.ones(values.shape, np.uint16)
        reasons = {OK: 0, ABSENT: 1}
        for p, proxy in enumerate(proxies):
            for s, seed in enumerate(seeds):
                rows = self.values.get((proxy, seed), {})
                for a, arch in enumerate(archs):
                    if arch in rows:
                        values[a, p, s], reason = rows[arch]
                        codes[a, p, s] = reasons.setdefault(reason, len(reasons))
        ms = np.array([np.median(self.times.get(proxy, [np.nan])) for proxy in proxies])
        return ScoreFile(tuple(archs), tuple(proxies), tuple(seeds), values, codes, tuple(reasons), ms)


def known_from(file: ScoreFile) -> KnownScores:
    """What a file of scores holds.

    Example:
        >>> scores = ScoreFile(("a",), ("snip",), (0, 1), np.array([[[1.5, np.nan]]]), np.array([[[0, 1]]], np.uint16))
        >>> known_from(scores).missing("a", [("snip", 0), ("snip", 1)])
        [('snip', 1)]
    """
    known = KnownScores()
    for p, proxy in enumerate(file.proxies):
        for s, seed in enumerate(file.seeds):
            values, codes = file.values[:, p, s].tolist(), file.codes[:, p, s].tolist()
            rows = zip(file.archs, values, codes, strict=True)
            known.values[proxy, seed] = {arch: (value, file.reasons[code]) for arch, value, code in rows if code != 1}
    known.times = {proxy: [float(ms)] for proxy, ms in zip(file.proxies, file.ms, strict=False) if math.isfinite(ms)}
    return known


def read_known(folder: str | os.PathLike[str]) -> KnownScores:
    """A folder's ``scores.npz``, where there is one, and all complete rows of its journals.

    A last line that was cut short is left out.
    """
    merged = Path(folder) / "scores.npz"
    known = known_from(read_scores(merged)) if merged.exists() else KnownScores()
    for path in sorted(Path(folder).glob("journal-*.csv")):
        with undamaged(path, "delete it, and what it held is scored again"):
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            for row in csv.reader(whole.splitlines()[1:]):
                if len(row) == len(COLUMNS):
                    arch, proxy, seed, value, status, ms = row
                    known.add(arch, proxy, int(seed), float(value), status, float(ms))
    return known
