"""Metrics with their intervals: exact ones of shares and of means of shares over classes, bootstrap for the others.

A metric is prepared once for its data and then evaluated for any weights of the samples: a bootstrap draw is how often
each sample was drawn, so that nothing is sorted or copied again. Exact intervals stay honest where all answers are
right, or all wrong: a percentile bootstrap has no width there, since no draw from four right answers holds a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import beta

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.types import Floats, Index, Labels, Mask

Weighted = Callable[[Floats], float]
DRAWN = 3 * 10**8  # samples that all draws of a bootstrap together may have
LEAST_DRAWS = 100
TOGETHER = 2**22  # ranks of samples that are looked at in one go
NOTHING = 1e-12  # of a value: draws that differ by less are the same


@dataclass(frozen=True)
class MetricValue:
    """A metric with the bounds of its interval; NaN where the data cannot give them."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(metric: Weighted, n: int, *, draws: int = 1000, level: float = 0.95, seed: int = 0) -> MetricValue:
    """Percentile bootstrap over n samples (Efron, 1979) of a prepared metric, from weights of the samples to its value.

    Where all draws agree (four answers, all right) they do not say how far off the value may be: the bounds are NaN.
    Draws without a value (a class that was not drawn) are left out. Of several hundred thousand samples, whose interval
    is narrow, there are fewer draws: at least 100.

    Example:
        >>> bootstrap(lambda weights: float(weights @ [0, 1, 1, 1] / weights.sum()), 4).value
        0.75
    """
    random = np.random.default_rng(seed)
    value = metric(np.ones(n))
    draws = min(draws, max(LEAST_DRAWS, DRAWN // n))
    drawn = np.array([metric(np.bincount(random.integers(n, size=n), minlength=n).astype(float)) for _ in range(draws)])
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return MetricValue(value, math.nan, math.nan)
    low, high = (float(end) for end in np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2]))
    if high - low <= NOTHING * max(1.0, abs(value)):
        return MetricValue(value, math.nan, math.nan)
    return MetricValue(value, low, high)


def accuracy(y: Labels, p: Floats) -> Weighted:
    """Share of samples whose most probable class is the true one."""
    hit = (p.argmax(1) == y).astype(float)
    return lambda weights: float(weights @ hit / weights.sum())


def balanced_accuracy(y: Labels, p: Floats) -> Weighted:
    """Mean recall over the classes that are there."""
    chosen, classes = p.argmax(1), p.shape[1]

    def value(weights: Floats) -> float:
        hit, there, _ = _counts(y, chosen, classes, weights)
        return _mean(hit[there > 0] / there[there > 0])

    return value


def f1_macro(y: Labels, p: Floats) -> Weighted:
    """Mean of 2·TP / (2·TP + FP + FN) over the classes that are there or were predicted."""
    chosen, classes = p.argmax(1), p.shape[1]

    def value(weights: Floats) -> float:
        hit, there, predicted = _counts(y, chosen, classes, weights)
        total = there + predicted
        return _mean(2 * hit[total > 0] / total[total > 0])

    return value


def auc(y: Labels, p: Floats) -> Weighted:
    """Area under the ROC curve; with more than two classes the mean of one against the rest, over classes there.

    Tied scores count one half (Mann & Whitney). NaN where only one class is there.
    """
    areas = _areas(y, p)

    def value(weights: Floats) -> float:
        values = areas(weights)
        return _mean(values[np.isfinite(values)])

    return value


def sensitivity(y: Labels, p: Floats, positive: int = 1) -> Weighted:
    """Share of the cases of a class, by default the second, that are called so."""
    return _share_right(y == positive, p.argmax(1) == positive)


def specificity(y: Labels, p: Floats, positive: int = 1) -> Weighted:
    """Share of the cases of all other classes that are not called so."""
    return _share_right(y != positive, p.argmax(1) != positive)


def mae(y: Floats, v: Floats) -> Weighted:
    """Mean absolute error, over all outputs."""
    error = np.abs(v - y.reshape(v.shape)).mean(1)
    return lambda weights: float(weights @ error / weights.sum())


