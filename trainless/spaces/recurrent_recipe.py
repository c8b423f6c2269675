"""Recurrent cells as NAS-Bench-NLP writes them down: recipes, their rules, their twins and their random generation.

A source is ``X`` (the input), ``HIDDEN + j`` (the j-th state before the step) or ``NODES + i`` (the i-th node).
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.core.errors import InputError

MAIN = ("linear", "blend", "elementwise_prod", "elementwise_sum")
ACTIVATIONS = ("activation_tanh", "activation_sigm", "activation_leaky_relu")
OPERATIONS = MAIN + ACTIVATIONS
ARITIES: dict[str, tuple[int, ...]] = {
    "linear": (2, 3),
    "blend": (3,),
    "elementwise_prod": (2,),
    "elementwise_sum": (2,),
    **dict.fromkeys(ACTIVATIONS, (1,)),
}
MAX_HIDDEN = 3
X, HIDDEN, NODES = 0, 1, 1 + MAX_HIDDEN
_STATE = re.compile(r"h_new_([0-9]{1,3})")


@dataclass(frozen=True)
class RecipeNode:
    """One node: an operation and the sources that it reads, in order."""

    op: str
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class RecurrentCell:
    """Nodes in an order in which each reads earlier ones only, and the node of each new hidden state."""

    steps: tuple[RecipeNode, ...]
    hidden: tuple[int, ...]

    def live(self) -> tuple[int, ...]:
        wanted = set(self.hidden)
        for node in range(len(self.steps) - 1, -1, -1):
            if node in wanted:
                wanted |= {source - NODES for source in self.steps[node].inputs if source >= NODES}
        return tuple(sorted(wanted))

    def reordered(self, order: Sequence[int]) -> RecurrentCell:
        """These nodes alone, in this order, which has to keep sources before what reads them."""
        place = {node: index for index, node in enumerate(order)}
        steps = tuple(
            RecipeNode(
                self.steps[node].op,
                tuple(s if s < NODES else NODES + place[s - NODES] for s in self.steps[node].inputs),
            )
            for node in order
        )
        return RecurrentCell(steps, tuple(place[node] for node in self.hidden))

    def pruned(self) -> RecurrentCell:
        return self.reordered(self.live())


def source_name(source: int, names: Sequence[str]) -> str:
    """How a recipe writes a source."""
    if source == X:
        return "x"
    return f"h_prev_{source - HIDDEN}" if source < NODES else names[source - NODES]


def node_names(cell: RecurrentCell) -> list[str]:
    """``h_new_j`` for the nodes that are new states and ``node_i`` for the others."""
    states = {node: f"h_new_{state}" for state, node in enumerate(cell.hidden)}
    return [states.get(node, f"node_{node}") for node in range(len(cell.steps))]


def problems(cell: RecurrentCell) -> Iterator[str]:
    """What keeps a pruned cell from being one of the space, each as the end of a sentence."""
    names = node_names(cell)
    if len(set(cell.hidden)) < len(cell.hidden):
        yield "two hidden states are the same node: give each its own"
    used: set[int] = set()
    for name, step in zip(names, cell.steps, strict=True):
        written = [source_name(source, names) for source in step.inputs]
        used |= set(step.inputs)
        if len(set(step.inputs)) < len(step.inputs):
            yield f"{name} reads {', '.join(written)}: its inputs have to differ"
        if X in step.inputs and step.op != "linear":
            yield f"{name} ({step.op}) reads x, which has another width: only linear may"
        if late := [w for w, s in zip(written, step.inputs, strict=True) if len(cell.hidden) < s < NODES]:
            yield f"{name} reads {late[0]}, but there are {len(cell.hidden)} hidden states"
    for source in range(HIDDEN + len(cell.hidden)):
        if source not in used:
            yield f"nothing reads {source_name(source, names)}: every input and state has to be used"


def write_recipe(cell: RecurrentCell) -> str:
    """The benchmark's JSON of a cell."""
    names = node_names(cell)
    recipe = {
        name: {"op": step.op, "input": [source_name(source, names) for source in step.inputs]}
        for name, step in zip(names, cell.steps, strict=True)
    }
    return json.dumps(recipe)


