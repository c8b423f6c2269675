"""Tables of the terminal, and the same as JSON, CSV or Markdown: scores, the order of a ranking, and sheets."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainless.cli.terminal import say
from trainless.core.errors import InputError
from trainless.core.terminal import console

if TYPE_CHECKING:
    from rich.table import Table

    from trainless.bench.sheet import Sheet
    from trainless.core.scores import Scores
    from trainless.proxies.proxy import Proxy
    from trainless.rankings import Ranking

LARGEST_COUNT = 1e12  # whole numbers below it are written with all their digits
ARCHITECTURE = 36  # characters of an architecture in one line at least, before columns are left out
NARROWEST, FIRST = 9, 16  # characters that a column of words keeps, and the first one of them
COLUMN, HEAD = 17, 42  # characters of the terminal that one candidate and the other columns take


@dataclass(frozen=True)
class ScoreRow:
    """One proxy's answer for one candidate over all seeds: the mean, and what is needed to judge it."""

    candidate: str
    proxy: str
    value: float
    spread: float
    higher_is_better: bool
    status: str
    ms: float
    fbe: float
    seeds: list[int]
    values: list[float]
    meaning: str
    notes: str = ""


def summarise(scores: Scores, proxies: Sequence[Proxy]) -> list[ScoreRow]:
    """One row per candidate and proxy; a seed that failed gives the row its reason."""
    meanings = {proxy.name: proxy.summary for proxy in proxies}
    groups: dict[tuple[str, str], list[int]] = {}
    for index, record in enumerate(scores.records):
        groups.setdefault((record.candidate, record.proxy), []).append(index)
    rows = []
    for (candidate, proxy), places in groups.items():
        records = [scores.records[place] for place in places]
        seeds, values = [record.seed for record in records], [record.value for record in records]
        mean, up = _mean(values), records[0].higher_is_better
        spread = math.sqrt(_mean([(value - mean) ** 2 for value in values]))
        status = next((record.status for record in records if record.failed), "ok")
        ms, fbe = _mean([record.ms for record in records]), _mean([record.fbe for record in records])
        said = dict.fromkeys(note for record in records for note in record.notes.split("; ") if note)
        about = seeds, values, meanings[proxy], "; ".join(said)
        rows.append(ScoreRow(candidate, proxy, mean, spread, up, status, ms, fbe, *about))
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def show(rows: Sequence[ScoreRow], title: str, *, as_json: bool, as_csv: str) -> None:
    """Print one table per candidate or a JSON list, and write the rows to a file where one is named."""
    if as_csv:
        columns = [name for name in ScoreRow.__dataclass_fields__ if name not in ("seeds", "values")]
        cells = ([*(asdict(row)[name] for name in columns), " ".join(map(str, row.seeds))] for row in rows)
        write_csv([*columns, "seeds"], cells, as_csv)
    if as_json:
        _print_json(rows)
    elif as_csv != "-":
        for candidate in dict.fromkeys(row.candidate for row in rows):
            console().print(_table_of([row for row in rows if row.candidate == candidate], f"{candidate}\n{title}"))


def _table_of(rows: Sequence[ScoreRow], title: str) -> Table:
    from rich.text import Text

    table = _titled(title)
    timed = not all(math.isnan(row.fbe) for row in rows)
    for name in ("proxy", "value", "spread", "better", "ms", *(["FBE"] if timed else [])):
        table.add_column(name, justify="left" if name in ("proxy", "better") else "right", no_wrap=True)
    table.add_column("meaning, or why there is no score", overflow="fold")
    for row in rows:
        table.add_row(
            row.proxy,
            number(row.value),
            number(row.spread, 3) if len(row.seeds) > 1 else "",
            "higher" if row.higher_is_better else "lower",
            "–" if math.isnan(row.ms) else f"{row.ms:.1f}",
            *(["–" if math.isnan(row.fbe) else f"{row.fbe:.2f}"] if timed else []),
            row.meaning if row.status == "ok" else row.status,
        )
    table.caption = Text("\n".join(footnotes(rows)), "default") if any(row.notes for row in rows) else None
    table.caption_justify = "left"
    return table


