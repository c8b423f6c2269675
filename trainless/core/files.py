"""Files that are complete or absent, and strict JSON: the one way in which anything is written."""

from __future__ import annotations

import collections.abc
import json
import math
import os
import types
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.opening import folder_at, open_file, read_bytes, sync_folder
from trainless.core.processes import require_room
from trainless.core.text import in_a_sentence, one_line, undamaged
from trainless.core.types import Json

T = TypeVar("T")
DOCUMENT = 32  # times the bytes of JSON that it may take in memory


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file beside ``path`` and put it in its place once it is complete and on the disk.

    At every moment the old file is there or the new one, never half of it, also after a loss of power. Folders that are
    missing are made.
    """
    beside = f".{path.name}.{os.getpid()}{path.suffix}"
    try:
        with folder_at(path.parent, make=True) as folder:
            try:
                with suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with os.fdopen(os.open(beside, how, 0o666, dir_fd=folder), "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                sync_folder(folder)
            finally:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): free some space or give another place"
        ) from error


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a whole file in one step."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, data: Mapping[str, Any], indent: int = 1) -> None:
    """Write strict JSON in one step."""
    write_atomic(path, json.dumps(data, indent=indent, allow_nan=False) + "\n")


def read_json(path: Path, remedy: str = "give another folder", *, check: Callable[[Json], bool] | None = None) -> Json:
    """Read a JSON object.

    The error says what to do by the ``remedy``; ``check`` tells whether it is of a kind that this version knows.
    """
    with in_a_sentence(lambda error: f"{path} cannot be read ({one_line(error)}): {remedy}"):
        found = parsed(read_bytes(path, growth=DOCUMENT).decode("utf-8"))
    if not isinstance(found, dict) or (check is not None and not check(found)):
        raise InputError(f"{path} is not of a kind that this version of trainless knows: {remedy}")
    return found


def read_arrays(path: Path, remedy: str = "give another folder") -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an ``.npz`` file, weighed before; never a pickle."""
    with undamaged(path, remedy), open_file(path) as file:
        return arrays_of(file, str(path), remedy)


def arrays_of(file: BinaryIO, what: str, remedy: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an open ``.npz`` file; raises anything where it is none."""
    require_unpacked(file, what, remedy)
    file.seek(0)
    with np.load(file, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def require_unpacked(file: BinaryIO, what: str, remedy: str) -> None:
    """Refuse an archive that would be larger than the memory once it is unpacked."""
    with zipfile.ZipFile(file) as archive:
        require_room(sum(member.file_size for member in archive.infolist()), f"{what} unpacked", remedy)


def parsed(text: str) -> Any:
    """Strict JSON: raises ValueError where a number is not finite.

    Example:
        >>> parsed("[1, 2.5]")
        [1, 2.5]
        >>> parsed("[1e999]")
        Traceback (most recent call last):
        ValueError: 1e999 is no number of JSON's
    """
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    if math.isfinite(found := float(text)):
        return found
    raise ValueError(f"{text} is no number of JSON's")


def strict(value: Any) -> Any:
    """Anything made of numbers, arrays and dataclasses as strict JSON; what is not finite is null.

    Example:
        >>> strict({"auc": (0.5, math.nan), "n": np.arange(2)})
        {'auc': [0.5, None], 'n': [0, 1]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return strict(asdict(value))
    if isinstance(value, Mapping):
        return {name: strict(each) for name, each in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return strict(value.tolist())
    if isinstance(value, (list, tuple)):
        return [strict(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def number(value: float) -> float | str | None:
    """A float as strict JSON that loses nothing: NaN is null, infinities are text."""
    if math.isfinite(value):
        return float(value)
    return None if math.isnan(value) else str(float(value))


def unnumber(value: float | str | None) -> float:
    """The float that :func:`number` wrote."""
    return math.nan if value is None else float(value)


def numbers(values: Iterable[float]) -> list[float | str | None]:
    """Floats as strict JSON; see :func:`number`."""
    return [number(value) for value in values]


def unnumbers(values: Iterable[float | str | None]) -> list[float]:
    """The floats that :func:`numbers` wrote."""
    return [unnumber(value) for value in values]


def data_directory() -> Path:
    """The directory of real data sets and tables: ``$TRAINLESS_DATA``, else ``trainless/data`` in the user's cache."""
    given = os.environ.get("TRAINLESS_DATA")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("trainless")) / "data"


def to_json(value: Any) -> Any:
    """Anything made of numbers and dataclasses as strict JSON that loses nothing; :func:`from_json` reads it again."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        if all(isinstance(name, str) for name in value):
            return {name: to_json(each) for name, each in value.items()}
        return [[to_json(name), to_json(each)] for name, each in value.items()]  # keys that are no text
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, (list, tuple, collections.deque, frozenset)):
        return [to_json(each) for each in (sorted(value) if isinstance(value, frozenset) else value)]
    return number(value) if isinstance(value, float) else value


def from_json(kind: type[T], data: Any) -> T:
    """Make a dataclass again from what :func:`to_json` made of it, by the types of its fields.

    Example:
        >>> from trainless.core.target import Target
        >>> from_json(Target, to_json(Target("binary", 2, ("no", "yes")))).names
        ('no', 'yes')
    """
    made: T = _restored(kind, data)
    return made


def _restored(kind: Any, value: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        return kind(**{name: _restored(hints.get(name, Any), each) for name, each in value.items()})
    if origin is types.UnionType:
        return None if value is None else _restored(next(arg for arg in args if arg is not types.NoneType), value)
    if origin in (tuple, collections.abc.Mapping) and not isinstance(value, list if origin is tuple else dict):
        raise TypeError(f"{value!r} is no {origin.__name__}")
    if origin is tuple:
        kinds = args[:1] * len(value) if args[-1] is Ellipsis else args
        return tuple(_restored(each, part) for each, part in zip(kinds, value, strict=True))
    if origin in (list, collections.deque, frozenset):
        return origin(_restored(args[0], each) for each in value)
    if origin in (dict, collections.abc.Mapping):
        pairs = value.items() if isinstance(value, dict) else value
        return {_restored(args[0], name): _restored(args[1], each) for name, each in pairs}
    if origin in (np.ndarray, npt.NDArray):  # from Python 3.12 on NumPy's alias stands for itself
        return np.array(value, dtype=np.float64)
    if kind is Any:
        return tuple(_restored(Any, each) for each in value) if isinstance(value, list) else value
    if kind is float and not isinstance(value, bool):
        return unnumber(value)
    if isinstance(kind, type) and not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value
