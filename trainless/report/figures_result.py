"""Figures of a test: ROC curves, confusions, values, confidence, calibration, referral, sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.types import Floats, Labels
from trainless.report.chart import (
    WIDE,
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
    ticks,
    whisker,
    words,
)
from trainless.report.contents import Arrays, Json
from trainless.report.markup import Markup, figure, joined, percent, tag
from trainless.report.scene import text_width

BINS = 10


def roc(positive: npt.NDArray[np.bool_], score: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates from the strictest threshold to the laxest; equal scores are one step.

    Points on a straight stretch are left out.

    Example:
        >>> false, true = roc(np.array([True, False, True]), np.array([0.9, 0.8, 0.1]))
        >>> false.tolist(), true.tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0])
    """
    _, group = np.unique(-score, return_inverse=True)
    group = group.reshape(-1)
    ups = np.bincount(group, positive).cumsum() / max(1, positive.sum())
    downs = np.bincount(group, ~positive).cumsum() / max(1, (~positive).sum())
    xs, ys = np.concatenate([[0.0], downs]), np.concatenate([[0.0], ups])
    first, second = np.diff(xs), np.diff(ys)
    turns = np.abs(first[:-1] * second[1:] - first[1:] * second[:-1]) > 1e-12
    kept = np.concatenate([[True], turns, [True]])
    return xs[kept], ys[kept]


def confusion(y: Labels, label: Labels, classes: int) -> Labels:
    """How often each true class (row) was taken for each class (column).

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    return np.bincount(y * classes + label, minlength=classes * classes).reshape(classes, classes).astype(np.int64)


def reliability(p: Floats, y: Labels, bins: int = BINS) -> tuple[Floats, Floats, Labels]:
    """Mean stated probability, share that was right, and samples, of bins of equal width; NaN where a bin is empty.

    Example:
        >>> said, right, count = reliability(np.array([[0.3, 0.7], [0.1, 0.9], [0.95, 0.05]]), np.array([1, 1, 1]), 2)
        >>> round(float(said[1]), 2), round(float(right[1]), 2), count.tolist()
        (0.85, 0.67, [0, 3])
    """
    said, hit = p.max(1), p.argmax(1) == y
    place = np.minimum((said * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return np.bincount(place, said, bins) / count, np.bincount(place, hit, bins) / count, count.astype(np.int64)


def referral(doubt: Floats, correct: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Share of cases referred and share right among those answered, for every threshold; equal doubts go together.

    Example:
        >>> share, right = referral(np.array([0.1, 0.4, 0.2]), np.array([True, False, True]))
        >>> share.round(2).tolist(), right.round(2).tolist()
        ([0.67, 0.33, 0.0], [1.0, 1.0, 0.67])
    """
    _, group = np.unique(doubt, return_inverse=True)
    answered = np.bincount(group.reshape(-1)).cumsum()
    right = np.bincount(group.reshape(-1), correct).cumsum()
    return 1 - answered / len(doubt), right / answered


def error_curve(error: Floats, spread: Floats, shares: Floats) -> Floats:
    """Mean error of the surest share of cases: what an accuracy against confidence is for values.

    Example:
        >>> error_curve(np.array([1.0, 3.0]), np.array([0.1, 0.2]), np.array([0.5, 1.0])).tolist()
        [1.0, 2.0]
    """
    ranked = np.cumsum(error[np.argsort(spread, kind="stable")])
    taken = np.maximum(1, np.ceil(shares * len(error) - 1e-9).astype(int))
    return np.asarray(ranked[taken - 1] / taken)


def in_doubt(predictions: Arrays, most: int) -> npt.NDArray[np.intp]:
    """The cases that the ensemble is least sure of, the least sure first.

    For classes: the lowest probability of its answer, as referral goes by; of equals the greater entropy before
    calibration. For values: the widest interval, else the greatest variance across members.

    Example:
        >>> mean = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
        >>> in_doubt({"mean": mean, "label": mean.argmax(1), "total": np.zeros(3), "variance": np.zeros(3)}, 2).tolist()
        [1, 2]
    """
    columns: list[npt.NDArray[Any]] = [-predictions["variance"]]
    if "label" in predictions:
        columns += [-predictions["total"], predictions["mean"].max(1)]
    elif "high" in predictions:
        columns.append(-(predictions["high"] - predictions["low"]).max(1))
    return np.lexsort(columns)[:most]


MOST_CURVES, MOST_CLASSES, MOST_CASES = 10, 20, 1500
SHARES = np.arange(1, 21) / 20
UNIT = (0.0, 1.0)


def _whole(share: float) -> str:
    return percent(share, 0)


