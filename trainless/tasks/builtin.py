"""Built-in tasks: real digits of scikit-learn, simulated signals and volumes, sentences of a small grammar."""

from __future__ import annotations

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Array, Floats
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Samples
from trainless.tasks.settings import Reading
from trainless.tasks.text import LEVELS, from_tokens, tokenise


def digits(*, seed: int = 0) -> Task:
    """1,797 handwritten digits of 8×8 pixels in 10 classes (UCI optical recognition, test part; scikit-learn)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    samples = Samples(bunch.images.astype(np.uint8), bunch.target)
    return assemble("digits", {"train": samples}, Reading(seed=seed), [str(digit) for digit in range(10)])


RHYTHMS = ("normal", "fibrillation", "tachycardia", "noise")
RATE = 50.0  # samples per second
# Waves of one beat (P, Q, R, S, T): place after the R peak in seconds at 60 beats a minute, width in seconds, height.
PLACE = np.array([-0.18, -0.035, 0.0, 0.035, 0.28])
WIDTH = np.array([0.025, 0.016, 0.02, 0.016, 0.05])
HEIGHT = np.array([0.15, -0.12, 1.0, -0.22, 0.3])


def ecg_sim(*, samples: int = 800, length: int = 256, noise: float = 0.1, seed: int = 0) -> Task:
    """Simulated rhythms in four classes; not real data and no substitute for it.

    Beats are sums of five Gaussian waves. *Normal*: 55–95 beats a minute, intervals vary by 3 %. *Fibrillation*:
    60–130 beats a minute, intervals vary by 25 %, no P wave but a ripple of 4–9 Hz. *Tachycardia*: 120–180 beats a
    minute, regular, with P waves. *Noise*: coloured noise and steps without beats. All have a wandering baseline,
    white noise, a random gain, and are rounded to a thousandth of the R peak as a converter would.

    ``length`` is in samples, of which there are 50 per second, and ``noise`` the deviation of the white noise in R
    peaks.
    """
    if samples < 12 or length < 64:
        raise InputError(f"samples={samples} and length={length} were given; expected at least 12 and 64")
    random = np.random.default_rng(seed)
    y = np.arange(samples) % len(RHYTHMS)
    x = np.stack([_signal(RHYTHMS[label], length, noise, random) for label in y])
    notes = ["simulated rhythms, not recordings"]
    return assemble("ecg-sim", {"train": _stored(x, y)}, Reading(seed=seed, dims=1), RHYTHMS, notes)


def _stored(x: Floats, y: Array) -> Samples:
    """Values in thousandths, as a converter would round them."""
    return Samples(np.round(1000 * x).clip(-32768, 32767).astype(np.int16), y)


def _signal(rhythm: str, length: int, noise: float, random: np.random.Generator) -> Floats:
    time = np.arange(length) / RATE
    clean = _without_beats(time, random) if rhythm == "noise" else _beats(rhythm, time, random)
    drift = 0.15 * np.sin(2 * np.pi * (random.uniform(0.1, 0.4) * time + random.uniform()))
    return random.uniform(0.7, 1.3) * (clean + drift) + noise * random.normal(size=length)


def _beats(rhythm: str, time: Floats, random: np.random.Generator) -> Floats:
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


def _ripple(time: Floats, random: np.random.Generator) -> Floats:
    """The fibrillating atria: a fast wave whose strength comes and goes."""
    strength = 0.08 * (1 + 0.5 * np.sin(2 * np.pi * (random.uniform(0.2, 0.6) * time + random.uniform())))
    return strength * np.sin(2 * np.pi * (random.uniform(4, 9) * time + random.uniform()))


def _without_beats(time: Floats, random: np.random.Generator) -> Floats:
    """Noise whose neighbours resemble each other, and a few steps as of a loose electrode."""
    smooth = np.convolve(random.normal(size=len(time) + 8), np.full(9, 1 / 3), mode="valid")
    steps = random.normal(size=3)[:, None] * (time > random.uniform(0, time[-1], 3)[:, None])
    return np.asarray(0.5 * smooth + 0.4 * steps.sum(0))


def nodule_sim(*, samples: int = 400, size: int = 16, noise: float = 0.4, seed: int = 0) -> Task:
    """Simulated volumes, binary: vessels only, or vessels and one nodule; not real data and no substitute for it.

    A vessel is a straight tube, a nodule a ball of about a vessel's volume; both have soft edges and are
    between half and fully bright. A volume without a nodule has one more vessel instead, so that brightness alone
    hardly tells. White noise is added and values are rounded to a thousandth.

    The brightest vessel is 1.
    """
    if samples < 6 or size < 8:
        raise InputError(f"samples={samples} and size={size} were given; expected at least 6 and 8")
    random = np.random.default_rng(seed)
    y = np.arange(samples) % 2
    grid = np.stack(np.meshgrid(*[np.arange(size, dtype=float)] * 3, indexing="ij"), -1)
    x = np.stack([_volume(grid, bool(label), noise, random) for label in y])
    notes = ["simulated volumes, not scans"]
    names = ("without nodule", "with nodule")
    return assemble("nodule-sim", {"train": _stored(x, y)}, Reading(seed=seed, dims=3), names, notes)


def _volume(grid: Floats, nodule: bool, noise: float, random: np.random.Generator) -> Floats:
    vessels = int(random.integers(1, 4)) + (not nodule)
    shapes = [_vessel(grid, random) for _ in range(vessels)] + ([_nodule(grid, random)] if nodule else [])
    shapes = [random.uniform(0.5, 1.0) * shape for shape in shapes]
    return np.asarray(np.max(shapes, 0) + noise * random.normal(size=grid.shape[:3]))


def _vessel(grid: Floats, random: np.random.Generator) -> Floats:
    """A tube around a line: brightness falls with the distance to it."""
    size = len(grid)
    direction = random.normal(size=3)
    direction /= np.linalg.norm(direction)
    away = grid - random.uniform(0.2 * size, 0.8 * size, 3)
    along = (away @ direction)[..., None] * direction
    width = random.uniform(0.04, 0.07) * size
    return np.asarray(np.exp(-0.5 * np.square((away - along) / width).sum(-1)))


def _nodule(grid: Floats, random: np.random.Generator) -> Floats:
    """A ball: full brightness inside, a soft edge outside."""
    size = len(grid)
    radius = random.uniform(0.09, 0.14) * size
    distance = np.linalg.norm(grid - random.uniform(0.25 * size, 0.75 * size, 3), axis=-1)
    return np.asarray(np.exp(-0.5 * np.square(np.maximum(0.0, distance - radius) / (size / 32))))


# Nouns and verbs are (singular, plural); the verb agrees with its subject across whatever stands between.
NOUNS = (
    *((noun, f"{noun}s") for noun in ("nurse", "doctor", "patient", "scan", "signal", "network", "cell")),
    ("child", "children"),
)
VERBS = (("sees", "see"), ("reads", "read"), ("finds", "find"), ("shows", "show"), ("follows", "follow"))
ADJECTIVES = ("small", "bright", "grey", "quiet", "noisy", "second")
PLACES = ("near the window", "in the clinic", "behind the door", "on the screen", "beside the river")
ADVERBS = ("slowly", "again", "today", "with care")


def tiny_text(*, level: str = "words", length: int = 16, sentences: int = 2000, seed: int = 0) -> Task:
    """Sentences of a small grammar of our own, where verbs agree with subjects that may be far away.

    The ``level`` is ``words`` or ``characters``, ``length`` the tokens in one window.
    """
    if sentences < 1:
        raise InputError(f"sentences={sentences} was given; expected at least 1")
    if level not in LEVELS:
        raise InputError(f"level={level!r} was given; expected one of {', '.join(LEVELS)}")
    text = corpus(sentences, seed)
    return from_tokens(
        "tiny-text", {"train": tokenise(text, level)}, length=length, notes=["sentences of a small grammar"]
    )


def corpus(sentences: int, seed: int) -> str:
    """So many sentences, one per line."""
    random = np.random.default_rng(seed)
    return "\n".join(_sentence(random) for _ in range(sentences)) + "\n"


def _sentence(random: np.random.Generator) -> str:
    number = int(random.integers(2))
    words = [_phrase(number, random)]
    if random.random() < 0.4:
        words.append(_pick(PLACES, random))
    if random.random() < 0.3:
        other = int(random.integers(2))
        words.append(f"that {_phrase(other, random)} {VERBS[random.integers(len(VERBS))][other]}")
    words += [VERBS[random.integers(len(VERBS))][number], _phrase(int(random.integers(2)), random)]
    if random.random() < 0.4:
        words.append(_pick(ADVERBS, random))
    return " ".join(words) + " ."


def _phrase(number: int, random: np.random.Generator) -> str:
    article = ("a", "some")[number] if random.random() < 0.5 else "the"
    adjective = [_pick(ADJECTIVES, random)] if random.random() < 0.4 else []
    return " ".join([article, *adjective, NOUNS[random.integers(len(NOUNS))][number]])


def _pick(options: tuple[str, ...], random: np.random.Generator) -> str:
    return options[random.integers(len(options))]
