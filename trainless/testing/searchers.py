"""The contract of a searcher, as a check that anyone can run on theirs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

import numpy as np

from trainless.core.arch import Proposal, Region, is_region
from trainless.core.errors import InputError
from trainless.core.types import Json
from trainless.searchers.searcher import Searcher, Told
from trainless.spaces.moves import Choices, Feasible, allowed, sample

Factory = Callable[[int], Searcher]
Measure = Callable[[Sequence[Proposal]], Told]


def check_searcher(
    make: Factory,
    space: Choices,
    *,
    feasible: Feasible | None = None,
    columns: Sequence[str] = ("value",),
    steps: int = 40,
    ends: bool = False,
) -> None:
    """Assert everything that the loop relies on; the first broken promise is an AssertionError that names it.

    Reproducible from its seed; ask and tell in batches of any size and order; state round trip at every step, through
    strict JSON into a fresh object; never an invalid or infeasible candidate, never more than asked for; survives NaN,
    infinities, ties, an empty tell and candidates that it never proposed; what has finished stays finished.

    Args:
        make: From a seed to a fresh searcher over ``space``, with the limit built in.
        space: The space.
        feasible: The same limit that ``make`` uses.
        columns: The columns to tell.
        steps: How often to ask in each part, less often for large batches.
        ends: Whether it must have finished by itself within ``steps``.

    Example:
        >>> from trainless.searchers.simple import Random
        >>> from trainless.spaces.nb201 import NasBench201
        >>> check_searcher(lambda seed: Random(NasBench201(), seed=seed), NasBench201(), steps=5)
    """
    _check_before(make(0))
    measure = _measured(columns)
    for limit in (None, 1, 3, 17):
        _check_run(make, space, feasible, measure, limit, steps // (1 + (limit or 0) // 3) + 1)
    for flat in (_constant(columns, 1.0), _constant(columns, math.nan), _spoilt(columns)):
        _check_run(make, space, feasible, flat, None, steps)
    _check_any_order(make, space, feasible, measure, steps)
    _check_unasked(make, space, feasible, measure)
    if ends:
        _check_end(make(0), measure, steps)


def _check_before(searcher: Searcher) -> None:
    searcher.tell(Told((), {"value": np.empty(0)}))
    try:
        searcher.best()
    except InputError:
        return


def _check_run(
    make: Factory, space: Choices, feasible: Feasible | None, measure: Measure, limit: int | None, steps: int
) -> None:
    """Three at once: one goes on, one is made anew with the same seed, one is restored from JSON at every step."""
    first, twin, restored = make(7), make(7), make(8)
    finished = False
    for step in range(steps):
        restored = make(100 + step)
        restored.restore(_through_json(first.state()))
        proposals = first.ask(limit)
        assert proposals == twin.ask(limit), f"step {step}: the same seed proposed something else"
        assert proposals == restored.ask(limit), f"step {step}: the restored searcher proposed something else"
        assert limit is None or len(proposals) <= limit, f"{len(proposals)} proposals for ask({limit})"
        assert not (finished and proposals), f"step {step}: it had finished and proposed again"
        finished = not proposals
        for proposal in proposals:
            _check_proposal(proposal, space, feasible)
        told = measure(proposals)
        for searcher in (first, twin, restored):
            searcher.tell(told)
        assert _through_json(restored.state()) == _through_json(first.state()), f"step {step}: states differ after tell"
    if not finished:
        assert allowed(space, first.best(), feasible), "best() is not a feasible arch"
    assert first.best() == twin.best() == restored.best(), "best() differs between equal searchers"


def _check_proposal(proposal: Proposal, space: Choices, feasible: Feasible | None) -> None:
    candidate = proposal.candidate
    assert 0 < proposal.fidelity <= 1, f"fidelity {proposal.fidelity} is not in (0, 1]"
    if is_region(candidate):
        _check_region(candidate, space)
        return
    assert all(type(option) is int for option in candidate), f"{candidate} does not consist of plain ints"
    assert allowed(space, proposal.arch, feasible), f"{candidate} is not a valid and feasible arch of {space.name}"


def _check_region(region: Region, space: Choices) -> None:
    assert len(region) == len(space.decisions), "the region has another number of decisions"
    for part, decision in zip(region, space.decisions, strict=True):
        assert part, f"nothing is open of {decision.name!r}"
        assert part <= set(range(len(decision))), f"{sorted(part)} are not options of {decision.name!r}"


def _check_any_order(make: Factory, space: Choices, feasible: Feasible | None, measure: Measure, steps: int) -> None:
    """Results come back late, one by one and shuffled, while more is asked for."""
    searcher, rng = make(3), np.random.default_rng(0)
    outstanding: list[Proposal] = []
    for step in range(steps):
        proposals = searcher.ask(int(rng.integers(1, 6)))
        assert proposals or outstanding or not searcher.ask(1), "[] with nothing outstanding has to mean finished"
        for proposal in proposals:
            _check_proposal(proposal, space, feasible)
        outstanding += proposals
        for _ in range(min(len(outstanding), int(rng.integers(0, 6)) + step % 2)):
            searcher.tell(measure([outstanding.pop(int(rng.integers(len(outstanding))))]))


def _check_unasked(make: Factory, space: Choices, feasible: Feasible | None, measure: Measure) -> None:
    searcher, rng = make(5), np.random.default_rng(1)
    searcher.tell(measure([Proposal(sample(space, rng, feasible=feasible)) for _ in range(5)]))
    for _ in range(3):
        proposals = searcher.ask(2)
        for proposal in proposals:
            _check_proposal(proposal, space, feasible)
        searcher.tell(measure(proposals))


def _check_end(searcher: Searcher, measure: Measure, steps: int) -> None:
    for _ in range(steps):
        proposals = searcher.ask()
        if not proposals:
            return
        searcher.tell(measure(proposals))
    raise AssertionError(f"it has not finished after {steps} asks")


def _through_json(state: Json) -> Json:
    back: Json = json.loads(json.dumps(state, allow_nan=False))
    return back


def _value(proposal: Proposal, column: int) -> float:
    """A smooth function of the options that ties often."""
    options = [max(part) if isinstance(part, frozenset) else part for part in proposal.candidate]
    return float(sum((place + column) % 3 * option for place, option in enumerate(options)))


def _measured(columns: Sequence[str]) -> Measure:
    def measure(proposals: Sequence[Proposal]) -> Told:
        table = {name: np.array([_value(p, place) for p in proposals]) for place, name in enumerate(columns)}
        return Told(tuple(proposals), table)

    return measure


def _constant(columns: Sequence[str], value: float) -> Measure:
    def measure(proposals: Sequence[Proposal]) -> Told:
        return Told(tuple(proposals), {name: np.full(len(proposals), value) for name in columns})

    return measure


def _spoilt(columns: Sequence[str]) -> Measure:
    """NaN and infinities in every second place or so."""
    bad = (math.nan, -math.inf, math.inf)

    def measure(proposals: Sequence[Proposal]) -> Told:
        table = {}
        for place, name in enumerate(columns):
            values = [_value(p, place) for p in proposals]
            table[name] = np.array([bad[int(v) % 3] if int(v) % 2 else v for v in values], dtype=np.float64)
        return Told(tuple(proposals), table)

    return measure
