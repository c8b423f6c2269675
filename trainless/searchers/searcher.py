"""Searchers: asked for proposals, told what they are worth, restored from JSON.

A searcher knows archs and numbers:

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import numpy as np

from trainless.core.arch import Arch, Candidate, Proposal
from trainless.core.errors import InputError
from trainless.core.parameters import read, takes
from trainless.core.types import Floats, Json
from trainless.searchers.state import Stateful, kept
from trainless.spaces.moves import Choices, Feasible, Rng, allowed, mutate, sample

if TYPE_CHECKING:
    from trainless.rankings import Ranking

Draw: TypeAlias = Callable[[Rng], Arch]
"""Where new archs come from: uniform sampling, or the best of a pool."""
Vary: TypeAlias = Callable[[Arch, Rng], Arch]
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
        if not self.columns:
            raise InputError("proposals were told without any column of values")
        return np.stack([np.asarray(column, dtype=np.float64) for column in self.columns.values()], axis=1)

    def values(self) -> list[tuple[Proposal, float]]:
        return list(zip(self.proposals, self.signal().tolist(), strict=True))

    def rows(self) -> list[tuple[Proposal, list[float]]]:
        return list(zip(self.proposals, self.matrix().tolist(), strict=True)) if len(self) else []


@dataclass(eq=False)
class Searcher(Stateful, ABC):
    """Asked for proposals, told their values; see the module's text for the exact contract.

    A searcher is a dataclass: its parameters are fields, and what changes is declared by
    :func:`~trainless.searchers.state.kept`, so that state and restore need not be written.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.

    Attributes:
        columns: How many columns it can be told; None for any number.
        columns_by: The parameter that decides how many, where there is one.
        regions: Whether it proposes regions, which are evaluated as supernets, instead of archs.
        ranks: The aggregate of ranks (:attr:`.Ranking.aggregate`) that it forms of the told columns itself, as its
            paper has it, so that it is told the proxies and not the ranking; ``any`` for every ranking.
    """

    space: Choices
    _: KW_ONLY
    seed: int = 0
    feasible: Feasible | None = None
    columns: int | None = field(init=False, repr=False, default=1)
    columns_by: ClassVar[str] = ""
    regions: ClassVar[bool] = False
    ranks: ClassVar[str] = ""
    _rng: Rng = kept()

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    @abstractmethod
    def ask(self, limit: int | None = None) -> list[Proposal]:
        """At most ``limit`` proposals; an empty list with nothing outstanding means finished."""

    @abstractmethod
    def tell(self, told: Told) -> None:
        """Learn what proposals are worth."""

    @abstractmethod
    def best(self) -> Arch:
        """The arch to take if the search ended now."""

    @final
    def forms(self, ranking: Ranking) -> bool:
        """Whether it forms a ranking by itself of its proxies' values, as its paper has it.

        Pruning ranks a region within its own round, evolution over the history is AZ-NAS's with a product of ranks, and
        a tournament by sums of ranks is TEG-NAS's.
        """
        return self.ranks == "any" or bool(self.ranks and self.ranks == ranking.aggregate)

    @final
    def _drawn(self, draw: Draw | None = None) -> Arch:
        """A new arch: from ``draw``, or uniform."""
        return draw(self._rng) if draw else sample(self.space, self._rng, feasible=self.feasible)

    @final
    def _mutated(self, arch: Arch, edits: int = 1) -> Arch:
        """An arch with other options at some decisions."""
        return mutate(self.space, arch, self._rng, edits=edits, feasible=self.feasible)

    @final
    def _proposed(self, count: int, following: Callable[[], Arch | None]) -> list[Proposal]:
        """So many proposals, or fewer where nothing follows."""
        archs = (following() for _ in range(count))
        return [Proposal(arch) for arch in iter(lambda: next(archs, None), None)]

    @final
    def _allows(self, arch: Arch) -> bool:
        return allowed(self.space, arch, self.feasible)


@dataclass(eq=False)
class Incumbent(Stateful):
    """The best arch told so far; the first of equals stays, NaN is worse than any number."""

    _arch: Arch | None = kept(None)
    value: float = kept(math.nan)

    @property
    def arch(self) -> Arch:
        """The best, or an error where nothing was told."""
        return told_first(self._arch)

    def see(self, arch: Arch, value: float) -> None:
        if self._arch is None or value > self.value or (math.isnan(self.value) and not math.isnan(value)):
            self._arch, self.value = arch, value


@dataclass(eq=False)
class SignalSearcher(Searcher):
    """A searcher that follows one signal and answers with the best told."""

    _best: Incumbent = kept(Incumbent)

    @final
    def _see(self, told: Told) -> list[tuple[Arch, float]]:
        """Archs and values that were told, after a look at the best of them."""
        seen = [(proposal.arch, value) for proposal, value in told.values()]
        for arch, value in seen:
            self._best.see(arch, value)
        return seen

    def tell(self, told: Told) -> None:
        self._see(told)

    @final
    def best(self) -> Arch:
        return self._best.arch


def told_first(arch: Arch | None) -> Arch:
    """The arch, or an error where nothing was told and there is none."""
    if arch is None:
        raise InputError("nothing has been told to this searcher yet, so it has no best architecture")
    return arch


def room(limit: int | None, natural: int) -> int:
    """How many proposals to make: the limit, or the natural number where there is none."""
    if limit is None:
        return natural
    if limit < 1:
        raise InputError(f"ask(limit={limit}) was called; expected at least 1, or None")
    return limit


def reseeded(state: Json, seed: int) -> Json:
    """The same state with other randomness from here on: how a child of a run is spawned (TEG-NAS, section 4.3)."""
    if "events" in state:
        raise InputError("an Optuna searcher repeats its own history and cannot be forked: choose another searcher")
    child = dict(state)
    if "inner" in child:
        child["inner"] = reseeded(child["inner"], seed)
    if "rng" in child:
        child["rng"] = np.random.default_rng(seed).bit_generator.state
    return child


OWN = ("space", "seed", "feasible", "proxy")
"""What a searcher is given by the run itself."""


def made(
    name: str,
    factory: Callable[..., Searcher],
    space: Choices,
    parameters: Mapping[str, Any],
    *,
    seed: int = 0,
    feasible: Feasible | None = None,
    proxy: Callable[[Arch], float] | None = None,
    remedy: str = "name it, such as --assist synflow (assist='synflow')",
) -> Searcher:
    """Make a searcher, or say which parameters it has and what each expects.

    ``parameters`` are from Python or as text; errors call it ``name`` and give the ``remedy`` where a proxy is missing.
    """
    for own, where in (("seed", "--seed (seed=…)"), ("feasible", "the limits, such as --max-flops (constraints=…)")):
        if own in parameters:
            raise InputError(f"{name}: {own} is no parameter of the searcher's own here: give it by {where}")
    given = read(name, factory, parameters, OWN)
    for each, value in given.items():
        if isinstance(value, (int, float)) and value < 0:
            raise InputError(f"{name}: {each}={value} was given; expected 0 or more")
    assisted = takes(factory, "proxy")
    if assisted and proxy is None:
        raise InputError(f"{name} is assisted by a proxy: {remedy}")
    if assisted is False and proxy is not None:
        raise InputError(
            f"{name} takes no proxy to assist it: leave that out, or choose a searcher that does, such as g_rs, g_rea,"
            " warm_random or move_evolution"
        )
    helper = {} if proxy is None else {"proxy": proxy}
    try:
        return factory(space, seed=seed, feasible=feasible, **helper, **given)
    except TypeError as error:
        raise InputError(f"{name} could not be made with {dict(parameters)}: {error}") from error


def require_columns(name: str, searcher: Searcher, columns: list[str]) -> None:
    """Raise InputError where a searcher cannot be told as many columns as there are."""
    most = searcher.columns
    if most is None or most == len(columns):
        return
    if searcher.columns_by:
        raise InputError(
            f"{name} was made for {most} objective{'s' if most > 1 else ''}, and {len(columns)} would be told"
            f" ({', '.join(columns)}): say --searcher-args {searcher.columns_by}={len(columns)}"
        )
    raise InputError(
        f"{name} follows one signal, and {len(columns)} would be told ({', '.join(columns)}): leave out the others,"
        " combine proxies by a ranking, or choose a searcher for several objectives, such as nsga2"
    )
