"""Scores of many architectures: journals that lose nothing while a sweep goes on, and one compact file of them all."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError, UnknownName
from trainless.core.files import arrays_of, replacing
from trainless.core.opening import GROWTH, Appender, files_in, is_there, open_file, read_bytes, whole_lines
from trainless.core.scores import MACHINE, Record
from trainless.core.text import in_a_sentence, reason, undamaged
from trainless.core.types import AnyFloats, Floats
from trainless.runs.folder import MERGED

OK, ABSENT = "ok", "not scored"
COLUMNS = ("arch", "proxy", "seed", "value", "status", "ms")
ProxySeed = tuple[str, int]
"""The name of a proxy, and a seed that it is computed with."""


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """Archs × proxies × seeds; a value that does not exist is NaN and has its reason.

    Archs are in the space's own notation; ``codes`` are indices into ``reasons``, of the same shape as the values;
    ``ms`` is the median milliseconds that each proxy added to those before it; ``settings`` say what was asked, with
    the setting and direction of each proxy, and ``environment`` where it was computed, and how fast.

    Example:
        >>> file = ScoreFile(("a", "b"), ("snip",), (0,), np.array([[[1.0]], [[2.0]]]), np.zeros((2, 1, 1), np.uint16))
        >>> file.column("snip").tolist()
        [1.0, 2.0]
    """

    archs: tuple[str, ...]
    proxies: tuple[str, ...]
    seeds: tuple[int, ...]
    values: AnyFloats
    codes: npt.NDArray[np.uint16]
    reasons: tuple[str, ...] = (OK, ABSENT)
    ms: AnyFloats = field(default_factory=lambda: np.zeros(0))
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def column(self, proxy: str, seed: int | None = None) -> Floats:
        """One value per arch: that of a seed, or the mean over the seeds with which anything was scored.

        An arch of which one of these seeds failed has no mean: it is NaN, as in every table of scores here.
        """
        if proxy not in self.proxies:
            raise UnknownName(f"{proxy!r} was not scored; scored were: {', '.join(self.proxies)}")
        at = self.proxies.index(proxy)
        if seed is None:
            scored = [place for place in range(len(self.seeds)) if (self.codes[:, at, place] != 1).any()]
            return np.asarray(self.values[:, at, scored or [0]].astype(np.float64).mean(axis=1))
        if seed not in self.seeds:
            raise InputError(f"seed {seed} was asked for; expected one of {', '.join(map(str, self.seeds))}")
        return np.asarray(self.values[:, at, self.seeds.index(seed)], np.float64)

    def seeds_of(self, proxy: str) -> tuple[int, ...]:
        """The seeds with which a proxy was scored at all."""
        at = self.proxies.index(proxy)
        return tuple(seed for place, seed in enumerate(self.seeds) if (self.codes[:, at, place] != 1).any())

    def higher_is_better(self, proxy: str) -> bool:
        """The direction in which networks are believed to improve."""
        return bool(self.settings.get("proxies", {}).get(proxy, {}).get("higher_is_better", True))

    def failures(self, proxy: str) -> dict[str, int]:
        """How often each reason was given."""
        at = self.proxies.index(proxy)
        found, counts = np.unique(self.codes[:, at][self.codes[:, at] > 1], return_counts=True)
        return {self.reasons[code]: int(count) for code, count in zip(found, counts, strict=True)}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write one compressed npz of plain arrays, complete or not at all."""
        with replacing(Path(path)) as file:
            np.savez_compressed(
                file,
                archs=np.array(self.archs, np.str_),
                proxies=np.array(self.proxies, np.str_),
                seeds=np.array(self.seeds, np.int64),
                values=_narrowed(self.values),
                codes=self.codes,
                reasons=np.array(self.reasons, np.str_),
                ms=np.asarray(self.ms, np.float32),
                settings=np.array(json.dumps(self.settings)),
                environment=np.array(json.dumps(self.environment)),
            )

    def to_csv(self) -> str:
        """One row per arch and seed, one column per proxy; what is not there is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["arch_str", "seed", *self.proxies])
        for arch, rows in zip(self.archs, self.values, strict=True):
            for seed, values in zip(self.seeds, rows.T.tolist(), strict=True):
                writer.writerow([arch, seed, *(repr(value) if math.isfinite(value) else "" for value in values)])
        return text.getvalue()


def _narrowed(values: AnyFloats) -> AnyFloats:
    """In single precision where every finite value fits."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(values)) else values.astype(np.float64)


