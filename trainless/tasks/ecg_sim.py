"""A simulator of single-lead rhythms: honest about being one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Reading, Samples

RHYTHMS = ("normal", "fibrillation", "tachycardia", "noise")
RATE = 50.0  # samples per second
# Waves of one beat (P, Q, R, S, T): place after the R peak in seconds at 60 beats a minute, width in seconds, height.
PLACE = np.array([-0.18, -0.035, 0.0, 0.035, 0.28])
WIDTH = np.array([0.025, 0.016, 0.02, 0.016, 0.05])
HEIGHT = np.array([0.15, -0.12, 1.0, -0.22, 0.3])

Signal = npt.NDArray[np.float64]


def ecg_sim(*, samples: int = 800, length: int = 256, noise: float = 0.1, seed: int = 0) -> Task:
    """Simulated rhythms in four classes; not real data and no substitute for it.

    Beats are sums of five Gaussian waves. *Normal*: 55–95 beats a minute, intervals vary by 3 %. *Fibrillation*:
    60–130 beats a minute, intervals vary by 25 %, no P wave but a ripple of 4–9 Hz. *Tachycardia*: 120–180 beats a
    minute, regular, with P waves. *Noise*: coloured noise and steps without beats. All have a wandering baseline,
    white noise, a random gain, and are rounded to a thousandth of the R peak as a converter would.

    Args:
        samples: Signals in all, the classes in turn.
        length: Samples of one signal, at 50 per second.
        noise: Deviation of the white noise, in R peaks.
        seed: Of the signals and of the split.

    Example:
        >>> made = ecg_sim(samples=40)
        >>> made.input_shape, made.target.names
        ((1, 256), ('normal', 'fibrillation', 'tachycardia', 'noise'))
    """
    if samples < 12 or length < 64:
        raise InputError(f"samples={samples} and length={length} were given; expected at least 12 and 64")
    random = np.random.default_rng(seed)
    y = np.arange(samples) % len(RHYTHMS)
    x = np.stack([_signal(RHYTHMS[label], length, noise, random) for label in y])
    stored = np.round(1000 * x).clip(-32768, 32767).astype(np.int16)
    notes = ["simulated rhythms, not recordings"]
    return assemble("ecg-sim", {"train": Samples(stored, y)}, Reading(seed=seed, dims=1), RHYTHMS, notes)


def _signal(rhythm: str, length: int, noise: float, random: np.random.Generator) -> Signal:
    time = np.arange(length) / RATE
    clean = _without_beats(time, random) if rhythm == "noise" else _beats(rhythm, time, random)
    drift = 0.15 * np.sin(2 * np.pi * (random.uniform(0.1, 0.4) * time + random.uniform()))
    return random.uniform(0.7, 1.3) * (clean + drift) + noise * random.normal(size=length)


def _beats(rhythm: str, time: Signal, random: np.random.Generator) -> Signal:
    low, high = {"normal": (55, 95), "fibrillation": (60, 130), "tachycardia": (120, 180)}[rhythm]
    period = 60 / random.uniform(low, high)
    spread = 0.25 if rhythm == "fibrillation" else 0.03
    count = int(time[-1] / period * 2) + 6
    intervals = period * np.clip(1 + spread * random.normal(size=count), 0.45, 1.8)
    peaks = np.cumsum(intervals) - random.uniform(1, 2) * period
    stretch = np.sqrt(period)  # waves come closer to the R peak as the heart beats faster
    height = HEIGHT * random.uniform(0.8, 1.2, len(HEIGHT))
    height[0] *= rhythm != "fibrillation"
    centre = peaks[:, None] + stretch * PLACE
    bumps = np.exp(-0.5 * ((time[:, None, None] - centre) / WIDTH) ** 2)
    beats = np.asarray((bumps * height).sum((1, 2)))
    return beats + _ripple(time, random) if rhythm == "fibrillation" else beats


def _ripple(time: Signal, random: np.random.Generator) -> Signal:
    """The fibrillating atria: a fast wave whose strength comes and goes."""
    strength = 0.08 * (1 + 0.5 * np.sin(2 * np.pi * (random.uniform(0.2, 0.6) * time + random.uniform())))
    return strength * np.sin(2 * np.pi * (random.uniform(4, 9) * time + random.uniform()))


def _without_beats(time: Signal, random: np.random.Generator) -> Signal:
    """Noise whose neighbours resemble each other, and a few steps as of a loose electrode."""
    smooth = np.convolve(random.normal(size=len(time) + 8), np.full(9, 1 / 3), mode="valid")
    steps = random.normal(size=3)[:, None] * (time > random.uniform(0, time[-1], 3)[:, None])
    return np.asarray(0.5 * smooth + 0.4 * steps.sum(0))
