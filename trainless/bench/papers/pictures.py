"""Figures that papers show as pictures: what their text says of them, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainless.bench.correlation import kendall, ndcg, spearman
from trainless.bench.papers.sources import Answer, Where
from trainless.bench.score_library import ScoreLibrary, truth
from trainless.bench.sheet import Interval
from trainless.bench.weighted_order import sample_of
from trainless.core.arch import Arch
from trainless.core.types import Floats, Mask
from trainless.spaces import space

TEG = ("ntk_condition", "linear_regions", "ntk_mse")
TOP = 0.1
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
NONE, SKIP, SMALL, LARGE = range(4)


@dataclass(frozen=True)
class Toy:
    """VKDNW's two rankings of ten networks whose accuracies are 100, 90, … 10."""

    order: Literal["damaged_top", "perfect_top"]

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        accuracy = np.arange(10.0, 101.0, 10.0)
        places = {"damaged_top": [0, 1, 2, 3, 4, 5, 8, 9, 6, 7], "perfect_top": [3, 2, 1, 0, 4, 5, 6, 7, 8, 9]}
        sample = sample_of(accuracy[places[self.order]], accuracy)
        found = {"kendall": kendall(sample), "spearman": spearman(sample), "ndcg_5": ndcg(sample, top=5)}
        return Answer.whole({name: Interval(float(value[0])) for name, value in found.items()}, len(accuracy), 1)


def chosen_alone(values: Floats, share: float = TOP) -> Mask:
    """By column of ``rows × indicators``, higher is better: which rows are in its best share and in no other's.

    Example:
        >>> chosen_alone(np.array([[9.0, 1.0], [8.0, 9.0], [1.0, 8.0], [0.0, 0.0]]), 0.5).T.tolist()
        [[True, False, False, False], [False, False, True, False]]
    """
    best = values >= np.quantile(values, 1 - share, axis=0, method="higher")
    return np.asarray(best & (best.sum(axis=1, keepdims=True) == 1))


def depth(arch: Arch) -> int:
    """Connections on the longest path of a NAS-Bench-201 cell from its input to its output; 0 where none leads there.

    Example:
        >>> depth((3, 0, 3, 0, 0, 3)), depth((3, 3, 0, 1, 0, 0)), depth((3, 3, 3, 0, 0, 0))
        (3, 1, 0)
    """
    longest = [0, -1, -1, -1]
    for (source, target), operation in zip(EDGES, arch, strict=True):
        if operation != NONE and longest[source] >= 0:
            longest[target] = max(longest[target], longest[source] + 1)
    return max(0, longest[-1])


def _upward(library: ScoreLibrary, where: Where) -> tuple[list[Arch], Floats, Mask]:
    """The networks of a table, their indicators as higher is better, and which networks have all."""
    columns = [library.ours(where.table, name) for name in TEG]
    values = np.stack([column.upward() for column in columns], axis=1)
    table = library.table(where.table)
    rules = space(table.space)
    return [rules.parse(text) for text in table.archs], values, np.asarray(np.isfinite(values).all(axis=1))


@dataclass(frozen=True)
class Selected:
    """Operations and depth of the networks that one of TEG-NAS's indicators alone has in its best tenth."""

    indicator: Literal["ntk_condition", "linear_regions", "ntk_mse"]

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        archs, values, known = _upward(library, where)
        rows = np.flatnonzero(known)[chosen_alone(values[known])[:, TEG.index(self.indicator)]]
        mine = [archs[row] for row in rows]
        shares = [sum(operation in (SMALL, LARGE) for operation in arch) / len(arch) for arch in mine]
        found = {"convolutions": _mean(np.array(shares)), "depth": _mean(np.array([depth(arch) for arch in mine]))}
        return Answer.whole(found, len(rows), 1)


@dataclass(frozen=True)
class Replaced:
    """What becomes of networks with exactly one ``none`` when another operation takes its place.

    The share of them in which κ, R, MSE and the accuracy are better afterwards.
    """

    operation: Literal["skip", "conv 1×1"]

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        archs, values, known = _upward(library, where)
        accuracy = truth(library.table(where.table), where.task, where.metric)
        place = {arch: row for row, arch in enumerate(archs)}
        new = {"skip": SKIP, "conv 1×1": SMALL}[self.operation]
        single = [row for row, arch in enumerate(archs) if arch.count(NONE) == 1 and known[row]]
        pairs = [(row, place[tuple(new if each == NONE else each for each in archs[row])]) for row in single]
        before, after = np.array([pair for pair in pairs if known[pair[1]]]).T
        better = {name: values[after, at] > values[before, at] for at, name in enumerate(("κ", "R", "MSE"))}
        better["accuracy"] = accuracy[after] > accuracy[before]
        return Answer.whole({f"better {name}": _mean(each) for name, each in better.items()}, len(before), 1)


def _mean(values: Floats | Mask) -> Interval:
    """A mean with its standard error's interval."""
    middle, error = float(np.mean(values)), float(np.std(values) / max(1, len(values)) ** 0.5)
    return Interval(middle, middle - 1.96 * error, middle + 1.96 * error)