def read_recipe(text: str) -> RecurrentCell:
    """The cell of a recipe in JSON, with its nodes sorted so that sources come first; raises InputError."""
    try:
        recipe = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"recurrent: the recipe is not JSON ({error}): expected {_SHAPE}") from error
    if not isinstance(recipe, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(recipe), "a number or truth")
        raise InputError(f"recurrent: the recipe {text[:40]!r} is {kind}, not an object of nodes: expected {_SHAPE}")
    if not recipe:
        raise InputError(f"recurrent: the recipe {text[:40]!r} has no nodes: expected {_SHAPE}")
    for name, spec in recipe.items():
        _require_spec(name, spec, recipe)
    states = {int(match[1]): name for name in recipe if (match := _STATE.fullmatch(name))}
    if not states or sorted(states) != list(range(len(states))) or len(states) > MAX_HIDDEN:
        given = ", ".join(states[index] for index in sorted(states)) or "none"
        raise InputError(f"recurrent: the new states are {given}; expected h_new_0, then up to h_new_{MAX_HIDDEN - 1}")
    order = _sorted(recipe)
    place = {name: NODES + index for index, name in enumerate(order)}
    place |= {"x": X, **{f"h_prev_{state}": HIDDEN + state for state in range(MAX_HIDDEN)}}
    steps = tuple(
        RecipeNode(recipe[name]["op"], tuple(place[source] for source in recipe[name]["input"])) for name in order
    )
    cell = RecurrentCell(steps, tuple(place[states[index]] - NODES for index in range(len(states))))
    if dead := [order[node] for node in range(len(steps)) if node not in cell.live()]:
        raise InputError(f"recurrent: {dead[0]!r} leads to no new state: leave it out")
    return cell


_SHAPE = '{"node": {"op": "linear", "input": ["x", "h_prev_0"]}, …, "h_new_0": …}'
_BASE = ("x", *(f"h_prev_{state}" for state in range(MAX_HIDDEN)))


def _require_spec(name: str, spec: Any, recipe: dict[str, Any]) -> None:
    if not isinstance(spec, dict) or set(spec) != {"op", "input"} or not isinstance(spec["input"], list):
        raise InputError(f"recurrent: {name!r} is {spec!r}; expected an object of op and input, such as {_SHAPE}")
    if name in _BASE:
        raise InputError(f"recurrent: {name!r} is an input of the cell and cannot be a node: rename it")
    if spec["op"] not in OPERATIONS:
        raise InputError(f"recurrent: {spec['op']!r} of {name!r} is not an operation: {', '.join(OPERATIONS)}")
    arities = ARITIES[spec["op"]]
    if len(spec["input"]) not in arities:
        wanted = " or ".join(map(str, arities))
        raise InputError(f"recurrent: {name!r} ({spec['op']}) has {len(spec['input'])} inputs; expected {wanted}")
    for source in spec["input"]:
        if not isinstance(source, str) or (source not in recipe and source not in _BASE):
            raise InputError(f"recurrent: {name!r} reads {source!r}, which is neither a node nor {', '.join(_BASE)}")


def _sorted(recipe: dict[str, Any]) -> list[str]:
    order: list[str] = []
    waiting = list(recipe)
    while waiting:
        ready = [n for n in waiting if all(s in order or s in _BASE for s in recipe[n]["input"])]
        if not ready:
            raise InputError(f"recurrent: {', '.join(waiting)} read each other in a circle: remove one of the inputs")
        order.append(ready[0])
        waiting.remove(ready[0])
    return order


_Code = tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]


@functools.lru_cache(maxsize=4096)
def canonical_cell(cell: RecurrentCell) -> RecurrentCell:
    """The first of all ways to write a pruned cell down.

    Nodes may be renumbered, the inputs of linear, sum and product swapped, and the states after the first
    (which is the output) renumbered. Algebra such as ``a·(b + c) = a·b + a·c`` is not looked at, nor two equal
    nodes without weights merged.
    """
    states = range(1, len(cell.hidden))
    forms = (_smallest(_renamed(cell, (0, *order)), {}) for order in itertools.permutations(states))
    return min(forms, key=_code)


def _renamed(cell: RecurrentCell, order: tuple[int, ...]) -> RecurrentCell:
    """The cell whose j-th state is what was the ``order[j]``-th."""
    place = {HIDDEN + old: HIDDEN + new for new, old in enumerate(order)}
    steps = tuple(RecipeNode(step.op, tuple(place.get(s, s) for s in step.inputs)) for step in cell.steps)
    return RecurrentCell(steps, tuple(cell.hidden[old] for old in order))


