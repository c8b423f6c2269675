"""The sanity check: whether an ensemble is worth anything, beside what costs nothing and beside its yardsticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.core.files import strict
from trainless.core.target import Target
from trainless.core.types import Array, Floats, Json, Labels
from trainless.learn.metrics import LOWER_IS_BETTER, bootstrap, evaluate, metrics_for

MORE = "more data or, where all its time was used, more time (--time) or a faster machine (--device cuda)"
USELESS = ("Not good enough", f"Do not use it. Check the labels, and give it {MORE}")
SIMPLER = ("No better than something simpler", f"What is simpler is the better choice here; give it {MORE}")
FEW = ("Too few test cases to tell", "What was seen of it is good: judge it on more cases before it is used")
RARE = (
    "One class for everything",
    f"Go by balanced_label, by the probabilities or by a threshold (--sensitivity) instead, or give it {MORE}",
)
COMPARED = ("auc", "balanced_accuracy", "accuracy", "mae")  # the first of these that both have is compared
WORDS = {"auc": "AUC", "f1_macro": "macro F1", "mae": "mean error", "rmse": "root mean squared error", "r2": "R²"}
SAME = 5e-4  # figures that look the same to three digits
Test = Mapping[str, Any]


@dataclass(frozen=True)
class SanityCheck:
    """What speaks against an ensemble, worst first, and what it is better than; without problems it passes.

    It is ``level`` with yardsticks where the difference cannot be told from none: where it is the better one of the
    two, where nothing can be better, or where the other took as long to train.
    """

    problems: tuple[str, ...]
    passed: tuple[str, ...]
    verdict: str = ""
    advice: str = ""
    level: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


def metric_in_words(name: str) -> str:
    """A metric's name as people write it.

    Example:
        >>> metric_in_words("auc"), metric_in_words("balanced_accuracy")
        ('AUC', 'balanced accuracy')
    """
    return WORDS.get(name, name.replace("_", " "))


def check_classes(
    test: Test, y: Labels, label: Labels, names: Sequence[str], unit: str = "cases", alike: Labels | None = None
) -> SanityCheck:
    """Hold answers against one class for everything, the most frequent class, chance and the yardsticks.

    A yardstick that is a ``peer`` took as long to train: to be level with it is no alarm, and neither is to be worse
    within the interval of the difference. Anything else costs seconds and has to be beaten.

    Args:
        test: Figures of the test part: ``ensemble`` has metrics as ``{value, low, high}``, ``yardsticks`` is a list of
            ``{name, metrics…}`` where there are some.
        y: The true classes.
        label: The answers: the most probable class of each case.
        names: The classes' names.
        unit: What is answered about.
        alike: The answers that weigh classes alike. Where a class is so rare that it is never the most probable one,
            these may still tell it, which is an alarm of its own.

    Example:
        >>> figures = {"ensemble": {"auc": {"value": 0.6, "low": 0.4, "high": 0.8}}}
        >>> check_classes(figures, np.array([0, 1, 1]), np.array([1, 1, 1]), ["a", "b"]).problems[0]
        'It answers “b” for every one of 3 cases'
    """
    problems, passed, rare, n = list[str](), list[str](), list[str](), len(y)
    unsure: list[str] = []  # what may be chance, though the rest may not: of few cases intervals are wide
    counts = np.bincount(y, minlength=len(names))
    there, usual = int((counts > 0).sum()), int(counts.argmax())
    if there < 2:
        problems.append(f"All {n:,} test {unit} are “{names[usual]}”: whether it tells classes apart cannot be known")
    elif len(np.unique(label)) == 1 and alike is not None and len(np.unique(alike)) > 1:
        rare.append(f"The most probable class is “{names[int(label[0])]}” for every one of {n:,} {unit}")
    elif len(np.unique(label)) == 1:
        problems.append(f"It answers “{names[int(label[0])]}” for every one of {n:,} {unit}")
    else:
        right = int((label == y).sum())
        always = f"always saying “{names[usual]}”"
        if right <= counts[usual]:
            problems.append(f"It is right in {right:,} of {n:,} {unit}, {always} in {int(counts[usual]):,}")
        else:
            passed.append(f"{always} (right in {right:,} of {n:,} {unit} against {int(counts[usual]):,})")
    if there > 1:
        found, chance = test["ensemble"], {"auc": 0.5, "balanced_accuracy": 1 / there}
        beaten, above = [], True
        for name, least in chance.items():
            if (own := found.get(name)) is None or own["value"] is None:
                continue
            if own["low"] is None or own["low"] <= least:
                below = own["high"] is not None and own["high"] < least
                words = "is worse than chance" if below else "cannot be told from chance"
                unsure.append(f"Its {metric_in_words(name)} of {_interval(own)} {words} ({least:.3g})")
                above = above and own["value"] > least
            else:
                beaten.append(name)
        if beaten and above and unsure and not problems and not rare:
            return _beside(test, unsure, passed, few=True)
        problems += unsure
        passed = ["chance", *passed] if beaten and not problems else passed
    return _beside(test, problems, passed, rare)


def check_values(test: Test) -> SanityCheck:
    """Hold predicted values against always saying the mean, which has R² = 0, and against the yardsticks."""
    problems, passed, own = [], [], test["ensemble"]["r2"]
    if own["value"] is None:
        problems.append("The values of the test part are all the same: whether it tells them apart cannot be known")
    elif own["low"] is None or own["low"] <= 0:
        problems.append(f"Its R² of {_interval(own)} cannot be told from always saying the mean (0)")
    else:
        passed.append("always saying the mean")
    return _beside(test, problems, passed)


def _beside(
    test: Test, problems: list[str], passed: list[str], rare: Sequence[str] = (), few: bool = False
) -> SanityCheck:
    verdict, advice = USELESS if problems else SIMPLER
    problems = [*rare, *problems]
    before = len(problems)
    level: list[str] = []
    for name, metric, own, other, yardstick in compared(test):
        gap = yardstick.get("gap") or {"low": None, "high": None}
        more = "" if gap["low"] is None else f"; difference {_interval(gap)}"
        figures = f"({metric_in_words(metric)} {own:.3f} against {other:.3f}{more})"
        gain = (other - own) if metric in LOWER_IS_BETTER else (own - other)
        best = abs(own - (0.0 if metric in LOWER_IS_BETTER else 1.0)) < SAME
        if gain > SAME:
            (passed if gap["low"] is None or gap["low"] > 0 else level).append(f"{name} {figures}")
        elif abs(gain) <= SAME and best:
            level.append(f"{name} {figures}")
        elif not yardstick.get("peer") or (gap["high"] is not None and gap["high"] < 0):
            worse = "worse than" if gap["high"] is None or gap["high"] < 0 else "no better than"
            problems.append(f"It is {'level with' if abs(gain) <= SAME else worse} {name} {figures}")
        else:
            level.append(f"{name} {figures}")
    if rare and len(problems) == len(rare):
        verdict, advice = RARE
    elif few and len(problems) == before:
        verdict, advice = FEW
    told = (verdict, advice) if problems else ("", "")
    return SanityCheck(tuple(problems), tuple(passed), *told, tuple(level))


def compared(test: Test) -> Iterator[tuple[str, str, float, float, Mapping[str, Any]]]:
    """Each yardstick's name, the metric that is compared, the ensemble's value, the yardstick's, and all about it."""
    for yardstick in test.get("yardsticks") or ():
        for metric in COMPARED:
            own, other = _value(test["ensemble"].get(metric)), _value(yardstick.get(metric))
            if own is not None and other is not None:
                yield str(yardstick["name"]), metric, own, other, yardstick
                break


