"""The leaderboard: every candidate once, with its scores and costs, best first."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch, Proposal, is_region
from trainless.core.errors import InputError
from trainless.runs.loop import Loop
from trainless.runs.reader import status_of
from trainless.runs.signals import scores_of
from trainless.spaces.protocol import Space


@dataclass(frozen=True)
class Place:
    """One row: an arch, its scores and costs, why a score is missing, and the value that decides the order."""

    rank: int
    arch: Arch
    text: str
    fidelity: float
    scores: Mapping[str, float]
    costs: Mapping[str, float]
    failures: Mapping[str, str]
    standing: float = math.nan


def leaderboard(
    loop: Loop,
    space: Space,
    higher_is_better: Mapping[str, bool],
    costs: Mapping[str, Callable[[Arch], float]],
    also: Sequence[Proposal] = (),
) -> list[Place]:
    """All archs that were told, each at its highest fidelity, and those in ``also``, in their final order.

    Candidates of a higher fidelity come first; then the signal's standing over the whole table decides, and of equals
    the one that was measured first. A cost that was scored as a proxy is shown once.
    """
    top: dict[Arch, Proposal] = {}
    for proposal in (*loop.told, *also):
        if not is_region(proposal.candidate):
            held = top.get(proposal.arch)
            if held is None or proposal.fidelity > held.fidelity:
                top[proposal.arch] = proposal
    if not top:
        return []
    proposals = list(top.values())
    outcomes = [loop.known[proposal] for proposal in proposals]
    texts = [space.format(proposal.arch) for proposal in proposals]
    values = [outcome.values for outcome in outcomes]
    standing = loop.signal.standing(scores_of(dict(zip(texts, values, strict=True)), higher_is_better))
    ranked = np.where(np.isnan(standing), -np.inf, standing)
    fidelities = np.array([proposal.fidelity for proposal in proposals])
    places: list[Place] = []
    for at in np.lexsort((np.arange(len(proposals)), -ranked, -fidelities)).tolist():
        arch, fidelity, found = proposals[at].arch, proposals[at].fidelity, outcomes[at]
        shown = {name: cost(arch) for name, cost in costs.items() if name not in higher_is_better}
        own = (found.values, shown, found.failures, float(standing[at]))
        places.append(Place(len(places) + 1, arch, texts[at], fidelity, *own))
    return places


def require_scored(loop: Loop, table: Path | None) -> None:
    """Raise InputError where something was evaluated and nothing of it has a value: the most frequent reason."""
    outcomes = [loop.known[proposal] for proposal in loop.told]
    if not outcomes or any(not math.isnan(value) for outcome in outcomes for value in outcome.values.values()):
        return
    reasons = Counter(reason for outcome in outcomes for reason in set(outcome.failures.values()))
    reason, times = reasons.most_common(1)[0] if reasons else ("no reason was given", len(outcomes))
    where = f"every reason is in the column status of {table}; " if table else ""
    raise InputError(
        f"none of {len(outcomes)} candidates could be scored; most often ({times} of them): {reason} ({where}look at"
        " the data and the space's networks, or choose other proxies)"
    )


def to_csv(places: Sequence[Place]) -> str:
    """The leaderboard as CSV: rank, arch, every score, every cost, status; a missing score is empty.

    Example:
        >>> place = Place(1, (0,), "a", 1.0, {"snip": 0.5}, {"params": 12.0}, {})
        >>> to_csv([place]).splitlines()
        ['rank,arch,snip,params,status', '1,a,0.5,12,ok']
    """
    scores = list(places[0].scores) if places else []
    costs = list(places[0].costs) if places else []
    partial = any(place.fidelity != 1.0 for place in places)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", "arch", *(["fidelity"] if partial else []), *scores, *costs, "status"])
    for place in places:
        cells = [repr(place.fidelity)] if partial else []
        cells += [_cell(place.scores[name]) for name in scores]
        cells += [_cell(place.costs[name], whole=True) for name in costs]
        writer.writerow([place.rank, place.text, *cells, status_of(place.failures)])
    return text.getvalue()


def _cell(value: float, *, whole: bool = False) -> str:
    if math.isnan(value):
        return ""
    return str(int(value)) if whole and float(value).is_integer() else repr(float(value))
