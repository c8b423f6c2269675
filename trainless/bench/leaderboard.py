"""The leaderboard: every stored proxy and ranking on every table and task, measured once and kept in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.stats import rankdata

from trainless.bench.correlate import board, meanings, stored_columns
from trainless.bench.score_library import COUNTS, Missing, ScoreColumn, ScoreLibrary, truth
from trainless.bench.sheet import Interval, Share, Sheet, Value
from trainless.bench.statistics import MEANINGS
from trainless.core.errors import InputError
from trainless.core.files import number, read_json, unnumber, write_atomic
from trainless.core.opening import is_there
from trainless.core.types import Floats, Json, Mask
from trainless.rankings import registry as rankings

FILE = "leaderboard.json"
ENOUGH = 0.8  # of the networks of the fullest column: a column with fewer would shrink all others' population
POINTS = 400  # networks in a scatter plot
_HEAD = ("scores", "failures", "seeds", "coverage")
COST = (
    "cost: the price of one score by a proxy alone, in FBE (forward-backward equivalents: its time over that of one"
    " plain forward and backward pass of the same network on the same batch), on a median network of NAS-Bench-201 at"
    " batch 64. Of a ranking it is the sum over its proxies, which is the most: what they share is computed once."
)


@dataclass(frozen=True)
class Contest:
    """What entries are compared on: a table's accuracy on a task, and the networks that count."""

    table: str
    task: str
    metric: str
    population: str

    @property
    def name(self) -> str:
        """What its links are called by.

        Example:
            >>> Contest("nb201", "ImageNet16-120", "test", "no-dead-edges").name
            'nb201-imagenet16-120-test-no-dead-edges'
        """
        return slug(f"{self.table} {self.task} {self.metric} {self.population}")

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.table}, {self.task} {self.metric} accuracy, {self.population}"


CONTESTS = (
    Contest("nb201", "cifar10", "test", "no-dead-edges"),
    Contest("nb201", "cifar10", "test", "all"),
    Contest("nb201", "cifar100", "test", "no-dead-edges"),
    Contest("nb201", "ImageNet16-120", "test", "no-dead-edges"),
    Contest("nb101", "cifar10", "valid", "all"),
    Contest("darts", "cifar10", "valid", "all"),
    Contest("nb-macro", "cifar10", "test", "all"),
    *(
        Contest("transnas-micro", task, "valid", "all")
        for task in ("autoencoder", "room_layout", "class_object", "class_scene", "jigsaw", "normal", "segmentsemantic")
    ),
)
SOURCES = {"nb101": ("nb101_thin", "nb101_paths")}
"""The files that a table's entries are from, where its others hold few networks or another width."""


@dataclass(frozen=True)
class Entry:
    """One proxy or ranking on one contest.

    Args:
        name: What it is called.
        kind: proxy, ranking or yours.
        seeds: With how many it was scored.
        coverage: How many scores there are, of how many that were asked for.
        last: The statistics with networks that have no score ranked last, and counted.
        out: The same with these networks left out, as most papers do.
        places: For a scatter plot: the share of networks that are ranked below, for each of some; NaN for no score.
        accuracy: The accuracies of these networks, where they are not those of the contest's other entries.
    """

    name: str
    kind: str
    seeds: int
    coverage: Share
    last: Mapping[str, Interval]
    out: Mapping[str, Interval]
    places: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()


@dataclass(frozen=True)
class Standing:
    """The entries of a contest, the best first; the accuracies of the networks that scatter plots show."""

    contest: Contest
    networks: int
    entries: tuple[Entry, ...]
    accuracy: tuple[float, ...]
    notes: tuple[str, ...]

    def anchor(self, entry: Entry) -> str:
        """The permanent link of an entry: made of names alone, never of its place."""
        return f"{self.contest.name}--{slug(entry.name)}"

    def sheet(self) -> Sheet:
        """As a table for people and programs."""
        rows: list[tuple[Value, ...]] = []
        for entry in self.entries:
            shown = f"*{entry.name}*" if entry.kind == "ranking" else entry.name
            ways = [("last", entry.last), *([("out", entry.out)] if entry.coverage.value < 1 else [])]
            rows += [(shown, way, entry.seeds, entry.coverage, *found.values()) for way, found in ways]
        names = tuple(self.entries[0].last) if self.entries else ()
        return Sheet(self.contest.title, (*_HEAD, *names), tuple(rows), self.notes)