def rmse(y: Floats, v: Floats) -> Weighted:
    """Root of the mean squared error, over all outputs."""
    error = np.square(v - y.reshape(v.shape)).mean(1)
    return lambda weights: float(np.sqrt(weights @ error / weights.sum()))


def r2(y: Floats, v: Floats) -> Weighted:
    """1 − Σ(y − v)² / Σ(y − ȳ)², the mean over outputs; NaN where the values do not vary."""
    truth = y.reshape(v.shape).astype(float)

    def value(weights: Floats) -> float:
        mean = weights @ truth / weights.sum()
        total = weights @ np.square(truth - mean)
        if not (total > 0).all():
            return math.nan
        return float(np.mean(1 - weights @ np.square(truth - v) / total))

    return value


Bounds = tuple[float, float]


def clopper_pearson(right: float, n: float, level: float = 0.95) -> Bounds:
    """The exact interval of a binomial share (Clopper & Pearson, 1934); NaN without samples.

    Example:
        >>> [round(end, 4) for end in clopper_pearson(10, 10)]
        [0.6915, 1.0]
    """
    if not n:
        return math.nan, math.nan
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, right, n - right + 1)) if right else 0.0
    high = float(beta.ppf(1 - tail, right + 1, n - right)) if right < n else 1.0
    return low, high


def accuracy_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the share of right answers."""
    return clopper_pearson(int((p.argmax(1) == y).sum()), len(y), level)


def sensitivity_bounds(y: Labels, p: Floats, level: float, positive: int = 1) -> Bounds:
    """Of the share of a class that is called so."""
    ill = y == positive
    return clopper_pearson(int((p[ill].argmax(1) == positive).sum()), int(ill.sum()), level)


def specificity_bounds(y: Labels, p: Floats, level: float, positive: int = 1) -> Bounds:
    """Of the share of the other classes that is not called so."""
    well = y != positive
    return clopper_pearson(int((p[well].argmax(1) != positive).sum()), int(well.sum()), level)


def balanced_accuracy_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the mean recall: the recalls of the classes that are there are binomial shares.

    Where all answers are right, or all wrong, it is the least, or greatest, mean of recalls with which that would
    happen with a chance of (1 − level) / 2, which is exact; else bounds per class are put together by Bonferroni.
    """
    hit, there, _ = _counts(y, p.argmax(1), p.shape[1], np.ones(len(y)))
    if len(y) and hit.sum() in (0, len(y)):
        n = there[there > 0]
        least = _least_mean(n, np.full(len(n), 1 / len(n)), (1 - level) / 2)
        return (least, 1.0) if hit.any() else (0.0, 1 - least)
    return _mean_of_shares(hit, there, level)


def _least_mean(n: Floats, weights: Floats, chance: float) -> float:
    """The least weighted mean of shares with which n samples of each are all right with this chance.

    Of Σ w_k s_k under Σ n_k log s_k = log chance and s_k ≤ 1 the least has s_k = min(1, λ n_k / w_k) (Lagrange).
    """
    wanted, logs = math.log(chance), np.log(n / weights)

    def excess(log_scale: float) -> float:
        return float(n @ np.minimum(0.0, log_scale + logs)) - wanted

    found = brentq(excess, wanted / n.sum() - logs.max() - 1, -logs.min())
    return float(weights @ np.exp(np.minimum(0.0, found + logs)))


def f1_macro_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the mean F1.

    F1 = 2 J / (1 + J) with J = TP / (TP + FP + FN), and J is a binomial share: of the samples that are of a class or
    called so, those that are both.
    """
    hit, there, called = _counts(y, p.argmax(1), p.shape[1], np.ones(len(y)))
    return _mean_of_shares(hit, there + called - hit, level, lambda share: 2 * share / (1 + share))


def auc_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the area under the ROC curve, one against the rest: as if only disjoint pairs had been compared.

    The area is the share of pairs of one case of either kind that are in the right order, and m and n cases have
    min(m, n) pairs that share no case: these are independent. Where all pairs are in the right order, or all in the
    wrong one, the bound is the least, or greatest, area with which all disjoint pairs of any two classes would be so
    with a chance of (1 − level) / 2. Where all are tied the interval is conservative; it is meant for nothing else.
    """
    areas, among = _areas(y, p)(np.ones(len(y))), _against_the_rest(y, p)
    sizes = np.unique(y, return_counts=True)[1].astype(np.float64)
    if len(sizes) > 1 and areas.sum() in (0, len(areas)):
        least = _least_mean(*_disjoint_pairs(sizes), (1 - level) / 2)
        return (least, 1.0) if areas.any() else (0.0, 1 - least)
    ups = np.array([(y == k).sum() for k in among], np.float64)
    pairs = np.minimum(ups, len(y) - ups)
    return _mean_of_shares(np.nan_to_num(areas) * pairs, pairs, level)


