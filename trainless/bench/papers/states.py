"""The state of every table and figure of the papers, from what was recorded when their definitions were run."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainless.bench.papers import PAPERS, Definition, definitions
from trainless.bench.papers.sources import Absent
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.sheet import Sheet
from trainless.core.files import read_json, write_json
from trainless.core.opening import without_links

RECORD = "papers.json"
NOT_JUDGED = ("std", "seconds")  # deviations of other draws, and times of other machines
TOLERANCES = {"mean": 0.5, "best_of": 0.5, "top64": 5.0}  # accuracies in points, networks; everything else:
TOLERANCE = 0.03
HALF = 0.5
ILLUSTRATION, LATER, NEEDS = "illustration", "not yet", "needs data"


@dataclass(frozen=True)
class Item:
    """One table or figure as a paper has it.

    Attributes:
        paper: The paper's short name.
        label: Such as ``table 5.3``.
        definitions: The names of those that run it.
        about: What it shows.
        kind: ``illustration``, ``not yet`` or ``needs data`` where nothing runs it.
        why: What a reader has to know of its state.
    """

    paper: str
    label: str
    definitions: tuple[str, ...]
    about: str
    kind: str = ""
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """What running a definition has shown; ``definition`` and ``scores`` are digests of what it was run on.

    A published figure agrees where it lies in our interval, or within 0.03 of ours (half a point of accuracy).
    """

    agreed: int = 0
    judged: int = 0
    absent: int = 0
    unprinted: int = 0
    lacking: tuple[str, ...] = ()
    definition: str = ""
    scores: str = ""
    draws: int = 0
    runs: int = 0


@dataclass(frozen=True)
class State:
    """Where an item stands, in a word, in figures and with the reason."""

    item: Item
    word: str
    figures: str
    why: str


def items() -> Iterator[Item]:
    """Every table and figure of the papers in their order."""
    for paper in PAPERS:
        content = tomllib.loads((files("trainless.bench.papers") / f"{paper}.toml").read_text("utf-8"))
        for line in content["items"].strip().splitlines():
            label, named, about, said = (part.strip() for part in line.split("|"))
            kind = next((word for word in (ILLUSTRATION, LATER, NEEDS) if said.startswith(word)), "")
            why = said.removeprefix(kind).removeprefix(":").strip()
            runs = tuple(f"{content['paper']}:{name}" for name in named.split())
            yield Item(content["paper"], label, runs, about, kind, why)


def outcome(definition: Definition, sheet: Sheet, library: ScoreLibrary, draws: int, runs: int) -> Outcome:
    """What a definition's sheet shows, in numbers."""
    place = {name: at for at, name in enumerate(sheet.columns)}
    quoted = {row.label for row in definition.rows if isinstance(row.source, Absent) and row.source.lacks == "quoted"}
    agreed = judged = absent = unprinted = 0
    lacking: dict[str, None] = {}
    for row in sheet.rows:
        if row[place["row"]] in quoted:
            continue
        published, ours, low, high = (_number(row[place[name]]) for name in ("published", "ours", "low", "high"))
        statistic = str(row[place["statistic"]])
        if row[place["ours"]] is None:
            absent += 1
            lacking[str(row[place["note"]]).removeprefix("no data here: ")] = None
        elif math.isnan(published):
            unprinted += 1
        elif statistic not in NOT_JUDGED:
            judged += 1
            agreed += agrees(statistic, published, ours, low, high)
    digests = digest(definition), scores_digest(definition, library.folder)
    return Outcome(agreed, judged, absent, unprinted, tuple(lacking), *digests, draws, runs)


def agrees(statistic: str, published: float, ours: float, low: float = math.nan, high: float = math.nan) -> bool:
    """Whether a published figure lies in our interval, or near enough to ours.

    Example:
        >>> agrees("spearman", 0.87, 0.845), agrees("spearman", 0.87, 0.8), agrees("mean", 93.9, 93.5)
        (True, False, True)
    """
    near = next((value for name, value in TOLERANCES.items() if statistic.startswith(name)), TOLERANCE)
    return abs(published - ours) <= near or low <= published <= high


def digest(definition: Definition) -> str:
    """Of a definition's figures and of where ours come from; another one where it was changed."""
    said = repr((definition.where, definition.rows))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def scores_digest(definition: Definition, folder: Path) -> str:
    """Of our stored scores that a definition reads: the table's, and the files that its rows name."""
    named = {getattr(row.source, "file", "") for row in definition.rows} | {definition.where.table}
    found = hashlib.sha256()
    for path in (folder / f"{name}.npz" for name in sorted(named - {""})):
        if path.is_file():
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def record(folder: Path, found: Mapping[str, Outcome]) -> Path:
    """Keep outcomes, beside those of other definitions that were kept before."""
    path = without_links(folder / RECORD)
    kept = {**recorded(folder), **found}
    write_json(path, {name: asdict(kept[name]) for name in sorted(kept)})
    return path


def recorded(folder: Path) -> dict[str, Outcome]:
    """The outcomes that were kept, by definition."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    found = read_json(without_links(path), "run: trainless bench paper all --record")
    return {name: Outcome(**{**each, "lacking": tuple(each["lacking"])}) for name, each in found.items()}


def states(folder: Path, chosen: Iterable[Item] | None = None) -> list[State]:
    """Where every item stands, by what was recorded."""
    known, kept = definitions(), recorded(folder)
    return [_state(item, known, kept, folder) for item in (items() if chosen is None else chosen)]


def _state(item: Item, known: Mapping[str, Definition], kept: Mapping[str, Outcome], folder: Path) -> State:
    if item.kind:
        return State(item, item.kind, "", item.why)
    found = [kept[name] for name in item.definitions if name in kept]
    if len(found) < len(item.definitions):
        left = [name for name in item.definitions if name not in kept]
        return State(item, "not run", "", _joined(item.why, *map(_again, left)))
    agreed, judged, absent, unprinted = (
        sum(getattr(each, name) for each in found) for name in ("agreed", "judged", "absent", "unprinted")
    )
    lacking = dict.fromkeys(each for one in found for each in one.lacking)
    stale = [
        name
        for name, each in zip(item.definitions, found, strict=True)
        if (each.definition, each.scores) != (digest(known[name]), scores_digest(known[name], folder))
    ]
    word = _word(agreed, judged, absent, unprinted)
    figures = f"{agreed} of {judged} agree" if judged else f"{unprinted} of ours" if unprinted else ""
    figures += f", {absent} without ours" if absent else ""
    again = ["changed since then", *map(_again, stale)] if stale else []
    return State(item, word, figures.removeprefix(", "), _joined(item.why, *lacking, *again))


def _again(name: str) -> str:
    return f"run: trainless bench paper {name} --record"


def _word(agreed: int, judged: int, absent: int, unprinted: int) -> str:
    """In a word.

    Example:
        >>> _word(5, 5, 0, 0), _word(5, 6, 0, 0), _word(1, 6, 0, 0), _word(0, 0, 4, 0), _word(0, 0, 0, 9)
        ('reproduced', 'partly', 'not reproduced', 'needs data', 'no figures printed')
    """
    if not judged:
        return "no figures printed" if unprinted else NEEDS
    if agreed == judged and not absent:
        return "reproduced"
    return "partly" if agreed >= HALF * judged else "not reproduced"


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)


def _number(value: Any) -> float:
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
