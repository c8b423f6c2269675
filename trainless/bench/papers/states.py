"""The state of every table and figure of the papers, from the stored figures of the definitions that run them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trainless.bench.papers import COLUMNS, PAPERS, Definition, definitions, stored
from trainless.bench.papers.sources import Absent
from trainless.bench.sheet import Sheet, Value
from trainless.core.opening import is_there

NOT_JUDGED = ("std", "seconds")  # how statistics end that are deviations of other draws, or times of other machines
TOLERANCES = {"mean": 0.5, "best_of": 0.5, "top64": 5.0}  # accuracies in points, networks; everything else:
TOLERANCE = 0.03
ILLUSTRATION, NOT, NEEDS = "illustration", "not reproduced", "needs data"
_LABEL, _TASK, _STATISTIC, _PUBLISHED, _OURS, _LOW, _HIGH, _NOTE = map(
    COLUMNS.index, ("row", "task", "statistic", "published", "ours", "low", "high", "note")
)


@dataclass(frozen=True)
class Item:
    """One table or figure as a paper has it.

    Attributes:
        paper: The paper's short name.
        label: Such as ``table 5.3``.
        definitions: The names of those that run it.
        about: What it shows.
        kind: ``illustration``, ``not reproduced`` or ``needs data`` where nothing runs it.
        why: What a reader has to know of its state.
    """

    paper: str
    label: str
    definitions: tuple[str, ...]
    about: str
    kind: str = ""
    why: str = ""


@dataclass(frozen=True)
class Agreement:
    """How many published figures agree with ours, of how many; how many have none of ours, or are not printed.

    What is ``lacking`` is said in the words of the figures' notes.
    """

    agreed: int = 0
    judged: int = 0
    absent: int = 0
    unprinted: int = 0
    lacking: tuple[str, ...] = ()

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.agreed + other.agreed,
            self.judged + other.judged,
            self.absent + other.absent,
            self.unprinted + other.unprinted,
            tuple(dict.fromkeys((*self.lacking, *other.lacking))),
        )

    @property
    def word(self) -> str:
        """In a word.

        Example:
            >>> Agreement(5, 5).word, Agreement(5, 6).word, Agreement(1, 6).word
            ('reproduced', 'partly', 'not reproduced')
            >>> Agreement(absent=4, unprinted=2).word, Agreement(unprinted=9).word
            ('needs data', 'no figures printed')
        """
        if not self.judged:
            return NEEDS if self.absent else "no figures printed"
        if self.agreed == self.judged and not self.absent:
            return "reproduced"
        return "partly" if 2 * self.agreed >= self.judged else NOT

    @property
    def figures(self) -> str:
        """In numbers."""
        parts = [f"{self.agreed} of {self.judged} agree"] if self.judged else []
        parts += [f"{self.unprinted} of ours"] if self.unprinted and not self.judged else []
        return ", ".join([*parts, f"{self.absent} without ours"] if self.absent else parts)


@dataclass(frozen=True)
class State:
    """Where an item stands, in a word, in numbers and with the reason."""

    item: Item
    word: str
    figures: str
    why: str


def items() -> Iterator[Item]:
    """Every table and figure of the papers in their order.

    A line of a paper's ``items`` is ``label | definitions | what it shows | why``; where nothing runs it, the last part
    begins with the state.
    """
    for paper in PAPERS:
        content = tomllib.loads((files("trainless.bench.papers") / f"{paper}.toml").read_text("utf-8"))
        for line in content["items"].strip().splitlines():
            label, named, about, said = (part.strip() for part in line.split("|"))
            kind = next((word for word in (ILLUSTRATION, NOT, NEEDS) if said.startswith(word)), "")
            why = said.removeprefix(kind).removeprefix(":").strip()
            runs = tuple(f"{content['paper']}:{name}" for name in named.split())
            yield Item(content["paper"], label, runs, about, kind, why)


def agrees(statistic: str, published: float, ours: float, low: float = math.nan, high: float = math.nan) -> bool:
    """Whether a published figure lies in our interval, or near enough to ours.

    Example:
        >>> agrees("spearman", 0.87, 0.845), agrees("spearman", 0.87, 0.8), agrees("mean", 93.9, 93.5)
        (True, False, True)
    """
    wider = (value for name, value in TOLERANCES.items() if statistic.startswith(name) and abs(published) > 1)
    near = next(wider, TOLERANCE)
    return abs(published - ours) <= near or low <= published <= high


def tally(definition: Definition, sheet: Sheet) -> Agreement:
    """How many of a sheet's figures agree; what a paper quotes from others is no figure of its own."""
    quoted = {row.label for row in definition.rows if isinstance(row.source, Absent) and row.source.lacks == "quoted"}
    found = Agreement()
    for row in sheet.rows:
        published, statistic = _number(row[_PUBLISHED]), str(row[_STATISTIC])
        if row[_LABEL] in quoted:
            continue
        if row[_OURS] is None:
            found += Agreement(absent=1, lacking=(str(row[_NOTE]).removeprefix("no data here: "),))
        elif math.isnan(published):
            found += Agreement(unprinted=1)
        elif not statistic.endswith(NOT_JUDGED):
            figures = published, _number(row[_OURS]), _number(row[_LOW]), _number(row[_HIGH])
            found += Agreement(agreed=agrees(statistic, *figures), judged=1)
    return found