def _disjoint_pairs(sizes: Floats) -> tuple[Floats, Floats]:
    """How many pairs of any two classes can be formed that share no sample, and what each two weigh in the mean area.

    The area of class k against the rest is the mean of its areas A_kj against the classes j, each by its size. A pair
    of samples that both classes order rightly has at most the chance min(A_kj, A_jk), so that two classes weigh what
    both have in the mean. Pairs are given out in proportion to weight, as far as the samples last. Numbers that are
    not whole are means over several ways to pair: Edmonds' (1965) polytope has all that keep the sizes and, of an odd
    number s of samples, leave one alone; (1 − 1/s), s the three smallest classes, is enough for that.
    """
    one, other = np.triu_indices(len(sizes), 1)
    rest = sizes.sum() - sizes
    weights = (sizes[other] / rest[one] + sizes[one] / rest[other]) / len(sizes)
    pairs, left, open_ = np.zeros(len(one)), sizes.copy(), np.ones(len(one), bool)
    while open_.any():
        wanted = sum(np.bincount(end, weights * open_, len(sizes)) for end in (one, other))
        lasts = np.where(wanted > 0, left / np.where(wanted > 0, wanted, 1), math.inf)
        pairs += lasts.min() * weights * open_
        left = left - lasts.min() * wanted
        spent = lasts <= lasts.min() * (1 + 1e-9)
        open_ &= ~(spent[one] | spent[other])
    alone = 1 / np.sort(sizes)[:3].sum() if len(sizes) > 2 else 0.0
    return pairs * (1 - alone), weights


Prepare = Callable[..., Weighted]
CLASSES: Mapping[str, Prepare] = MappingProxyType(
    {"accuracy": accuracy, "balanced_accuracy": balanced_accuracy, "f1_macro": f1_macro, "auc": auc}
)
BINARY: Mapping[str, Prepare] = MappingProxyType({**CLASSES, "sensitivity": sensitivity, "specificity": specificity})
OF_A_CLASS = frozenset(BINARY) - frozenset(CLASSES)  # metrics of the class to find
VALUES: Mapping[str, Prepare] = MappingProxyType({"mae": mae, "rmse": rmse, "r2": r2})
LOWER_IS_BETTER = frozenset({"mae", "rmse"})
Bounding = Callable[..., Bounds]
SHARES: Mapping[str, Bounding] = MappingProxyType(
    {"accuracy": accuracy_bounds, "sensitivity": sensitivity_bounds, "specificity": specificity_bounds}
)
"""Metrics that are binomial shares: their intervals are always the exact ones."""
MEANS: Mapping[str, Bounding] = MappingProxyType(
    {"balanced_accuracy": balanced_accuracy_bounds, "f1_macro": f1_macro_bounds, "auc": auc_bounds}
)
"""Metrics whose intervals are these, wide ones, only where the bootstrap has none."""


def metrics_for(target: Target, named: bool = False) -> Mapping[str, Prepare]:
    """The metrics of a kind of target, the main one first; ``named`` where a class to find is named."""
    if target.kind == "tokens":
        raise InputError("tokens have no metrics per sample: use the validation loss of the training history")
    return {"binary": BINARY, "multiclass": BINARY if named else CLASSES, "regression": VALUES}[target.kind]


BALANCED = "balanced_label"  # what answers call the class that stands out most against its share (alike)
ALIKE = ("balanced_accuracy", "f1_macro", "sensitivity", "specificity")  # metrics that count classes alike


