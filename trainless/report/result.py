"""The test: metrics, ROC curves, confusions, and values against the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.types import Floats, Labels
from trainless.learn.metrics import LOWER_IS_BETTER
from trainless.learn.sanity import compared, metric_in_words
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
    plain,
    svg,
    ticks,
    whisker,
    words,
)
from trainless.report.contents import Contents, report_part
from trainless.report.page import Content, Markup, drawn, joined, percent, rounded, table, tag, text_width
from trainless.report.search import in_words
from trainless.report.words import Facts, class_rows, positive_in_words, rule_in_words, yardstick_rows

MOST_OUTPUTS = 4
MOST_CURVES, MOST_CLASSES, MOST_CASES = 10, 20, 1500
UNIT = (0.0, 1.0)
FAINT, FULL = 0.06, 0.5  # how strong a cell of the least and of the whole share is: the ink on it can be read on both


@report_part("untested")
def no_test(contents: Contents) -> Content:
    """That there is nothing to say."""
    return tag("p", "The data have no test part.")


@report_part("tested", "classes", beside=True)
def roc_curves(contents: Contents) -> Content:
    """Sensitivity against false alarms."""
    said, names = contents.predictions, contents.classes
    number = contents.summary["test"].get("positive", {}).get("number", 1)
    if len(names) == 2:
        text = f"Of the cases of {names[number]}, how many are found, against false alarms among the others."
    else:
        more = " The first ten classes are shown." if len(names) > 10 else ""
        text = f"Each class against all others: how many of it are found, against false alarms.{more}"
    return drawn("ROC", roc_figure(said["y"], said["mean"], said["members"], said.get("single"), names, number), text)


@report_part("tested", "classes", beside=True)
def confusions(contents: Contents) -> list[Content]:
    """The confusion matrix of the most probable classes, and of those that stand out most where they are others."""
    said, found = contents.predictions, []
    many = " The classes with the most mistakes are shown." if len(contents.classes) > MOST_CLASSES else ""
    text = "Rows are the truth, columns what the ensemble says. The diagonal is right (blue), all else is wrong (red)."
    answers = {"Confusions": (said["label"], text + many)}
    if "classes_by" in contents.summary["test"]:
        by = "The same for the class that stands out most against its share of the training data"
        name = contents.summary["test"]["classes_by"]
        answers = {
            "Confusions of the most probable class": (said["label"], text + many),
            f"Confusions of {name}": (said["alike"], f"{by}: the figures of each class are of these answers."),
        }
    for title, (label, about) in answers.items():
        found.append(drawn(title, confusion_figure(said["y"], label, contents.classes), about))
    return list(found)


@report_part("tested", "values", beside=True)
def predicted_values(contents: Contents) -> list[Content]:
    """Predicted against true values, for each of the first outputs."""
    said = contents.predictions
    mean, low, high = said["mean"], said.get("low"), said.get("high")
    y, many = said["y"].reshape(mean.shape), mean.shape[-1] > 1
    text, found = "On the dashed line a prediction is right; the upright lines are its interval.", []
    for at in range(min(MOST_OUTPUTS, mean.shape[-1])):
        begin, end = (None if each is None else each[:, at] for each in (low, high))
        drawing = values_figure(y[:, at], mean[:, at], begin, end, f" of output {at + 1}" if many else "")
        found.append(drawn("Predicted against true" + (f", value {at + 1}" if many else ""), drawing, text))
    return list(found)


@report_part("tested")
def metrics(contents: Contents) -> list[Content]:
    """Every metric with its interval."""
    test, rows = contents.summary["test"], []
    for name, value in test["ensemble"].items():
        row = [metric_in_words(name), *estimate(value), rounded(test["members_mean"][name])]
        if "single" in test:
            row += [" ".join(estimate(test["single"]["ensemble"][name]))]
        rows.append(row)
    head = ["metric", "the ensemble", "95 % interval", "members on average"]
    head += ["one architecture"] if "single" in test else []
    how = "by bootstrap over the cases" if "mae" in test["ensemble"] else "exact for shares, else by bootstrap"
    words = table(head, rows, caption=f"{test['samples']:,} test cases; intervals {how}")
    if "mae" in test["ensemble"]:
        return [words]
    rule = rule_in_words(test)
    which = tag("p", f"Two kinds of answers: {rule}.", class_="sub") if rule else None
    return [drawn("Metrics", metrics_figure(test), "Dots are values, bars their 95 % intervals."), which, words]


@report_part("tested", "classes")
def classes_table(contents: Contents) -> Content:
    """Precision, recall and F1 of every class."""
    rows = class_rows(contents.summary["test"])
    head = ["class", "cases", "precision", "recall", "F1"]
    words = "Every class: of those called so the share that is (precision), and of it the share that is found (recall)"
    by = contents.summary["test"].get("classes_by")
    return table(head, rows, caption=f"{words}{f', by {by}' if by else ''}; exact 95 % intervals") if rows else None


@report_part("tested", "classes")
def positive(contents: Contents) -> Content:
    """The class to find: sensitivity, specificity, the threshold, and what an answer is worth at a prevalence."""
    lines = positive_in_words(contents.summary["test"], contents.settings.get("prevalence"))
    if not lines:
        return None
    name = contents.summary["test"]["positive"]["name"]
    listed = tag("ul", *(tag("li", f"{line[:1].upper()}{line[1:]}.") for line in map(str.strip, lines)))
    return joined([tag("h3", f"The class to find: {name}"), listed])


@report_part("tested")
def simpler(contents: Contents) -> Content:
    """The ensemble against what is simpler: a plain network, trees, a linear model, and chance."""
    test = contents.summary["test"]
    found = [(name, metric, yardstick[metric]) for name, metric, _, _, yardstick in compared(test)]
    if not found:
        return None
    metric = found[0][1]
    beside = [(name, _estimated(value)) for name, of, value in found if of == metric]
    chance = {"auc": 0.5, "balanced_accuracy": 1 / max(2, len(np.unique(contents.predictions["y"])))}.get(metric)
    drawing = beside_figure(metric, [("this ensemble", test["ensemble"][metric]), *beside], chance)
    lower = "lower" if metric in LOWER_IS_BETTER else "higher"
    line = "" if chance is None else " The dashed line is chance."
    text = f"{metric_in_words(metric)} on the same test cases, with 95 % intervals; {lower} is better.{line}"
    return drawn("Against what is simpler", drawing, f"{text[:1].upper()}{text[1:]}")


def _estimated(value: Any) -> Facts:
    return value if isinstance(value, Mapping) else {"value": value, "low": None, "high": None}


def beside_figure(metric: str, rows: Sequence[tuple[str, Facts]], chance: float | None) -> Markup:
    """One metric of the ensemble, which is the first row, and of others: a filled dot against hollow ones."""
    ends = [value[end] for _, value in rows for end in ("low", "value", "high") if value[end] is not None]
    low, high = bounds([*ends, *([] if chance is None else [chance])])
    shares = metric not in LOWER_IS_BETTER and min(ends) >= 0 and max(ends) <= 1
    row, top = 46.0, 8.0
    bottom = top + row * len(rows)
    plane = frame((max(low, 0.0), 1.0) if shares else (low, high), UNIT, width=WIDE, height=bottom + 46, left=16)
    marks = []
    for value in ticks(plane.x.low, plane.x.high):
        marks.append(tag("line", x1=plane.x(value), x2=plane.x(value), y1=top, y2=bottom, class_="grid"))
        marks.append(words(plane.x(value), bottom + 14, plain(value)))
    if chance is not None:
        x = plane.x(chance)
        marks.append(tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="line cn dashed thin", data_tip="chance"))
    for place, (name, own) in enumerate(rows):
        y, shade = top + row * place + 32, "c1" if place else "c0"
        marks.append(words(16, y - 18, f"{name}: {' '.join(estimate(own))}", anchor="start", class_="title"))
        marks += _row(plane.x, y, own, shade, name, metric, kind="hollow" if place else "")
    marks.append(words((plane.x.start + plane.x.stop) / 2, bottom + 34, metric_in_words(metric), class_="title"))
    title = f"{metric_in_words(metric)} of the ensemble and of what is simpler"
    return svg(WIDE, plane.height, title, *marks, class_="chart wide above")


@report_part("tested")
def yardsticks(contents: Contents) -> Content:
    """The ensemble beside its yardsticks."""
    names, rows = yardstick_rows(contents.summary["test"])
    caption = "Beside yardsticks that cost little, on the same test cases"
    return table(["", *map(metric_in_words, names)], rows, caption=caption) if rows else None


def estimate(value: Facts) -> tuple[str, str]:
    """A value and its interval as texts."""
    return rounded(value["value"]), f"[{rounded(value['low'])}, {rounded(value['high'])}]"


@report_part("tested")
def by_method(contents: Contents) -> Content:
    """The members by the method that found them, or as what kind of network they were added."""
    test = contents.summary["test"]
    main, rows = test["main"], []
    for name, own in test["by_searcher"].items():
        each = f"{rounded(own['members_mean'][main])} ± {rounded(own['members_deviation'][main])}"
        rows.append([in_words(name), str(own["size"]), each, " ".join(estimate(own["ensemble"][main]))])
    head = ["from", "members", f"{metric_in_words(main)} of a member", "of their own ensemble"]
    return table(head, rows, caption="The members by where they are from") if len(rows) > 1 else None


def roc(positive: npt.NDArray[np.bool_], score: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates from the strictest threshold to the laxest; equal scores are one step.

    Points on a straight stretch are left out.

    Example:
        >>> false, true = roc(np.array([True, False, True]), np.array([0.9, 0.8, 0.1]))
        >>> false.tolist(), true.tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0])
    """
    group = np.unique(-score, return_inverse=True)[1].reshape(-1)
    ups = np.bincount(group, positive).cumsum() / max(1, positive.sum())
    downs = np.bincount(group, ~positive).cumsum() / max(1, (~positive).sum())
    xs, ys = np.concatenate([[0.0], downs]), np.concatenate([[0.0], ups])
    first, second = np.diff(xs), np.diff(ys)
    turns = np.abs(first[:-1] * second[1:] - first[1:] * second[:-1]) > 1e-12
    kept = np.concatenate([[True], turns, [True]])
    return xs[kept], ys[kept]


