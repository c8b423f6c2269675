"""Tasks from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Array, Reading, Samples


def from_arrays(
    arrays: Any,
    *,
    name: str = "arrays",
    kind: str = "",
    dims: int = 0,
    channels: str = "",
    label: str | int = "",
    seed: int = 0,
) -> Task:
    """A task from ``(x, y)`` or ``(x, y, groups)``: arrays, CPU tensors or nested lists.

    Args:
        arrays: Inputs whose first axis counts the samples, their labels, and optionally who each came from.
        name: What to call it.
        kind: See :class:`~trainless.tasks.reading.Reading`, as for the rest.
        dims: Spatial dimensions.
        channels: Where the channel axis is.
        label: The column, where labels have several.
        seed: Of the split.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 32, 32, 3))
        >>> made = from_arrays((x, np.arange(60) % 3))
        >>> made.input_shape, made.dims, made.target.outputs
        ((3, 32, 32), 2, 3)
    """
    if not isinstance(arrays, (tuple, list)) or len(arrays) not in (2, 3):
        raise InputError(
            f"a task from {_describe(arrays)} was asked for; expected a registered name, a path,"
            " (x, y) or (x, y, groups)"
        )
    x, y, *rest = (_array(what, value) for what, value in zip(("x", "y", "groups"), arrays, strict=False))
    reading = Reading(kind, dims, channels, label, seed)
    return assemble(name, {"train": Samples(x, y, rest[0] if rest else None)}, reading)


def _describe(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} arrays"
    return f"a value of type {type(value).__name__}"


def _array(what: str, value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{what} cannot be read as one array ({str(error).splitlines()[0]}): expected samples of one size,"
            " in the computer's memory"
        ) from error