def yardstick_figures(
    target: Target,
    y: Array,
    own: Floats,
    other: Floats,
    *,
    name: str,
    positive: int | None = None,
    draws: int = 1000,
    prior: Sequence[float] = (),
    peer: bool = False,
) -> Json:
    """A yardstick's metrics on the cases that an ensemble was judged on, as :func:`check_classes` takes them.

    ``own`` and ``other`` are what the ensemble and the yardstick say of each case. ``gap`` is by how much the ensemble
    is better in the metric that is compared, with the interval of a bootstrap that draws cases for both alike.

    Example:
        >>> y, sure = np.array([0, 1, 1, 0]), np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]])
        >>> found = yardstick_figures(Target("binary", 2), y, sure, np.full((4, 2), 0.5), name="the prior")
        >>> found["name"], found["auc"]["value"], found["gap"]["value"]
        ('the prior', 0.5, 0.5)
    """
    metrics = metrics_for(target)
    metric = next(each for each in COMPARED if each in metrics)
    ours, theirs = metrics[metric](y, own), metrics[metric](y, other)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    gap = bootstrap(lambda weights: sign * (ours(weights) - theirs(weights)), len(y), draws=draws)
    found = evaluate(target, y, other, draws=draws, positive=positive, prior=prior)
    return dict(strict({"name": name, "peer": peer, **found, "gap": gap}))


def _value(found: Any) -> float | None:
    value = found.get("value") if isinstance(found, Mapping) else found
    return None if value is None else float(value)


def _interval(own: Mapping[str, Any]) -> str:
    low, high = ("–" if own[end] is None else f"{own[end]:.3f}" for end in ("low", "high"))
    return f"{own['value']:.3f} [{low}, {high}]"
