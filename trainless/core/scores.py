"""Scores: candidates × proxies, with what failed and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trainless.core.errors import InputError, UnknownName
from trainless.core.markup import MOST_ROWS, card, failed_cell, rounded
from trainless.core.registry import registered
from trainless.core.text import counted
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

    def __repr__(self) -> str:
        """Two words about what failed, then how much there is.

        Example:
            >>> Scores([Record("a", "snip", 1.0, True), Record("a", "naswot", math.nan, True, "no ReLU")])
            Scores(1 of 2 failed: no ReLU; 1 candidate, 2 proxies: snip, naswot)
        """
        parts = [*self._alarms(), f"{self._size()}: {', '.join(self.proxies[:8])}{', …' * (len(self.proxies) > 8)}"]
        return f"Scores({'; '.join(parts)})" if self.records else "Scores(nothing was scored)"

    def _repr_html_(self) -> str:
        head = ["candidate", *(f"{name} {'↑' if self.higher_is_better[name] else '↓'}" for name in self.proxies)]
        reasons = {(name, proxy): reason for (name, proxy, _), reason in self.failures.items()}
        rows = [
            [name, *(self._cell(place, name, proxy, reasons) for proxy in self.proxies)]
            for place, name in enumerate(self.candidates[:MOST_ROWS])
        ]
        size = f"{self._size()}; ↑ means that higher is better"
        return card("Scores", size, alarms=self._alarms(), head=head, rows=rows, total=len(self))

    def _size(self) -> str:
        seeds = len({record.seed for record in self.records})
        several = f", {seeds} seeds each" if seeds > 1 else ""
        return f"{counted(len(self), 'candidate')}, {counted(len(self.proxies), 'proxy', 'proxies')}{several}"

    def _alarms(self) -> list[str]:
        if not self.failures:
            return []
        (reason, times), *others = Counter(self.failures.values()).most_common()
        often = f"most often ({times} times): {reason}" if others else reason
        return [f"{len(self.failures):,} of {len(self.records):,} failed: {often}"]

    def _cell(self, place: int, name: str, proxy: str, reasons: Mapping[tuple[str, str], str]) -> str:
        if (name, proxy) in reasons:
            return failed_cell(reasons[name, proxy])
        return rounded(float(self.column(proxy)[place]))

    def plot(self, *proxies: str, ax: Any = None) -> Any:
        """Plot scores by matplotlib (``pip install 'trainless[figures]'``).

        One proxy is drawn as dots, the best candidate first, with its spread over seeds; two against each other; of
        more the Spearman correlation of each pair.

        Args:
            proxies: Which of those that were scored; all by default.
            ax: Matplotlib axes to draw on; new ones by default.

        Returns:
            The axes.
        """
        from trainless.core import plots

        names = [self._known(proxy) for proxy in proxies or self.proxies]
        if not names:
            raise InputError("nothing was scored: there is nothing to plot")
        if len(names) > 2:
            return plots.matrix_plot(names, self.correlations(names), label="Spearman correlation", ax=ax)
        labels = [f"{name} ({'higher' if self.higher_is_better[name] else 'lower'} is better)" for name in names]
        if len(names) == 2:
            return plots.scatter_plot(*map(self.column, names), labels=labels, ax=ax)
        values, spread = self.column(names[0]), self.spread(names[0])
        best = [self.candidates.index(name) for name in self.rank(names[0])[: plots.MOST]]
        around = [(float(values[at] - spread[at]), float(values[at] + spread[at])) for at in best]
        shown = [self.candidates[at] for at in best]
        made = plots.dot_plot(shown, values[best].tolist(), label=labels[0], around=around, ax=ax)
        if left := len(self) - len(best):
            made.set_title(f"the best {len(best)}; {left:,} more are not drawn", fontsize="medium")
        return made

    def correlations(self, proxies: Sequence[str] = ()) -> Floats:
        """Spearman's ρ of each pair of proxies over the candidates that both have a score of, better with better.

        NaN where there are fewer than three such candidates, or one of both is the same for all.

        Example:
            >>> rows = [("a", 1.0, 9.0), ("b", 2.0, 8.0), ("c", 3.0, 5.0)]
            >>> records = [Record(name, "snip", up, True) for name, up, _ in rows]
            >>> records += [Record(name, "loss", down, False) for name, _, down in rows]
            >>> Scores(records).correlations().round(2).tolist()
            [[1.0, 1.0], [1.0, 1.0]]
        """
        from trainless.core.ranks import average_ranks

        names = list(proxies) or self.proxies
        columns = [self.column(name) * (1 if self.higher_is_better[name] else -1) for name in names]
        found = np.full((len(names), len(names)), math.nan)
        for one, mine in enumerate(columns):
            for other, theirs in enumerate(columns):
                both = ~(np.isnan(mine) | np.isnan(theirs))
                first, second = average_ranks(mine[both]), average_ranks(theirs[both])
                if both.sum() > 2 and np.ptp(first) and np.ptp(second):
                    found[one, other] = np.corrcoef(first, second)[0, 1]
        return found

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