def confusion(y: Labels, label: Labels, classes: int) -> Labels:
    """Count how often each true class (row) was taken for each class (column).

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    return np.bincount(y * classes + label, minlength=classes * classes).reshape(classes, classes).astype(np.int64)


def whole(share: float) -> str:
    """A share in whole per cents."""
    return percent(share, 0)


def roc_figure(
    y: Labels, mean: Floats, members: Floats, single: Floats | None, classes: Sequence[str], number: int = 1
) -> Markup:
    """Sensitivity against false alarms: of two classes the one with this number, of more each against the rest."""
    plane = frame(UNIT, (0.0, 1.02), x_title="false alarms", y_title="found", x_words=whole, y_words=whole, height=380)
    marks = [line(plane, [0, 1], [0, 1], "cn", kind="thin dashed")]
    if len(classes) == 2:
        for member in members:
            marks.append(line(plane, *_rates(y == number, member[:, number]), "c0", kind="thin faint"))
        entries = [("c0", "the ensemble"), ("c0 thin faint", "its members")]
        if single is not None:
            marks.append(line(plane, *_rates(y == number, single.mean(0)[:, number]), "c1", kind="dashed"))
            entries.append(("c1 dashed", "one architecture"))
        tip = f"{classes[number]} against {classes[1 - number]}"
        marks.append(line(plane, *_rates(y == number, mean[:, number]), "c0", tip=tip))
        return joined([chart(plane, f"ROC curve of {classes[number]}", *marks), legend(entries)])
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
    """The confusion matrix; of many classes those with the most mistakes."""
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
                strength = FAINT + (FULL - FAINT) * share
                marks.append(bar(x + 1, top + 1, cell - 2, cell - 2, shade, tip=tip, share=strength))
                marks.append(words(x + cell / 2, top + cell / 2, str(count), class_="title", size=min(13, cell / 2.4)))
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
        tip = f"true {rounded(float(y[place]))}, predicted {rounded(float(mean[place]))}"
        if low is not None and high is not None:
            ends = float(low[::step][place]), float(high[::step][place])
            marks.append(whisker(plane, float(y[place]), max(ends[0], span[0]), min(ends[1], span[1]), "c0 faint"))
            tip += f", interval {rounded(ends[0])} to {rounded(ends[1])}"
        marks.append(dot(plane, float(y[place]), float(mean[place]), "c0", tip=tip, radius=3))
    return chart(plane, f"Predicted against true values{name}", *marks)


def metrics_figure(test: Facts) -> Markup:
    """Each metric that lies between 0 and 1: the ensemble with its interval, its members, and one architecture."""
    names = [name for name, value in test["ensemble"].items() if value["value"] is not None]
    row, left, width = 62.0, 16.0, WIDE
    both = [test["ensemble"][name][end] for name in names for end in ("low", "value")]
    held = [value for value in both if value is not None]
    held += [value for name in names for value in test["members"][name] if value is not None]
    if "single" in test:
        ends = [test["single"]["ensemble"][name] for name in names]
        held += [end["value"] if end["low"] is None else end["low"] for end in ends if end["value"] is not None]
    low = max(0.0, min([*held, 0.98]) - 0.03)
    plane = frame((low, 1.0), UNIT, width=width, height=row * len(names) + 58, left=left, x_words=whole)
    marks = []
    for value in ticks(low, 1):
        marks.append(tag("line", x1=plane.x(value), x2=plane.x(value), y1=8.0, y2=plane.height - 46, class_="grid"))
        marks.append(words(plane.x(value), plane.height - 34, percent(value, 1)))
    for place, name in enumerate(names):
        y, own = 40 + row * place, test["ensemble"][name]
        label = f"{metric_in_words(name)}: {' '.join(estimate(own))}"
        marks.append(words(left, y - 26, label, anchor="start", class_="title"))
        marks += _row(plane.x, y, own, "c0", "the ensemble", name)
        for value in test["members"][name]:
            if value is not None:
                marks.append(
                    _at(plane.x(value), y - 11, 2.5, "c0 faint", f"a member: {metric_in_words(name)} {rounded(value)}")
                )
        if "single" in test:
            marks += _row(plane.x, y + 11, test["single"]["ensemble"][name], "c1", "one architecture", name)
    entries = [("c0", "the ensemble, 95 % interval"), ("c0 thick faint", "its members")]
    entries += [("c1", "one architecture")] if "single" in test else []
    drawn = svg(width, plane.height - 22, "Metrics with their intervals", *marks, class_="chart wide above")
    return joined([drawn, legend(entries)])


def _row(scale: Any, y: float, value: Facts, shade: str, who: str, name: str, kind: str = "") -> list[Markup]:
    if value["value"] is None:
        return []
    tip = f"{who}: {metric_in_words(name)} {rounded(value['value'])}"
    marks = []
    if value["low"] is not None and value["high"] is not None:
        tip += f" [{rounded(value['low'])}, {rounded(value['high'])}]"
        marks.append(bar(scale(value["low"]), y - 2, scale(value["high"]) - scale(value["low"]), 4, shade, share=0.45))
    return [*marks, _at(scale(value["value"]), y, 5, f"{shade} {kind}".strip(), tip)]


def _at(x: float, y: float, radius: float, shade: str, tip: str) -> Markup:
    return tag("circle", cx=x, cy=y, r=radius, class_=f"dot {shade}", data_tip=tip)
