"""Scores of many architectures in one compact file, with the settings and the environment that gave them."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError, UnknownName

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Codes: TypeAlias = npt.NDArray[np.uint16]
OK, ABSENT = "ok", "not scored"
COLUMNS = ("arch", "proxy", "seed", "value", "status", "ms")  # of a sweep's journals, from which such a file is made


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """Archs × proxies × seeds; a value that does not exist is NaN and has its reason.

    Args:
        archs: In the space's own notation.
        proxies: Their names.
        seeds: The seeds.
        values: ``(archs, proxies, seeds)``.
        codes: As many indices into ``reasons``.
        reasons: ``"ok"``, ``"not scored"`` and whatever failed.
        ms: The median milliseconds that each proxy added to those before it.
        settings: What was asked: space, task, initialisation, batch, the setting and direction of each proxy.
        environment: Where it was computed, and how fast.

    Example:
        >>> file = ScoreFile(("a", "b"), ("snip",), (0,), np.array([[[1.0]], [[2.0]]]), np.zeros((2, 1, 1), np.uint16))
        >>> file.column("snip").tolist()
        [1.0, 2.0]
    """

    archs: tuple[str, ...]
    proxies: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Floats
    codes: Codes
    reasons: tuple[str, ...] = (OK, ABSENT)
    ms: Floats = field(default_factory=lambda: np.zeros(0))
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def column(self, proxy: str, seed: int | None = None) -> npt.NDArray[np.float64]:
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
        target = Path(path)
        waiting = target.with_name(f"{target.name}.part.npz")
        np.savez_compressed(
            waiting,
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
        waiting.replace(target)


def _narrowed(values: Floats) -> Floats:
    """In single precision where every finite value fits."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(values)) else values.astype(np.float64)


def read_scores(path: str | os.PathLike[str]) -> ScoreFile:
    """Read what ``ScoreFile.write`` wrote; nothing but plain arrays is ever loaded."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        return ScoreFile(
            tuple(found["archs"].tolist()),
            tuple(found["proxies"].tolist()),
            tuple(found["seeds"].tolist()),
            found["values"],
            found["codes"],
            tuple(found["reasons"].tolist()),
            found["ms"],
            json.loads(str(found["settings"])),
            json.loads(str(found["environment"])),
        )
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: expected the scores.npz of a sweep") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a file of scores ({error}): expected the scores.npz of a sweep") from None
