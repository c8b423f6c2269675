"""Scores: candidates × proxies, with what failed and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trainless.core.errors import UnknownName
from trainless.core.registry import registered
from trainless.core.types import Floats

if TYPE_CHECKING:
    import pandas as pd


MACHINE = "this machine failed: "
"""How a status begins that says nothing of the candidate: another machine, or this one later, may give the score."""


@dataclass(frozen=True)
class Record:
    """One score of one candidate by one proxy with one seed; NaN has its reason in ``status``.

    ``notes`` say what a reader should know of how the network was run, such as that its random numbers were fixed.
    """

    candidate: str
    proxy: str
    value: float
    higher_is_better: bool
    status: str = "ok"
    ms: float = math.nan
    fbe: float = math.nan
    seed: int = 0
    notes: str = ""

    @property
    def failed(self) -> bool:
        return self.status != "ok"


@dataclass(frozen=True)
class Scores:
    """Records as a table: one row per candidate, one column per proxy, the mean over seeds in each place.

    Example:
        >>> scores = Scores([Record("net", "snip", 2.0, True), Record("net", "snip", 4.0, True, seed=1)])
        >>> scores["snip"]
        3.0
        >>> scores.coverage("snip")
        1.0
    """

    records: list[Record] = field(default_factory=list)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.candidates)

    @cached_property
    def candidates(self) -> list[str]:
        """The candidates in the order of their first record."""
        return list(dict.fromkeys(record.candidate for record in self.records))

    @cached_property
    def proxies(self) -> list[str]:
        """The proxies in the order of their first record."""
        return list(dict.fromkeys(record.proxy for record in self.records))

    @cached_property
    def failures(self) -> dict[tuple[str, str, int], str]:
        """Why a score is NaN, by candidate, proxy and seed."""
        return {(r.candidate, r.proxy, r.seed): r.status for r in self.records if r.failed}

    @cached_property
    def notes(self) -> dict[str, list[str]]:
        """What is to be known of how each candidate was run, by candidate; those of whom nothing is are left out.

        Example:
            >>> Scores([Record("net", "naswot", 2.0, True, notes="activation patterns are those of GELU")]).notes
            {'net': ['activation patterns are those of GELU']}
        """
        said: dict[str, dict[str, None]] = {}
        for record in self.records:
            if record.notes:
                said.setdefault(record.candidate, {}).update(dict.fromkeys(record.notes.split("; ")))
        return {name: list(notes) for name, notes in said.items()}

    @cached_property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of each proxy."""
        return {record.proxy: record.higher_is_better for record in self.records}

    def column(self, proxy: str) -> Floats:
        """One value per candidate: the mean over its seeds, NaN where a seed failed."""
        return self._columns[self._known(proxy)]

    def __getitem__(self, proxy: str) -> float:
        """The value of the only candidate."""
        if len(self.candidates) != 1:
            raise ValueError(f"{len(self.candidates)} candidates were scored: use column({proxy!r})")
        return float(self.column(proxy)[0])

    def spread(self, proxy: str) -> Floats:
        """Standard deviation over seeds, one per candidate."""
        self._known(proxy)
        return np.array([np.std(self._seeds[name, proxy]) for name in self.candidates])

    def coverage(self, proxy: str) -> float:
        """The share of candidates that got a score."""
        return float(np.isfinite(self.column(proxy)).mean())

    def to_frame(self, *, wide: bool = False) -> pd.DataFrame:
        """The records as a pandas table; ``wide`` has a row per candidate and a column per proxy, means over seeds."""
        import pandas as pd

        if wide:
            index = pd.Index(self.candidates, name="candidate")
            return pd.DataFrame({proxy: self.column(proxy) for proxy in self.proxies}, index=index)
        return pd.DataFrame(self.to_list())

    def rank(self, by: str | Callable[[Scores], Floats]) -> list[str]:
        """The candidates in the order of a ranking, the best first; one whose scores failed is last.

        Args:
            by: The name of a ranking, such as ``"trainless"``, or of a proxy that was scored; or a ranking, any
                function from scores to a number per candidate, the higher the better.

        Example:
            >>> Scores([Record("a", "snip", 1.0, True), Record("b", "snip", 4.0, True)]).rank("snip")
            ['b', 'a']
        """
        from trainless.core.ranks import order

        if not isinstance(by, str):
            values = np.asarray(by(self), np.float64)
        elif by in self.proxies:
            values = self.column(by) * (1 if self.higher_is_better[by] else -1)
        else:
            values = np.asarray(registered("rankings")[by](self), np.float64)
        return [self.candidates[place] for place in order(values)]

    def to_list(self) -> list[dict[str, Any]]:
        """The records as plain dictionaries."""
        return [asdict(record) for record in self.records]

    @cached_property
    def _seeds(self) -> dict[tuple[str, str], list[float]]:
        table: dict[tuple[str, str], list[float]] = {}
        for record in self.records:
            table.setdefault((record.candidate, record.proxy), []).append(record.value)
        return table

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        missing = [math.nan]
        return {
            proxy: np.array([np.mean(self._seeds.get((name, proxy), missing)) for name in self.candidates])
            for proxy in self.proxies
        }

    def _known(self, proxy: str) -> str:
        if proxy not in self._columns:
            raise UnknownName(f"{proxy!r} was not scored; scored were: {', '.join(self.proxies)}")
        return proxy


def merge(parts: Iterable[Scores]) -> Scores:
    """All records of several tables, in order."""
    return Scores([record for part in parts for record in part])
