"""Axes to plot on by matplotlib, of the ``figures`` extra, and colours that colour-blind readers tell apart."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Floats

# of Okabe and Ito (2008), the darkest first
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#e69f00",
    "#cc79a7",
    "#56b4e9",
    "#8a8a8a",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
MARKERS = ("o", "s", "^", "D", "v", "P")
MOST = 30  # dots below each other
LONGEST = 48  # signs of a name beside a dot


def matplotlib_module() -> Any:
    """Import matplotlib, or say how to get it."""
    try:
        return importlib.import_module("matplotlib")
    except ImportError:
        raise InputError("matplotlib is not installed: pip install 'trainless[figures]'") from None


def axes_for(ax: Any = None, width: float = 6.0, height: float = 4.0) -> Any:
    """The axes to draw on: those that were given, or a new figure's, without the box around it."""
    matplotlib_module()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def clipped(name: str, most: int = LONGEST) -> str:
    """A name that fits beside a dot.

    Example:
        >>> clipped("abcdefgh", 5)
        'abcd…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def dot_plot(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    around: Sequence[tuple[float, float]] | None = None,
    strong: Sequence[str] = (),
    ax: Any = None,
) -> Any:
    """Values as dots from the top to the bottom; ``around`` are the ends of their intervals, NaN for none.

    Dots that are ``strong`` stand out by colour and shape; all do where none is named.
    """
    ax = axes_for(ax, 6.4, 0.28 * len(names) + 1.0)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        stands_out = not strong or name in strong
        colour = BLUE if stands_out else GREY
        if around is not None:
            ax.plot(around[place], (place, place), color=colour, linewidth=1.4)
        ax.plot([value], [place], "o" if stands_out else "s", color=colour, markersize=6)
    ax.set_yticks(range(len(names)), [clipped(name) for name in names], fontsize="small")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", color=GREY, alpha=0.25)
    ax.set_axisbelow(True)
    ax.set_xlabel(label)
    return ax


def scatter_plot(x: Floats, y: Floats, *, labels: Sequence[str], ax: Any = None) -> Any:
    """Two measures of the same things against each other; those that lack one are counted in the title."""
    ax = axes_for(ax)
    ax.scatter(x, y, s=16, color=BLUE, alpha=0.65, linewidths=0)
    if missing := int((~np.isfinite(x) | ~np.isfinite(y)).sum()):
        ax.set_title(f"{missing:,} of {len(x):,} have no score", color=VERMILION, fontsize="medium")
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    return ax


def matrix_plot(names: Sequence[str], values: Floats, *, label: str, ax: Any = None) -> Any:
    """Numbers from −1 to 1 of each pair, written into coloured squares."""
    side = max(3.5, 0.55 * len(names) + 1.8)
    ax = axes_for(ax, side + 0.8, side)
    ax.imshow(values, vmin=-1, vmax=1, cmap="PuOr_r")
    for (row, column), value in np.ndenumerate(values):
        shown, ink = "–" if np.isnan(value) else f"{value:.2f}", "white" if abs(value) > 0.6 else "black"
        ax.text(column, row, shown, ha="center", va="center", fontsize=8, color=ink)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set_title(label, fontsize="medium")
    return ax
