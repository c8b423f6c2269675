"""Tasks: built-in data, real data from the data directory, and the user's own files and arrays."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from trainless.core.errors import InputError
from trainless.core.registry import Registry

if TYPE_CHECKING:
    from trainless.core.task import Task

__all__ = ["descriptions", "registry", "task"]

Factory = Callable[..., "Task"]

FLAT = (
    "path",
    "chest",
    "derma",
    "oct",
    "pneumonia",
    "retina",
    "breast",
    "blood",
    "tissue",
    "organa",
    "organc",
    "organs",
)
SOLID = ("organ", "nodule", "adrenal", "fracture", "vessel", "synapse")
MEDMNIST_2D = tuple(f"{name}mnist" for name in FLAT)
MEDMNIST_3D = tuple(f"{name}mnist3d" for name in SOLID)


def _medmnist(name: str, *, label: str | int = "") -> Task:
    from trainless.tasks.datasets import medmnist

    return medmnist(name, label=label)


registry: Registry[Factory] = Registry("task", "tasks")
registry.add("digits", "trainless.tasks.builtin:digits")
registry.add("ecg-sim", "trainless.tasks.builtin:ecg_sim")
registry.add("nodule-sim", "trainless.tasks.builtin:nodule_sim")
registry.add("tiny-text", "trainless.tasks.builtin:tiny_text")
registry.add("cinc2017", "trainless.tasks.datasets:cinc2017")
registry.add("cifar10", "trainless.tasks.datasets:cifar10")
for _name in MEDMNIST_2D + MEDMNIST_3D:
    registry.add(_name, partial(_medmnist, _name))

#: One line per task that comes with trainless, readable without importing anything heavy.
descriptions: Mapping[str, str] = {
    "digits": "scikit-learn's real handwritten digits, 8×8, 10 classes; no download",
    "ecg-sim": "simulated single-lead rhythms, 1D, 4 classes; no download",
    "nodule-sim": "simulated volumes with or without a nodule, 3D, binary; no download",
    "tiny-text": "sentences of a small grammar, tokens; no download",
    "cinc2017": "CinC 2017 single-lead ECG, windows split by record, 4 classes; data directory",
    "cifar10": "CIFAR-10 photographs, 32×32, 10 classes; data directory",
    **{name: f"MedMNIST {name}, 2D images; data directory" for name in MEDMNIST_2D},
    **{name: f"MedMNIST {name}, 3D volumes; data directory" for name in MEDMNIST_3D},
}


def task(source: Any, **options: Any) -> Task:
    """Make a task from a registered name, a file or folder, or arrays.

    Args:
        source: A name (``"digits"``, ``"medmnist:bloodmnist_64"``), ``"noise:3x32x32:10"`` for noise of a shape with
            so many classes, a path (``.npz``, ``.npy``, ``.csv``, text, a
            folder of images by class, a folder of NIfTI volumes with a label table), or ``(x, y)`` or
            ``(x, y, groups)``.
        **options: The factory's own; for the user's data those of :class:`~trainless.tasks.reading.Reading`
            (``kind``, ``dims``, ``channels``, ``label``, ``seed``) and of the file's loader (``size``, ``group``, …).

    Example:
        >>> digits = task("digits")
        >>> digits.input_shape, digits.target.kind, digits.target.outputs
        ((1, 8, 8), 'multiclass', 10)
    """
    if isinstance(source, str) and source.startswith("noise:"):
        check_options(source, options, ())
        return _noise(source)
    if isinstance(source, str) and source.startswith("medmnist:"):
        return _medmnist(source.removeprefix("medmnist:"), **_known(_medmnist, source, options))
    if isinstance(source, str) and source in registry:
        factory = registry[source]
        return factory(**_known(factory, source, options))
    if isinstance(source, (str, os.PathLike)):
        from trainless.tasks.paths import from_path

        return from_path(source, options)
    from trainless.tasks.assemble import from_arrays

    return from_arrays(source, **_known(from_arrays, "a task from arrays", options))


def _noise(text: str) -> Task:
    from trainless.core.task import Task

    _, shape, *classes = text.split(":")
    try:
        sizes = [int(part) for part in shape.split("x")]
        return Task.noise(sizes, *[int(part) for part in classes[:2]])
    except (TypeError, ValueError):
        raise InputError(f"task {text!r} was given; expected noise:SHAPE:CLASSES as in noise:3x32x32:10") from None


def _known(factory: Factory, what: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options as they are, or an error that lists what there is instead."""
    parameters = inspect.signature(factory).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        check_options(what, options, [p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
    return options


def check_options(what: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise an error for the first option that is not allowed."""
    names = sorted(allowed)
    for option in options:
        if option not in names:
            raise InputError(f"{what} has no option {option!r}; it has: {', '.join(names) or 'none'}")
