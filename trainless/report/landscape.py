"""The landscape of a search: every architecture on a plane, under each score, and the ways of the searches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.stats import rankdata

from trainless.core.arch import Arch, Candidate, is_region
from trainless.core.types import Floats
from trainless.proxies import registry as proxies
from trainless.rankings import LogSum, registry
from trainless.report.chart import Plot, bar, bounds, chart, colour, dot, frame, line
from trainless.report.contents import Contents, SearchRecord, report_part
from trainless.report.page import Content, Markup, drawn, grid, percent, rounded, short, tag
from trainless.report.search import method_legend, methods
from trainless.report.training import different

MOST_PANELS = 8
GROUPS = 10  # stations of a search's way
MOST_POINTS = 1200
_GRID = (26, 18)


@report_part()
def landscapes(contents: Contents) -> list[Content]:
    """Every score over the plane of all architectures."""
    searches = [one for one in contents.searches if one.best]
    sizes = [len(options) for options in contents.decisions.values()]
    plane = landscape(searches, sizes) if searches else None
    if plane is None:
        return []
    panels = []
    scores = sorted(wanted(searches[0]).items(), key=lambda each: not _aspect(each[0]))
    for name, higher in scores[:MOST_PANELS]:
        aspect = _aspect(name)
        drawing = landscape_figure(plane, name, higher=higher, searches=searches)
        meaning = proxies[name].summary.rstrip(".") if name in proxies else name
        caption = f"{meaning}. Here {'higher' if higher else 'lower'} is better."
        panels.append(drawn(aspect.capitalize() or name, drawing, caption, name if aspect else ""))
    text = (
        f"All {len(plane.archs):,} architectures that were looked at{_twins(len(plane.archs), different(contents))}, on"
        " the plane on which they differ most (principal components of their choices, after TEG-NAS). The stronger the"
        " colour of the ground, the better the score is there. Lines are the ways of the searches from their start"
        " (ring) to their winner (star): the mean of what they looked at."
    )
    return [tag("h3", "The landscape"), tag("p", text), method_legend(searches), grid(*panels)]


def _twins(archs: int, networks: int) -> str:
    """How many networks they are, where some compute the same.

    Example:
        >>> _twins(61, 60), _twins(60, 60)
        (', which are 60 different networks', '')
    """
    return f", which are {networks:,} different networks" if networks < archs else ""


def _aspect(name: str) -> str:
    """The aspect of a measure, where it is a proxy that has one."""
    return proxies[name].aspect if name in proxies else ""


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
    """Distinct archs on the plane of their first two principal components, each column's mean value of them.

    A search's way is from step to step ``(≤ GROUPS, 2)``; ``explained`` is each component's share of the variance.
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
                found = {name: float(column[place]) for name, column in one.values.items()}
                rows.setdefault(cast(Arch, candidate), []).append(found)
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


def landscape_figure(plane: Plane, name: str, *, higher: bool, searches: Sequence[SearchRecord]) -> Markup:
    """One score over the plane of all architectures: darker is better; ways of the searches and their winners on it."""
    values = plane.values[name]
    share = places(values, higher=higher)
    held = [plane.points, *(way for way in plane.ways), plane.winners]
    x, y = (bounds(np.concatenate([part[:, axis] for part in held]).tolist(), 0.06) for axis in (0, 1))
    box = frame(x, y, height=340, left=34, x_title=_axis(plane, 0), y_title=_axis(plane, 1))
    box = replace(box, x_words=lambda v: "", y_words=lambda v: "")
    marks = _ground(box, plane.points, share)
    step = max(1, len(share) // MOST_POINTS)
    for place in range(0, len(share), step):
        if math.isfinite(share[place]):
            tip = f"{name} {rounded(float(values[place]))}, better than {percent(float(share[place]), 0)}"
            at = (float(plane.points[place, 0]), float(plane.points[place, 1]))
            marks.append(dot(box, *at, "cn", tip=tip, radius=2, kind="faint"))
    return chart(box, f"Landscape of {name}", *marks, *_ways(box, plane, searches))


def _axis(plane: Plane, number: int) -> str:
    share = float(plane.explained[number]) if len(plane.explained) > number else 0.0
    return f"component {number + 1} ({percent(share, 0)} of the variance)"


def _ground(box: Plot, points: Floats, share: Floats) -> list[Markup]:
    wide, high = _GRID
    xs = np.linspace(box.x.low, box.x.high, 2 * wide + 1)[1::2]
    ys = np.linspace(box.y.low, box.y.high, 2 * high + 1)[1::2]
    unit = np.array([box.x.high - box.x.low, box.y.high - box.y.low])
    grid = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    value, near = smoothed(points / unit, share, grid / unit, 0.06)
    width, height = (box.x.stop - box.x.start) / wide, (box.y.start - box.y.stop) / high
    marks = []
    for place, level, close in zip(grid, value, near, strict=True):
        if close > 0.1:
            x, y = box.x(float(place[0])) - width / 2, box.y(float(place[1])) - height / 2
            marks.append(bar(x, y, width, height, "ground", share=round(0.85 * float(level), 2)))
    return marks


def _ways(box: Plot, plane: Plane, searches: Sequence[SearchRecord]) -> list[Markup]:
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
    points = [(math.pi * (place / 5 - 0.5), 3.4 if place % 2 else 8.0) for place in range(10)]
    corners = " ".join(f"{short(x + r * math.cos(turn))},{short(y + r * math.sin(turn))}" for turn, r in points)
    return tag("polygon", points=corners, class_=f"dot {shade} ringed", data_tip=tip)
