"""``trainless score --ranking``: candidates in the order of a ranking, with what it is made of."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import typer
from scipy.stats import rankdata

from trainless.cli.table import Row, console, number, plain, write_text
from trainless.core.errors import InputError
from trainless.rankings import Consensus, ranking
from trainless.rankings.products import FEWEST
from trainless.rankings.ranking import upward

if TYPE_CHECKING:
    from rich.table import Table

    from trainless.core.scores import Scores

COLUMN, HEAD = 17, 42  # characters of the terminal that one candidate and the other columns take


@dataclass(frozen=True)
class Place:
    """One candidate: its place, 1 for the best, and its place by each ingredient."""

    rank: int
    candidate: str
    value: float
    values: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True)
class Ranked:
    """Candidates in the order of a ranking.

    Args:
        ranking: Its name.
        places: The candidates, the best first.
        higher_is_better: The ingredients, and the direction of each.
        silenced: The ingredients that had no voice, because they contradict the others.
        notes: What a reader has to know.
    """

    ranking: str
    places: tuple[Place, ...]
    higher_is_better: dict[str, bool]
    silenced: tuple[str, ...]
    notes: tuple[str, ...]


def require_several(candidates: Sequence[str]) -> None:
    """A ranking of one candidate says nothing."""
    if len(set(candidates)) < 2:
        raise InputError("--ranking was given with 1 candidate; expected two or more: a ranking is relative to others")


def rank(name: str, scores: Scores) -> Ranked:
    """Order the candidates of some scores by a ranking that is registered.

    Example:
        >>> from trainless.core.scores import Record, Scores
        >>> pairs = {"a": (2.0, 0.1), "b": (1.0, 0.9), "c": (2.0, 0.3)}
        >>> both = [Record(c, p, v, True) for c, pair in pairs.items() for p, v in zip(("layers", "vkdnw"), pair)]
        >>> [place.candidate for place in rank("vkdnw-single", Scores(both)).places]
        ['c', 'a', 'b']
    """
    rule = ranking(name)
    values = rule(scores)
    order, ranks = np.argsort(-values, kind="stable"), _ranks(values)
    by = {proxy: (scores.column(proxy), _ranks(upward(scores, proxy))) for proxy in rule.proxies}
    places = tuple(
        Place(
            int(ranks[at]),
            scores.candidates[at],
            float(values[at]) if np.isfinite(values[at]) else math.nan,
            {proxy: float(column[at]) for proxy, (column, _) in by.items()},
            {proxy: int(places[at]) for proxy, (_, places) in by.items()},
        )
        for at in order
    )
    silenced: tuple[str, ...] = ()
    if isinstance(rule, Consensus):
        heard = rule.heard(scores)
        silenced = tuple(proxy for proxy in rule.proxies if proxy not in heard)
    directions = {proxy: scores.higher_is_better[proxy] for proxy in rule.proxies}
    return Ranked(name, places, directions, silenced, tuple(_notes(rule, scores, silenced)))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places from 1 for the best; equals share the best of theirs, failures are last."""
    return np.asarray(rankdata(np.where(np.isnan(values), np.inf, -values), method="min"), np.intp)


def _notes(rule: object, scores: Scores, silenced: Sequence[str]) -> list[str]:
    notes = []
    if isinstance(rule, Consensus):
        few = len(scores) < FEWEST
        notes.append(
            f"All {len(rule.proxies)} have a voice: with fewer than {FEWEST} candidates nothing says who contradicts"
            " the others."
            if few
            else f"Silenced, because they do not agree with the others on these candidates: {', '.join(silenced)}."
            if silenced
            else f"All {len(rule.proxies)} have a voice: none contradicts the others on these candidates."
        )
    failures = {(candidate, proxy): why for (candidate, proxy, _), why in scores.failures.items()}
    notes += [f"{candidate} has no {proxy}: {why}." for (candidate, proxy), why in list(failures.items())[:5]]
    if len(failures) > 5:
        notes.append(f"{len(failures) - 5} more scores are missing.")
    return notes


def show(found: Ranked, rows: Sequence[Row], title: str, *, as_json: bool, as_csv: str) -> None:
    """Print the order, and write it to a file where one is named."""
    if as_csv:
        to_csv(found, as_csv)
    if as_json:
        to_json(found, rows)
    elif as_csv != "-":
        to_terminal(found, title)


def to_json(found: Ranked, rows: Sequence[Row]) -> None:
    """Print one object: the order with its ingredients, who had no voice, and the scores as they are without."""
    text = {
        "ranking": found.ranking,
        "silenced": list(found.silenced),
        "ranked": [plain(asdict(place) | {"values": plain(dict(place.values))}) for place in found.places],
        "notes": list(found.notes),
        "scores": [plain(asdict(row)) for row in rows],
    }
    typer.echo(json.dumps(text, indent=2, allow_nan=False))


def to_csv(found: Ranked, path: str) -> None:
    """Write one row per candidate, the best first, to a file, or print them where the path is ``-``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", "candidate", found.ranking, *found.higher_is_better])
    for place in found.places:
        numbers = [place.value, *(place.values[proxy] for proxy in found.higher_is_better)]
        writer.writerow([place.rank, place.candidate, *("" if math.isnan(each) else each for each in numbers)])
    write_text(text.getvalue(), path)


def to_terminal(found: Ranked, title: str) -> None:
    """Print the order, and then the ingredients of the best, as many as fit."""
    from rich.text import Text

    terminal = console()
    fit = max(1, (terminal.width - HEAD) // COLUMN)
    terminal.print(_order(found, title))
    terminal.print(_ingredients(found, fit))
    for note in found.notes:
        terminal.print(Text(note))
    if len(found.places) > fit:
        left = len(found.places) - fit
        terminal.print(Text(f"The ingredients of {left} more candidates are not shown; --json and --csv have them."))


def _order(found: Ranked, title: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{found.ranking}: {title}"), title_justify="left", title_style="bold")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("candidate", overflow="fold")
    for place in found.places:
        table.add_row(str(place.rank), number(place.value), Text(place.candidate))
    return table


def _ingredients(found: Ranked, fit: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text("ingredients: value (place)"), title_justify="left", title_style="bold")
    for name in ("proxy", "better", "voice"):
        table.add_column(name, no_wrap=True)
    for place in found.places[:fit]:
        table.add_column(f"rank {place.rank}", justify="right", no_wrap=True)
    for proxy, up in found.higher_is_better.items():
        cells = [f"{number(place.values[proxy], 4)} ({place.ranks[proxy]})" for place in found.places[:fit]]
        table.add_row(proxy, "higher" if up else "lower", "silenced" if proxy in found.silenced else "yes", *cells)
    return table