def read_scores(path: str | os.PathLike[str]) -> ScoreFile:
    """Read what ``ScoreFile.write`` wrote; nothing but plain arrays is ever loaded."""
    if not is_there(Path(path)):
        raise InputError(f"there is no file {path}: expected the scores.npz of a sweep")
    remedy = "expected the scores.npz of a sweep"
    words = f"{path} is not a file of scores"
    with in_a_sentence(lambda error: f"{words} ({reason(error)}): {remedy}"), open_file(Path(path)) as file:
        found = arrays_of(file, str(path), remedy)
        names = {name: tuple(map(str, found[name].tolist())) for name in ("archs", "proxies", "reasons")}
        return _sound(
            ScoreFile(
                names["archs"],
                names["proxies"],
                tuple(map(int, found["seeds"].tolist())),
                found["values"],
                found["codes"],
                names["reasons"],
                found["ms"],
                json.loads(str(found["settings"])),
                json.loads(str(found["environment"])),
            )
        )


def _sound(file: ScoreFile) -> ScoreFile:
    """The file itself; raises ValueError where its parts do not fit together."""
    shape = (len(file.archs), len(file.proxies), len(file.seeds))
    if file.values.shape != shape or file.codes.shape != shape or file.values.dtype.kind != "f":
        raise ValueError(f"values of shape {file.values.shape} where {shape} are named")
    if file.codes.dtype.kind != "u" or (file.codes.size and int(file.codes.max()) >= len(file.reasons)):
        raise ValueError("codes that stand for no reason")
    if file.ms.ndim != 1 or file.ms.dtype.kind != "f" or not isinstance(file.environment, dict):
        raise ValueError("times or an environment of another kind")
    about = file.settings.get("proxies", {})
    if not isinstance(about, dict) or not all(isinstance(each, dict) for each in about.values()):
        raise ValueError("settings of another kind")
    return file


def journals_in(folder: Path) -> list[Path]:
    """The journals of a folder, in order."""
    return [folder / name for name in files_in(folder) if name.startswith("journal-") and name.endswith(".csv")]


class Journal:
    """One writer's file; a new one each time, so that a line cut short by a crash is never continued."""

    def __init__(self, folder: Path, writer: str) -> None:
        self._file = _created(folder, writer)
        self._write([COLUMNS])

    def write(self, arch: str, records: Iterable[Record]) -> None:
        self._write((arch, r.proxy, r.seed, repr(r.value), r.status, f"{r.ms:.3f}") for r in records)

    def _write(self, rows: Iterable[Iterable[object]]) -> None:
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        self._file.write(text.getvalue())

    def close(self) -> None:
        self._file.close()


def _created(folder: Path, writer: str) -> Appender:
    """A file that no other process has, also where one on another machine is called alike."""
    for number in itertools.count():
        with suppress(FileExistsError):
            return Appender(folder / f"journal-{writer}-{number}.csv", "create")
    raise AssertionError


@dataclass
class KnownScores:
    """What the journals of a folder hold, by proxy and seed, then arch."""

    values: dict[ProxySeed, dict[str, tuple[float, str]]] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def add(self, arch: str, proxy: str, seed: int, value: float, status: str, ms: float) -> None:
        """Take in one row; a later one replaces an earlier one."""
        self.values.setdefault((proxy, seed), {})[arch] = (value, status)
        if math.isfinite(ms):
            self.times.setdefault(proxy, []).append(ms)

    def missing(self, arch: str, pairs: Sequence[ProxySeed]) -> list[ProxySeed]:
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
    """What a file of scores holds."""
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
    merged = Path(folder) / MERGED
    known = known_from(read_scores(merged)) if is_there(merged) else KnownScores()
    for path in journals_in(Path(folder)):
        with undamaged(path, "delete it, and what it held is scored again"):
            whole = whole_lines(read_bytes(path, growth=GROWTH)).decode("utf-8")
            for row in csv.reader(whole.splitlines()[1:]):
                if len(row) == len(COLUMNS):
                    arch, proxy, seed, value, status, ms = row
                    known.add(arch, proxy, int(seed), float(value), status, float(ms))
    return known
