"""Independent categorical choices, one per decision, and the gradient of their log-probability."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.searchers.state import Stateful, kept
from trainless.searchers.stopping import entropy
from trainless.spaces.moves import Choices, Feasible, Rng, allowed, sample


@dataclass(eq=False)
class Policy(Stateful):
    """θ, one logit per option: p(arch) = Π_d softmax(θ_d)[arch_d].

    All decisions share one flat vector; options are padded to the longest decision with −∞.
    """

    counts: Sequence[int]
    _: KW_ONLY
    rng: Rng | None = None
    scale: float = 0.0
    logits: Floats = kept()

    def __post_init__(self) -> None:
        self._closed = np.arange(max(self.counts, default=1))[None, :] >= np.array(self.counts)[:, None]
        self.logits = np.zeros(self._closed.shape)
        if self.rng is not None:
            self.logits += self.scale * self.rng.standard_normal(self.logits.shape)

    def table(self) -> Floats:
        """Decisions × options: probabilities, 0 in the padding."""
        logits = np.where(self._closed, -np.inf, self.logits)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        table: Floats = weights / weights.sum(axis=1, keepdims=True)
        return table

    def probabilities(self) -> list[Floats]:
        return [row[:count] for row, count in zip(self.table(), self.counts, strict=True)]

    def entropy(self) -> float:
        return entropy(self.probabilities())

    def gradient(self, arch: Arch) -> Floats:
        """∂ log p(arch) / ∂θ = onehot(arch) − softmax(θ)."""
        gradient = -self.table()
        gradient[np.arange(len(arch)), arch] += 1.0
        return gradient


@dataclass(eq=False)
class Adam(Stateful):
    """Adam (Kingma & Ba, 2015) on one array, with PyTorch's defaults; ``step`` returns what to subtract."""

    rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    _steps: int = kept(0)
    _first: Floats | None = kept(None)
    _second: Floats | None = kept(None)

    def step(self, gradient: Floats) -> Floats:
        b1, b2 = self.betas
        first = np.zeros_like(gradient) if self._first is None else self._first
        second = np.zeros_like(gradient) if self._second is None else self._second
        self._first = first = b1 * first + (1 - b1) * gradient
        self._second = second = b2 * second + (1 - b2) * gradient**2
        self._steps += 1
        corrected = np.sqrt(second / (1 - b2**self._steps)) + self.eps
        update: Floats = self.rate * (first / (1 - b1**self._steps)) / corrected
        return update


def draw(table: Floats, rng: Rng) -> Arch:
    """One arch from decisions × options probabilities."""
    below = rng.random((len(table), 1)) * table.sum(axis=1, keepdims=True) >= table.cumsum(axis=1)
    return tuple(below.sum(axis=1).tolist())


def draw_allowed(space: Choices, table: Floats, rng: Rng, feasible: Feasible | None, *, tries: int = 1000) -> Arch:
    """An arch by its probability among the valid and feasible ones, by rejection; uniform where that finds none."""
    for _ in range(tries):
        arch = draw(table, rng)
        if allowed(space, arch, feasible):
            return arch
    return sample(space, rng, feasible=feasible)


def most_probable(probabilities: Sequence[Floats], accept: Callable[[Arch], bool], *, tries: int = 10_000) -> Arch:
    """The accepted arch of the highest probability, by best-first search."""
    orders = [np.argsort(-p, kind="stable").tolist() for p in probabilities]
    logs = [np.log(np.maximum(np.sort(p)[::-1], 1e-300)).tolist() for p in probabilities]
    start = (0,) * len(orders)
    heap = [(0.0, start)]
    seen = {start}
    for _ in range(tries):
        if not heap:
            break
        cost, places = heapq.heappop(heap)
        arch = tuple(order[place] for order, place in zip(orders, places, strict=True))
        if accept(arch):
            return arch
        for decision, place in enumerate(places):
            following = (*places[:decision], place + 1, *places[decision + 1 :])
            if place + 1 < len(orders[decision]) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (cost + logs[decision][place] - logs[decision][place + 1], following))
    raise InputError(f"none of the {tries} most probable architectures is feasible; loosen the limits")


def derived(space: Choices, probabilities: Sequence[Floats], feasible: Feasible | None, *, draws: int = 30) -> Arch:
    """The valid and feasible arch of the highest probability.

    Where few archs are valid and the policy is still nearly uniform, best-first search meets none of them; then it is
    the most probable of some uniform draws, always the same ones.
    """
    try:
        return most_probable(probabilities, lambda arch: allowed(space, arch, feasible), tries=2000)
    except InputError:
        rng = np.random.default_rng(0)
        drawn = [sample(space, rng, feasible=feasible) for _ in range(draws)]
    logs = [np.log(np.maximum(part, 1e-300)) for part in probabilities]
    return max(drawn, key=lambda arch: sum(float(part[option]) for part, option in zip(logs, arch, strict=True)))


RewardKind: TypeAlias = Literal["value", "change"]


@dataclass(eq=False)
class Reward(Stateful):
    """From a row of told columns to one number.

    ``value``: the only column. ``change`` (TEG-NAS, eq. 16–18), summed over the columns:

        r_t = (v_t − v_{t−1}) / (max v − min v)

    All columns are higher-is-better when they are told, which gives the sign −κ, +R, −MSE that the paper leaves out.
    NaN counts as the worst value of its column so far; where a column has no value yet, the reward is NaN (``value``)
    or that column's share is 0 (``change``).

    Max and min are over the ``window`` last values; None for all of them, as in the paper (its program: 10).

    Example:
        >>> reward = Reward("change")
        >>> [reward((v,)) for v in (1.0, 3.0, 2.0)]
        [0.0, 1.0, -0.5]
    """

    kind: RewardKind
    window: int | None = None
    _worst: list[float] = kept(list)
    _recent: list[list[float]] = kept(list)

    def __post_init__(self) -> None:
        if self.kind not in ("value", "change"):
            raise InputError(f"reward={self.kind!r} was given; expected 'value' or 'change'")
        if self.window is not None and self.window < 2:
            raise InputError(f"window={self.window} was given; expected at least 2, or None for the whole history")

    def __call__(self, row: Sequence[float]) -> float:
        if self.kind == "value" and len(row) != 1:
            raise InputError(f"the reward is one value and {len(row)} columns were told: choose reward='change'")
        filled = self._filled(row)
        if self.kind == "value":
            return filled[0]
        return sum(self._change(column, value) for column, value in enumerate(filled))

    def _filled(self, row: Sequence[float]) -> list[float]:
        """With the worst so far in place of NaN and infinities."""
        self._worst = self._worst or [np.inf] * len(row)
        self._recent = self._recent or [[] for _ in row]
        filled = []
        for column, value in enumerate(row):
            if np.isfinite(value):
                self._worst[column] = min(self._worst[column], value)
                filled.append(value)
            else:
                filled.append(self._worst[column] if np.isfinite(self._worst[column]) else float("nan"))
        return filled

    def _change(self, column: int, value: float) -> float:
        if np.isnan(value):
            return 0.0
        recent = self._recent[column]
        last = recent[-1] if recent else value
        recent.append(value)
        if self.window is not None:
            del recent[: -self.window]
        else:
            self._recent[column] = recent = [min(recent), max(recent), value]
        spread = max(recent) - min(recent)
        return (value - last) / spread if spread > 0 else 0.0