def footnotes(rows: Sequence[ScoreRow]) -> list[str]:
    """What is to be known of how a network was run, each once, with the proxies that it concerns."""
    concerned: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes.split("; ") if row.notes else ():
            concerned.setdefault(note, []).append(row.proxy)
    few = 4
    return [
        f"{', '.join(proxies) if len(proxies) <= few else f'{len(proxies)} of {len(rows)} scores'}: {note}"
        for note, proxies in concerned.items()
    ]


@dataclass(frozen=True)
class RankedCandidate:
    """One candidate: its place, 1 for the best, and its place by each ingredient."""

    rank: int
    candidate: str
    value: float
    values: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True)
class RankedOrder:
    """Candidates in the order of a ranking, the best first, with its ingredients and the direction of each.

    Those that are heard make the order; the silenced ones contradict them.
    """

    ranking: str
    places: tuple[RankedCandidate, ...]
    higher_is_better: dict[str, bool]
    heard: tuple[str, ...]
    silenced: tuple[str, ...]
    notes: tuple[str, ...]


def rank(name: str, scores: Scores) -> RankedOrder:
    """Order the candidates of some scores by a ranking that is registered.

    Example:
        >>> from trainless.core.scores import Record, Scores
        >>> pairs = {"a": (2.0, 0.1), "b": (1.0, 0.9), "c": (2.0, 0.3)}
        >>> both = [Record(c, p, v, True) for c, pair in pairs.items() for p, v in zip(("layers", "vkdnw"), pair)]
        >>> [place.candidate for place in rank("vkdnw-single", Scores(both)).places]
        ['c', 'a', 'b']
    """
    from trainless.core.ranks import better_counts, order
    from trainless.rankings import Consensus, ranking
    from trainless.rankings.ranking import upward

    rule = ranking(name)
    values = rule(scores)
    ranks = better_counts(values)
    by = {proxy: (scores.column(proxy), better_counts(upward(scores, proxy))) for proxy in rule.proxies}
    places = tuple(
        RankedCandidate(
            int(ranks[at]) + 1,
            scores.candidates[at],
            float(values[at]) if math.isfinite(values[at]) else math.nan,
            {proxy: float(column[at]) for proxy, (column, _) in by.items()},
            {proxy: int(better[at]) + 1 for proxy, (_, better) in by.items()},
        )
        for at in order(values)
    )
    heard = rule.heard(scores) if isinstance(rule, Consensus) else rule.proxies
    silenced = rule.silenced(scores) if isinstance(rule, Consensus) else ()
    directions = {proxy: scores.higher_is_better[proxy] for proxy in rule.proxies}
    return RankedOrder(name, places, directions, heard, silenced, tuple(_notes(rule, scores)))


def _notes(rule: Ranking, scores: Scores) -> list[str]:
    from trainless.rankings.trust import trust

    notes = trust(rule, scores)
    failures = {(candidate, proxy): why for (candidate, proxy, _), why in scores.failures.items()}
    notes += [f"{candidate} has no {proxy}: {why}." for (candidate, proxy), why in list(failures.items())[:5]]
    if len(failures) > 5:
        notes.append(f"{len(failures) - 5} more scores are missing.")
    said: dict[str, list[str]] = {}
    for candidate, each in scores.notes.items():
        for note in each:
            said.setdefault(note, []).append(candidate)
    notes += [f"{named[0] if len(named) == 1 else f'{len(named)} candidates'}: {note}." for note, named in said.items()]
    return notes


def show_order(found: RankedOrder, rows: Sequence[ScoreRow], title: str, *, as_json: bool, as_csv: str) -> None:
    """Print the order with its ingredients, and write it to a file where one is named."""
    if as_csv:
        cells = (
            [place.rank, place.candidate, place.value, *(place.values[proxy] for proxy in found.higher_is_better)]
            for place in found.places
        )
        write_csv(["rank", "candidate", found.ranking, *found.higher_is_better], cells, as_csv)
    if as_json:
        order = {"ranking": found.ranking, "heard": found.heard, "silenced": found.silenced}
        _print_json({**order, "ranked": found.places, "notes": found.notes, "scores": rows})
    elif as_csv != "-":
        _print_order(found, title)


