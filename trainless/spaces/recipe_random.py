"""Random recipes as NAS-Bench-NLP drew them (Klyuchnikov et al., 2022)."""

from __future__ import annotations

import numpy as np

from trainless.core.errors import InputError
from trainless.spaces.recipe import ACTIVATIONS, HIDDEN, MAIN, MAX_HIDDEN, NODES, Cell, Step, X, problems

_MAIN_ODDS = (0.5, 1 / 6, 1 / 6, 1 / 6)
_LINEAR_INPUTS, _LINEAR_ODDS = (2, 3), (0.8, 0.2)


def random_cell(rng: np.random.Generator, hidden: int = 2, intermediate: int = 7) -> Cell:
    """One random cell by the benchmark's procedure, drawn again until it passes the benchmark's checks.

    Nodes are added until there are ``hidden + intermediate``: with odds 3:1:1:1 a linear node (2 or 3 distinct
    inputs, odds 4:1, among the cell's inputs and the activations so far, followed at once by a random
    activation), a blend, a product or a sum (distinct inputs among states and nodes). Random distinct nodes
    become the new states and what they do not depend on is removed. A cell is kept where every input and state
    is used and no new state reads an old one directly.

    Args:
        rng: The source of randomness.
        hidden: Number of hidden states, 1 to 3.
        intermediate: Number of nodes beside the new states.

    Example:
        >>> cell = random_cell(np.random.default_rng(0), hidden=1, intermediate=4)
        >>> len(cell.hidden), len(cell.steps) <= 6
        (1, True)
    """
    if not 1 <= hidden <= MAX_HIDDEN or intermediate < 1:
        raise InputError(
            f"recurrent: {hidden} hidden states and {intermediate} intermediate nodes were given; expected 1 to"
            f" {MAX_HIDDEN} and at least 1"
        )
    while True:
        steps = _redundant(rng, hidden, hidden + intermediate)
        chosen = rng.choice(len(steps), hidden, replace=False)
        cell = Cell(tuple(steps), tuple(int(node) for node in chosen)).pruned()
        direct = any(HIDDEN <= source < NODES for node in cell.hidden for source in cell.steps[node].inputs)
        if not direct and next(problems(cell), None) is None:
            return cell


def _redundant(rng: np.random.Generator, hidden: int, size: int) -> list[Step]:
    """The graph before anything is removed; a linear node at the end may make it one larger."""
    steps: list[Step] = []
    states = list(range(HIDDEN, HIDDEN + hidden))
    activations: list[int] = []
    while len(steps) < size:
        op = MAIN[rng.choice(len(MAIN), p=_MAIN_ODDS)]
        if op == "linear":
            sources = [X, *states, *activations]
            wanted = min(_LINEAR_INPUTS[rng.choice(2, p=_LINEAR_ODDS)], len(sources))
            steps.append(Step(op, _choose(rng, sources, wanted)))
            steps.append(Step(ACTIVATIONS[rng.integers(len(ACTIVATIONS))], (NODES + len(steps) - 1,)))
            activations.append(NODES + len(steps) - 1)
        else:
            sources = [*states, *range(NODES, NODES + len(steps))]
            wanted = 3 if op == "blend" else 2
            if wanted <= len(sources):
                steps.append(Step(op, _choose(rng, sources, wanted)))
    return steps


def _choose(rng: np.random.Generator, sources: list[int], wanted: int) -> tuple[int, ...]:
    return tuple(int(source) for source in rng.choice(sources, wanted, replace=False))
