"""The one reader of a run, whichever kind it is: what the page, the terminal, the report and the exports go by."""

from __future__ import annotations

from pathlib import Path

from trainless.core.errors import InputError
from trainless.runs.folder import CONFIGURATION
from trainless.runs.reader_base import RunReader
from trainless.runs.reader_design import DesignReader
from trainless.runs.reader_search import FolderSource, SearchReader
from trainless.runs.reader_sweep import SweepReader
from trainless.runs.run_files import SETTINGS, is_plain


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of ``bench sweep``."""
    return is_plain(folder / SETTINGS) and not is_plain(folder / CONFIGURATION)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a search, a design or a sweep."""
    return is_plain(folder / CONFIGURATION) or is_sweep(folder)


def reader_at(folder: Path, *, keep: bool = False) -> RunReader:
    """A reader of a folder of ``search``, ``bench sweep`` or ``design``.

    Args:
        folder: The run folder.
        keep: Whether to keep every step of a search, for who needs more than the table.

    Raises:
        InputError: It is none of them.
    """
    if is_sweep(folder):
        return SweepReader(folder)
    source = FolderSource(folder)
    configuration = source.configuration()
    if configuration.get("verb") == "design":
        return DesignReader(folder, keep=keep)
    if "searcher" not in configuration:
        raise InputError(f"{folder} is no folder of trainless search, design or bench sweep: give one of those")
    return SearchReader(source, keep=keep)


def catch_up(reader: RunReader) -> RunReader:
    """Read all that there is by now."""
    while reader.refresh():
        pass
    return reader
