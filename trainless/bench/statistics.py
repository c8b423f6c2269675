"""Every statistic of a column of scores, with its bootstrap interval and coverage, failures counted and left out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from trainless.bench.correlation import at_top, best_of, kendall, ndcg, regret, spearman, top_hits, top_overlap
from trainless.bench.sheet import Interval
from trainless.bench.weighted_order import Sample, sample_of
from trainless.core.errors import InputError
from trainless.core.types import AnyFloats

Failures = Literal["last", "out"]
_CHUNK = 64


def _tops(sample: Sample) -> dict[str, AnyFloats]:
    top = at_top(sample, 0.1)
    return {"spearman_top10%": spearman(top), "kendall_top10%": kendall(top)}


def _best_of(count: int, sample: Sample) -> dict[str, AnyFloats]:
    mean, deviation = best_of(sample, count)
    return {f"best_of_{count}": mean, f"best_of_{count}_std": deviation}


def _ndcg(sample: Sample) -> AnyFloats:
    """NaN where the truth is not a percentage: 2^accuracy means nothing then."""
    if sample.accuracy.min() < 0 or sample.accuracy.max() > 100:
        return np.full(sample.weights.shape[1], np.nan)
    return ndcg(sample)


_FAMILIES: tuple[Callable[[Sample], dict[str, AnyFloats]], ...] = (
    lambda sample: {"spearman": spearman(sample), "kendall": kendall(sample)},
    lambda sample: {"ndcg_1000": _ndcg(sample)},
    _tops,
    lambda sample: {"top10%_in_top10%": top_overlap(sample), "top64_in_top5%": top_hits(sample)},
    functools.partial(_best_of, 100),
    functools.partial(_best_of, 1000),
    lambda sample: {"regret": regret(sample)},
)

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "spearman": "rank correlation over all networks",
        "kendall": "Kendall's τ-b over all networks",
        "ndcg_1000": "discounted gain of 2^accuracy over the first 1,000 by score, over that of the perfect order",
        "spearman_top10%": "rank correlation over the best tenth of networks",
        "kendall_top10%": "Kendall's τ-b over the best tenth of networks",
        "top10%_in_top10%": "fraction of the best tenth that is in the first tenth by score",
        "top64_in_top5%": "how many of the first 64 by score are among the best twentieth",
        "best_of_100": "expected accuracy of the best by score of 100 random networks",
        "best_of_100_std": "its deviation over draws of 100",
        "best_of_1000": "expected accuracy of the best by score of 1,000 random networks",
        "best_of_1000_std": "its deviation over draws of 1,000",
        "regret": "the best accuracy less that of the first by score",
    }
)


@dataclass(frozen=True)
class Evaluation:
    """The statistics of one column of scores on one population; ``MEANINGS`` says what they are.

    ``failures`` are ``"last"`` where networks without a score are ranked last, and counted, ``"out"`` where they are
    left out. There are ``scored`` scores of ``population`` times ``seeds`` that were asked for.
    """

    name: str
    failures: Failures
    population: int
    scored: int
    seeds: int
    draws: int
    statistics: Mapping[str, Interval]

    @property
    def asked(self) -> int:
        """How many scores there should be."""
        return self.population * self.seeds

    @property
    def coverage(self) -> float:
        """The share of the scores that there are."""
        return self.scored / self.asked


def evaluate(
    scores: npt.ArrayLike,
    accuracy: npt.ArrayLike,
    *,
    name: str = "scores",
    higher_is_better: bool = True,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[Evaluation, Evaluation]:
    """All statistics of a column of scores, failures ranked last and failures left out.

    The interval is the percentile bootstrap over networks: draw as many networks as there are, with replacement, and
    take the statistic again. With several seeds the draws are shared out among them, so that the interval holds both
    sources of chance. A score that is not finite is a failure. Scores are one per network, or seeds × networks;
    accuracies are finite, the higher the better. The same ``seed`` gives all proxies draws of the same networks.

    Example:
        >>> ours, papers = evaluate([1.0, 2.0, np.nan, 4.0], [60.0, 70.0, 90.0, 80.0], draws=0)
        >>> ours.statistics["spearman"].value, papers.statistics["spearman"].value, ours.coverage
        (-0.2, 1.0, 0.75)
    """
    truth = np.asarray(accuracy, np.float64)
    table = np.atleast_2d(np.asarray(scores, np.float64))
    _require(table, truth, name)
    table = np.where(np.isfinite(table), table if higher_is_better else -table, np.nan)
    best_first = np.argsort(-truth, kind="stable")  # once, so that no draw has to be sorted by truth
    table, truth = table[:, best_first], truth[best_first]
    weights = _draws(len(truth), draws, seed)
    about = (len(truth), int(np.isfinite(table).sum()), len(table), draws)
    last = _estimates([_column(row, truth, part) for row, part in _shared(table, weights)], level)
    if np.isfinite(table).all():
        out = last
    else:
        out = _estimates([_scored(row, truth, part) for row, part in _shared(table, weights)], level)
    return Evaluation(name, "last", *about, last), Evaluation(name, "out", *about, out)


def evaluate_all(
    columns: Mapping[str, npt.ArrayLike],
    accuracy: npt.ArrayLike,
    *,
    higher_is_better: Mapping[str, bool] | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    workers: int = 2,
) -> list[tuple[Evaluation, Evaluation]]:
    """``evaluate`` for many proxies on the same networks and the same draws, in the order given.

    Each of ``workers`` threads needs about 200 MB for 15,625 networks.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    directions = higher_is_better or {}

    def one(item: tuple[str, npt.ArrayLike]) -> tuple[Evaluation, Evaluation]:
        name, scores = item
        up = directions.get(name, True)
        return evaluate(scores, accuracy, name=name, higher_is_better=up, draws=draws, level=level, seed=seed)

    with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, columns.items()))