def roc_figure(y: Labels, mean: Floats, members: Floats, single: Floats | None, classes: Sequence[str]) -> Markup:
    """Sensitivity against false alarms: of two classes the second one, of more each against the rest."""
    plane = frame(
        UNIT, (0.0, 1.02), x_title="false alarms", y_title="found", x_words=_whole, y_words=_whole, height=380
    )
    marks = [line(plane, [0, 1], [0, 1], "cn", kind="thin dashed")]
    if len(classes) == 2:
        for member in members:
            marks.append(line(plane, *_rates(y == 1, member[:, 1]), "c0", kind="thin faint"))
        entries = [("c0", "the ensemble"), ("c0 thin faint", "its members")]
        if single is not None:
            marks.append(line(plane, *_rates(y == 1, single.mean(0)[:, 1]), "c1", kind="dashed"))
            entries.append(("c1 dashed", "one architecture"))
        marks.append(line(plane, *_rates(y == 1, mean[:, 1]), "c0", tip=f"{classes[1]} against {classes[0]}"))
        return joined([chart(plane, f"ROC curve of {classes[1]}", *marks), legend(entries)])
    there = [number for number in range(len(classes)) if (y == number).any()]
    entries = []
    for place, number in enumerate(there[:MOST_CURVES]):
        tip = f"{classes[number]} against the rest"
        kind = "" if place < 8 else "dashed"
        marks.append(line(plane, *_rates(y == number, mean[:, number]), colour(place), tip=tip, kind=kind))
        entries.append((f"{colour(place)} {kind}", classes[number]))
    return joined([chart(plane, "ROC curves, each class against the rest", *marks), legend(entries)])


def _rates(positive: Any, score: Floats) -> tuple[list[float], list[float]]:
    xs, ys = roc(positive, score)
    return xs.tolist(), ys.tolist()


def confusion_figure(y: Labels, label: Labels, classes: Sequence[str]) -> Markup:
    """What was taken for what; of many classes those with the most mistakes."""
    table = confusion(y, label, len(classes))
    kept = list(range(len(classes)))
    if len(classes) > MOST_CLASSES:
        wrong = table.sum(0) + table.sum(1) - 2 * np.diag(table)
        kept = sorted(np.argsort(-wrong, kind="stable")[:MOST_CLASSES].tolist())
    totals = table.sum(1)
    names = [clipped(classes[number], 130) for number in kept]
    left = 34 + max(text_width(name, 12) for name in names)
    cell = min(84.0, max(24.0, 380 / len(kept)))
    longest = max(text_width(name, 12) for name in names)
    slanted = longest > cell
    under = 12 + (longest * 0.75 if slanted else 12)
    width, height = left + cell * len(kept) + 12, 8 + cell * len(kept) + under + 24
    marks = []
    for row, true in enumerate(kept):
        top = 8 + cell * row
        marks.append(words(left - 8, top + cell / 2, names[row], anchor="end"))
        for column, said in enumerate(kept):
            count = int(table[true, said])
            share = count / max(1, int(totals[true]))
            tip = f"{count} of {int(totals[true])} {classes[true]} taken for {classes[said]}"
            x = left + cell * column
            shade = "c0" if true == said else "c4"
            marks.append(bar(x + 1, top + 1, cell - 2, cell - 2, "cn", share=0.07))
            if count:
                marks.append(bar(x + 1, top + 1, cell - 2, cell - 2, shade, tip=tip, share=0.18 + 0.82 * share))
                class_ = "on" if share > 0.45 else "label"
                marks.append(words(x + cell / 2, top + cell / 2, str(count), class_=class_, size=min(13, cell / 2.4)))
    low = 8 + cell * len(kept)
    for column, name in enumerate(names):
        x = left + cell * (column + 0.5)
        turned = f"rotate(-45 {x:.1f} {low + 12:.1f})" if slanted else None
        marks.append(words(x, low + 12, name, anchor="end" if turned else "middle", transform=turned))
    marks.append(words(left + cell * len(kept) / 2, height - 9, "the ensemble says", class_="title"))
    middle = 8 + cell * len(kept) / 2
    marks.append(words(11, middle, "truth", class_="title", transform=f"rotate(-90 11 {middle:.1f})"))
    return svg(width, height, "Confusion matrix", *marks, class_="chart matrix", most=1.15 * width)


