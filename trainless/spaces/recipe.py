"""Recurrent cells as NAS-Bench-NLP writes them down: recipes, their rules, their twins and their random generation.

A source is ``X`` (the input), ``HIDDEN + j`` (the j-th state before the step) or ``NODES + i`` (the i-th node).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
class Step:
    """One node: an operation and the sources that it reads, in order."""

    op: str
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """Nodes in an order in which each reads earlier ones only, and the node of each new hidden state."""

    steps: tuple[Step, ...]
    hidden: tuple[int, ...]

    def live(self) -> tuple[int, ...]:
        """The nodes that some new state depends on."""
        wanted = set(self.hidden)
        for node in range(len(self.steps) - 1, -1, -1):
            if node in wanted:
                wanted |= {source - NODES for source in self.steps[node].inputs if source >= NODES}
        return tuple(sorted(wanted))

    def reordered(self, order: Sequence[int]) -> Cell:
        """These nodes alone, in this order, which has to keep sources before what reads them."""
        place = {node: index for index, node in enumerate(order)}
        steps = tuple(
            Step(
                self.steps[node].op,
                tuple(s if s < NODES else NODES + place[s - NODES] for s in self.steps[node].inputs),
            )
            for node in order
        )
        return Cell(steps, tuple(place[node] for node in self.hidden))

    def pruned(self) -> Cell:
        """The cell without the nodes that lead nowhere."""
        return self.reordered(self.live())


def source_name(source: int, names: Sequence[str]) -> str:
    """How a recipe writes a source."""
    if source == X:
        return "x"
    return f"h_prev_{source - HIDDEN}" if source < NODES else names[source - NODES]


def node_names(cell: Cell) -> list[str]:
    """``h_new_j`` for the nodes that are new states and ``node_i`` for the others."""
    states = {node: f"h_new_{state}" for state, node in enumerate(cell.hidden)}
    return [states.get(node, f"node_{node}") for node in range(len(cell.steps))]


def problems(cell: Cell) -> Iterator[str]:
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


def write_recipe(cell: Cell) -> str:
    """The benchmark's JSON of a cell.

    Example:
        >>> tanh = Cell((Step("linear", (X, HIDDEN)), Step("activation_tanh", (NODES,))), (1,))
        >>> write_recipe(tanh)[:53]
        '{"node_0": {"op": "linear", "input": ["x", "h_prev_0"'
    """
    names = node_names(cell)
    recipe = {
        name: {"op": step.op, "input": [source_name(source, names) for source in step.inputs]}
        for name, step in zip(names, cell.steps, strict=True)
    }
    return json.dumps(recipe)


def read_recipe(text: str) -> Cell:
    """The cell of a recipe in JSON, with its nodes sorted so that sources come first; raises InputError.

    Example:
        >>> read_recipe('{"f": {"op": "linear", "input": ["x", "h_prev_0"]},'
        ...             ' "h_new_0": {"op": "activation_tanh", "input": ["f"]}}').hidden
        (1,)
    """
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
    steps = tuple(Step(recipe[name]["op"], tuple(place[source] for source in recipe[name]["input"])) for name in order)
    cell = Cell(steps, tuple(place[states[index]] - NODES for index in range(len(states))))
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
