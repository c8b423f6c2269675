"""One form for all recipes that are the same cell written down in another order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from trainless.spaces.recipe import HIDDEN, NODES, OPERATIONS, Cell, Step

_Code = tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]


@functools.lru_cache(maxsize=4096)
def canonical_cell(cell: Cell) -> Cell:
    """The first of all ways to write a pruned cell down.

    Nodes may be renumbered, the inputs of linear, sum and product swapped, and the states after the first
    (which is the output) renumbered. Algebra such as ``a·(b + c) = a·b + a·c`` is not looked at, nor two equal
    nodes without weights merged.
    """
    states = range(1, len(cell.hidden))
    forms = (_smallest(_renamed(cell, (0, *order)), {}) for order in itertools.permutations(states))
    return min(forms, key=_code)


def _renamed(cell: Cell, order: tuple[int, ...]) -> Cell:
    """The cell whose j-th state is what was the ``order[j]``-th."""
    place = {HIDDEN + old: HIDDEN + new for new, old in enumerate(order)}
    steps = tuple(Step(step.op, tuple(place.get(s, s) for s in step.inputs)) for step in cell.steps)
    return Cell(steps, tuple(cell.hidden[old] for old in order))


def _code(cell: Cell) -> _Code:
    return cell.hidden, tuple((OPERATIONS.index(step.op), step.inputs) for step in cell.steps)


def _smallest(cell: Cell, singled: dict[int, int]) -> Cell:
    """Sort nodes by what they are and how they are connected; where that leaves a tie, try every way to break it."""
    colours = _refined(cell, singled)
    classes: dict[int, list[int]] = {}
    for node, colour in enumerate(colours):
        classes.setdefault(colour, []).append(node)
    tied = next((classes[colour] for colour in sorted(classes) if len(classes[colour]) > 1), None)
    if tied is None:
        return _sorted(cell, colours)
    return min((_smallest(cell, singled | {node: len(singled) + 1}) for node in tied), key=_code)


def _refined(cell: Cell, singled: dict[int, int]) -> list[int]:
    """Colours of the nodes, refined by those of inputs and readers until nothing changes."""
    states = {node: state + 1 for state, node in enumerate(cell.hidden)}
    colours = _ranked(
        [(OPERATIONS.index(step.op), states.get(node, 0), singled.get(node, 0)) for node, step in enumerate(cell.steps)]
    )
    while True:
        signatures: list[object] = []
        for node, step in enumerate(cell.steps):
            inputs = _in_order(step, [s if s < NODES else NODES + colours[s - NODES] for s in step.inputs])
            readers = sorted(
                (colours[other], place if reader.op == "blend" else 0)
                for other, reader in enumerate(cell.steps)
                for place, source in enumerate(reader.inputs)
                if source == NODES + node
            )
            signatures.append((colours[node], inputs, readers))
        finer = _ranked(signatures)
        if len(set(finer)) == len(set(colours)):
            return finer
        colours = finer


def _in_order(step: Step, inputs: list[int]) -> list[int]:
    return inputs if step.op == "blend" else sorted(inputs)


def _ranked(signatures: Sequence[object]) -> list[int]:
    """The place of each signature among the different ones."""
    texts = [repr(signature) for signature in signatures]
    place = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return [place[text] for text in texts]


def _sorted(cell: Cell, colours: list[int]) -> Cell:
    """Nodes by colour, each as soon as its sources are there; swappable inputs in increasing order."""
    order: list[int] = []
    while len(order) < len(cell.steps):
        ready = [
            node
            for node, step in enumerate(cell.steps)
            if node not in order and all(s < NODES or s - NODES in order for s in step.inputs)
        ]
        order.append(min(ready, key=colours.__getitem__))
    placed = cell.reordered(order)
    steps = tuple(Step(step.op, tuple(_in_order(step, list(step.inputs)))) for step in placed.steps)
    return Cell(steps, placed.hidden)
