"""What tells the cell spaces of the NDS study apart (Radosavovic et al., 2019, table 1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """What tells one cell space from another.

    Attributes:
        operations: The options of every pair.
        nodes: Nodes of a cell; each adds up two pairs.
        loose: Whether the output is made of the nodes that no other node reads, instead of all of them.
    """

    operations: tuple[str, ...]
    nodes: int
    loose: bool


FAMILIES = {
    "darts": Family(
        (
            "none",
            "max_pool_3x3",
            "avg_pool_3x3",
            "skip_connect",
            "sep_conv_3x3",
            "sep_conv_5x5",
            "dil_conv_3x3",
            "dil_conv_5x5",
        ),
        nodes=4,
        loose=False,
    ),
    "enas": Family(
        ("skip_connect", "sep_conv_3x3", "sep_conv_5x5", "avg_pool_3x3", "max_pool_3x3"), nodes=5, loose=True
    ),
    "pnas": Family(
        (
            "sep_conv_3x3",
            "sep_conv_5x5",
            "sep_conv_7x7",
            "conv_7x1_1x7",
            "skip_connect",
            "avg_pool_3x3",
            "max_pool_3x3",
            "dil_conv_3x3",
        ),
        nodes=5,
        loose=False,
    ),
    "nasnet": Family(
        (
            "skip_connect",
            "conv_3x1_1x3",
            "conv_7x1_1x7",
            "dil_conv_3x3",
            "avg_pool_3x3",
            "max_pool_3x3",
            "max_pool_5x5",
            "max_pool_7x7",
            "conv_1x1",
            "conv_3x3",
            "sep_conv_3x3",
            "sep_conv_5x5",
            "sep_conv_7x7",
        ),
        nodes=5,
        loose=True,
    ),
    "amoeba": Family(
        (
            "skip_connect",
            "sep_conv_3x3",
            "sep_conv_5x5",
            "sep_conv_7x7",
            "avg_pool_3x3",
            "max_pool_3x3",
            "dil_sep_conv_3x3",
            "conv_7x1_1x7",
        ),
        nodes=5,
        loose=True,
    ),
}