@dataclass(frozen=True)
class Leaderboard:
    """All contests, what entries cost, and what the figures mean.

    Args:
        draws: Bootstrap draws behind the intervals.
        costs: The price of one score by each proxy alone, in forward-backward equivalents; for a ranking the sum over
            its proxies. NaN where it was not measured.
        about: One line each on statistics, costs, and where the scores come from.
        standings: The contests.
    """

    draws: int
    costs: Mapping[str, float]
    about: tuple[str, ...]
    standings: tuple[Standing, ...]


def slug(text: str) -> str:
    """A name as part of a link.

    Example:
        >>> slug("ntk_condition/of=loss")
        'ntk_condition-of-loss'
    """
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")


def measured(
    library: ScoreLibrary,
    costs: Mapping[str, float],
    draws: int,
    say: Callable[[str], None] = lambda text: None,
    contests: Sequence[Contest] = CONTESTS,
) -> Leaderboard:
    """Measure every stored proxy and ranking; a contest whose table or scores are not here is left out, and said."""
    standings, lines, library = [], [*meanings(), COST], library.only(SOURCES)
    for contest in contests:
        say(contest.title)
        try:
            standings.append(_standing(library, contest, draws))
        except Missing as missing:
            lines.append(f"{contest.title}: {missing}.")
    for table in dict.fromkeys(each.contest.table for each in standings):
        lines += [f"{table}: {line}." for line in library.describe(table)]
    return Leaderboard(draws, prices(costs, standings), tuple(lines), tuple(standings))


def prices(costs: Mapping[str, float], standings: Sequence[Standing]) -> dict[str, float]:
    """The price of everything that has an entry; counting shapes costs no pass at all."""
    known = {**costs, **dict.fromkeys(COUNTS, 0.0)}
    found: dict[str, float] = {}
    for entry in (entry for standing in standings for entry in standing.entries):
        parts = rankings[entry.name].proxies if entry.kind == "ranking" else (entry.name,)
        found[entry.name] = float(sum(known.get(part, np.nan) for part in parts))
    return dict(sorted(found.items()))


def _standing(library: ScoreLibrary, contest: Contest, draws: int) -> Standing:
    columns, notes = _with_rankings(library, contest.table, contest.population)
    accuracy = truth(library.table(contest.table), contest.task, contest.metric)
    within = library.population(contest.table, contest.population)
    sheet = board(columns, accuracy, within, title=contest.title, draws=draws, notes=notes)
    chosen = np.logical_and.reduce([within, np.isfinite(accuracy), *(column.asked for column in columns.values())])
    drawn = _some(chosen)
    entries = tuple(_entries(sheet, columns, chosen, drawn))
    return Standing(contest, int(chosen.sum()), entries, _rounded(accuracy[drawn]), sheet.notes)


def _with_rankings(library: ScoreLibrary, table: str, population: str) -> tuple[dict[str, ScoreColumn], list[str]]:
    """All stored proxies that cover the population, the published rankings of them, and what is left out."""
    columns = stored_columns(library, table)
    within = library.population(table, population)
    names: dict[int, str] = {}
    for name in rankings.names():
        if names.setdefault(id(rankings[name]), name) != name:  # another name of the same
            continue
        try:
            columns[f"*{name}*"] = library.ranked(table, rankings[name], within)
        except Missing:
            continue
    counts = {name: int((column.asked & within).sum()) for name, column in columns.items()}
    most = max(count for name, count in counts.items() if name not in COUNTS)
    whole = {name: column for name, column in columns.items() if counts[name] >= ENOUGH * most}
    few = [f"{name} ({counts[name]:,})" for name in columns if name not in whole]
    return whole, [f"Left out, because they have scores of fewer networks: {', '.join(few)}."] if few else []


