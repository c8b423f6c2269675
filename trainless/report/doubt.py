"""Uncertainty of the ensemble: confidence, calibration, referral, sets, and the cases in doubt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.types import Floats, Labels
from trainless.learn.deferral import referral
from trainless.learn.drift import LEVEL
from trainless.learn.ensemble import average
from trainless.learn.predictor import doubt
from trainless.report.chart import bar, bounds, chart, clipped, dot, frame, legend, line, words
from trainless.report.contents import Arrays, Contents, report_part
from trainless.report.explained import why
from trainless.report.page import Content, Markup, drawn, grid, joined, percent, rounded, table, tag
from trainless.report.result import UNIT, whole
from trainless.report.summary import deferral_in_words, width_in_words
from trainless.report.training import CASES, picture
from trainless.report.words import Facts

BINS = 10
SHARES = np.arange(1, 21) / 20
TOP, MOST_VOTES = 3, 30


@report_part("tested", "classes", beside=True)
def confidence(contents: Contents) -> Content:
    """Accuracy on the cases on which the members agree most."""
    test = contents.summary["test"]
    single = test["single"]["confidence_curve"] if "single" in test else None
    return drawn("Accuracy against confidence", confidence_figure(test["confidence_curve"], single), _area_words(test))


@report_part("tested", "classes", beside=True)
def calibration(contents: Contents) -> Content:
    """Whether a stated probability is how often it is right."""
    said = contents.predictions
    raw = average(said["members"], np.asarray(contents.ensemble["weights"], np.float64))
    words = _calibration_words(contents.summary["test"])
    return drawn("Calibration", reliability_figure(said["mean"], raw, said["y"]), words)


@report_part("tested", "classes", beside=True)
def referrals(contents: Contents) -> Content:
    """The gain from referring cases to a person."""
    said, own, asked = contents.predictions, contents.summary["test"].get("deferral"), contents.settings["accuracy"]
    if own is None:
        return None
    right = own["accuracy"]["value"]
    at = None if right is None or not own["promised"] else (own["referred"], right)
    drawing = referral_figure(doubt(said["mean"]), said["label"] == said["y"], asked, at)
    return drawn("Referral", drawing, deferral_in_words(own, asked))


@report_part("tested", "classes", beside=True)
def prediction_sets(contents: Contents) -> Content:
    """Sizes of the sets, and whether they keep their promise."""
    said, own = contents.predictions, contents.summary["test"].get("sets")
    if own is None or "sets" not in said:
        return None
    return drawn("Prediction sets", sizes_figure(said["sets"]), _sets_words(own))


@report_part("tested", "values", beside=True)
def errors(contents: Contents) -> Content:
    """The error on the cases on which the members agree most."""
    said = contents.predictions
    y = said["y"].reshape(said["mean"].shape)[:, 0]
    single = said["single"][:, :, 0] if "single" in said else None
    drawing = error_figure(y, said["mean"][:, 0], said["members"][:, :, 0].var(0), single)
    text = "The mean error on the cases on which the members agree most, then on more and more of them."
    return drawn("Error against confidence", drawing, text)


@report_part("tested", "values")
def intervals(contents: Contents) -> Content:
    """Whether intervals keep their promise."""
    own = contents.summary["test"].get("intervals")
    if own is None:
        return None
    text = f"Intervals promise to hold the truth in {percent(own['promised'], 0)} of the cases; found: {_found(own)}."
    return tag("p", f"{text} They are {width_in_words(own)}.")


def _found(own: Facts) -> str:
    value, low, high = (percent(own["coverage"][end]) for end in ("value", "low", "high"))
    return f"{value} (95 % interval {low} to {high})"


@report_part("tested")
def drift(contents: Contents) -> Content:
    """Whether the test cases look like the training data."""
    text = contents.summary["test"].get("drift", {}).get("text", "")
    return tag("p", f"Do the test cases look like the training data? {text[:1].upper()}{text[1:]}." if text else "")


def _area_words(test: Facts) -> str:
    own = test["confidence_curve"]["area"]
    text = (
        "The vote of the members, on the cases on which they agree most, then on more and more of them. The mean over"
        f" the curve is {rounded(own)}"
    )
    if "single" not in test:
        return text + "."
    other, size = test["single"]["confidence_curve"]["area"], test["single"]["size"]
    verdict = "the same" if round(own, 3) == round(other, 3) else "better" if own > other else "worse"
    return f"{text}, that of {size} networks of one architecture {rounded(other)}: {verdict} on these cases."


def _calibration_words(test: Facts) -> str:
    after, before = test["calibration_error"], test["calibration_error_raw"]
    return (
        "Where it states a probability, how often it is right: on the dashed line both are the same. Calibration error"
        f" {rounded(after['value'])}, before calibration {rounded(before['value'])}"
        f" (temperature {rounded(test['temperature'])})."
    )


def _sets_words(own: Facts) -> str:
    each = " for every class by itself" if own["by_class"] else ""
    return (
        "A set names every answer that cannot be ruled out. Promised: the truth is in it in"
        f" {percent(own['promised'], 0)} of the cases{each}; found: {_found(own)}. One answer is a clear one, none or"
        " several call for a person."
    )


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


def confidence_figure(own: Facts, single: Facts | None) -> Markup:
    """Accuracy of the vote on the surest 5 %, …, 100 % (TEACUP, fig. 6B)."""
    curves = [("c0", "different architectures", own)] + ([("c1", "one architecture", single)] if single else [])
    held = [value for _, _, curve in curves for value in curve["accuracy"]]
    low = max(0.0, min(held) - 0.05 * max(0.1, 1 - min(held)))
    span = (min(low, 0.98), 1.002)
    plane = frame(UNIT, span, x_title="surest share of the cases", y_title="right", x_words=whole, y_words=percent)
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
    plane = frame(UNIT, (0.0, top), x_title="surest share of the cases", y_title="mean error", x_words=whole)
    marks = [
        line(plane, SHARES.tolist(), curve.tolist(), shade, tip=name, kind="dashed" if shade == "c1" else "")
        for shade, name, curve in curves
    ]
    key = legend((shade, name) for shade, name, _ in curves)
    return joined([chart(plane, "Mean error against confidence", *marks), key])


def reliability_figure(calibrated: Floats, raw: Floats, y: Labels) -> Markup:
    """Accuracy against stated probability: on the line it says what it is worth; the dots' area is the cases'."""
    title = "probability that it states"
    plane = frame(UNIT, (0.0, 1.02), x_title=title, y_title="right", x_words=whole, y_words=whole)
    marks = [line(plane, [0, 1], [0, 1], "cn", kind="thin dashed")]
    for shade, name, p in (("c1", "before", raw), ("c0", "after", calibrated)):
        said, right, count = reliability(p, y)
        there = np.flatnonzero(count)
        kind = "thin dashed" if shade == "c1" else ""
        marks.append(line(plane, said[there].tolist(), right[there].tolist(), shade, kind=kind))
        for place in there:
            x, y_, cases = float(said[place]), float(right[place]), count[place]
            tip = f"{name} calibration: says {percent(x)}, right {percent(y_)}, {cases} cases"
            radius = 2.5 + 8 * math.sqrt(cases / len(y))
            marks.append(dot(plane, x, y_, shade, tip=tip, radius=radius, kind="faint"))
    entries = [("c0", "calibrated"), ("c1 thin dashed", "before calibration")]
    return joined([chart(plane, "Calibration", *marks), legend(entries)])


def referral_figure(doubt: Floats, correct: Any, promised: float | None, at: tuple[float, float] | None) -> Markup:
    """Share right on what is answered against the share that is referred to a person; the rule's place is the dot."""
    share, right = referral(doubt, correct)
    low = min(float(right.min()), promised or 1.0)
    span, title = (max(0.0, low - 0.1 * max(0.1, 1 - low)), 1.002), "right on the rest"
    plane = frame(UNIT, span, x_title="referred to a person", y_title=title, x_words=whole, y_words=percent)
    marks = []
    if promised is not None:
        marks.append(line(plane, [0, 1], [promised, promised], "c4", kind="thin dashed"))
    marks.append(line(plane, share.tolist(), right.tolist(), "c0"))
    if at is not None:
        tip = f"the rule: {percent(at[0])} referred, {percent(at[1])} right on the rest"
        marks.append(dot(plane, *at, "c1", tip=tip, radius=6, kind="ringed"))
    entries = [("c0", "test cases")] + ([("c4 thin dashed", "asked for")] if promised is not None else [])
    entries += [("c1 thick", "the rule")] if at is not None else []
    return joined([chart(plane, "Accuracy against referral", *marks), legend(entries)])


