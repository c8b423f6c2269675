"""Examples of inputs as a picture, for a look at data: signals as lines, images as they are, volumes by slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from trainless.core.types import Array

TILE, GAP, HEAD = 112, 8, 18
WIDE = 320
INK, PAPER, LINE = (30, 30, 30), (255, 255, 255), (31, 94, 168)
LEVELS = " ▁▂▃▄▅▆▇█"
FIRST = 10  # values of a row
SHADES = " ░▒▓█"


def sheet(examples: Mapping[str, Sequence[Array]]) -> Image.Image:
    """One row of tiles for every class, with its name above."""
    dims = next((sample.ndim - 1 for row in examples.values() for sample in row), 2)
    wide = WIDE if dims <= 1 else TILE
    columns = max((len(row) for row in examples.values()), default=1)
    size = (GAP + max(1, columns) * (wide + GAP), GAP + len(examples) * (TILE + HEAD + GAP))
    made = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(made)
    for place, (name, row) in enumerate(examples.items()):
        top = GAP + place * (TILE + HEAD + GAP)
        pen.text((GAP, top), name.encode("latin-1", "replace").decode("latin-1")[:80], fill=INK)
        for column, sample in enumerate(row):
            made.paste(tile(sample, wide), (GAP + column * (wide + GAP), top + HEAD))
    return made


def tile(sample: Array, wide: int = TILE) -> Image.Image:
    """One input ``(C, *spatial)`` as a small picture."""
    if sample.ndim <= 2:
        return _lines(sample.reshape(-1, sample.shape[-1]), wide)
    plane = _plane(sample)
    low, high = float(plane.min()), float(plane.max())
    grey = np.zeros_like(plane) if high <= low else (plane - low) / (high - low)
    pixels = (255 * grey).astype(np.uint8)
    image = Image.fromarray(np.moveaxis(pixels, 0, -1) if len(pixels) == 3 else pixels[0])
    return image.convert("RGB").resize((wide, TILE), Image.Resampling.NEAREST)


def _plane(sample: Array) -> Array:
    """One plane with three channels or one; of a volume the middle slice."""
    while sample.ndim > 3:
        sample = sample[:, sample.shape[1] // 2]
    return sample if len(sample) == 3 else sample[:1]


def _lines(signal: Array, wide: int) -> Image.Image:
    made = Image.new("RGB", (wide, TILE), (246, 247, 249))
    pen = ImageDraw.Draw(made)
    channels = signal[:4]
    high = TILE / len(channels)
    for place, values in enumerate(channels):
        low, top = float(values.min()), float(values.max())
        scaled = np.full(len(values), 0.5) if top <= low else (values - low) / (top - low)
        x = np.linspace(2, wide - 3, len(values))
        y = place * high + 3 + (high - 6) * (1 - scaled)
        pen.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill=LINE)
    return made


def in_text(sample: Array, wide: int = 64) -> list[str]:
    """One input as lines of text: the first values of a row, the first channel of a signal, or a coarse image.

    Example:
        >>> in_text(np.array([14.23, 1.71, 1065.0]))
        ['14.23  1.71  1065']
        >>> in_text(np.array([[0.0, 1.0, 2.0, 3.0]]), 4)
        [' ▃▆█']
    """
    if sample.ndim == 1:
        more = "  …" if len(sample) > FIRST else ""
        return ["  ".join(f"{value:.4g}" for value in sample[:FIRST]) + more]
    if sample.ndim == 2:
        pieces = np.array_split(sample[0], min(wide, sample.shape[1]))
        return ["".join(LEVELS[level] for level in _levels(np.array([p.mean() for p in pieces]), len(LEVELS)))]
    plane = _plane(sample).mean(0)
    rows = np.array_split(plane, min(10, len(plane)), axis=0)
    cells = [np.array_split(row.mean(0), min(20, plane.shape[1])) for row in rows]
    values = np.array([[cell.mean() for cell in row] for row in cells])
    shades = _levels(values.reshape(-1), len(SHADES)).reshape(values.shape)
    return ["".join(SHADES[level] for level in row) for row in shades]


def _levels(values: Array, count: int) -> Array:
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.zeros(len(values), int)
    return np.asarray(np.minimum(((values - low) / (high - low) * count).astype(int), count - 1))
