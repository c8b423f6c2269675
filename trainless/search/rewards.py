"""What a policy is rewarded with: the told value itself, or how much the told columns changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from trainless.core.errors import InputError
from trainless.search.searcher import Json, numbers, unnumbers

RewardKind: TypeAlias = Literal["value", "change"]


class Reward:
    """From a row of told columns to one number.

    ``value``: the only column. ``change`` (TEG-NAS, eq. 16–18), summed over the columns:

        r_t = (v_t − v_{t−1}) / (max v − min v)

    All columns are higher-is-better when they are told, which gives the sign −κ, +R, −MSE that the paper leaves out.
    NaN counts as the worst value of its column so far; where a column has no value yet, the reward is NaN (``value``)
    or that column's share is 0 (``change``).

    Args:
        kind: Which of the two.
        window: Take max and min over this many last values; None for all of them, as in the paper (its program: 10).

    Example:
        >>> reward = Reward("change")
        >>> [reward((v,)) for v in (1.0, 3.0, 2.0)]
        [0.0, 1.0, -0.5]
    """

    def __init__(self, kind: RewardKind, window: int | None = None) -> None:
        if kind not in ("value", "change"):
            raise InputError(f"reward={kind!r} was given; expected 'value' or 'change'")
        if window is not None and window < 2:
            raise InputError(f"window={window} was given; expected at least 2, or None for the whole history")
        self.kind = kind
        self._window = window
        self._worst: list[float] = []
        self._recent: list[list[float]] = []

    def __call__(self, row: Sequence[float]) -> float:
        """The reward of the next told row."""
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
        if self._window is not None:
            del recent[: -self._window]
        else:
            self._recent[column] = recent = [min(recent), max(recent), value]
        spread = max(recent) - min(recent)
        return (value - last) / spread if spread > 0 else 0.0

    def state(self) -> Json:
        """As JSON."""
        return {"worst": numbers(self._worst), "recent": [numbers(values) for values in self._recent]}

    def restore(self, state: Json) -> None:
        """From JSON."""
        self._worst = unnumbers(state["worst"])
        self._recent = [unnumbers(values) for values in state["recent"]]
