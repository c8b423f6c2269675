"""What a searcher is, what it proposes, what it is told, and how its state becomes JSON.

A searcher knows archs and numbers. It is asked for proposals and told what they are worth:

* ``ask(limit)`` returns at most ``limit`` proposals (its own natural number where there is no limit). An empty list
  means that there is nothing to propose now; where everything proposed has been told, it means finished.
* ``tell(told)`` takes any part of what was proposed, in any order, in one go or in many. It also takes candidates that
  were never asked for (that is how a warm-up seeds a population).
* Every column of ``told`` is **higher is better**: whoever measures turns the sign of what is not. NaN means that
  there is no value; it ranks last and never ends a search.
* ``state()`` is strict JSON. ``restore(state)`` is called on a searcher that was made with the same arguments, because
  the space, the limits and a proxy are functions and not JSON; from then on both do the same, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from trainless.core.arch import Arch, Candidate, Proposal
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber
from trainless.core.types import Floats, Json

Draw: TypeAlias = Callable[[np.random.Generator], Arch]
"""Where new archs come from: uniform sampling, or the best of a pool."""
Vary: TypeAlias = Callable[[Arch, np.random.Generator], Arch]
"""How a parent becomes a child: a random mutation, or the best of a pool."""


@dataclass(frozen=True)
class Told:
    """Proposals and what they are worth: named columns, higher is better, NaN where there is no value.

    Example:
        >>> told = Told.of([(0, 1), (1, 1)], [0.5, math.nan])
        >>> told.signal()
        array([0.5, nan])
    """

    proposals: tuple[Proposal, ...]
    columns: Mapping[str, Floats]

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if len(values) != len(self.proposals):
                raise InputError(f"{len(self.proposals)} proposals were told with {len(values)} values of {name!r}")

    @classmethod
    def of(cls, candidates: Iterable[Candidate | Proposal], values: Sequence[float] | Floats) -> Told:
        """One signal, for candidates at full fidelity or for proposals."""
        made = tuple(c if isinstance(c, Proposal) else Proposal(c) for c in candidates)
        return cls(made, {"value": np.asarray(values, dtype=np.float64)})

    def __len__(self) -> int:
        return len(self.proposals)

    def signal(self) -> Floats:
        """The only column."""
        if len(self.columns) != 1:
            raise InputError(
                f"this searcher follows one signal and was told {len(self.columns)}"
                f" ({', '.join(self.columns)}): choose one, or combine them by a ranking"
            )
        return next(iter(self.columns.values()))

    def matrix(self) -> Floats:
        """Proposals × columns."""
        if not self.columns:
            raise InputError("proposals were told without any column of values")
        return np.stack([np.asarray(column, dtype=np.float64) for column in self.columns.values()], axis=1)


@runtime_checkable
class Searcher(Protocol):
    """Asked for proposals, told their values; see the module's text for the exact contract."""

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """At most ``limit`` proposals; an empty list with nothing outstanding means finished."""
        ...

    def tell(self, told: Told) -> None:
        """Learn what proposals are worth."""
        ...

    def best(self) -> Arch:
        """The arch to take if the search ended now."""
        ...

    def state(self) -> Json:
        """Everything that changes, as strict JSON."""
        ...

    def restore(self, state: Json) -> None:
        """Continue where ``state`` was taken from a searcher with the same arguments."""
        ...


@runtime_checkable
class Columns(Protocol):
    """A searcher that says how many columns it can be told, so that a search need not begin to find out."""

    @property
    def columns(self) -> int | None:
        """So many; None for any number."""
        ...


class Incumbent:
    """The best arch told so far; the first of equals stays, NaN is worse than any number.

    Example:
        >>> best = Incumbent()
        >>> best.see((1,), math.nan); best.see((0,), 2.0); best.see((2,), 2.0)
        >>> best.arch
        (0,)
    """

    def __init__(self) -> None:
        self._arch: Arch | None = None
        self.value = math.nan

    @property
    def arch(self) -> Arch:
        """The best, or an error where nothing was told."""
        if self._arch is None:
            raise InputError("nothing has been told to this searcher yet, so it has no best architecture")
        return self._arch

    def see(self, arch: Arch, value: float) -> None:
        """Take the arch where it is better."""
        if self._arch is None or value > self.value or (math.isnan(self.value) and not math.isnan(value)):
            self._arch, self.value = arch, value

    def state(self) -> Json:
        """As JSON."""
        return {"arch": self._arch and list(self._arch), "value": number(self.value)}

    def restore(self, state: Json) -> None:
        """From JSON."""
        self._arch = None if state["arch"] is None else tuple(state["arch"])
        self.value = unnumber(state["value"])


def room(limit: int | None, natural: int) -> int:
    """How many proposals to make: the limit, or the natural number where there is none."""
    if limit is None:
        return natural
    if limit < 1:
        raise InputError(f"ask(limit={limit}) was called; expected at least 1, or None")
    return limit


def reseeded(state: Json, seed: int) -> Json:
    """The same state with other randomness from here on: how a child of a run is spawned (TEG-NAS, section 4.3).

    Example:
        >>> reseeded({"rng": {"state": 1}, "inner": {"best": 2}}, 0)["inner"]
        {'best': 2}
    """
    if "events" in state:
        raise InputError("an Optuna searcher repeats its own history and cannot be forked: choose another searcher")
    child = dict(state)
    if "inner" in child:
        child["inner"] = reseeded(child["inner"], seed)
    if "rng" in child:
        child["rng"] = np.random.default_rng(seed).bit_generator.state
    return child