def _code(cell: RecurrentCell) -> _Code:
    return cell.hidden, tuple((OPERATIONS.index(step.op), step.inputs) for step in cell.steps)


def _smallest(cell: RecurrentCell, singled: dict[int, int]) -> RecurrentCell:
    """Sort nodes by what they are and how they are connected; where that leaves a tie, try every way to break it."""
    colours = _refined(cell, singled)
    classes: dict[int, list[int]] = {}
    for node, colour in enumerate(colours):
        classes.setdefault(colour, []).append(node)
    tied = next((classes[colour] for colour in sorted(classes) if len(classes[colour]) > 1), None)
    if tied is None:
        return _sorted_by_colour(cell, colours)
    return min((_smallest(cell, singled | {node: len(singled) + 1}) for node in tied), key=_code)


def _refined(cell: RecurrentCell, singled: dict[int, int]) -> list[int]:
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


def _in_order(step: RecipeNode, inputs: list[int]) -> list[int]:
    return inputs if step.op == "blend" else sorted(inputs)


def _ranked(signatures: Sequence[object]) -> list[int]:
    """The place of each signature among the different ones."""
    texts = [repr(signature) for signature in signatures]
    place = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return [place[text] for text in texts]


def _sorted_by_colour(cell: RecurrentCell, colours: list[int]) -> RecurrentCell:
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
    steps = tuple(RecipeNode(step.op, tuple(_in_order(step, list(step.inputs)))) for step in placed.steps)
    return RecurrentCell(steps, placed.hidden)


_MAIN_ODDS = (0.5, 1 / 6, 1 / 6, 1 / 6)
_LINEAR_INPUTS, _LINEAR_ODDS = (2, 3), (0.8, 0.2)


def random_cell(rng: np.random.Generator, hidden: int = 2, intermediate: int = 7) -> RecurrentCell:
    """One random cell by the benchmark's procedure, drawn again until it passes the benchmark's checks.

    Nodes are added until there are ``hidden + intermediate``: with odds 3:1:1:1 a linear node (2 or 3 distinct
    inputs, odds 4:1, among the cell's inputs and the activations so far, followed at once by a random
    activation), a blend, a product or a sum (distinct inputs among states and nodes). Random distinct nodes
    become the new states and what they do not depend on is removed. A cell is kept where every input and state
    is used and no new state reads an old one directly.
    """
    if not 1 <= hidden <= MAX_HIDDEN or intermediate < 1:
        raise InputError(
            f"recurrent: {hidden} hidden states and {intermediate} intermediate nodes were given; expected 1 to"
            f" {MAX_HIDDEN} and at least 1"
        )
    while True:
        steps = _redundant(rng, hidden, hidden + intermediate)
        chosen = rng.choice(len(steps), hidden, replace=False)
        cell = RecurrentCell(tuple(steps), tuple(int(node) for node in chosen)).pruned()
        direct = any(HIDDEN <= source < NODES for node in cell.hidden for source in cell.steps[node].inputs)
        if not direct and next(problems(cell), None) is None:
            return cell


def _redundant(rng: np.random.Generator, hidden: int, size: int) -> list[RecipeNode]:
    """The graph before anything is removed; a linear node at the end may make it one larger."""
    steps: list[RecipeNode] = []
    states = list(range(HIDDEN, HIDDEN + hidden))
    activations: list[int] = []
    while len(steps) < size:
        op = MAIN[rng.choice(len(MAIN), p=_MAIN_ODDS)]
        if op == "linear":
            sources = [X, *states, *activations]
            wanted = min(_LINEAR_INPUTS[rng.choice(2, p=_LINEAR_ODDS)], len(sources))
            steps.append(RecipeNode(op, _choose(rng, sources, wanted)))
            steps.append(RecipeNode(ACTIVATIONS[rng.integers(len(ACTIVATIONS))], (NODES + len(steps) - 1,)))
            activations.append(NODES + len(steps) - 1)
        else:
            sources = [*states, *range(NODES, NODES + len(steps))]
            wanted = 3 if op == "blend" else 2
            if wanted <= len(sources):
                steps.append(RecipeNode(op, _choose(rng, sources, wanted)))
    return steps


def _choose(rng: np.random.Generator, sources: list[int], wanted: int) -> tuple[int, ...]:
    return tuple(int(source) for source in rng.choice(sources, wanted, replace=False))
