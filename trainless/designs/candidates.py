"""The searches of a design, each in a folder of its own, and the architectures that they end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber, write_json
from trainless.core.task import Task
from trainless.designs.settings import Trial
from trainless.execution.engine import LOCAL, Engine
from trainless.learn.members import VERSION, read_document
from trainless.runs.leaderboard import Place
from trainless.runs.search import Found, search
from trainless.runs.settings import SearchCallbacks, SearchSettings, Watch
from trainless.spaces.protocol import Space

RESULT = "result.json"
RUNNERS = 50  # architectures that are remembered of each search


@dataclass(frozen=True)
class Winner:
    """What one search came to.

    Args:
        trial: The search.
        archs: Its leaderboard without failures, best first; where all failed in something, those that failed least.
        values: The scores of each.
        evaluations: Candidates that were told.
        seconds: What it took.
        own: The searcher's own choice: what its policy or its pruning came to.
    """

    trial: str
    archs: tuple[Arch, ...]
    values: tuple[Mapping[str, float], ...]
    evaluations: int
    seconds: float
    own: Arch


def run_searches(
    folder: Path,
    task: Task,
    space: Space,
    searches: Sequence[Trial],
    *,
    ranking: str,
    constraints: Mapping[str, float | str],
    init: str,
    device: str,
    workers: int,
    engine: Engine = LOCAL,
    store: str = "",
    watch: Callable[[Trial], Watch] = lambda trial: lambda loop, budget: None,
    done: Callable[[Trial], None] = lambda trial: None,
) -> list[Winner]:
    """Run every search to its end, or read what it came to; killed, each goes on from its own folder.

    Its winner is the first of its leaderboard: the best by the ranking of everything that it looked at, its own
    choice included. TEACUP's program takes the best of the history too, its paper what the policy came to.
    """
    winners = []
    for trial in searches:
        place = folder / trial.name
        if not (place / RESULT).exists():
            found = search(
                task,
                space,
                trial.searcher,
                ranking=ranking,
                evaluations=trial.evaluations,
                seed=trial.seed,
                workers=workers,
                out=place,
                settings=SearchSettings(
                    searcher_args=trial.arguments,
                    constraints=constraints,
                    init=init,
                    batch=scored_samples(task),
                    device=device,
                    ahead=1,
                    timeout=engine.timeout,
                    memory_limit=engine.memory,
                    engine=engine.kind,
                    address=engine.address,
                    store=store,
                    name=f"{folder.parent.resolve().name}/{trial.name}",
                ),
                callbacks=SearchCallbacks(measured=watch(trial)),
            )
            write_json(place / RESULT, _plain(trial, found, space))
        winners.append(_winner(read_document(place / RESULT)))
        done(trial)
    return winners


def scored_samples(task: Task) -> int:
    """Samples per batch of the proxies: 0 for the papers' numbers, on small data all there are, in whole eights.

    Example:
        >>> from trainless.tasks import task
        >>> scored_samples(task("digits"))
        0
    """
    n = len(task.part("train"))
    return 0 if n >= 128 else n // 8 * 8 or n


def architectures(winners: Sequence[Winner], space: Space, size: int, *, distinct: bool) -> list[tuple[str, Arch]]:
    """The architectures to train with the search that each comes from: winners first, then runners-up in turn.

    Args:
        winners: What the searches came to.
        space: Their space.
        size: How many; fewer where there are no more.
        distinct: Whether to leave out architectures that compute the same as one before.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> archs = ((3, 3, 3, 3, 3, 3), (1, 1, 1, 1, 1, 1))
        >>> found = Winner("rl-00", archs, ({}, {}), 20, 1.0, archs[0])
        >>> architectures([found, found], NasBench201(), 3, distinct=True)
        [('rl-00', (3, 3, 3, 3, 3, 3)), ('rl-00', (1, 1, 1, 1, 1, 1))]
        >>> len(architectures([found, found], NasBench201(), 3, distinct=False))
        3
    """
    chosen: list[tuple[str, Arch]] = []
    seen: set[Arch] = set()
    for place in range(max((len(winner.archs) for winner in winners), default=0)):
        for winner in winners:
            if place < len(winner.archs) and len(chosen) < size:
                twin = space.canonical(winner.archs[place])
                if not (distinct or place) or twin not in seen:
                    chosen.append((winner.trial, winner.archs[place]))
                    seen.add(twin)
    return chosen


def _plain(trial: Trial, found: Found, space: Space) -> dict[str, Any]:
    sound = [place for place in found.places if not place.failures] or _least_failed(trial, found)
    sound = sound[:RUNNERS]
    return {
        "version": VERSION,
        "trial": trial.name,
        "searcher": trial.searcher,
        "seed": trial.seed,
        "archs": [list(place.arch) for place in sound],
        "texts": [place.text for place in sound],
        "values": [{name: number(value) for name, value in place.scores.items()} for place in sound],
        "evaluations": found.spent.evaluations,
        "seconds": found.spent.seconds,
        "own": list(found.best),
        "end": found.end,
    }


def _least_failed(trial: Trial, found: Found) -> list[Place]:
    """Where no candidate has all its scores: those that lack the fewest, in their order."""
    if not found.places or all(len(place.failures) == len(place.scores) for place in found.places):
        reasons = [reason for place in found.places for reason in place.failures.values()]
        raise InputError(
            f"no architecture that {trial.name} looked at could be scored"
            f" ({reasons[0] if reasons else 'nothing was evaluated'}): look at the data, or choose another --ranking"
        )
    fewest = min(len(place.failures) for place in found.places)
    return [place for place in found.places if len(place.failures) == fewest]


def _winner(data: Mapping[str, Any]) -> Winner:
    return Winner(
        data["trial"],
        tuple(tuple(arch) for arch in data["archs"]),
        tuple({name: unnumber(value) for name, value in row.items()} for row in data["values"]),
        data["evaluations"],
        data["seconds"],
        tuple(data["own"]),
    )
