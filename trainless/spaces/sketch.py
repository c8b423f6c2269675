"""What a space says of an arch so that it can be drawn: graphs of a cell, or a chain of blocks.

A space is drawn once it has a method ``sketch``; a cell of operations on edges needs three lines::

    def sketch(self, arch: Arch) -> tuple[Graph]:
        labels = [OPERATIONS[option] for option in arch]
        return (edge_cell("cell", EDGES, labels, hide="none"),)

and a cell of operations on nodes a :class:`Graph` whose nodes carry the labels. DARTS-like spaces return two graphs,
the normal and the reduction cell. A space without the method is drawn as the list of its decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from trainless.core.arch import Arch

Role = Literal["input", "operation", "state", "output"]


@dataclass(frozen=True)
class Node:
    """One box of a graph: its key for the edges, what is written in it and what part it plays."""

    key: str
    label: str
    role: Role = "operation"


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes, with an operation written on it where there is one."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """A cell: a directed graph without cycles.

    ``absent`` edges, which an operation such as ``none`` takes away, are not drawn, yet part of the structure.
    ``operations`` are all that cells of this space may have, in the order in which features name them; where it is
    empty, :mod:`trainless.spaces.structure` looks at a few sketches.
    """

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    absent: tuple[Edge, ...] = ()
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """One step of a network: its name and what is special about it."""

    label: str
    detail: str = ""


@dataclass(frozen=True)
class Chain:
    """A network as blocks in their order."""

    title: str
    blocks: tuple[Block, ...]


Sketch: TypeAlias = Sequence[Graph | Chain]


@runtime_checkable
class Drawable(Protocol):
    """A space that says how its archs look."""

    def sketch(self, arch: Arch) -> Sketch:
        """The graphs or chains to draw, in reading order."""
        ...


def edge_cell(
    title: str,
    edges: Sequence[tuple[int, int]],
    labels: Sequence[str],
    hide: str = "",
    operations: tuple[str, ...] = (),
) -> Graph:
    """A cell whose operations lie on its edges; node 0 is the input, the last one the output.

    ``hide`` is the operation that stands for no edge at all.
    """
    last = max(target for _, target in edges)
    nodes = (Node("0", "input", "input"), *(Node(str(node), str(node), "state") for node in range(1, last)))
    found = [Edge(str(source), str(target), label) for (source, target), label in zip(edges, labels, strict=True)]
    kept = tuple(edge for edge in found if edge.label != hide)
    absent = tuple(edge for edge in found if edge.label == hide)
    return Graph(title, (*nodes, Node(str(last), "output", "output")), kept, absent, operations)