def _some(chosen: Mask) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The networks of a scatter plot, always the same."""
    return np.random.default_rng(0).permutation(np.flatnonzero(chosen))[:POINTS]


def _entries(
    sheet: Sheet, columns: Mapping[str, ScoreColumn], chosen: Mask, drawn: np.ndarray[Any, Any], kind: str = ""
) -> Iterator[Entry]:
    """The rows of a board; one that has no failures is the same with and without them."""
    found: dict[str, dict[str, Mapping[str, Interval]]] = {}
    heads: dict[str, Sequence[Value]] = {}
    for row in sheet.rows:
        name, way = str(row[0]), str(row[1])
        cells = zip(sheet.columns[len(_HEAD) :], row[len(_HEAD) :], strict=True)
        found.setdefault(name, {})[way] = {key: _brief(cell) for key, cell in cells if isinstance(cell, Interval)}
        heads.setdefault(name, row)
    for name, ways in found.items():
        seeds, coverage = cast("int", heads[name][2]), cast("Share", heads[name][3])
        places = _places(columns[name].upward(), chosen)[drawn]
        kinds = kind or ("ranking" if name.startswith("*") else "proxy")
        plain = name.strip("*") if kinds == "ranking" else name
        yield Entry(plain, kinds, seeds, coverage, ways["last"], ways.get("out", ways["last"]), _rounded(places, 3))


def _brief(found: Interval) -> Interval:
    """With six digits, which is what the file holds."""
    value, low, high = (float(f"{part:.6g}") for part in (found.value, found.low, found.high))
    return Interval(value, low, high, std=None if found.std is None else float(f"{found.std:.6g}"))


def _places(scores: Floats, chosen: Mask) -> Floats:
    """The share of the chosen networks that each of them is ranked above, NaN for those without a score."""
    known = chosen & np.isfinite(scores)
    found = np.full(len(scores), np.nan)
    found[known] = (rankdata(scores[known]) - 1) / max(1, int(known.sum()) - 1)
    return found


def _rounded(values: Floats, digits: int = 2) -> tuple[float, ...]:
    return tuple(np.round(values, digits).tolist())


def with_entries(
    found: Leaderboard,
    library: ScoreLibrary,
    table: str,
    columns: Mapping[str, ScoreColumn],
    *,
    draws: int = 1000,
    about: Sequence[str] = (),
) -> Leaderboard:
    """Enter columns of scores of one's own into every contest of a table, on the networks that they have scores of.

    ``about`` says where they come from.
    """
    known = dict.fromkeys(standing.contest.table for standing in found.standings)
    if table not in known:
        raise InputError(f"--table {table} was given; the leaderboard has: {', '.join(known)}")
    standings = []
    for standing in found.standings:
        if standing.contest.table == table:
            new = [entry for name in columns for entry in _own(library, standing.contest, name, columns[name], draws)]
            if taken := {standing.anchor(each) for each in new} & {standing.anchor(each) for each in standing.entries}:
                raise InputError(f"the leaderboard has {taken.pop()} already: give your proxy another name")
            entries = sorted((*standing.entries, *new), key=lambda each: -np.nan_to_num(_rho(each), nan=-2.0))
            standing = replace(standing, entries=tuple(entries))
        standings.append(standing)
    return replace(found, about=(*found.about, *about), standings=tuple(standings))


def _rho(entry: Entry) -> float:
    return entry.last["spearman"].value


def _own(library: ScoreLibrary, contest: Contest, name: str, column: ScoreColumn, draws: int) -> Iterator[Entry]:
    accuracy = truth(library.table(contest.table), contest.task, contest.metric)
    within = library.population(contest.table, contest.population)
    chosen = within & column.asked & np.isfinite(accuracy)
    if chosen.sum() < 2:
        return
    sheet = board({name: column}, accuracy, within, title=contest.title, draws=draws)
    drawn = _some(chosen)
    for entry in _entries(sheet, {name: column}, chosen, drawn, "yours"):
        yield replace(entry, accuracy=_rounded(accuracy[drawn]))


def to_json(found: Leaderboard) -> Json:
    """As strict JSON: an interval is its value, its ends, and where there is one the deviation behind it."""
    return {
        "draws": found.draws,
        "statistics": dict(MEANINGS),
        "about": list(found.about),
        "costs": {name: number(cost) for name, cost in found.costs.items()},
        "contests": [_standing_json(each) for each in found.standings],
    }


def _standing_json(standing: Standing) -> Json:
    about = {name: getattr(standing.contest, name) for name in ("name", "table", "task", "metric", "population")}
    entries = [
        {
            **{"name": entry.name, "kind": entry.kind, "anchor": standing.anchor(entry), "seeds": entry.seeds},
            **{"scored": entry.coverage.count, "asked": entry.coverage.of},
            "failures_last": _statistics(entry.last),
            **({"failures_out": _statistics(entry.out)} if entry.coverage.value < 1 else {}),
            "places": [number(place) for place in entry.places],
            **({"accuracy": list(entry.accuracy)} if entry.accuracy else {}),
        }
        for entry in standing.entries
    ]
    head = {**about, "networks": standing.networks, "accuracy": list(standing.accuracy), "notes": list(standing.notes)}
    return {**head, "entries": entries}


def _statistics(found: Mapping[str, Interval]) -> dict[str, list[float | str | None]]:
    return {
        name: [number(part) for part in (each.value, each.low, each.high, each.std) if part is not None]
        for name, each in found.items()
    }


def write(found: Leaderboard, path: Path) -> None:
    """Write the file, one entry a line."""
    data = to_json(found)
    contests = data.pop("contests")
    parts = []
    for contest in contests:
        lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in contest.pop("entries"))
        parts.append(json.dumps(contest, allow_nan=False)[:-1] + f', "entries": [\n{lines}\n]}}')
    head = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)[:-2]
    write_atomic(path, f'{head},\n "contests": [\n' + ",\n".join(parts) + "\n]}\n")


def read(path: Path) -> Leaderboard:
    """Read what :func:`write` wrote."""
    remedy = "expected the file that python -m benchmarks.measure_results writes"
    if not is_there(path):
        raise InputError(f"there is no leaderboard {path}: {remedy}")
    data = read_json(path, remedy)
    try:
        standings = tuple(_standing_of(each) for each in data["contests"])
        costs = {name: unnumber(cost) for name, cost in data["costs"].items()}
        return Leaderboard(int(data["draws"]), costs, tuple(data["about"]), standings)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a leaderboard ({error!r}): {remedy}") from None


def _standing_of(data: Json) -> Standing:
    contest = Contest(*(str(data[name]) for name in ("table", "task", "metric", "population")))
    entries = tuple(
        Entry(
            str(each["name"]),
            str(each["kind"]),
            int(each["seeds"]),
            Share(int(each["scored"]), int(each["asked"])),
            _intervals(each["failures_last"]),
            _intervals(each.get("failures_out", each["failures_last"])),
            tuple(map(unnumber, each["places"])),
            tuple(map(unnumber, each.get("accuracy", ()))),
        )
        for each in data["entries"]
    )
    return Standing(
        contest, int(data["networks"]), entries, tuple(map(unnumber, data["accuracy"])), tuple(data["notes"])
    )


def _intervals(data: Mapping[str, Sequence[float | None]]) -> dict[str, Interval]:
    found = {}
    for name, parts in data.items():
        value, low, high, *std = map(unnumber, parts)
        found[name] = Interval(value, low, high, std=std[0] if std else None)
    return found
