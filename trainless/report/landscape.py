"""The numbers behind the pictures of a search: best so far, operations, and the landscape on a plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.stats import rankdata

from trainless.core.arch import Arch, Candidate, is_region
from trainless.engine.signals import scores_of
from trainless.ranking import LogSum, RankSum, registry
from trainless.report.contents import Floats, Searched
from trainless.spaces.protocol import Space
from trainless.spaces.sketch import Drawable, Graph, Sketch

GROUPS = 10  # stations of a search's way


def standings(searches: Sequence[Searched]) -> list[Floats]:
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


def _ranked(one: Searched, rows: Mapping[str, Mapping[str, float]]) -> Floats:
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


def wanted(one: Searched) -> dict[str, bool]:
    """Whether the search wants more of each score: as its ranking weighs them, else as each is believed to go.

    Example:
        >>> directions = {"length": True, "zico": True}
        >>> wanted(Searched("rl-00", "", "teacup", directions, (), (), {}, (), (), 0, 0.0, 0))
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


def networks_left(one: Searched) -> Floats:
    """How many networks a pruning still had open at each evaluation; NaN for archs.

    Example:
        >>> regions = ((frozenset({0, 1}), frozenset({0, 1})), (frozenset({0}), frozenset({0, 1})))
        >>> one = Searched("prune-00", "prune", "", {}, regions, (1, 2), {}, (), (), 2, 0.0, 0)
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


def landscape(searches: Sequence[Searched], sizes: Sequence[int]) -> Plane | None:
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


def _way(one: Searched, sizes: Sequence[int]) -> Floats:
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