def changed(definition: Definition, sheet: Sheet) -> bool:
    """Whether a definition has other rows or published figures than when its sheet was stored."""
    now = [
        (row.label, task, name, value)
        for row in definition.rows
        for task, figures in row.published.items()
        for name, value in figures.items()
    ]
    then = [(row[_LABEL], row[_TASK], row[_STATISTIC], _number(row[_PUBLISHED])) for row in sheet.rows]
    same = len(now) == len(then) and all(a[:3] == b[:3] and _same(a[3], b[3]) for a, b in zip(now, then, strict=True))
    return not same


def _same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-5)


def states(folder: Path, chosen: Iterable[Item] | None = None) -> list[State]:
    """Where every item stands, by the figures that are stored in a folder."""
    path = folder / stored.FILE
    known, sheets = definitions(), stored.read(path) if is_there(path) else {}
    return [_state(item, known, sheets) for item in (items() if chosen is None else chosen)]


def _state(item: Item, known: Mapping[str, Definition], sheets: Mapping[str, Sheet]) -> State:
    if item.kind:
        return State(item, item.kind, "", item.why)
    stale = [name for name in item.definitions if name not in sheets or changed(known[name], sheets[name])]
    if stale:
        return State(
            item,
            "not measured",
            "",
            _joined(item.why, *(f"run: python -m benchmarks.measure_results {n}" for n in stale)),
        )
    found = sum((tally(known[name], sheets[name]) for name in item.definitions), Agreement())
    return State(item, found.word, found.figures, _joined(item.why, *shortened(found.lacking)))


def shortened(reasons: Iterable[str]) -> list[str]:
    """Reasons that differ in their first word alone are one.

    Example:
        >>> shortened(["a is not in f", "no table t", "b is not in f"])
        ['a and 1 more: is not in f', 'no table t']
        >>> shortened(["a is not in f"])
        ['a is not in f']
    """
    ends: dict[str, list[str]] = {}
    for reason in reasons:
        first, _, end = reason.partition(" ")
        ends.setdefault(end, []).append(first)
    one = (f"{first[0]} and {len(first) - 1} more:" if first[1:] else first[0] for first in ends.values())
    return [f"{name} {end}".strip() for name, end in zip(one, ends, strict=True)]


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def listed(found: Iterable[State]) -> Sheet:
    """States as a table."""
    rows = tuple(
        (
            f"{each.item.paper}, {each.item.label}",
            each.word,
            each.figures,
            each.why,
            " ".join(each.item.definitions),
            each.item.about,
        )
        for each in found
    )
    columns = ("item", "state", "figures", "why, or what is needed", "runs as", "shows")
    notes = (
        "A published figure agrees where it lies in our 95 % interval or within 0.03 of ours, half a point of accuracy"
        " or 5 networks. Deviations and times are not judged. trainless bench paper NAME shows them side by side.",
    )
    return Sheet("Every table and figure of the papers", columns, rows, notes, columns[:4])
