"""Drawings for a terminal: the arrows of a cell, or the blocks of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainless.core.arch import Arch
    from trainless.spaces.protocol import Space
    from trainless.spaces.sketch import Chain, Graph


def in_text(space: Space, arch: Arch) -> str:
    """An arch as lines of text.

    Example:
        >>> from trainless.spaces.sizes import Sizes
        >>> "24 channels" in in_text(Sizes(), (0, 1, 2, 3, 4))
        True
    """
    from trainless.spaces.sketch import Chain, Drawable

    if not isinstance(space, Drawable):
        pairs = zip(space.decisions, arch, strict=True)
        return "\n".join(f"  {decision.name}: {decision.options[option]}" for decision, option in pairs)
    parts = space.sketch(arch)
    return "\n".join(chain_text(part) if isinstance(part, Chain) else graph_text(part) for part in parts)


def graph_text(graph: Graph) -> str:
    """One line per arrow, in the order of the nodes that they lead to.

    Example:
        >>> from trainless.spaces.sketch import edge_cell
        >>> drawn = graph_text(edge_cell("cell", [(0, 1), (0, 2), (1, 2)], ["conv", "none", "skip"], hide="none"))
        >>> [line.strip() for line in drawn.splitlines()]
        ['cell', 'input ── conv ──▶ 1', '1     ── skip ──▶ output']
    """
    labels = _names(graph)
    places = {node.key: place for place, node in enumerate(graph.nodes)}
    edges = sorted(graph.edges, key=lambda edge: (places[edge.target], places[edge.source]))
    left = max((len(labels[edge.source]) for edge in edges), default=0)
    wide = max((len(edge.label) for edge in edges), default=0)
    lines = [f"  {labels[e.source]:<{left}} {_shaft(e.label, wide)}▶ {labels[e.target]}" for e in edges]
    return "\n".join([graph.title, *lines])


def _names(graph: Graph) -> dict[str, str]:
    """What is written for each node; nodes of the same label are numbered by their place among those."""
    labels = [node.label for node in graph.nodes]
    seen: dict[str, int] = {}
    names: dict[str, str] = {}
    for node in graph.nodes:
        seen[node.label] = seen.get(node.label, 0) + 1
        names[node.key] = f"{node.label} #{seen[node.label]}" if labels.count(node.label) > 1 else node.label
    return names


def _shaft(label: str, wide: int) -> str:
    return (f"── {label} " if label else "").ljust(wide + 4, "─") + "──" if wide else "──"


def chain_text(chain: Chain) -> str:
    """One line per block.

    Example:
        >>> from trainless.spaces.sketch import Block, Chain
        >>> [line.strip() for line in chain_text(Chain("network", (Block("stem", "3×3"), Block("head")))).splitlines()]
        ['network', 'stem  3×3', '↓', 'head']
    """
    left = max((len(block.label) for block in chain.blocks), default=0)
    blocks = [f"  {block.label:<{left}}  {block.detail}".rstrip() for block in chain.blocks]
    return "\n".join([chain.title, "\n  ↓\n".join(blocks)])