def sizes_figure(sets: Any) -> Markup:
    """The number of classes that the prediction sets name."""
    sizes = np.bincount(sets.sum(1).astype(int))
    least = int(np.flatnonzero(sizes)[0])
    counts = {str(size): int(sizes[size]) for size in range(min(least, 1), len(sizes))}
    span, title = (0.0, max([*counts.values(), 1]) * 1.08), "classes in the set"
    plane = frame((0.0, float(len(counts))), span, x_title=title, y_title="cases", x_words=lambda v: "")
    room = (plane.x.stop - plane.x.start) / len(counts)
    wide, marks = min(46.0, room * 0.72), []
    for place, (name, count) in enumerate(counts.items()):
        middle = plane.x.start + room * (place + 0.5)
        high = plane.y(0) - plane.y(count)
        marks.append(bar(middle - wide / 2, plane.y(count), wide, high, "c0", tip=f"{name}: {count}"))
        if room >= 12 and (len(counts) <= 16 or place % math.ceil(len(counts) / 16) == 0):
            marks.append(words(middle, plane.y(0) + 15, clipped(name, max(room, 20))))
    return chart(plane, "Sizes of prediction sets", *marks)


@report_part("tested")
def cases(contents: Contents) -> list[Content]:
    """The least sure cases, so that a person can see what makes them hard."""
    shown = contents.shown.get("cases_x")
    index = contents.shown["cases"] if shown is not None else in_doubt(contents.predictions, CASES)
    order = "of the lowest probability of its answer" if contents.classes else "of the widest interval"
    text = f"The {len(index)} test cases that the ensemble is least sure of, in the order {order}."
    text += "" if "cases_names" in contents.shown else " Cases count from 0."
    text += " Each member's vote is in bold." if contents.classes else ""
    cards = []
    for place, case in enumerate(index.tolist()):
        image = None if shown is None else picture(shown[place], f"Test case {case}")
        label = int(contents.predictions["label"][case]) if contents.classes else 0
        looked = joined(why(contents.shown, place, contents.classes, label))
        card = _class_card if contents.classes else _value_card
        cards.append(card(contents, case, joined([image, looked]), named(contents.shown, place, case)))
    return [tag("h3", "The cases in doubt"), tag("p", text, class_="lead"), grid(*cards, size="small")]


