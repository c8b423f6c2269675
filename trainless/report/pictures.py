"""Samples as they are shown: a trace of a signal, an image, slices of a volume.

What is kept of a sample for a report is small, whatever its size: tiles of 8-bit pixels, or the least and the greatest
value of every stretch of a signal. ``shown`` holds ``counts`` (parts × classes) or ``edges`` and ``counts`` of values,
``examples`` with ``examples_y``, ``cases_x`` with ``cases`` (which test samples they are).
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.task import Part, Task
from trainless.core.types import Bytes, Floats
from trainless.report.chart import svg
from trainless.report.markup import Markup, joined, short, tag

EXAMPLES, CASES, BINS = 10, 9, 24
STRETCHES, LEADS, TILES, PIXELS = 400, 12, 5, 160
_WIDE, _HIGH = 320.0, 120.0


def shown_of(task: Task, cases: npt.NDArray[np.integer]) -> dict[str, npt.NDArray[Any]]:
    """What a report shows of the data: how many of what, an example of each class, and some cases of the test part."""
    parts = [task.train, task.valid, task.test]
    found: dict[str, npt.NDArray[Any]] = {}
    train = task.part("train")
    y = np.asarray(train.y)
    if task.target.kind == "regression":
        first = y.reshape(len(y), -1)[:, 0].astype(np.float64)
        found["edges"] = np.histogram_bin_edges(first, BINS)
        columns = [np.zeros(0) if p is None else np.asarray(p.y, np.float64).reshape(len(p), -1)[:, 0] for p in parts]
        found["counts"] = np.stack([np.histogram(column, found["edges"])[0] for column in columns])
        chosen = np.argsort(first, kind="stable")[np.linspace(0, len(y) - 1, min(len(y), 6)).round().astype(int)]
    else:
        held = [np.zeros(0, np.int64) if part is None else np.asarray(part.y, np.int64) for part in parts]
        found["counts"] = np.stack([np.bincount(column, minlength=task.target.outputs) for column in held])
        firsts = np.unique(y, return_index=True)[1]
        chosen = firsts[:EXAMPLES]
    found["examples"], found["examples_y"] = _reduced(train, chosen, task.dims), y[chosen]
    if task.test is not None and len(cases):
        found["cases"], found["cases_x"] = np.asarray(cases), _reduced(task.test, cases, task.dims)
    return found


def _reduced(part: Part, index: npt.NDArray[np.integer], dims: int) -> npt.NDArray[Any]:
    """One sample after the other, so that a memory-mapped part is never read whole."""
    samples = [np.asarray(part.x[np.array([place])], np.float64)[0] for place in index]
    return np.stack([tiles(sample) if dims >= 2 else trace(sample.reshape(-1, sample.shape[-1])) for sample in samples])


def trace(signal: Floats) -> Floats:
    """A signal ``(leads, length)`` as the least and the greatest value of each of up to 400 stretches, in turn.

    Example:
        >>> trace(np.arange(4.0).reshape(1, 4)).tolist()
        [[0.0, 1.0, 2.0, 3.0]]
        >>> trace(np.arange(8000.0).reshape(1, 8000)).shape
        (1, 800)
    """
    signal = signal[:LEADS]
    if signal.shape[1] <= 2 * STRETCHES:
        return signal
    ends = np.linspace(0, signal.shape[1], STRETCHES + 1).astype(int)[:-1]
    low, high = np.minimum.reduceat(signal, ends, axis=1), np.maximum.reduceat(signal, ends, axis=1)
    return np.stack([low, high], axis=2).reshape(len(signal), -1)


def tiles(sample: Floats) -> Bytes:
    """An image or a volume as 8-bit tiles ``(tiles, height, width, 1 or 3)``.

    An image of three channels is one tile in colour, of any other number a grey tile each, five at most; a volume is
    five slices along its first axis, of its first channel. Grey levels run from the 1st to the 99th percentile.

    Example:
        >>> tiles(np.zeros((1, 8, 8))).shape, tiles(np.zeros((3, 9, 8))).shape, tiles(np.zeros((1, 16, 8, 8))).shape
        ((1, 8, 8, 1), (1, 9, 8, 3), (5, 8, 8, 1))
    """
    if sample.ndim == 4:
        cuts = np.linspace(0, sample.shape[1] - 1, min(TILES, sample.shape[1]) + 2).round().astype(int)[1:-1]
        stack = sample[0, cuts][..., None]
    elif len(sample) == 3:
        stack = np.moveaxis(sample, 0, -1)[None]
    else:
        stack = sample[:TILES, ..., None]
    step = max(1, -(-max(stack.shape[1:3]) // PIXELS))
    stack = _thinned(stack, step)
    low, high = np.percentile(stack, [1, 99]) if stack.min() < stack.max() else (stack.min(), stack.max())
    if not low < high:
        low, high = float(stack.min()), float(stack.max())
    scaled = (stack - low) / (high - low) if low < high else np.full_like(stack, 0.5)
    return (255 * scaled.clip(0, 1)).round().astype(np.uint8)


def _thinned(stack: Floats, step: int) -> Floats:
    """The mean of squares of ``step`` × ``step`` pixels; what is left at the edges goes."""
    if step == 1:
        return stack
    count, high, wide, channels = stack.shape
    high, wide = max(1, high // step), max(1, wide // step)
    cut = stack[:, : high * step, : wide * step]
    blocks = cut.reshape(count, high, cut.shape[1] // high, wide, cut.shape[2] // wide, channels)
    return np.asarray(blocks.mean((2, 4)))


def picture(kept: npt.NDArray[Any], words: str) -> Markup:
    """A kept sample as markup; the words say what it is to those who cannot see it."""
    return _traces(kept, words) if kept.ndim == 2 else _images(kept, words)


def _images(kept: Bytes, words: str) -> Markup:
    drawn = [tag("img", src=_address(tile), alt=words if not place else "") for place, tile in enumerate(kept)]
    return tag("div", *drawn, class_=f"tiles t{len(kept)}")


def _address(tile: Bytes) -> str:
    from PIL import Image

    pixels = np.ascontiguousarray(tile[..., 0] if tile.shape[2] == 1 else tile)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _traces(kept: Floats, words: str) -> Markup:
    """All leads below each other, each in its own range."""
    leads, length = kept.shape
    high = max(_HIGH, 34.0 * leads)
    lines = []
    for lead, values in enumerate(kept):
        there = values[np.isfinite(values)]
        low, top = (float(there.min()), float(there.max())) if len(there) else (0.0, 1.0)
        reach, room = (top - low) or 1.0, high / leads
        ys = room * lead + room - 4 - (room - 8) * (np.nan_to_num(values, nan=low) - low) / reach
        xs = np.linspace(2, _WIDE - 2, length) if length > 1 else np.array([_WIDE / 2])
        points = " ".join(f"{short(x)},{short(y)}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
        lines.append(tag("polyline", points=points, class_="trace"))
    return svg(_WIDE, high, words, joined(lines), class_="signal")
