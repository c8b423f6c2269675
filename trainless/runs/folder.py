"""The run folder: the frozen configuration, the store, the trajectory and the leaderboard.

``run.json`` is written when a run starts and compared when the same command comes again; only budgets may differ, so a
run can be extended. Files are replaced in one go or appended to line by line; nothing outside the folder is written.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal
from trainless.core.text import one_line
import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from trainless.core.errors import InputError, TrainlessError
from trainless.core.types import (Json)

ENDING = "ending.json"
Word = Literal["finished", "budget", "interrupted", "failed"]
WORDS: tuple[Word, ...] = ("finished", "budget", "interrupted", "failed")


@dataclass(frozen=True)
class Ending:
    """How a session ended.

    Args:
        end: ``finished`` where the searcher had nothing more to ask, ``budget`` where it was used up, ``interrupted``
            by Ctrl-C, ``failed`` by a mistake, a full disk and the like.
        reason: In words, where it failed.
    """

    end: Word
    reason: str = ""

    @property
    def concluded(self) -> bool:
        """Whether the run came to its end."""
        return self.end in ("finished", "budget")

    def to_json(self) -> str:
        """As it is written down."""
        return json.dumps(asdict(self))


def ending_by(error: BaseException) -> Ending:
    """The ending of a session that an exception ended.

    Example:
        >>> ending_by(KeyboardInterrupt()), ending_by(OSError("disk full"))
        (Ending(end='interrupted', reason=''), Ending(end='failed', reason='OSError: disk full'))
    """
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted")
    return Ending("failed", one_line(error))


def read_ending(text: str) -> Ending | None:
    """What :meth:`Ending.to_json` wrote; None where there is none.

    Example:
        >>> read_ending(Ending("budget").to_json()), read_ending("")
        (Ending(end='budget', reason=''), None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    word = next((word for word in WORDS if isinstance(found, dict) and found.get("end") == word), None)
    return None if word is None else Ending(word, str(found.get("reason", ""))[:400])


FORMAT = 1
CONFIGURATION, STORE, TRAJECTORY, LEADERBOARD = "run.json", "scores.sqlite", "trajectory.jsonl", "leaderboard.csv"


@dataclass(frozen=True)
class Folder:
    """A run folder and its configuration."""

    path: Path
    configuration: Json

    @property
    def store(self) -> Path:
        """Every score."""
        return self.path / STORE

    @property
    def trajectory(self) -> Path:
        """Every step."""
        return self.path / TRAJECTORY

    @property
    def leaderboard(self) -> Path:
        """The candidates in their order."""
        return self.path / LEADERBOARD


def open_folder(path: Path, asked: Json, budget: Json) -> Folder:
    """Start a run, or go on with the one that is there.

    Args:
        path: The folder.
        asked: The configuration; a value of None takes what the run that is there has.
        budget: Budgets; they replace those that are there.

    Raises:
        InputError: The folder holds another run, or something that is no run.
    """
    present = read_configuration(path) if (path / CONFIGURATION).exists() else None
    if present is None and path.is_dir() and any(path.iterdir()):
        known = {STORE, TRAJECTORY, LEADERBOARD, ENDING, "lock"}
        strange = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith((*known, ".")))
        if strange:
            raise InputError(f"{path} holds {strange[0]!r} and no run: give an empty or new folder with --out")
    settings = _settled(path, asked, present)
    configuration = {"format": FORMAT, "environment": environment(), **(present or {}), **settings, "budget": budget}
    if configuration != present:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path} cannot be made ({error.strerror}): give another folder with --out") from error
        replace(path / CONFIGURATION, json.dumps(configuration, indent=2, allow_nan=False) + "\n")
    return Folder(path, configuration)


def _settled(path: Path, asked: Json, present: Json | None) -> Json:
    """The configuration, with what was left open taken from the run that is there."""
    if present is None:
        return asked
    for name, value in asked.items():
        if value is not None and json.loads(json.dumps(value)) != present.get(name):
            raise InputError(
                f"{path} holds a run with {name}={present.get(name)!r}, and {name}={value!r} was asked for: give the"
                " same settings to go on with it, or another folder with --out"
            )
    return {name: present.get(name) if value is None else value for name, value in asked.items()}


def read_configuration(path: Path) -> Json:
    """What ``run.json`` of a folder says."""
    file = path / CONFIGURATION
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        raise InputError(f"{path} is no run: it has no {CONFIGURATION}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read ({error}): give another folder") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{file} is not of a run that this version of trainless knows: give another folder")
    return found


def environment() -> Json:
    """The versions that a value may depend on."""
    import numpy
    import torch

    from trainless import __version__

    return {
        "trainless": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
    }


def replace(path: Path, content: str | bytes) -> None:
    """Write a file in one go: it is there as before or as after, never in between."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(
            f"{path} cannot be written ({error.strerror}): free some space or give another --out"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process; the lock goes with the process, however it ends."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is working in {folder}: wait for it, or give another --out") from None
        yield


@contextmanager
def forgotten_unless_begun(folder: Folder, fresh: bool) -> Iterator[None]:
    """Where a mistake ends a new run before its first step, its folder takes the mended command as if it were empty."""
    try:
        yield
    except TrainlessError:
        begun = folder.trajectory.exists() and folder.trajectory.stat().st_size > 0
        if fresh and not begun:
            (folder.path / CONFIGURATION).unlink(missing_ok=True)
        raise