def _print_order(found: RankedOrder, title: str) -> None:
    """The order, and then the ingredients of the best, as many as fit."""
    from rich.text import Text

    terminal = console()
    fit = max(1, (terminal.width - HEAD) // COLUMN)
    table = _titled(f"{found.ranking}: {title}")
    for name in ("rank", "value"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("candidate", overflow="fold")
    for place in found.places:
        table.add_row(str(place.rank), number(place.value), Text(place.candidate))
    terminal.print(table)
    terminal.print(_ingredients(found, fit))
    for note in found.notes:
        terminal.print(Text(note))
    if len(found.places) > fit:
        left = len(found.places) - fit
        terminal.print(Text(f"The ingredients of {left} more candidates are not shown; --json and --csv have them."))


def _ingredients(found: RankedOrder, fit: int) -> Table:
    table = _titled("ingredients: value (place)")
    for name in ("proxy", "better", "voice"):
        table.add_column(name, no_wrap=True)
    for place in found.places[:fit]:
        table.add_column(f"rank {place.rank}", justify="right", no_wrap=True)
    for proxy, up in found.higher_is_better.items():
        cells = [f"{number(place.values[proxy], 4)} ({place.ranks[proxy]})" for place in found.places[:fit]]
        voice = "yes" if proxy in found.heard else "silenced" if proxy in found.silenced else "no"
        table.add_row(proxy, "higher" if up else "lower", voice, *cells)
    return table


def _titled(title: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    return Table(title=Text(title), title_justify="left", title_style="bold")


def _print_json(value: object) -> None:
    """Print strict JSON; NaN is null."""
    from trainless.core.files import strict

    typer.echo(json.dumps(strict(value), indent=2, allow_nan=False))


def write_csv(header: Sequence[str], rows: Iterable[Iterable[object]], path: str) -> None:
    """Write rows to the file of ``--csv``, or print them where the path is ``-``; NaN is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if isinstance(each, float) and not math.isfinite(each) else each for each in row])
    put_csv(text.getvalue(), path)


def put_csv(text: str, path: str) -> None:
    """Write text to the file of ``--csv``, or print it where the path is ``-``."""
    if path == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--csv {path} cannot be written ({error.strerror}): give another file") from error


def number(value: float, digits: int = 6) -> str:
    """A number for people; a dash where there is none.

    Example:
        >>> number(1234.5678), number(2319482.0), number(math.nan)
        ('1234.57', '2319482', '–')
    """
    if math.isnan(value):
        return "–"
    counted = float(value).is_integer() and abs(value) < LARGEST_COUNT
    return f"{value:.0f}" if counted else f"{value:.{digits}g}"


def broken(arch: str, width: int) -> str:
    """A notation in lines of a width, each of which ends after a comma where there is one.

    Example:
        >>> broken("depth=2,kernel=narrow,pool=mean", 21).splitlines()
        ['depth=2,', 'kernel=narrow,', 'pool=mean']
        >>> broken("depth=2,kernel=narrow,pool=mean", 22).splitlines()
        ['depth=2,kernel=narrow,', 'pool=mean']
    """
    lines = [""]
    for part in arch.replace(",", ",\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def print_leaderboard(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], costs: int = 0) -> None:
    """Print ranks, architectures and numbers; where the terminal is narrow the last numbers but the costs are left out.

    The costs are the last columns. What is left out is named below.
    """
    from rich.table import Table
    from rich.text import Text

    terminal, kept = console(), list(range(len(names)))
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    longest, widths[1] = widths[1], min(widths[1], ARCHITECTURE)
    spare = kept[2 : len(names) - costs]
    while len(spare) > 1 and sum(widths[place] + 3 for place in kept) + 1 > terminal.width:
        kept.remove(spare.pop())
    table = Table(title=title, title_justify="left")
    widths[1] = min(longest, widths[1] + max(0, terminal.width - 1 - sum(widths[place] + 3 for place in kept)))
    for place in kept:
        words = place == 1
        table.add_column(names[place], justify="left" if words else "right", overflow="fold", min_width=widths[place])
    for row in rows:
        table.add_row(*(Text(broken(row[place], widths[1]) if place == 1 else row[place]) for place in kept))
    terminal.print(table)
    if left := [name for place, name in enumerate(names) if place not in kept]:
        say(f"Not shown here: {', '.join(left)}; leaderboard.csv has them.")


def show_sheets(sheets: Sequence[Sheet], *, as_json: bool = False, as_markdown: bool = False, as_csv: str = "") -> None:
    """Print sheets in the one form that was asked for, a table for people where none was; CSV may go to a file."""
    from trainless.bench.sheet import joined, without_repeats

    if as_json + as_markdown + (as_csv == "-") > 1:
        raise InputError("more than one of --json, --markdown and --csv - was given; expected one of them")
    if as_csv:
        put_csv("".join(sheet.csv() for sheet in sheets), as_csv)
    if as_json:
        texts = [sheet.json() for sheet in sheets]
        typer.echo(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    elif as_markdown:
        typer.echo(joined(sheets))
    elif as_csv != "-":
        for sheet in without_repeats(sheets):
            _terminal(sheet)


def _terminal(sheet: Sheet) -> None:
    from rich.text import Text

    terminal = console()
    sheet = fitting(sheet, terminal.width)
    terminal.print(_table_of_sheet(sheet, terminal.width))
    for note in sheet.notes:
        terminal.print(Text(note))


def fitting(sheet: Sheet, width: int) -> Sheet:
    """The whole sheet where it fits; else the columns that matter most, of numbers the last left out first.

    Example:
        >>> from trainless.bench.sheet import Sheet
        >>> sheet = Sheet("", ("name", "one", "two"), (("a", 1.0, 2.0),), brief=("name", "one", "two"))
        >>> fitting(sheet, 80).columns, fitting(sheet, 20).columns
        (('name', 'one', 'two'), ('name', 'one'))
    """
    if not sheet.brief or _width(sheet) <= width:
        return sheet
    names = list(sheet.brief)
    while True:
        short = replace(sheet, brief=tuple(names)).shortened()
        spare = [name for place, name in enumerate(short.columns) if not _words(short, place)]
        if _width(short) <= width or len(spare) < 2:
            return short
        names.remove(spare[-1])


def _words(sheet: Sheet, place: int) -> bool:
    """Whether a column holds words, which may go on in the next line."""
    return not sheet.numeric(place) and any(row[place] is not None for row in sheet.rows)


def _longest(sheet: Sheet) -> list[int]:
    """The characters of the longest cell or of the name of each column."""
    columns = zip(sheet.columns, *sheet.cells(), strict=True)
    return [max(map(len, column)) for column in columns]


def _least(sheet: Sheet) -> list[int]:
    """The characters that each column cannot do without."""
    return [
        min(longest, NARROWEST if place else FIRST) if _words(sheet, place) else longest
        for place, longest in enumerate(_longest(sheet))
    ]


def _width(sheet: Sheet) -> int:
    """The characters that a table needs, its lines and gaps too."""
    return sum(_least(sheet)) + 3 * len(sheet.columns) + 1


def _widths(sheet: Sheet, width: int) -> list[int]:
    """The characters of each column: what is left over goes to the narrowest of those that lack some."""
    widths, longest = _least(sheet), _longest(sheet)
    for _ in range(width - _width(sheet)):
        lacking = [place for place, wanted in enumerate(longest) if widths[place] < wanted]
        if lacking:
            widths[min(lacking, key=widths.__getitem__)] += 1
    return widths


def _table_of_sheet(sheet: Sheet, width: int) -> Table:
    from rich.text import Text

    table = _titled(sheet.title)
    for place, (name, characters) in enumerate(zip(sheet.columns, _widths(sheet, width), strict=True)):
        number = sheet.numeric(place)
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold", width=characters)
    for row in sheet.cells():
        table.add_row(*(Text(cell) for cell in row))
    return table