def values_figure(y: Floats, mean: Floats, low: Floats | None, high: Floats | None, name: str) -> Markup:
    """Predicted against true values, with their intervals; on the line they are the same."""
    step = max(1, math.ceil(len(y) / MOST_CASES))
    y, mean = y[::step], mean[::step]
    span = bounds([*y.tolist(), *mean.tolist()])
    plane = frame(span, span, x_title="true value", y_title="predicted", height=400)
    marks = [line(plane, list(span), list(span), "cn", kind="thin dashed")]
    for place in range(len(y)):
        tip = f"true {figure(float(y[place]))}, predicted {figure(float(mean[place]))}"
        if low is not None and high is not None:
            ends = float(low[::step][place]), float(high[::step][place])
            marks.append(whisker(plane, float(y[place]), max(ends[0], span[0]), min(ends[1], span[1]), "c0 faint"))
            tip += f", interval {figure(ends[0])} to {figure(ends[1])}"
        marks.append(dot(plane, float(y[place]), float(mean[place]), "c0", tip=tip, radius=3))
    return chart(plane, f"Predicted against true values{name}", *marks)


def confidence_figure(own: Json, single: Json | None) -> Markup:
    """Accuracy of the vote on the surest 5 %, …, 100 % (TEACUP, fig. 6B)."""
    curves = [("c0", "different architectures", own)] + ([("c1", "one architecture", single)] if single else [])
    held = [value for _, _, curve in curves for value in curve["accuracy"]]
    low = max(0.0, min(held) - 0.05 * max(0.1, 1 - min(held)))
    plane = frame(
        UNIT,
        (min(low, 0.98), 1.002),
        x_title="surest share of the cases",
        y_title="right",
        x_words=_whole,
        y_words=lambda value: percent(value, 1),
    )
    marks = []
    for shade, name, curve in curves:
        xs, ys = curve["shares"], curve["accuracy"]
        marks.append(line(plane, xs, ys, shade, kind="dashed" if shade == "c1" else ""))
        for x, y in zip(xs, ys, strict=True):
            tip = f"{name}: {percent(y)} right on the surest {percent(x, 0)}"
            marks.append(dot(plane, x, y, shade, tip=tip, radius=3))
    key = legend((f"{shade} {'dashed' if shade == 'c1' else ''}", name) for shade, name, _ in curves)
    return joined([chart(plane, "Accuracy against confidence", *marks), key])


def error_figure(y: Floats, mean: Floats, variance: Floats, single: Floats | None) -> Markup:
    """Mean error on the surest 5 %, …, 100 %, by the variance across members."""
    curves = [("c0", "different architectures", error_curve(np.abs(mean - y), variance, SHARES))]
    if single is not None:
        error, spread = np.abs(single.mean(0) - y), single.var(0)
        curves.append(("c1", "one architecture", error_curve(error, spread, SHARES)))
    top = bounds([0.0, *(float(value) for _, _, curve in curves for value in curve)])[1]
    plane = frame(UNIT, (0.0, top), x_title="surest share of the cases", y_title="mean error", x_words=_whole)
    marks = [
        line(plane, SHARES.tolist(), curve.tolist(), shade, tip=name, kind="dashed" if shade == "c1" else "")
        for shade, name, curve in curves
    ]
    key = legend((shade, name) for shade, name, _ in curves)
    return joined([chart(plane, "Mean error against confidence", *marks), key])


def reliability_figure(calibrated: Floats, raw: Floats, y: Labels) -> Markup:
    """How often it is right where it says so: on the line it says what it is worth; the dots' area is the cases'."""
    plane = frame(
        UNIT, (0.0, 1.02), x_title="probability that it states", y_title="right", x_words=_whole, y_words=_whole
    )
    marks = [line(plane, [0, 1], [0, 1], "cn", kind="thin dashed")]
    for shade, name, p in (("c1", "before", raw), ("c0", "after", calibrated)):
        said, right, count = reliability(p, y)
        there = np.flatnonzero(count)
        kind = "thin dashed" if shade == "c1" else ""
        marks.append(line(plane, said[there].tolist(), right[there].tolist(), shade, kind=kind))
        for place in there:
            tip = (
                f"{name} calibration: says {percent(said[place])}, right {percent(right[place])}, {count[place]} cases"
            )
            radius = 2.5 + 8 * math.sqrt(count[place] / len(y))
            at = (float(said[place]), float(right[place]))
            marks.append(dot(plane, *at, shade, tip=tip, radius=radius, kind="faint"))
    entries = [("c0", "calibrated"), ("c1 thin dashed", "before calibration")]
    return joined([chart(plane, "Calibration", *marks), legend(entries)])


def referral_figure(doubt: Floats, correct: Any, promised: float | None, at: tuple[float, float] | None) -> Markup:
    """Share right on what is answered against the share that is referred to a person; the rule's place is the dot."""
    share, right = referral(doubt, correct)
    low = min(float(right.min()), promised or 1.0)
    plane = frame(
        UNIT,
        (max(0.0, low - 0.1 * max(0.1, 1 - low)), 1.002),
        x_title="referred to a person",
        y_title="right on the rest",
        x_words=_whole,
        y_words=lambda value: percent(value, 1),
    )
    marks = []
    if promised is not None:
        marks.append(line(plane, [0, 1], [promised, promised], "c4", kind="thin dashed"))
    marks.append(line(plane, share.tolist(), right.tolist(), "c0"))
    if at is not None:
        tip = f"the rule: {percent(at[0])} referred, {percent(at[1])} right on the rest"
        marks.append(dot(plane, *at, "c1", tip=tip, radius=6, kind="ringed"))
    entries = [("c0", "test cases")] + ([("c4 thin dashed", "asked for")] if promised is not None else [])
    return joined([chart(plane, "Accuracy against referral", *marks), legend([*entries, ("c1 thick", "the rule")])])


