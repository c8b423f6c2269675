"""Tasks: built-in data, real data from the data directory, and the user's own files and arrays."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainless.core.errors import InputError, UnknownName
from trainless.core.registry import Registry
from trainless.tasks.settings import Reading

if TYPE_CHECKING:
    from trainless.core.task import Task

__all__ = ["descriptions", "registry", "task"]

Loader = Callable[..., "Task"]
EVERYWHERE = frozenset({"size", "classes"})  # options of every task
FLAT = "path chest derma oct pneumonia retina breast blood tissue organa organc organs"
SOLID = "organ nodule adrenal fracture vessel synapse"
READABLE = (
    ".npz, .npy, .csv, .tsv, .parquet, .ts, .txt, .tokens, or a folder of images, NIfTI, DICOM, WFDB or EDF files by"
    " class or with a table of labels"
)


def _medmnist(name: str, *, label: str | int = "") -> Task:
    from trainless.tasks.datasets import medmnist

    return medmnist(name, label=label)


registry: Registry[Loader] = Registry("task", "tasks")
#: One line per task that comes with trainless, readable without importing anything heavy.
descriptions: dict[str, str] = {}
for _name, _where, _text in (
    ("digits", "builtin:digits", "scikit-learn's real handwritten digits, 8×8, 10 classes; no download"),
    ("ecg-sim", "builtin:ecg_sim", "simulated single-lead rhythms, 1D, 4 classes; no download"),
    ("nodule-sim", "builtin:nodule_sim", "simulated volumes with or without a nodule, 3D, binary; no download"),
    ("tiny-text", "builtin:tiny_text", "sentences of a small grammar, tokens; no download"),
    ("cinc2017", "datasets:cinc2017", "CinC 2017 single-lead ECG, answers by recording, 4 classes; data directory"),
    ("cinc2017-windows", "datasets:cinc2017_windows", "the same, each window of 1,000 samples a case; data directory"),
    ("cifar10", "datasets:cifar10", "CIFAR-10 photographs, 32×32, 10 classes; data directory"),
    ("imagenet", "datasets:imagenet", "a sample of ImageNet-1k's photographs, 224×224, 1,000 classes; data directory"),
):
    registry.add(_name, f"trainless.tasks.{_where}")
    descriptions[_name] = _text
for _words, _ending, _text in ((FLAT, "mnist", "2D images"), (SOLID, "mnist3d", "3D volumes")):
    for _name in (f"{_word}{_ending}" for _word in _words.split()):
        registry.add(_name, partial(_medmnist, _name))
        descriptions[_name] = f"MedMNIST {_name}, {_text}; data directory"

_loaders: Registry[Loader] = Registry("loader", "loaders")
for _endings, _where in (
    (".npz", "numpy_files:from_npz"),
    (".npy", "numpy_files:from_npy"),
    (".csv .tsv .parquet", "table:from_table"),
    (".ts", "ts_files:from_ts"),
    (".txt .text .tokens", "text:from_text"),
):
    for _name in _endings.split():
        _loaders.add(_name, f"trainless.tasks.{_where}")


def task(source: Any, *, name: str = "", **options: Any) -> Task:
    """Make a task from a registered name, a file or folder, or arrays.

    Args:
        source: A name (``"digits"``, ``"medmnist:bloodmnist_64"``), ``"noise:3x32x32:10"`` for noise of a shape with
            so many classes, a path (``.npz``, ``.npy``, ``.csv``, text, a
            folder of images by class, a folder of NIfTI volumes with a label table), or ``(x, y)`` or
            ``(x, y, groups)``.
        name: What to call the task of your own data; the file's or folder's name otherwise.
        **options: The factory's own; for the user's data those of :class:`~trainless.tasks.settings.Reading`
            (``label``, ``group``, ``size``, …), as far as the kind of data has them.

    Example:
        >>> digits = task("digits")
        >>> digits.input_shape, digits.target.kind, digits.target.outputs
        ((1, 8, 8), 'multiclass', 10)
    """
    if isinstance(source, str) and source.startswith("noise:"):
        made = _loaded(partial(_noise, source), source, (), options)
    elif isinstance(source, str) and source.startswith("medmnist:"):
        made = _loaded(partial(_medmnist, source.removeprefix("medmnist:")), source, (), options)
    elif isinstance(source, str) and source in registry:
        made = _loaded(registry[source], source, (), options)
    elif isinstance(source, (str, os.PathLike)):
        made = _from_path(source, options)
    else:
        from trainless.tasks.assemble import from_arrays

        made = _loaded(from_arrays, "a task from arrays", (source,), options)
    return replace(made, name=name) if name else made


def _noise(text: str) -> Task:
    from trainless.core.task import Task

    _, shape, *classes = text.split(":")
    try:
        sizes = [int(part) for part in shape.split("x")]
        return Task.noise(sizes, *[int(part) for part in classes[:2]])
    except (TypeError, ValueError):
        raise InputError(f"task {text!r} was given; expected noise:SHAPE:CLASSES as in noise:3x32x32:10") from None


def _loaded(loader: Loader, what: str, source: tuple[Any, ...], options: Mapping[str, Any]) -> Task:
    """Call a loader with its own options and with those of the reading, or say which options there are."""
    parameters = inspect.signature(loader).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return loader(*source, **options)
    own = {name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    takes = "reading" in parameters
    forced: frozenset[str] = getattr(loader, "reads", frozenset()) if takes else frozenset()
    allowed = sorted(own | forced | EVERYWHERE | ({"name"} if source else set()))
    for option in options:
        if option not in allowed:
            raise InputError(f"{what} has no option {option!r}; it has: {', '.join(allowed)}")
    asked = Reading(**{name: value for name, value in options.items() if name in forced | (EVERYWHERE - own)})
    reading = [replace(asked, classes=())] if takes else []
    made = loader(*source, *reading, **{name: value for name, value in options.items() if name in own})
    return _adjusted(made, replace(asked, size="") if "size" in own | forced else asked)


def _adjusted(made: Task, asked: Reading) -> Task:
    """The task in the size and with the class names that were asked for, where its loader does not know of them."""
    if not asked.size and not asked.classes:
        return made
    from trainless.tasks.resize import resized, with_classes

    made = resized(made, asked.size) if asked.size else made
    return with_classes(made, asked.classes) if asked.classes else made


def _from_path(source: str | os.PathLike[str], options: dict[str, Any]) -> Task:
    """Read a file or folder by the loader that its kind has."""
    path = Path(source)
    if not path.exists():
        return _not_there(path, source, options)
    if path.name in ("", ".."):
        path = path.resolve()
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: change its permissions")
    from trainless.tasks.weigh import readable, require_plain

    loader = _folder_loader(path) if path.is_dir() else _file_loader(path)
    if not path.is_dir():
        require_plain(path)
    try:
        with readable(path, "data"):
            return _loaded(loader, path.name, (path,), options)
    except InputError as error:
        if path.name in str(error):
            raise
        raise InputError(f"{path.name}: {error}") from error


def _not_there(path: Path, source: str | os.PathLike[str], options: dict[str, Any]) -> Task:
    """A MedMNIST file by its bare name, or the error."""
    from trainless.core.files import data_directory

    bare = isinstance(source, str) and path.name == source and not path.suffix
    if bare and "mnist" in path.name and (data_directory() / "medmnist" / f"{path.name}.npz").is_file():
        return _loaded(partial(_medmnist, path.name), path.name, (), options)
    if bare:
        try:
            opened = registry[str(source)]
        except UnknownName as error:
            raise UnknownName(f"there is no file or folder {source}, and {error}") from error
        return opened()
    raise InputError(f"there is no file or folder {path}: check the path, or give a name (trainless list tasks)")


def _file_loader(path: Path) -> Loader:
    suffix = path.suffixes[-2].lower() if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix.lower()
    if suffix in (".nii", ".dcm", ".hea", ".edf", ".bdf"):
        raise InputError(f"{path.name} is one case; give the folder that holds all of them and a CSV with file,label")
    if suffix not in _loaders:
        raise InputError(f"{path.name} is of a kind that no loader reads; expected {READABLE}")
    return _loaders[suffix]


def _folder_loader(folder: Path) -> Loader:
    from trainless.tasks.folders import from_folder, kind_of
    from trainless.tasks.text import from_text, text_files

    if kind_of(folder) is not None:
        return from_folder
    if text_files(folder):
        return from_text
    if any((folder / name).is_file() for name in ("run.json", "settings.json")):
        raise InputError(f"{folder.name} is the folder of a run; expected data: give the folder that holds your cases")
    raise InputError(f"the folder {folder.name} holds nothing that a loader reads; expected {READABLE}")