def _require(table: AnyFloats, truth: AnyFloats, name: str) -> None:
    if truth.ndim != 1 or table.ndim != 2 or table.shape[1] != len(truth):
        raise InputError(
            f"{name}: scores of shape {table.shape} were given for accuracies of shape {truth.shape};"
            " expected one score per network, or seeds × networks"
        )
    if len(truth) < 2:
        raise InputError(f"{name}: {len(truth)} networks were given; expected at least 2")
    if missing := int(np.count_nonzero(~np.isfinite(truth))):
        raise InputError(
            f"{missing} of {len(truth)} accuracies are not finite: choose the population first, by a mask of the"
            " networks that have one"
        )


@functools.lru_cache(maxsize=2)
def _draws(size: int, draws: int, seed: int) -> npt.NDArray[np.uint8]:
    """Networks × (1 + draws): everything once, then how often each network is drawn."""
    rng = np.random.default_rng(seed)
    weights = np.ones((size, 1 + draws), np.uint8)
    for draw in range(1, 1 + draws):
        weights[:, draw] = np.bincount(rng.integers(size, size=size), minlength=size)
    weights.setflags(write=False)
    return weights


def _shared(table: AnyFloats, weights: npt.NDArray[np.uint8]) -> Iterator[tuple[AnyFloats, npt.NDArray[np.uint8]]]:
    """Each seed's scores with the whole population and its share of the draws."""
    for index, row in enumerate(table):
        yield row, np.concatenate([weights[:, :1], weights[:, 1 + index :: len(table)]], axis=1)


def _scored(row: AnyFloats, truth: AnyFloats, weights: npt.NDArray[np.uint8]) -> dict[str, AnyFloats]:
    """The statistics of the networks that have a score."""
    known = np.isfinite(row)
    return _column(row[known], truth[known], weights[known])


def _column(row: AnyFloats, truth: AnyFloats, weights: npt.NDArray[np.uint8]) -> dict[str, AnyFloats]:
    """Each statistic of each draw, a few draws at a time."""
    if len(row) < 2:
        return {name: np.full(weights.shape[1], np.nan) for name in MEANINGS}
    whole = sample_of(row, truth)
    parts: dict[str, list[AnyFloats]] = {}
    for start in (0, *range(1, weights.shape[1], _CHUNK)):
        counts = weights[:, start : start + _CHUNK].astype(np.float32) if start else weights[:, :1].astype(np.float64)
        sample = Sample(whole.scores, whole.truth, truth, counts)
        for family in _FAMILIES:
            for name, values in family(sample).items():
                parts.setdefault(name, []).append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _estimates(runs: Iterable[Mapping[str, AnyFloats]], level: float) -> dict[str, Interval]:
    """Join the seeds: the first draw of each is the statistic itself."""
    seeds = list(runs)
    found = {}
    for name in MEANINGS:
        values = np.array([run[name][0] for run in seeds])
        drawn = np.concatenate([run[name][1:] for run in seeds])
        drawn = drawn[np.isfinite(drawn) & np.isfinite(values.mean())]  # what has no value has no interval
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(drawn, tails).tolist() if len(drawn) else (np.nan, np.nan)
        found[name] = Interval(float(values.mean()), low, high, seed_std=float(values.std()))
    return found
