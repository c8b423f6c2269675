"""Other sizes: of signals by resampling, of images and volumes by averages and linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import physical_memory
from trainless.core.task import Part, Rows, Task
from trainless.core.types import Array
from trainless.tasks.reading import parse_size

PIECE = 2**23  # values that are resized at once
LARGEST = 32  # times as wide as they are: what inputs may become by interpolation
FINEST = 1000  # greatest denominator of a resampling


def resampled(signal: Array, up: int, down: int) -> Array:
    """A signal ``(…, length)`` at ``up / down`` of its rate, low-pass filtered so that nothing is aliased."""
    if up == down:
        return signal
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(np.asarray(signal, np.float32), up, down, axis=-1, padtype="line"), np.float32)


def resize(x: Array | Rows, size: tuple[int, ...]) -> Array:
    """Samples ``(N, C, *spatial)`` in another size.

    Signals are resampled after a low-pass filter. Images and volumes are averaged over what falls into a new pixel
    along axes that shrink, and interpolated linearly along those that grow.

    Example:
        >>> resize(np.arange(16.0).reshape(1, 1, 4, 4), (2, 2))[0, 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    if tuple(x.shape[2:]) == size:
        return np.asarray(x[:])
    needed, there = 4 * len(x) * x.shape[1] * int(np.prod(size)), physical_memory()
    if needed > there:
        raise InputError(
            f"size={'x'.join(map(str, size))} would take {needed / 1e9:,.1f} GB, but this machine has"
            f" {there / 1e9:,.1f} GB: give a smaller --size"
        )
    require_detail(size, tuple(x.shape[2:]))
    step = max(1, PIECE // max(1, int(np.prod(x.shape[1:]))))
    one = _signals if len(size) == 1 else _grid
    return np.concatenate([one(np.asarray(x[at : at + step]), size) for at in range(0, len(x), step)])


def suggested(sizes: Sequence[tuple[int, ...]]) -> int:
    """A size to propose: the least side of all, at most one that trains in minutes.

    Example:
        >>> suggested([(1983, 2100), (2000, 1990)]), suggested([(9, 9), (12, 20)]), suggested([(512, 512, 300)])
        (224, 9, 64)
    """
    return min(64 if len(sizes[0]) == 3 else 224, *(min(size) for size in sizes))


def require_detail(size: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Raise InputError where images or volumes would become far larger than they are, which adds nothing.

    Example:
        >>> require_detail((10000, 10000), (28, 28))
        Traceback (most recent call last):
        trainless.core.errors.InputError: size=10000x10000 was given for inputs of 28x28; expected at most 896x896
    """
    most = tuple(LARGEST * side for side in own)
    if len(own) > 1 and any(new > limit for new, limit in zip(size, most, strict=True)):
        shown = ("x".join(map(str, each)) for each in (size, own, most))
        raise InputError("size={} was given for inputs of {}; expected at most {}".format(*shown))


def _signals(x: Array, size: tuple[int, ...]) -> Array:
    ratio = Fraction(size[0], x.shape[2]).limit_denominator(FINEST)
    found = resampled(x, max(1, ratio.numerator), ratio.denominator)
    if found.shape[2] < size[0]:  # by what rounding the ratio leaves
        found = np.concatenate([found, np.repeat(found[:, :, -1:], size[0] - found.shape[2], axis=2)], axis=2)
    return found[:, :, : size[0]]


def _grid(x: Array, size: tuple[int, ...]) -> Array:
    import torch
    import torch.nn.functional as F

    values = torch.from_numpy(np.ascontiguousarray(x, np.float32))
    smaller = tuple(min(old, new) for old, new in zip(x.shape[2:], size, strict=True))
    values = F.interpolate(values, smaller, mode="area")
    if smaller != size:
        mode = "bilinear" if len(size) == 2 else "trilinear"
        values = F.interpolate(values, size, mode=mode, align_corners=False)
    return np.asarray(values.numpy())


def resized(task: Task, size: str | int | tuple[int, ...]) -> Task:
    """A task with its inputs in another size."""
    from trainless.tasks.assemble import moments

    if task.train is None or task.vocabulary:
        raise InputError(f"size={size!r} was given, but {task.name} has {'tokens' if task.vocabulary else 'no data'}")
    wanted = parse_size(size, task.dims)
    if task.input_shape[1:] == wanted:
        return task

    def part(held: Part | None) -> Part | None:
        return None if held is None else replace(held, x=resize(held.x, wanted))

    train = replace(task.train, x=resize(task.train.x, wanted))
    mean, std = moments(train.x)
    safe = np.where(std <= 1e-7 * np.abs(mean), 1.0, std)
    return replace(
        task,
        input_shape=(task.input_shape[0], *wanted),
        train=train,
        valid=part(task.valid),
        test=part(task.test),
        mean=tuple(mean.tolist()),
        std=tuple(safe.tolist()),
        source=replace(task.source, resized=True),
        fingerprint="",
    )


def with_classes(task: Task, classes: tuple[str, ...]) -> Task:
    """A task whose classes have these names; where they are the names already, in this order.

    Example:
        >>> from trainless.tasks import task
        >>> task(([[1.0], [2.0]] * 10, ["b", "a"] * 10), classes=("b", "a")).target.names
        ('b', 'a')
    """
    known = task.target.names or tuple(map(str, range(task.target.classes)))
    if task.target.kind not in ("binary", "multiclass"):
        raise InputError(f"classes={','.join(classes)} were given, but {task.name} predicts {task.target.kind}")
    if len(set(classes)) != len(classes) or len(classes) != len(known):
        raise InputError(
            f"classes={','.join(classes)} were given; expected {len(known)} different names, for {', '.join(known[:8])}"
        )
    if set(classes) == set(known):
        place = np.array([classes.index(name) for name in known])

        def part(held: Part | None) -> Part | None:
            return None if held is None else replace(held, y=place[np.asarray(held.y)])

        target = replace(task.target, names=classes)
        parts = {"train": part(task.train), "valid": part(task.valid), "test": part(task.test)}
        return replace(task, target=target, fingerprint="", **parts)  # type: ignore[arg-type]
    if shared := sorted(set(classes) & set(known)):
        raise InputError(
            f"classes={','.join(classes)} were given, of which the data have {', '.join(shared)}; expected all of"
            f" {', '.join(known[:8])} in the order that you want, or other names for all"
        )
    notes = task.notes
    if not all(name.lstrip("-").replace(".", "", 1).isdigit() for name in known):
        notes = (*notes, f"classes {', '.join(known[:8])} are called {', '.join(classes[:8])} in this order")
    return replace(task, target=replace(task.target, names=classes), notes=notes, fingerprint="")
