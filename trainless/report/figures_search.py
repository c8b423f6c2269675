"""Figures of searches: best so far, what pruning left open, operations, landscape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import numpy as np
from scipy.stats import rankdata

from trainless.core.arch import Arch, Candidate, is_region
from trainless.core.types import Floats
from trainless.rankings import LogSum, RankSum, registry
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
from trainless.report.contents import SearchRecord
from trainless.report.markup import Markup, figure, joined, percent, short, tag
from trainless.report.scene import text_width
from trainless.runs.signals import scores_of
from trainless.spaces.protocol import Space
from trainless.spaces.sketch import Drawable, Graph, Sketch

GROUPS = 10  # stations of a search's way


def standings(searches: Sequence[SearchRecord]) -> list[Floats]:
    """One number per candidate of each search and then per arch of its leaderboard, higher is better.

    It is the ranking over all of them together, so that searches can be compared; regions, whose scores are those of
    a supernet, have none (NaN). Without a ranking it is the only score with its sign, or the sum of the ranks.
    """
    rows: dict[str, Mapping[str, float]] = {}
    for number, one in enumerate(searches):
        for place, candidate in enumerate(one.candidates):
            if not is_region(candidate):
                rows[f"{number}/{place}"] = {name: float(column[place]) for name, column in one.values.items()}
        for place, values in enumerate(one.best_values):
            rows[f"{number}/best{place}"] = values
    if not rows:
        return [np.full(len(one.candidates), np.nan) for one in searches]
    found = dict(zip(rows, _ranked(searches[0], rows), strict=True))
    return [
        np.array(
            [found.get(f"{number}/{place}", np.nan) for place in range(len(one.candidates))]
            + [found[f"{number}/best{place}"] for place in range(len(one.best_values))]
        )
        for number, one in enumerate(searches)
    ]


def _ranked(one: SearchRecord, rows: Mapping[str, Mapping[str, float]]) -> Floats:
    directions = {name: up for name, up in one.directions.items() if all(name in row for row in rows.values())}
    scores = scores_of(rows, directions)
    if one.ranking in registry and set(registry[one.ranking].proxies) <= set(directions):
        values = np.asarray(registry[one.ranking](scores), np.float64)
    elif len(directions) == 1:
        (name, up), *_ = directions.items()
        values = scores.column(name) if up else -scores.column(name)
    else:
        values = np.asarray(RankSum(tuple(directions))(scores), np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def wanted(one: SearchRecord) -> dict[str, bool]:
    """Whether the search wants more of each score: as its ranking weighs them, else as each is believed to go.

    Example:
        >>> directions = {"length": True, "zico": True}
        >>> wanted(SearchRecord("rl-00", "", "teacup", directions, (), (), {}, (), (), 0, 0.0, 0))
        {'length': False, 'zico': True}
    """
    weights: Mapping[str, float] = {}
    if one.ranking in registry:
        ranking = registry[one.ranking]
        weights = ranking.weights if isinstance(ranking, LogSum) else {}
    return {name: weights.get(name, 1.0 if up else -1.0) > 0 for name, up in one.directions.items()}


def best_so_far(values: Floats) -> Floats:
    """The highest of all values up to each; NaN until there is one.

    Example:
        >>> best_so_far(np.array([np.nan, 1.0, 0.5, 2.0])).tolist()
        [nan, 1.0, 1.0, 2.0]
    """
    best = np.maximum.accumulate(np.where(np.isnan(values), -np.inf, values)) if len(values) else values
    return np.where(np.isfinite(best), best, np.nan)


def networks_left(one: SearchRecord) -> Floats:
    """How many networks a pruning still had open at each evaluation; NaN for archs.

    Example:
        >>> regions = ((frozenset({0, 1}), frozenset({0, 1})), (frozenset({0}), frozenset({0, 1})))
        >>> one = SearchRecord("prune-00", "prune", "", {}, regions, (1, 2), {}, (), (), 2, 0.0, 0)
        >>> networks_left(one).tolist()
        [4.0, 2.0]
    """
    sizes = [np.prod([len(part) for part in c], dtype=float) if is_region(c) else np.nan for c in one.candidates]
    most: dict[int, float] = {}
    for step, size in zip(one.steps, sizes, strict=True):
        most[step] = max(most.get(step, size), size)
    return np.array([most[step] for step in one.steps])


def operations(archs: Sequence[Arch], space: Space | None, decisions: Mapping[str, Sequence[str]]) -> Counter[str]:
    """How often each operation occurs in archs: on edges or nodes of their cells, or else as options of decisions.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> sorted(operations([(3, 0, 1, 0, 0, 1)], NasBench201(), {}).items())
        [('none', 3), ('nor_conv_3x3', 1), ('skip_connect', 2)]
    """
    found: Counter[str] = Counter()
    for arch in archs:
        sketch: Sketch = space.sketch(arch) if isinstance(space, Drawable) else ()
        graphs = [part for part in sketch if isinstance(part, Graph)]
        for graph in graphs:
            found.update(edge.label for edge in (*graph.edges, *graph.absent) if edge.label)
            found.update(node.label for node in graph.nodes if node.role == "operation")
        if not graphs:
            found.update(options[option] for options, option in zip(decisions.values(), arch, strict=True))
    return found


def positions(candidates: Sequence[Candidate], sizes: Sequence[int]) -> Floats:
    """Candidates as vectors: one coordinate per option, 1 where it is chosen; a region's open options share the 1.

    Example:
        >>> positions([(1, 0), (frozenset({0, 1}), frozenset({1}))], (2, 2)).tolist()
        [[0.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.0, 1.0]]
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    found = np.zeros((len(candidates), int(sum(sizes))))
    for row, candidate in enumerate(candidates):
        for start, part in zip(starts, candidate, strict=True):
            options = sorted(part) if isinstance(part, frozenset) else [part]
            found[row, [start + option for option in options]] = 1 / len(options)
    return found


