"""A report: one self-contained page about a run, readable for a clinician and exact for an engineer.

The same contents give the same text, byte for byte: it holds no date and nothing drawn at random.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import replacing, write_atomic
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.report.about_data import cases_section, data_section
from trainless.report.about_result import doubt_section, result_section, training_section
from trainless.report.about_search import search_section, settings_section
from trainless.report.contents import Contents, arrays_in, read_contents
from trainless.report.figures_result import in_doubt
from trainless.report.figures_training import costs_section
from trainless.report.headline import headline, search_headline
from trainless.report.page import page
from trainless.report.pictures import CASES, shown_of
from trainless.runs.folder import read_configuration
from trainless.runs.run_files import PREDICTIONS, REPORT, SHOWN, SUMMARY
from trainless.spaces.protocol import Space


def write_report(folder: str | Path, task: Task | None = None, chosen: Space | None = None) -> Path:
    """Make the report of a finished design, or of a search, and say where it is.

    Args:
        folder: The run folder.
        task: The data, where they are at hand: a few cases are kept in the folder to be shown, now and later.
        chosen: The space, where it is not a registered one.

    Raises:
        InputError: The folder holds no run, or one that has not come far enough.
    """
    path = Path(folder)
    if read_configuration(path).get("verb") == "design":
        if not (path / SUMMARY).exists():
            raise InputError(f"{path} is not finished: run the same trainless design again, then make the report")
        if task is not None and not (path / SHOWN).exists():
            said = arrays_in(path / PREDICTIONS)
            with replacing(path / SHOWN) as beside:
                np.savez(beside, **shown_of(task, in_doubt(said, CASES) if said else np.zeros(0, np.int64)))  # type: ignore[arg-type]
    with undamaged(path, "run the same command again in a new folder"):
        text = render(read_contents(path, chosen))
    write_atomic(path / REPORT, text)
    return path / REPORT


def render(contents: Contents) -> str:
    """The page of a design, or of a search alone."""
    version = contents.settings.get("environment", {}).get("trainless", "")
    name = contents.settings["task"]["name"]
    footer = f"Made by trainless {version} from what the run kept. Point at a mark to read its numbers."
    if not contents.summary:
        sections = [search_headline(contents), search_section(contents), settings_section(contents)]
        return page(f"{name}: a search", f"{contents.settings['space']}", sections, footer)
    sections = [
        headline(contents),
        result_section(contents),
        *([] if contents.test is None else [doubt_section(contents), cases_section(contents)]),
        data_section(contents),
        search_section(contents),
        training_section(contents),
        costs_section(contents),
        settings_section(contents),
    ]
    count = len(contents.ensemble["members"])
    what = f"An ensemble of {count} {'network' if count == 1 else 'networks'} of {contents.summary['plan']['space']}"
    return page(f"{name}: a designed ensemble", f"{what}, chosen before any of them was trained", sections, footer)