def sizes_figure(sets: Any) -> Markup:
    """How many classes the prediction sets name."""
    sizes = np.bincount(sets.sum(1).astype(int))
    least = int(np.flatnonzero(sizes)[0])
    return columns_figure(
        {str(size): int(sizes[size]) for size in range(min(least, 1), len(sizes))},
        "classes in the set",
        "cases",
        "Sizes of prediction sets",
    )


def columns_figure(counts: Mapping[str, int], x_title: str, y_title: str, title: str, shade: str = "c0") -> Markup:
    """One column per name."""
    top = max([*counts.values(), 1])
    plane = frame((0.0, float(len(counts))), (0.0, top * 1.08), x_title=x_title, y_title=y_title, x_words=lambda v: "")
    room = (plane.x.stop - plane.x.start) / len(counts)
    wide, marks = min(46.0, room * 0.72), []
    for place, (name, count) in enumerate(counts.items()):
        middle = plane.x.start + room * (place + 0.5)
        high = plane.y(0) - plane.y(count)
        marks.append(bar(middle - wide / 2, plane.y(count), wide, high, shade, tip=f"{name}: {count}"))
        if room >= 12 and (len(counts) <= 16 or place % math.ceil(len(counts) / 16) == 0):
            marks.append(words(middle, plane.y(0) + 15, clipped(name, max(room, 20))))
    return chart(plane, title, *marks)


def metrics_figure(test: Json) -> Markup:
    """Each metric that lies between 0 and 1: the ensemble with its interval, its members, and one architecture."""
    names = [name for name, value in test["ensemble"].items() if value["value"] is not None]
    row, left, width = 42.0, 136.0, WIDE
    both = [test["ensemble"][name][end] for name in names for end in ("low", "value")]
    held = [value for value in both if value is not None]
    held += [value for name in names for value in test["members"][name] if value is not None]
    if "single" in test:
        ends = [test["single"]["ensemble"][name] for name in names]
        held += [end["value"] if end["low"] is None else end["low"] for end in ends if end["value"] is not None]
    low = max(0.0, min([*held, 0.98]) - 0.03)
    plane = frame((low, 1.0), UNIT, width=width, height=row * len(names) + 58, left=left, x_words=_whole)
    marks = []
    for value in ticks(low, 1):
        marks.append(tag("line", x1=plane.x(value), x2=plane.x(value), y1=8.0, y2=plane.height - 46, class_="grid"))
        marks.append(words(plane.x(value), plane.height - 34, percent(value, 1)))
    for place, name in enumerate(names):
        y = 14 + row * (place + 0.5)
        marks.append(words(left - 12, y, name.replace("_", " "), anchor="end"))
        marks += _row(plane.x, y, test["ensemble"][name], "c0", "the ensemble", name)
        for value in test["members"][name]:
            if value is not None:
                marks.append(_at(plane.x(value), y - 11, 2.5, "c0 faint", f"a member: {name} {figure(value)}"))
        if "single" in test:
            marks += _row(plane.x, y + 11, test["single"]["ensemble"][name], "c1", "one architecture", name)
    entries = [("c0", "the ensemble, 95 % interval"), ("c0 thick faint", "its members")]
    entries += [("c1", "one architecture")] if "single" in test else []
    drawn = svg(width, plane.height - 22, "Metrics with their intervals", *marks, class_="chart wide")
    return joined([drawn, legend(entries)])


def _row(scale: Any, y: float, value: Json, shade: str, who: str, name: str) -> list[Markup]:
    if value["value"] is None:
        return []
    tip = f"{who}: {name.replace('_', ' ')} {figure(value['value'])}"
    marks = []
    if value["low"] is not None and value["high"] is not None:
        tip += f" [{figure(value['low'])}, {figure(value['high'])}]"
        marks.append(bar(scale(value["low"]), y - 2, scale(value["high"]) - scale(value["low"]), 4, shade, share=0.45))
    return [*marks, _at(scale(value["value"]), y, 5, shade, tip)]


def _at(x: float, y: float, radius: float, shade: str, tip: str) -> Markup:
    return tag("circle", cx=x, cy=y, r=radius, class_=f"dot {shade}", data_tip=tip)
