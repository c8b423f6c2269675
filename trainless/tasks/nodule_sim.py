"""A simulator of volumes with and without a nodule: honest about being one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Reading, Samples

Volume = npt.NDArray[np.float64]


def nodule_sim(*, samples: int = 400, size: int = 16, noise: float = 0.4, seed: int = 0) -> Task:
    """Simulated volumes, binary: vessels only, or vessels and one nodule; not real data and no substitute for it.

    A vessel is a straight tube, a nodule a ball of about a vessel's volume; both have soft edges and are
    between half and fully bright. A volume without a nodule has one more vessel instead, so that brightness alone
    hardly tells. White noise is added and values are rounded to a thousandth.

    Args:
        samples: Volumes in all, the classes in turn.
        size: Voxels along each axis.
        noise: Deviation of the white noise; the brightest vessel is 1.
        seed: Of the volumes and of the split.

    Example:
        >>> made = nodule_sim(samples=12, size=8)
        >>> made.input_shape, made.target.kind
        ((1, 8, 8, 8), 'binary')
    """
    if samples < 6 or size < 8:
        raise InputError(f"samples={samples} and size={size} were given; expected at least 6 and 8")
    random = np.random.default_rng(seed)
    y = np.arange(samples) % 2
    grid = np.stack(np.meshgrid(*[np.arange(size, dtype=float)] * 3, indexing="ij"), -1)
    x = np.stack([_volume(grid, bool(label), noise, random) for label in y])
    stored = np.round(1000 * x).clip(-32768, 32767).astype(np.int16)
    notes = ["simulated volumes, not scans"]
    names = ("without nodule", "with nodule")
    return assemble("nodule-sim", {"train": Samples(stored, y)}, Reading(seed=seed, dims=3), names, notes)


def _volume(grid: Volume, nodule: bool, noise: float, random: np.random.Generator) -> Volume:
    vessels = int(random.integers(1, 4)) + (not nodule)
    shapes = [_vessel(grid, random) for _ in range(vessels)] + ([_nodule(grid, random)] if nodule else [])
    shapes = [random.uniform(0.5, 1.0) * shape for shape in shapes]
    return np.asarray(np.max(shapes, 0) + noise * random.normal(size=grid.shape[:3]))


def _vessel(grid: Volume, random: np.random.Generator) -> Volume:
    """A tube around a line: brightness falls with the distance to it."""
    size = len(grid)
    direction = random.normal(size=3)
    direction /= np.linalg.norm(direction)
    away = grid - random.uniform(0.2 * size, 0.8 * size, 3)
    along = (away @ direction)[..., None] * direction
    width = random.uniform(0.04, 0.07) * size
    return np.asarray(np.exp(-0.5 * np.square((away - along) / width).sum(-1)))


def _nodule(grid: Volume, random: np.random.Generator) -> Volume:
    """A ball: full brightness inside, a soft edge outside."""
    size = len(grid)
    radius = random.uniform(0.09, 0.14) * size
    distance = np.linalg.norm(grid - random.uniform(0.25 * size, 0.75 * size, 3), axis=-1)
    return np.asarray(np.exp(-0.5 * np.square(np.maximum(0.0, distance - radius) / (size / 32))))
