"""A report: one self-contained page about a run, readable for a clinician and exact for an engineer.

The same contents give the same text, byte for byte: it holds no date and nothing drawn at random.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import replacing, write_atomic
from trainless.core.opening import is_there, without_links
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.learn.predictor import load_predictor
from trainless.report import doubt, landscape, result, search, summary, training
from trainless.report.contents import Contents, ReportPart, arrays_in, contents_of
from trainless.report.doubt import in_doubt
from trainless.report.explained import SECONDS, explained
from trainless.report.page import Content, Section, grid, page
from trainless.report.training import CASES, shown_of
from trainless.report.words import ensemble_in_words, space_in_words
from trainless.runs.folder import PREDICTIONS, REPORT, SHOWN, SUMMARY
from trainless.runs.reader import reader_at
from trainless.spaces.protocol import Space

_ANSWER = (
    *(summary.headline, result.no_test, result.simpler, result.positive, summary.warnings, summary.search_headline),
)
_DOUBT = (
    *(summary.promises, doubt.drift, doubt.intervals, result.metrics),
    *(doubt.confidence, doubt.calibration, doubt.referrals, doubt.prediction_sets, doubt.errors),
)
_WHY = (
    *(result.confusions, result.roc_curves, result.predicted_values, result.classes_table, result.yardsticks),
    doubt.cases,
)
_SEARCH = (
    *(search.search_words, search.best_values, search.pruning, search.winners, search.winning_operations),
    landscape.landscapes,
)
_EXACT = (summary.searches, summary.members, summary.leaderboard, summary.plan, summary.settings)
SECTIONS: tuple[tuple[str, str, tuple[ReportPart, ...]], ...] = (
    ("summary", "The answer", _ANSWER),
    ("doubt", "How sure it is", _DOUBT),
    ("why", "Why it says so", _WHY),
    ("data", "The data", (training.data_words, training.balance, training.examples)),
    ("search", "Appendix: the search", _SEARCH),
    ("training", "Training", (training.training_words, training.losses, training.accuracies, result.by_method)),
    ("costs", "What was spent", (training.costs,)),
    ("exact", "Exact numbers", _EXACT),
)
"""A report from its top to its end: anchor, heading and parts. A figure that is not here is not shown."""
APPENDIX = "search"  # where the appendix begins


def write_report(
    folder: str | Path, task: Task | None = None, chosen: Space | None = None, *, seconds: float = SECONDS
) -> Path:
    """Make the report of a finished design, or of a search, and say where it is.

    Of the data, where they are at hand, a few cases are kept in the folder to be shown, now and later; they are
    explained for these ``seconds`` at most. ``chosen`` is the space, where it is not a registered one. Raises
    InputError where there is no run, or not far enough.
    """
    path = without_links(folder)
    reader = reader_at(path, keep=True)
    if reader.kind == "design":
        if not is_there(path / SUMMARY):
            raise InputError(f"{path} is not finished: run the same trainless design again, then make the report")
        if task is not None and not is_there(path / SHOWN):
            said = arrays_in(path / PREDICTIONS)
            cases = in_doubt(said, CASES) if said else np.zeros(0, np.int64)
            shown = shown_of(task, cases)
            if len(cases):
                shown |= explained(load_predictor(path, chosen), task, cases, said.get("label"), seconds)
            with replacing(path / SHOWN) as file:
                np.savez(file, **shown)  # type: ignore[arg-type]
    with undamaged(path, "run the same command again in a new folder"):
        text = render(contents_of(path, reader, chosen))
    write_atomic(path / REPORT, text)
    return path / REPORT


def render(contents: Contents) -> str:
    """The page of a design, or of a search alone."""
    version = contents.settings.get("environment", {}).get("trainless", "")
    name = contents.settings["task"]["name"]
    sections = [
        Section(anchor, heading, body, appendix=anchor == APPENDIX)
        for anchor, heading, parts in SECTIONS
        if (body := _body(contents, parts))
    ]
    footer = f"Made by trainless {version} from what the run kept. Point at a mark to read its numbers."
    if not contents.summary:
        return page(f"{name}: a search", space_in_words(contents.settings["space"]), sections, footer)
    told = f"An ensemble of {ensemble_in_words(contents.summary['members'])}"
    return page(f"{name}: a designed ensemble", told, sections, footer, verdict=summary.verdict(contents))


def _body(contents: Contents, parts: tuple[ReportPart, ...]) -> tuple[Content, ...]:
    """The parts that the run has something for; neighbours that stand beside each other share a grid."""
    body: list[Content] = []
    for beside, group in itertools.groupby(parts, key=lambda part: part.beside):
        found = [content for part in group for content in part.contents(contents)]
        body += [grid(*found)] if beside and found else found
    return tuple(body)
