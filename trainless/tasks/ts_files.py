"""Tasks from ``.ts`` files of the UCR and UEA archives: one signal per line, with its class at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array
from trainless.tasks.recordings import Recordings, fill, from_recordings
from trainless.tasks.settings import Reading, reads
from trainless.tasks.weigh import text_lines

SOURCE = InputFormat("ts")
MISSING = ("?", "nan", "NaN", "")


@dataclass
class TsFile:
    """What a ``.ts`` file holds: signals ``(channels, length)``, labels, and how many values were filled in."""

    signals: list[Array] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    values: bool = False
    filled: int = 0


@reads("kind seed size window")
def from_ts(path: Path, reading: Reading) -> Task:
    """A task from ``NAME_TRAIN.ts``, with ``NAME_TEST.ts`` beside it as the test part where it is there.

    Signals of different lengths are recordings (see :mod:`trainless.tasks.recordings`). Missing values inside a signal
    are filled in linearly.
    """
    files, name, notes = _parts(path)
    read = {part: read_ts(file) for part, file in files.items()}
    first = read["train"]
    for part, each in read.items():
        if not each.labels:
            raise InputError(f"{files[part].name} has no labels (@classLabel false): expected a class for every signal")
        if each.filled:
            notes.append(f"{each.filled:,} missing values of {files[part].name} were filled in linearly")
    given = {part: Recordings(each.signals, labels_of(each, first.classes, files[part])) for part, each in read.items()}
    if first.values:
        names: Sequence[str] = ()
    else:
        names = first.classes
        if absent := sorted({*range(len(names))} - {int(code) for each in given.values() for code in each.y}):
            notes.append(f"no signal has the declared class {', '.join(names[code] for code in absent[:5])}")
    return from_recordings(name, given, reading, names=names, notes=notes, source=SOURCE)


def labels_of(each: TsFile, classes: Sequence[str], path: Path) -> Array:
    """The class of each signal by its place among the classes, or its value."""
    if each.values:
        try:
            return np.array([float(label) for label in each.labels])
        except ValueError as error:
            raise InputError(f"{path.name}: {error}, where @targetLabel promises numbers: correct the file") from error
    unknown = sorted(set(each.labels) - set(classes))
    if unknown:
        raise InputError(f"{path.name} has the class {unknown[0]!r}; @classLabel names {', '.join(classes[:6])}")
    return np.array([classes.index(label) for label in each.labels])


def _parts(path: Path) -> tuple[dict[PartName, Path], str, list[str]]:
    """The files of both parts, the set's name, and which test part was found."""
    stem = re.sub(r"\.ts(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    if stem.upper().endswith("_TEST"):
        raise InputError(f"{path.name} is a test part; give the training part {stem[:-5]}_TRAIN.ts, which finds it")
    files: dict[PartName, Path] = {"train": path}
    if not stem.upper().endswith("_TRAIN"):
        return files, stem, []
    name, word = stem[:-6], "TEST" if stem.endswith("_TRAIN") else "test"
    for ending in (".ts", ".ts.gz"):
        beside = path.with_name(f"{name}_{word}{ending}")
        if "test" not in files and beside.is_file():
            files["test"] = beside
    if "test" in files:
        return files, name, [f"{files['test'].name} beside {path.name} is the test part"]
    return files, name, [f"there is no {name}_{word}.ts beside {path.name}: a test part is cut off"]


def read_ts(path: Path) -> TsFile:
    """Read a ``.ts`` file as the archives define it; time stamps are refused."""
    lines = text_lines(path)
    found = TsFile()
    header = _header(lines, path)
    if header.get("timestamps", "false").lower() == "true":
        raise InputError(f"{path.name} has time stamps (@timeStamps true), which are not read: give plain values")
    labelled, *classes = header.get("classlabel", "false").split() or ["false"]
    found.values = header.get("targetlabel", "false").lower().startswith("true")
    found.classes = tuple(classes)
    has_label = found.values or labelled.lower() == "true"
    channels = 0
    for number, line in lines:
        parts = line.split(":")
        if has_label:
            found.labels.append(parts.pop().strip())
        channels = channels or len(parts)
        if len(parts) != channels or not parts:
            raise InputError(f"line {number} of {path.name} has {len(parts)} channels; the first one has {channels}")
        found.signals.append(_signal(parts, number, path, found))
    if not found.signals:
        raise InputError(f"{path.name} has no signals after @data: get or save it again")
    declared = header.get("dimensions", header.get("dimension", ""))
    if declared.isdigit() and int(declared) != channels:
        raise InputError(f"{path.name} declares {declared} channels and has {channels}: get or save it again")
    return found


def _header(lines: Iterator[tuple[int, str]], path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, line in lines:
        if line.startswith("#"):
            continue
        if not line.startswith("@"):
            break
        word, _, value = line[1:].partition(" ")
        if word.lower() == "data":
            return found
        found[word.lower()] = value.strip()
    raise InputError(f"{path.name} is no .ts file: expected lines with @problemName, …, @data before the signals")


def _signal(parts: Sequence[str], number: int, path: Path, found: TsFile) -> Array:
    """The channels of one line, missing values filled in; a shorter channel is an error."""
    rows = []
    for part in parts:
        texts = part.split(",")
        try:
            with np.errstate(over="ignore"):  # infinite values are refused later
                values = [np.nan if text.strip() in MISSING else float(text) for text in texts]
                rows.append(np.array(values).astype(np.float32))
        except ValueError as error:
            raise InputError(f"line {number} of {path.name} is no signal ({error}): correct or remove it") from error
    if len({len(row) for row in rows}) > 1:
        lengths = ", ".join(str(len(row)) for row in rows[:6])
        raise InputError(f"line {number} of {path.name} has channels of different lengths ({lengths}): cut them")
    signal = np.stack(rows)
    gaps = np.isnan(signal)
    if gaps.any():
        found.filled += fill(signal, gaps, f"line {number} of {path.name}")
    return signal
