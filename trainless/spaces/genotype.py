"""The field's notation of cells, ``Genotype(normal=[('sep_conv_3x3', 0), …], …)``, read without running it."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass

from trainless.core.errors import InputError

FREE = frozenset({"none", "skip_connect", "avg_pool_3x3", "max_pool_3x3", "max_pool_5x5", "max_pool_7x7"})
"""Operations that turn zeros into zeros where they do not halve the size."""

OperationPair = tuple[str, int]
"""An operation and the state that it reads: 0 and 1 are the two cells before, 2, 3, … the nodes of this cell."""

Nodes = tuple[tuple[OperationPair, OperationPair], ...]
"""The two pairs of every node of a cell without open options."""

Slot = tuple[OperationPair, ...]
"""The open pairs of one of a node's two places; they are added up."""


@dataclass(frozen=True)
class CellPlan:
    """What a cell computes: the slots of its nodes and the states that are concatenated."""

    nodes: tuple[tuple[Slot, ...], ...]
    outputs: tuple[int, ...]


def plan(nodes: tuple[tuple[Slot, ...], ...], loose: bool) -> CellPlan:
    """A plan whose output is made of all nodes, or of those that are not sure to be read by another one."""
    read: set[int] = set()
    for slot in itertools.chain(*nodes):
        sources = {source for _, source in slot}
        if loose and len(sources) == 1:
            read |= sources
    return CellPlan(nodes, tuple(state for state in range(2, len(nodes) + 2) if state not in read))


def canonical_nodes(nodes: Nodes) -> Nodes:
    """The same nodes for all cells that differ by the order of pairs and nodes, or by zeros alone.

    The two pairs of a node are added, so their order means nothing; neither does the order of the nodes, since the
    next layer's channels can be permuted. A pooling or skip of a state that is always zero is ``none``, and it does
    not matter what ``none`` reads. Nodes are ordered by depth, then by what they compute; orders of nodes that are
    alike in both are all tried and the smallest is taken.
    """
    nodes = _without_zeros(nodes)
    depths, labels = [0, 0], ["0", "1"]
    for node in nodes:
        depths.append(1 + max(depths[source] for _, source in node))
        labels.append(f"({'+'.join(sorted(f'{name} {labels[source]}' for name, source in node))})")
    keys = list(zip(depths, labels, strict=True))
    states = sorted(range(2, len(nodes) + 2), key=keys.__getitem__)
    groups = [list(group) for _, group in itertools.groupby(states, key=keys.__getitem__)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return min(_renumbered(nodes, list(itertools.chain(*order))) for order in orders)


def _without_zeros(nodes: Nodes) -> Nodes:
    zeros: set[int] = set()
    found: list[tuple[OperationPair, OperationPair]] = []
    for state, node in enumerate(nodes, start=2):
        first, second = (
            ("none", 0) if name == "none" or (name in FREE and source in zeros) else (name, source)
            for name, source in node
        )
        if first[0] == second[0] == "none":
            zeros.add(state)
        found.append((first, second))
    return tuple(found)


def _renumbered(nodes: Nodes, order: list[int]) -> Nodes:
    place = {0: 0, 1: 1} | {old: new for new, old in enumerate(order, start=2)}
    found: list[tuple[OperationPair, OperationPair]] = []
    for old in order:
        first, second = sorted((name, place[source]) for name, source in nodes[old - 2])
        found.append((first, second))
    return tuple(found)


_PARTS = ("normal", "normal_concat", "reduce", "reduce_concat")
_LONGEST = 20_000
_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), …], normal_concat=[2, 3, 4, 5], reduce=[…], reduce_concat=[…])"


@dataclass(frozen=True)
class Genotype:
    """A normal and a reduction cell: two pairs for every node, and the states that make the output."""

    normal: tuple[OperationPair, ...]
    normal_concat: tuple[int, ...]
    reduce: tuple[OperationPair, ...]
    reduce_concat: tuple[int, ...]

    def __str__(self) -> str:
        parts = (self.normal, self.normal_concat, self.reduce, self.reduce_concat)
        return f"Genotype({', '.join(f'{name}={list(part)!r}' for name, part in zip(_PARTS, parts, strict=True))})"


def parse_genotype(text: str) -> Genotype:
    """Read a genotype; lists may be tuples, and a concatenation may be a ``range``."""
    parts = _keywords(text)
    return Genotype(
        _pairs("normal", parts["normal"]),
        _states("normal_concat", parts["normal_concat"]),
        _pairs("reduce", parts["reduce"]),
        _states("reduce_concat", parts["reduce_concat"]),
    )


def _keywords(text: str) -> dict[str, ast.expr]:
    if len(text) > _LONGEST:
        raise InputError(f"a genotype of {len(text)} characters was given; expected at most {_LONGEST}")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{_short(text)} cannot be read as a genotype; expected {_EXAMPLE}") from error
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Genotype"):
        raise InputError(f"{_short(text)} is not a genotype; expected {_EXAMPLE}")
    if len(call.args) > len(_PARTS):
        raise InputError(f"the genotype has {len(call.args)} parts; expected {', '.join(_PARTS)}")
    parts = dict(zip(_PARTS, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in _PARTS:
            raise InputError(f"{keyword.arg!r} is not a part of a genotype: {', '.join(_PARTS)}")
        parts[keyword.arg] = keyword.value
    for part in _PARTS:
        if part not in parts:
            raise InputError(f"the genotype has no part {part!r}; expected {_EXAMPLE}")
    return parts


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def _literal(part: str, node: ast.expr) -> object:
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"the genotype's part {part!r} is not a plain list; expected {_EXAMPLE}") from error
    return value


def _pairs(part: str, node: ast.expr) -> tuple[OperationPair, ...]:
    value = _literal(part, node)
    if not isinstance(value, list | tuple):
        raise InputError(f"the genotype's part {part!r} is {value!r}; expected a list of ('operation', state)")
    pairs: list[OperationPair] = []
    for index, pair in enumerate(value):
        match pair:
            case (str(operation), int(state)) if not isinstance(state, bool):
                pairs.append((operation, state))
            case _:
                raise InputError(f"entry {index} of {part!r} is {pair!r}; expected ('operation', state)")
    return tuple(pairs)


def _states(part: str, node: ast.expr) -> tuple[int, ...]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        bounds = [_literal(part, bound) for bound in node.args]
        match bounds:
            case [int(start), int(stop)] if 0 <= start <= stop <= 100 and not node.keywords:
                return tuple(range(start, stop))
            case _:
                raise InputError(f"the range in {part!r} is not one of two small numbers, such as range(2, 6)")
    value = _literal(part, node)
    if not isinstance(value, list | tuple) or not all(type(state) is int for state in value):
        raise InputError(f"the genotype's part {part!r} is {value!r}; expected a list of states, such as [2, 3, 4, 5]")
    return tuple(value)
