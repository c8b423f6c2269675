"""Which files are the cases of a data set: by class in sub-folders, or named by a table with their labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from trainless.core.errors import InputError
from trainless.core.task import PartName
from trainless.core.types import Array
from trainless.tasks.columns import shown
from trainless.tasks.numpy_files import SPELLINGS
from trainless.tasks.settings import Reading
from trainless.tasks.table import GROUPS, LABELS, TABLES, column, complete, header, read_table
from trainless.tasks.weigh import require_inside

FILES = ("file", "filename", "file_name", "path", "image", "volume", "scan", "recording_file")
SPLITS = ("split", "part", "subset")
MOST = 20_000  # entries of a folder that are looked at to tell what it holds
IsCase = Callable[[Path], bool]


@dataclass(frozen=True, eq=False)
class ListedCases:
    """The cases of one part: their files or folders, labels, and groups where known."""

    paths: Sequence[Path]
    y: Array
    groups: Array | None = None


@dataclass(frozen=True, eq=False)
class Cases:
    """The cases of a data set by part, the folder that holds them, and the names of classes that are folders."""

    name: str
    root: Path
    parts: Mapping[PartName, ListedCases]
    classes: tuple[str, ...] = ()

    @property
    def paths(self) -> list[Path]:
        return [path for part in self.parts.values() for path in part.paths]

    def names(self, part: PartName) -> Array:
        """What each case is called: its path within the folder."""
        return np.array([path.relative_to(self.root).as_posix() for path in self.parts[part].paths])


def entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder down to three levels, in order, without hidden ones; not more than MOST."""
    seen = 0
    for place, folders, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < 3 else []
        for name in sorted(name for name in files if not name.startswith(".")):
            seen += 1
            if seen > MOST:
                return
            yield Path(place) / name


def find_cases(folder: Path, reading: Reading, is_case: IsCase, what: str) -> Cases:
    """The cases of a folder: by a table in it that names files, otherwise by class in sub-folders."""
    tables = [folder / reading.labels] if reading.labels else _tables(folder)
    if len(tables) == 1:
        return cases_of_table(_inside(folder, tables[0].name), folder, reading, is_case, what)
    if len(tables) > 1:
        raise InputError(
            f"{folder.name} has {len(tables)} CSV tables; expected one with the columns file and label: choose with"
            " --labels (in Python labels=…)"
        )
    for option in ("label", "group"):
        if getattr(reading, option):
            raise InputError(
                f"--{option} {getattr(reading, option)} was given, but {folder.name} has no table with a column of"
                " files: add one, such as labels.csv with the columns file, label and patient"
            )
    others = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(TABLES)]
    by_class = _has_classes(folder, is_case)
    if len(others) == 1 and not by_class:
        return cases_of_table(_inside(folder, others[0].name), folder, reading, is_case, what)
    if not by_class and any(is_case(path) for path in folder.iterdir()):
        there = f"and {len(others)} tables, none with a column of files" if others else "and no table of labels"
        raise InputError(
            f"{folder.name} holds {what} {there}; expected one sub-folder of {what} per class (then give the folder"
            " above), or a CSV with the columns file and label"
        )
    return cases_by_class(folder, is_case, what)


def _tables(folder: Path) -> list[Path]:
    """The tables of a folder with a column that names files."""
    tables = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(TABLES) and path.is_file()]
    return [path for path in tables if {name.lower() for name in header(path)} & set(FILES)]


def _has_classes(folder: Path, is_case: IsCase) -> bool:
    return any(is_case(path) for depth in ("*/*", "*/*/*") for path in folder.glob(depth))


def cases_by_class(folder: Path, is_case: IsCase, what: str) -> Cases:
    """The cases of sub-folders that are the classes, or of such in ``train``, ``val`` and ``test``."""
    below = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    spelled = {spelling: part for part, spellings in SPELLINGS.items() for spelling in spellings}
    if "train" in below and set(below) <= set(spelled):
        found = {spelled[name]: _by_class(path, folder, is_case, what) for name, path in below.items()}
    else:
        found = {"train": _by_class(folder, folder, is_case, what)}
    names = sorted({label for pairs in found.values() for _, label in pairs})
    if len(names) < 2:
        raise InputError(
            f"{folder.name} has {what} of {len(names)} classes; expected at least two, each in its sub-folder"
        )
    parts = {
        part: ListedCases([path for path, _ in pairs], np.array([names.index(label) for _, label in pairs]))
        for part, pairs in found.items()
    }
    return Cases(folder.resolve().name, folder, parts, tuple(names))


