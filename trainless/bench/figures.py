"""Pictures of scores against accuracy, and of leaderboards; by matplotlib, of the ``figures`` extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from trainless.core.errors import InputError
from trainless.core.plots import axes_for, matplotlib_module
from trainless.core.types import Floats

COLOUR, FAINT = "#1f4e79", "#9db7d1"


def _axes(width: float, height: float) -> tuple[Any, Any]:
    matplotlib_module().rcParams["svg.hashsalt"] = "trainless"  # the same picture is the same file
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, axes_for(figure.subplots())


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the picture {path} cannot be written ({error}): give a file that ends in .svg or .png"
        ) from None
    return path


def scatter(path: Path, scores: Floats, accuracy: Floats, *, name: str, truth: str) -> Path:
    """Score ranks against accuracy; networks without a score are drawn in a strip at the left."""
    figure, axes = _axes(5.5, 4)
    known = np.isfinite(scores)
    ranks = np.empty(int(known.sum()))
    ranks[np.argsort(scores[known], kind="stable")] = np.linspace(0, 1, len(ranks)) if len(ranks) > 1 else 0.5
    axes.scatter(ranks, accuracy[known], s=6, color=COLOUR, alpha=0.5, linewidths=0, rasterized=len(ranks) > 2000)
    if (~known).any():
        strip = np.full(int((~known).sum()), -0.06)
        axes.scatter(strip, accuracy[~known], s=6, color="#c0504d", alpha=0.5, linewidths=0, rasterized=True)
        axes.annotate(f"{len(strip)} failed", (-0.06, float(accuracy[~known].max())), color="#c0504d", fontsize=8)
    axes.set_xlabel(f"rank by {name}, the best at the right")
    axes.set_ylabel(truth)
    return _save(figure, path)


def bars(
    path: Path, values: Mapping[str, tuple[float, float, float]], *, label: str, marked: Sequence[str] = ()
) -> Path:
    """Values with their intervals (value, low, high), the highest first; marked names have a strong colour."""
    order = sorted(values, key=lambda name: np.nan_to_num(values[name][0], nan=-2.0))
    figure, axes = _axes(6.5, 0.24 * len(order) + 0.9)
    middle = [values[name][0] for name in order]
    around = np.abs([[values[name][0] - values[name][1], values[name][2] - values[name][0]] for name in order]).T
    axes.barh(order, middle, color=[COLOUR if name in marked else FAINT for name in order])
    axes.errorbar(middle, range(len(order)), xerr=np.nan_to_num(around), fmt="none", ecolor="black", lw=0.8)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel(label)
    return _save(figure, path)


def pairs(path: Path, published: Floats, ours: Floats, *, label: str) -> Path:
    """Published figures against ours, with the line on which they are equal."""
    figure, axes = _axes(4.2, 4)
    low, high = float(np.nanmin([published, ours])), float(np.nanmax([published, ours]))
    axes.plot([low, high], [low, high], color=FAINT, lw=1)
    axes.scatter(published, ours, s=14, color=COLOUR, linewidths=0)
    axes.set_xlabel(f"{label}, published")
    axes.set_ylabel(f"{label}, ours")
    return _save(figure, path)


Band: TypeAlias = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""A middle line, and what is below and above it."""


def bands(path: Path, x: Sequence[float], panels: Mapping[str, Mapping[str, Band]], *, across: str, up: str) -> Path:
    """Lines with shaded bands, one panel beside the other; ``panels`` is title to line to its band."""
    figure, _ = _axes(4.2 * len(panels), 3.6)
    figure.clear()
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, lines) in zip(every, panels.items(), strict=True):
        for place, (name, (middle, low, high)) in enumerate(lines.items()):
            axes.plot(x, middle, color=f"C{place}", lw=1.4, label=name)
            axes.fill_between(x, low, high, color=f"C{place}", alpha=0.12, lw=0)
        ends = [value for lines_ in lines.values() for value in lines_[1][len(x) // 4 :]]
        top = max(value for lines_ in lines.values() for value in lines_[2])
        axes.set_ylim(min(ends) - 0.3 * (top - min(ends)), top + 0.1 * (top - min(ends)))
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(across)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    every[0].set_ylabel(up)
    every[-1].legend(fontsize=7, frameon=False, loc="lower right")
    return _save(figure, path)
