"""Files that are complete or absent, and strict JSON: the one way in which anything is written."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Json


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file beside ``path`` and put it in its place once it is complete and on the disk.

    At every moment the old file is there or the new one, never half of it.

    Raises:
        InputError: It cannot be written, such as on a full or read-only disk.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}): free some space or give another place"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a whole file in one step."""
    with replacing(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, data: Mapping[str, Any], indent: int = 1) -> None:
    """Write strict JSON in one step."""
    write_atomic(path, json.dumps(data, indent=indent, allow_nan=False) + "\n")


def read_json(path: Path, remedy: str = "give another folder", *, check: Callable[[Json], bool] | None = None) -> Json:
    """Read a JSON object.

    Args:
        path: The file.
        remedy: What to do where it cannot be read.
        check: Whether it is of a kind that this version knows.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): {remedy}") from error
    if not isinstance(found, dict) or (check is not None and not check(found)):
        raise InputError(f"{path} is not of a kind that this version of trainless knows: {remedy}")
    return found


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
    """A float as strict JSON that loses nothing: NaN is null, infinities are text.

    Example:
        >>> number(math.nan), number(-math.inf), unnumber(number(0.1))
        (None, '-inf', 0.1)
    """
    if math.isfinite(value):
        return float(value)
    return None if math.isnan(value) else str(float(value))


def unnumber(value: float | str | None) -> float:
    """The float that :func:`number` wrote."""
    return math.nan if value is None else float(value)


def numbers(values: Iterable[float]) -> list[float | str | None]:
    """Floats as strict JSON."""
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
