"""Figures of searches: best so far, what pruning left open, operations, landscape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from trainless.report.chart import (
    WIDE,
    Frame,
    bar,
    bounds,
    chart,
    clipped,
    colour,
    dot,
    frame,
    legend,
    line,
    svg,
    words,
)
from trainless.report.contents import Floats, Searched
from trainless.report.landscape import Plane, best_so_far, networks_left, places, smoothed
from trainless.report.markup import Markup, figure, joined, percent, short, tag
from trainless.report.scene import text_width

MOST_POINTS = 1200
_GRID = (26, 18)


def methods(searches: Sequence[Searched]) -> list[str]:
    """The methods in their order; each has the colour of its place."""
    return list(dict.fromkeys(one.method for one in searches))


METHODS = MappingProxyType(
    {
        "rl": "reinforcement learning",
        "genetic": "genetic algorithm",
        "prune": "pruning",
        "learned": "learning from the first members",
    }
)


def in_words(method: str) -> str:
    """A method's full name.

    Example:
        >>> in_words("rl"), in_words("evolution")
        ('reinforcement learning', 'evolution')
    """
    return METHODS.get(method, method)


def method_legend(searches: Sequence[Searched]) -> Markup:
    """Which colour is which method."""
    return legend((colour(place), in_words(name)) for place, name in enumerate(methods(searches)))


def best_so_far_figure(searches: Sequence[Searched], standing: Sequence[Floats], what: str) -> Markup:
    """The best value that each search had seen after so many evaluations; its winner is the dot at the end."""
    names = methods(searches)
    curves = [best_so_far(values[: len(one.candidates)]) for one, values in zip(searches, standing, strict=True)]
    ends = [_winner(values[len(one.candidates) :]) for one, values in zip(searches, standing, strict=True)]
    span = (0.0, float(max((len(one.candidates) for one in searches), default=1)) or 1.0)
    floor = bounds([*_finite([curve[len(curve) // 10 :] for curve in curves]), *filter(math.isfinite, ends)])
    curves = [np.maximum(curve, floor[0]) for curve in curves]
    plane = frame(span, floor, x_title="candidates looked at", y_title=f"best {what}")
    marks = []
    for one, curve, end in zip(searches, curves, ends, strict=True):
        shade, count = colour(names.index(one.method)), len(one.candidates)
        if np.isfinite(curve).any():
            marks.append(line(plane, list(range(1, count + 1)), curve.tolist(), shade, step=True, tip=one.name))
        if math.isfinite(end):
            tip = f"{one.name}: its winner, {what} {figure(end)}, after {count} candidates"
            marks.append(dot(plane, count, end, shade, tip=tip))
    key = method_legend(searches) if len(searches) > 1 else None
    return joined([chart(plane, f"Best {what} against candidates looked at", *marks), key])


def _winner(values: Floats) -> float:
    """The first of a leaderboard; NaN where the search has none yet."""
    return float(values[0]) if len(values) else math.nan


def _finite(columns: Sequence[Floats]) -> list[float]:
    return [float(value) for column in columns for value in column if np.isfinite(value)]


def pruning_figure(searches: Sequence[Searched]) -> Markup | None:
    """How many networks each pruning had left, from the whole space to one; None where nothing was pruned."""
    columns = [(one, networks_left(one)) for one in searches]
    columns = [(one, left) for one, left in columns if np.isfinite(left).any()]
    if not columns:
        return None
    names = methods(searches)
    span = (0.0, float(max(len(left) for _, left in columns)))
    top = max(_finite([left for _, left in columns]))
    plane = frame(span, (0.8, top * 1.6), y_log=True, x_title="supernets looked at", y_title="networks left")
    marks = []
    for one, left in columns:
        xs, ys = [*range(1, len(left) + 1), len(left) + 0.5], [*left.tolist(), 1.0]
        shade = colour(names.index(one.method))
        marks.append(line(plane, xs, ys, shade, step=True, tip=f"{one.name}: from {top:,.0f} networks to one"))
        marks.append(dot(plane, xs[-1], 1.0, shade))
    return chart(plane, "Networks left in the supernet while it is pruned", *marks)


def operations_figure(groups: Mapping[str, Counter[str]], order: Sequence[str]) -> Markup:
    """Shares of operations as one bar per group (TEACUP, fig. 5); ``order`` gives each operation its colour."""
    shown = list(order[:7])
    rest = len(order) > len(shown)
    names = [*shown, *(["others"] if rest else [])]
    width, row, left = WIDE, 34.0, 16 + max(min(text_width(name, 12), 200) for name in groups)
    marks = []
    for place, (group, counts) in enumerate(groups.items()):
        total = sum(counts.values()) or 1
        x, y = left, 8 + row * place
        marks.append(words(left - 8, y + 11, clipped(group, 202), anchor="end"))
        for number, name in enumerate(names):
            count = counts[name] if name in shown else total - sum(counts[each] for each in shown)
            size = (width - left - 8) * count / total
            tip = f"{group}: {name} {percent(count / total)} ({count} of {total})"
            marks.append(bar(x, y, size, 22, _shade(name, number), tip=tip))
            if size > 46:
                marks.append(words(x + size / 2, y + 11, percent(count / total, 0), class_="on"))
            x += size
    height = 8 + row * len(groups)
    drawn = svg(width, height, "Shares of operations in each group", *marks, class_="chart wide")
    return joined([drawn, legend((f"thick {_shade(name, number)}", name) for number, name in enumerate(names))])


def _shade(name: str, place: int) -> str:
    return "cn" if name in ("none", "others", "zero") else colour(place)


def landscape_figure(
    plane: Plane, name: str, values: Floats, *, higher: bool, searches: Sequence[Searched], title: str
) -> Markup:
    """One score over the plane of all architectures: darker is better; ways of the searches and their winners on it."""
    share = places(values, higher=higher)
    held = [plane.points, *(way for way in plane.ways), plane.winners]
    x, y = (bounds(np.concatenate([part[:, axis] for part in held]).tolist(), 0.06) for axis in (0, 1))
    box = frame(x, y, width=480, height=340, left=34, x_title=_axis(plane, 0), y_title=_axis(plane, 1))
    box = Frame(box.x, box.y, box.width, box.height, box.x_title, box.y_title, lambda v: "", lambda v: "")
    marks = [*_ground(box, plane.points, share)]
    step = max(1, len(share) // MOST_POINTS)
    for place in range(0, len(share), step):
        if math.isfinite(share[place]):
            tip = f"{name} {figure(float(values[place]))}, better than {percent(float(share[place]), 0)}"
            at = (float(plane.points[place, 0]), float(plane.points[place, 1]))
            marks.append(dot(box, *at, "cn", tip=tip, radius=2, kind="faint"))
    marks += _ways(box, plane, searches)
    return chart(box, title, *marks)


def _axis(plane: Plane, number: int) -> str:
    share = float(plane.explained[number]) if len(plane.explained) > number else 0.0
    return f"component {number + 1} ({percent(share, 0)} of the variance)"


def _ground(box: Frame, points: Floats, share: Floats) -> list[Markup]:
    wide, high = _GRID
    xs, ys = (
        np.linspace(box.x.low, box.x.high, 2 * wide + 1)[1::2],
        np.linspace(box.y.low, box.y.high, 2 * high + 1)[1::2],
    )
    unit = np.array([box.x.high - box.x.low, box.y.high - box.y.low])
    grid = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    value, near = smoothed(points / unit, share, grid / unit, 0.06)
    size = ((box.x.stop - box.x.start) / wide, (box.y.start - box.y.stop) / high)
    return [
        bar(
            box.x(float(place[0])) - size[0] / 2,
            box.y(float(place[1])) - size[1] / 2,
            size[0],
            size[1],
            "ground",
            share=round(0.85 * float(level), 2),
        )
        for place, level, close in zip(grid, value, near, strict=True)
        if close > 0.1
    ]


def _ways(box: Frame, plane: Plane, searches: Sequence[Searched]) -> list[Markup]:
    """The way of the first search of each method, and every winner."""
    names, marks, drawn = methods(searches), [], set()
    for one, way, end in zip(searches, plane.ways, plane.winners, strict=True):
        shade = colour(names.index(one.method))
        if one.method not in drawn:
            marks.append(line(box, way[:, 0].tolist(), way[:, 1].tolist(), f"{shade} halo"))
            marks.append(line(box, way[:, 0].tolist(), way[:, 1].tolist(), shade, tip=f"{one.name}: its way"))
            marks.append(dot(box, float(way[0, 0]), float(way[0, 1]), shade, tip=f"{one.name}: start", kind="hollow"))
            drawn.add(one.method)
        marks.append(_star(box.x(float(end[0])), box.y(float(end[1])), shade, f"{one.name}: its winner"))
    return marks


def _star(x: float, y: float, shade: str, tip: str) -> Markup:
    turns = [math.pi * (place / 5 - 0.5) for place in range(10)]
    sizes = [8.0 if place % 2 == 0 else 3.4 for place in range(10)]
    points = [(x + size * math.cos(turn), y + size * math.sin(turn)) for turn, size in zip(turns, sizes, strict=True)]
    corners = " ".join(f"{short(a)},{short(b)}" for a, b in points)
    return tag("polygon", points=corners, class_=f"dot {shade} ringed", data_tip=tip)