def evaluate(
    target: Target,
    y: npt.NDArray[np.generic],
    predicted: Floats,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    positive: int | None = None,
    prior: Sequence[float] = (),
) -> dict[str, MetricValue]:
    """All metrics of a prediction, probabilities ``(N, classes)`` or values ``(N, outputs)``, with their intervals.

    Accuracy is that of the most probable class. Balanced accuracy, macro F1, sensitivity and specificity, which count
    classes alike, are of the answers that weigh them alike (:func:`alike`) where the ``prior``, the classes' shares at
    which the probabilities are, is given.

    ``positive`` is the class that sensitivity and specificity are of, by default the second of two; with more classes
    they are there where it is given, and tell that class from all others.

    Accuracy, sensitivity and specificity are shares and have the exact interval of Clopper & Pearson, for which the
    number of samples of each class is given. All others have the percentile bootstrap's; where it has no width, as for
    answers that are all right, balanced accuracy, macro F1 and AUC have the exact bounds of answers that are all right,
    or all wrong, else bounds per class put together by Bonferroni; values have none. Without draws only shares have
    intervals.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
        >>> evaluate(Target("binary", 2), np.array([0, 1, 0]), p, draws=0)["auc"].value
        1.0
    """
    require_predictions(target, y, predicted)
    found = {}
    for name, prepare in metrics_for(target, positive is not None).items():
        own = {} if name not in OF_A_CLASS or positive is None else {"positive": positive}
        said = alike(predicted, prior) if name in ALIKE and len(prior) else predicted
        metric = prepare(y, said, **own)
        if name in SHARES:
            bounds = SHARES[name](y, said, level, **own)
            found[name] = MetricValue(metric(np.ones(len(y))), *bounds)
        else:
            found[name] = _estimate(name, metric, y, said, draws, level, seed)
    return found


def alike(p: Floats, prior: Sequence[float]) -> Floats:
    """Probabilities as if all classes were equally frequent: each divided by its share, where there is one.

    Their most probable class is the one that stands out most against its share: a rare disease is called where its
    probability is far above its prevalence, and not only where it is above one half.

    Example:
        >>> alike(np.array([[0.8, 0.2]]), (0.9, 0.1)).round(2).tolist()
        [[0.31, 0.69]]
    """
    shares = np.asarray(prior, np.float64)
    raised = np.where(shares > 0, p / np.where(shares > 0, shares, 1.0), 0.0)
    return np.asarray(raised / np.maximum(raised.sum(1, keepdims=True), 1e-300))


@dataclass(frozen=True)
class ClassMetrics:
    """One class: its cases, the share of its calls that are right, the share of it that is found, and both as F1."""

    name: str
    support: int
    called: int
    precision: MetricValue
    recall: MetricValue
    f1: MetricValue


def class_table(y: Labels, label: Labels, names: Sequence[str], *, level: float = 0.95) -> list[ClassMetrics]:
    """Precision, recall and F1 of every class with exact intervals; NaN where a class is never there or never called.

    Example:
        >>> one = class_table(np.array([0, 0, 1]), np.array([0, 1, 1]), ["a", "b"])[1]
        >>> one.support, one.precision.value, one.recall.value, round(one.f1.value, 3)
        (1, 0.5, 1.0, 0.667)
    """
    hit, there, called = _counts(y, label, len(names), np.ones(len(y)))
    rows = []
    for name, right, of, calls in zip(names, hit.tolist(), there.tolist(), called.tolist(), strict=True):
        shares = [
            MetricValue(right / n if n else math.nan, *clopper_pearson(right, n, level))
            for n in (calls, of, of + calls - right)
        ]
        jaccard = shares[2]
        f1 = MetricValue(*(2 * j / (1 + j) for j in (jaccard.value, jaccard.low, jaccard.high)))
        rows.append(ClassMetrics(name, int(of), int(calls), shares[0], shares[1], f1))
    return rows


def require_predictions(target: Target, y: npt.NDArray[np.generic], predicted: Floats) -> None:
    """Raise InputError where labels and predictions do not go together or are not finite."""
    if len(y) == 0 or predicted.ndim != 2 or predicted.shape != (len(y), target.outputs):
        raise InputError(
            f"predictions of shape {predicted.shape} were given for {len(y)} labels; expected ({len(y)},"
            f" {target.outputs}) and at least one sample"
        )
    if not np.isfinite(predicted).all():
        raise InputError("predictions are not finite: leave out the member that diverged")