def _by_class(folder: Path, root: Path, is_case: IsCase, what: str) -> list[tuple[Path, str]]:
    found = []
    for path in sorted(folder.glob("*/*")):
        if not path.name.startswith(".") and is_case(path):
            require_inside(path, root)
            found.append((path, path.parent.name))
        elif path.is_dir() and not path.name.startswith(".") and (deeper := _deeper(path, is_case)):
            raise InputError(
                f"{deeper.relative_to(root)} lies deeper than in the sub-folder of its class: move {what} up to there,"
                " other files out of the folder, or add a table with the columns file, label and patient"
            )
    if not found:
        raise InputError(f"{folder.name} has no {what} in sub-folders; expected one sub-folder of {what} per class")
    return found


def _deeper(folder: Path, is_case: IsCase) -> Path | None:
    """The first case in a folder, at any depth down to three levels more."""
    return next((path for path in entries(folder) if is_case(path)), None)


def cases_of_table(path: Path, root: Path, reading: Reading, is_case: IsCase, what: str) -> Cases:
    """The cases that a table names, with their labels, groups and, where a column says so, parts."""
    rows = read_table(path)
    file = column(rows, "", FILES, "file", path)
    if not file:
        rows, file = _headerless(rows, path, root, is_case)
    label = column(rows, str(reading.label), LABELS, "label", path)
    if not file or not label:
        raise InputError(
            f"{path.name} has the columns {shown(rows.columns)}; expected file, label and, where there are some,"
            " patient: name those of the label and the patient with --label and --group"
        )
    rest = rows.drop(columns=[file, label])
    who = column(rest, reading.group, GROUPS, "group", path)
    split = column(rest.drop(columns=who) if who else rest, "", SPLITS, "split", path)
    files = [case_named(root, str(entry), is_case, what) for entry in rows[file]]
    y = complete(rows[label], "label", path)
    groups = complete(rows[who], "group", path) if who else None
    parts: dict[PartName, ListedCases] = {}
    for part, index in _parts(rows[split] if split else None, len(rows), path).items():
        own = None if groups is None else groups[index]
        parts[part] = ListedCases([files[place] for place in index], y[index], own)
    name = path.name.split(".")[0] if path.resolve().parent != root.resolve() else root.resolve().name
    return Cases(name, root, parts)


def _headerless(rows: pd.DataFrame, path: Path, root: Path, is_case: IsCase) -> tuple[pd.DataFrame, str]:
    """A table of two columns without a header, as PhysioNet has them, whose first column names files."""
    if rows.shape[1] == 2:
        first = str(rows.columns[0])
        if _candidates(root, first, is_case):
            bare = read_table(path, names=("file", "label"))
            return bare, "file"
    return rows, ""


def _parts(values: pd.Series | None, count: int, path: Path) -> dict[PartName, Array]:
    if values is None:
        return {"train": np.arange(count)}
    spelled = {spelling: part for part, spellings in SPELLINGS.items() for spelling in spellings}
    words = [str(value).strip().lower() for value in values]
    unknown = sorted(set(words) - set(spelled))
    if unknown or "train" not in {spelled[word] for word in words}:
        raise InputError(
            f"{path.name} has the column {values.name} with {unknown[0] if unknown else words[0]!r}; expected train,"
            " valid and test there, or another name of the column"
        )
    return {
        part: index for part in SPELLINGS if len(index := np.flatnonzero([spelled[word] == part for word in words]))
    }


def _candidates(root: Path, name: str, is_case: IsCase) -> list[Path]:
    """The cases that a name in a table can mean: the file itself, or one with an ending that it lacks."""
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise InputError(f"the label table names {name!r}, which is outside {root.name}: expected files inside it")
    if path.exists():
        return [path] if is_case(path) else []
    return [other for other in sorted(path.parent.glob(f"{path.name}.*")) if is_case(other)] if path.name else []


def case_named(root: Path, name: str, is_case: IsCase, what: str) -> Path:
    """The file that a table names, which must be in the folder and of the right kind."""
    found = _candidates(root, name, is_case)
    if not found and (root / name).exists():
        raise InputError(f"the label table names {name!r}, which is not one of the {what} of {root.name}")
    if not found:
        raise InputError(f"the label table names {name!r}, but {root.name} has no such file")
    require_inside(found[0], root)
    return found[0]


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise InputError(f"labels={name!r} was given, but {folder.name} has no such file")
    require_inside(path, folder)
    return path