def _chips(contents: Contents, case: int) -> list[Content]:
    said, chips = contents.predictions, []
    if "label" in said:
        right = said["label"][case] == said["y"][case]
        chips.append(tag("span", "right" if right else "wrong", class_=f"chip {'good' if right else 'bad'}"))
    if "refer" in said and said["refer"][case]:
        chips.append(tag("span", "referred to a person", class_="chip"))
    if "low" in said:
        truth = said["y"].reshape(said["mean"].shape)[case]
        inside = bool(((said["low"][case] <= truth) & (truth <= said["high"][case])).all())
        word = "truth in the interval" if inside else "truth outside"
        chips.append(tag("span", word, class_=f"chip {'good' if inside else 'bad'}"))
    if "drift" in said and said["drift"][case] <= LEVEL:
        p = rounded(float(said["drift"][case]))
        chips.append(tag("span", f"unlike the training data (p = {p})", class_="chip"))
    return list(chips)


def named(shown: Arrays, place: int, case: int) -> str:
    """What a case is called: its own name, where it has one, or its number."""
    return str(shown["cases_names"][place]) if "cases_names" in shown else str(case)


def _card(title: str, image: Markup | None, chips: list[Content], facts: dict[str, str], votes: Markup) -> Markup:
    listed = joined(part for name, value in facts.items() for part in (tag("dt", name), tag("dd", value)))
    return tag("figure", tag("h3", f"Case {title}"), image, tag("div", *chips), tag("dl", listed), votes, class_="case")


def _class_card(contents: Contents, case: int, image: Markup | None, title: str) -> Markup:
    said, names = contents.predictions, contents.classes
    p = said["mean"][case]
    answer = f"{names[int(said['label'][case])]} ({percent(float(p.max()))})"
    facts = {"truth": names[int(said["y"][case])], "it says": answer}
    if "sets" in said:
        inside = [names[number] for number in np.flatnonzero(said["sets"][case])]
        more = f" and {len(inside) - 6} more" if len(inside) > 6 else ""
        facts["possible"] = (", ".join(inside[:6]) + more) or "no class fits"
    total, apart = float(said["total"][case]), float(said["epistemic"][case])
    facts["doubt"] = f"entropy {rounded(total)}, {percent(apart / total if total else 0.0, 0)} from disagreement"
    members = said["members"][:, case]
    order = np.argsort(-members.mean(0), kind="stable")
    top = sorted({int(said["y"][case]), *order[:TOP].tolist()}, key=lambda k: -float(members[:, k].mean()))[: TOP + 1]
    rows: list[list[Content]] = []
    for name, row in zip(contents.ensemble["members"][:MOST_VOTES], members, strict=False):
        best = int(row.argmax())
        cells = [percent(float(row[k]), 0) for k in top]
        rows.append([name, *(tag("b", c) if k == best else c for c, k in zip(cells, top, strict=True))])
    votes = table(["member", *(clipped(names[k], 130) for k in top)], rows)
    return _card(title, image, _chips(contents, case), facts, votes)


def _value_card(contents: Contents, case: int, image: Markup | None, title: str) -> Markup:
    said = contents.predictions
    truth, mean = said["y"].reshape(said["mean"].shape)[case], said["mean"][case]
    facts = {"truth": _numbers(truth), "it says": _numbers(mean)}
    if "low" in said:
        ends = zip(said["low"][case].tolist(), said["high"][case].tolist(), strict=True)
        facts["interval"] = "; ".join(f"{rounded(low)} to {rounded(high)}" for low, high in ends)
    names = contents.ensemble["members"][:MOST_VOTES]
    rows = [[name, _numbers(row)] for name, row in zip(names, said["members"][:, case], strict=False)]
    return _card(title, image, _chips(contents, case), facts, table(["member", "says"], rows))


def _numbers(values: object) -> str:
    return ", ".join(rounded(float(value)) for value in np.asarray(values).reshape(-1)[:4])