@dataclass(frozen=True, eq=False)
class Plane:
    """Archs on the plane of their first two principal components.

    Args:
        points: Every distinct arch ``(N, 2)``.
        archs: Those archs.
        values: Each column's mean value of each arch.
        ways: Each search's way, from step to step ``(≤ GROUPS, 2)``.
        winners: Where each search ended.
        explained: The share of the variance that each component has.
    """

    points: Floats
    archs: tuple[Arch, ...]
    values: Mapping[str, Floats]
    ways: tuple[Floats, ...]
    winners: Floats
    explained: Floats


def landscape(searches: Sequence[SearchRecord], sizes: Sequence[int]) -> Plane | None:
    """Project everything that was looked at by PCA (TEG-NAS, 4.3); None where there are fewer than three archs.

    A search's way is the mean place of what it looked at, over at most ten stretches of its steps. TEG-NAS forks one
    search into two children; here several searches start on their own.
    """
    rows: dict[Arch, list[dict[str, float]]] = {}
    for one in searches:
        for place, candidate in enumerate(one.candidates):
            if not is_region(candidate):
                rows.setdefault(cast(Arch, candidate), []).append(
                    {k: float(column[place]) for k, column in one.values.items()}
                )
        for arch, values in zip(one.best[:1], one.best_values[:1], strict=True):
            rows.setdefault(arch, []).append(dict(values))
    if len(rows) < 3:
        return None
    vectors = positions(list(rows), sizes)
    middle = vectors.mean(0)
    _, spread, axes = np.linalg.svd(vectors - middle, full_matrices=False)
    axes = _signed(axes[:2])
    names = list(searches[0].directions)
    return Plane(
        (vectors - middle) @ axes.T,
        tuple(rows),
        {name: np.array([_mean([row.get(name, np.nan) for row in held]) for held in rows.values()]) for name in names},
        tuple((_way(one, sizes) - middle) @ axes.T for one in searches),
        (positions([one.best[0] for one in searches], sizes) - middle) @ axes.T,
        spread[:2] ** 2 / max(float((spread**2).sum()), 1e-300),
    )


def _signed(axes: Floats) -> Floats:
    """Directions whose largest coordinate is positive: a picture does not depend on the library's choice."""
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(1)]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0)[:, None])


def _mean(values: Sequence[float]) -> float:
    found = [value for value in values if np.isfinite(value)]
    return float(np.mean(found)) if found else np.nan


def _way(one: SearchRecord, sizes: Sequence[int]) -> Floats:
    order = sorted(set(one.steps))
    groups = [set(part.tolist()) for part in np.array_split(np.array(order), min(GROUPS, len(order))) if len(part)]
    vectors = positions(one.candidates, sizes)
    means = [vectors[[step in group for step in one.steps]].mean(0) for group in groups]
    return np.stack([*means, positions(one.best[:1], sizes)[0]])


def places(values: Floats, *, higher: bool) -> Floats:
    """Values as the share of candidates that each beats, from 0 to 1; NaN stays.

    Example:
        >>> places(np.array([3.0, 1.0, 2.0]), higher=False).tolist()
        [0.0, 1.0, 0.5]
    """
    found = np.full(len(values), np.nan)
    there = np.isfinite(values)
    if there.sum():
        ranks = rankdata(values[there] if higher else -values[there]) - 1
        found[there] = ranks / max(1, there.sum() - 1)
    return found


def smoothed(points: Floats, values: Floats, grid: Floats, width: float) -> tuple[Floats, Floats]:
    """Values at the places of a grid, by a Gaussian mean of the points near (Nadaraya & Watson), and how near they are.

    Example:
        >>> value, near = smoothed(np.zeros((1, 2)), np.array([0.5]), np.array([[0.0, 0.0]]), 1.0)
        >>> float(value[0]), float(near[0])
        (0.5, 1.0)
    """
    there = np.isfinite(values)
    apart = np.square(grid[:, None] - points[None, there]).sum(2)
    weights = np.exp(-apart / (2 * width**2))
    return weights @ values[there] / np.maximum(weights.sum(1), 1e-300), weights.max(1, initial=0.0)


MOST_POINTS = 1200
_GRID = (26, 18)


def methods(searches: Sequence[SearchRecord]) -> list[str]:
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


def method_legend(searches: Sequence[SearchRecord]) -> Markup:
    """Which colour is which method."""
    return legend((colour(place), in_words(name)) for place, name in enumerate(methods(searches)))


def best_so_far_figure(searches: Sequence[SearchRecord], standing: Sequence[Floats], what: str) -> Markup:
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


def pruning_figure(searches: Sequence[SearchRecord]) -> Markup | None:
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
    plane: Plane, name: str, values: Floats, *, higher: bool, searches: Sequence[SearchRecord], title: str
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


def _ways(box: Frame, plane: Plane, searches: Sequence[SearchRecord]) -> list[Markup]:
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