def _estimate(
    name: str, metric: Weighted, y: npt.NDArray[Any], predicted: Floats, draws: int, level: float, seed: int
) -> MetricValue:
    found = bootstrap(metric, len(y), draws=draws, level=level, seed=seed)
    if draws and name in MEANS and math.isnan(found.low):
        return MetricValue(found.value, *MEANS[name](y, predicted, level))
    return found


def _mean_of_shares(
    right: Floats, n: Floats, level: float, read: Callable[[float], float] = lambda share: share
) -> Bounds:
    """Of the mean over classes of a growing function of a share; classes without samples are left out.

    Each class has its exact interval at the level 1 − (1 − level) / classes, so that all hold together (Bonferroni).
    Where all are right, or all wrong, the level itself is enough: the least likely class is no more likely so than it.
    """
    there = n > 0
    if not there.any():
        return math.nan, math.nan
    same = right.sum() in (0, n.sum())
    each = level if same else 1 - (1 - level) / int(there.sum())
    ends = [clopper_pearson(a, b, each) for a, b in zip(right[there].tolist(), n[there].tolist(), strict=True)]
    low, high = (float(np.mean([read(one[end]) for one in ends])) for end in (0, 1))
    return low, high


def _counts(y: Labels, chosen: Labels, classes: int, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Right answers, true samples and predictions of each class."""
    counted = ((y, weights * (y == chosen)), (y, weights), (chosen, weights))
    hit, there, predicted = (np.bincount(label, weight, classes).astype(np.float64) for label, weight in counted)
    return hit, there, predicted


def _share_right(among: Mask, right: Mask) -> Weighted:
    """The share that is right among some samples; NaN where there are none."""

    def value(weights: Floats) -> float:
        total = float(weights @ among)
        return float(weights @ (among & right)) / total if total else math.nan

    return value


def _against_the_rest(y: Labels, p: Floats) -> Index:
    """The classes that are there, each to be told from all others; of two the second alone."""
    return np.array([1]) if p.shape[1] == 2 else np.unique(y).astype(np.int64)


def _areas(y: Labels, p: Floats) -> Callable[[Floats], Floats]:
    """The area under the ROC curve of each class against the rest; NaN where there are no pairs."""
    classes = _against_the_rest(y, p)
    step = max(1, TOGETHER // max(1, len(y)))
    blocks = [_areas_of(y, p, classes[begin : begin + step]) for begin in range(0, len(classes), step)]
    return lambda weights: np.concatenate([block(weights) for block in blocks])


def _areas_of(y: Labels, p: Floats, classes: Index) -> Callable[[Floats], Floats]:
    """The areas of some classes, from the ranks of their own samples (Mann & Whitney).

    Each sample of a class wins against the weight below it and half the weight tied with it; the pairs within the
    class, which are counted too, are half the square of its weight.
    """
    scores = np.ascontiguousarray(p[:, classes].T)
    order = scores.argsort(1)
    samples = [np.flatnonzero(y == k) for k in classes]
    own, row = np.concatenate(samples), np.repeat(np.arange(len(classes)), [len(each) for each in samples])
    ranked = np.take_along_axis(scores, order, 1)
    ends = [
        (values.searchsorted(score[one]), values.searchsorted(score[one], "right"))
        for values, score, one in zip(ranked, scores, samples, strict=True)
    ]
    below, not_above = (np.concatenate(each) for each in zip(*ends, strict=True))
    passed = np.zeros((len(classes), len(y) + 1))

    def areas(weights: Floats) -> Floats:
        np.cumsum(weights[order], axis=1, out=passed[:, 1:])
        each = weights[own]
        twice = np.bincount(row, each * (passed[row, below] + passed[row, not_above]), len(classes))
        ups = np.bincount(row, each, len(classes))
        pairs = ups * (weights.sum() - ups)
        return np.where(pairs > 0, (twice - ups**2) / np.where(pairs > 0, 2 * pairs, 1), math.nan)

    return areas


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan
