"""Training of the members, and what was spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.learn.checkpoint import Epoch
from trainless.report.chart import WIDE, bar, bounds, chart, clipped, colour, dot, frame, legend, line, svg, words
from trainless.report.contents import Contents, report_part
from trainless.report.markup import Content, Markup, duration, figure, percent, tag
from trainless.report.page import drawn
from trainless.report.search import in_words, origins

History = Sequence[Epoch]


def _held(contents: Contents) -> tuple[Mapping[str, History], dict[str, str]]:
    """Every member's epochs, those to compare with last, and its colour by what found it."""
    names, shades = origins(contents), {}
    for member in contents.summary["members"]:
        method = member["search"].partition("-")[0]
        shades[member["name"]] = colour(names.index(method)) if method in names else "cn"
    order = sorted(shades, key=lambda name: shades[name] != "cn")
    return {name: contents.histories[name] for name in order if name in contents.histories}, shades


@report_part("design")
def training_words(contents: Contents) -> list[Content]:
    """What was trained and how, and which colour is which method."""
    recipe, (held, shades) = contents.summary["plan"]["recipe"], _held(contents)
    entries = [(colour(place), f"found by {in_words(name)}") for place, name in enumerate(origins(contents))]
    if any(shade == "cn" for shade in shades.values()):
        entries.append(("cn", "one architecture, to compare with"))
    stop = f" Training stopped early after {recipe['patience']} epochs without gain." if recipe["patience"] else ""
    text = (
        f"{len(held)} networks were trained for up to {recipe['epochs']} epochs by the recipe {recipe['name']}"
        f" ({recipe['summary']}).{stop}"
    )
    return [tag("p", text), legend(entries)]


@report_part("design", beside=True)
def losses(contents: Contents) -> Content:
    """Losses while the members were trained."""
    return drawn(
        "Loss", loss_figure(*_held(contents)), "On validation cases; faint on training cases. Dots are the lowest."
    )


@report_part("design", beside=True)
def accuracies(contents: Contents) -> Content:
    """Accuracies while the members were trained."""
    return drawn("Accuracy", accuracy_figure(*_held(contents)), "On the validation cases that decide when to stop.")


def different(contents: Contents) -> int:
    """Different networks that were looked at: what computes the same counts once, and supernets do not count."""
    archs = {c for one in contents.searches for c in one.candidates if not is_region(c)}
    archs |= {arch for one in contents.searches for arch in one.best[:1]}
    return len(archs if contents.space is None else {contents.space.canonical(cast(Arch, arch)) for arch in archs})


def training_seconds(contents: Contents) -> Mapping[str, float]:
    """Seconds of each trained member."""
    return {name: sum(epoch.seconds for epoch in history) for name, history in contents.histories.items()}


def instead_seconds(contents: Contents) -> float:
    """Every different candidate × the mean time of a trained member: a full training each, on the same machine."""
    held = list(training_seconds(contents).values())
    return different(contents) * float(np.mean(held)) if held else 0.0


@report_part("design")
def costs(contents: Contents) -> list[Content]:
    """Time and evaluations."""
    spent, seconds = contents.summary["spent"], training_seconds(contents)
    single = sum(value for name, value in seconds.items() if name.startswith("single"))
    instead, count = instead_seconds(contents), different(contents)
    shown = {
        "judging candidates": (spent["search_seconds"], "c0"),
        "training the members": (sum(seconds.values()) - single, "c2"),
        **({"training the comparison": (single, "c1")} if single else {}),
        "training every candidate": (instead, "cn"),
    }
    regions = sum(is_region(c) for one in contents.searches for c in one.candidates)
    also = f" {regions:,} of them were supernets of the pruning, which stand for many networks each." if regions else ""
    text = (
        f"{spent['evaluations']:,} candidates were judged, {count:,} of them different networks.{also} The mean"
        f" training of a member took {duration(float(np.mean(list(seconds.values()) or [0.0])))}."
    )
    caption = (
        f"The grey bar is an estimate, not a measurement: {count:,} different networks, each trained as long as"
        " a member on average, on this machine. Who searches by training would stop poor candidates early and"
        " pay less; who repeats each training, as tables of benchmarks do, would pay more. The times of"
        " members that were trained side by side are added up."
    )
    return [tag("p", text), drawn("Time", costs_figure(shown), caption)]


def loss_figure(histories: Mapping[str, History], shades: Mapping[str, str]) -> Markup:
    """Validation loss of each member after each epoch; its kept weights are the dot, training loss is faint."""
    epochs = max((len(history) for history in histories.values()), default=1)
    held = [
        loss for history in histories.values() for epoch in history for loss in (epoch.valid_loss, epoch.train_loss)
    ]
    span = bounds(held, log=True)
    floor = max(span[0], span[1] / 1e6)
    plane = frame((1.0, max(2.0, epochs)), (floor, span[1]), y_log=True, x_title="epoch", y_title="loss")
    marks = []
    for name, history in histories.items():
        xs = [epoch.number + 1 for epoch in history]
        marks.append(
            line(plane, xs, [_at_least(e.train_loss, floor) for e in history], shades[name], kind="thin faint")
        )
    for name, history in histories.items():
        xs = [epoch.number + 1 for epoch in history]
        losses = [_at_least(epoch.valid_loss, floor) for epoch in history]
        marks.append(line(plane, xs, losses, shades[name], tip=f"member {name}: validation loss"))
        there = [(loss, x) for loss, x in zip(losses, xs, strict=True) if math.isfinite(loss)]
        if there:
            loss, x = min(there)
            tip = f"member {name}: least validation loss {figure(loss)} after epoch {x}"
            marks.append(dot(plane, x, loss, shades[name], tip=tip, radius=3.5))
    return chart(plane, "Losses of the members while they were trained", *marks)


def _at_least(value: float, floor: float) -> float:
    return max(value, floor) if math.isfinite(value) else math.nan


def accuracy_figure(histories: Mapping[str, History], shades: Mapping[str, str]) -> Markup | None:
    """Validation accuracy of each member after each epoch; None for values."""
    held = [e.valid_accuracy for history in histories.values() for e in history if math.isfinite(e.valid_accuracy)]
    if not held:
        return None
    epochs = max(len(history) for history in histories.values())
    plane = frame(
        (1.0, max(2.0, epochs)),
        (max(0.0, min(held) - 0.03), 1.01),
        x_title="epoch",
        y_title="validation accuracy",
        y_words=lambda value: percent(value, 0),
    )
    marks = [
        line(plane, [e.number + 1 for e in history], [e.valid_accuracy for e in history], shades[name], tip=name)
        for name, history in histories.items()
    ]
    return chart(plane, "Validation accuracy of the members while they were trained", *marks)


def costs_figure(costs: Mapping[str, tuple[float, str]]) -> Markup:
    """Seconds as bars on one scale: name → (seconds, colour)."""
    width, row, left = WIDE, 34.0, 196.0
    top = max([seconds for seconds, _ in costs.values()] + [1e-9])
    marks = []
    for place, (name, (seconds, shade)) in enumerate(costs.items()):
        y = 6 + row * place
        size = max(1.5, (width - left - 90) * seconds / top)
        marks.append(words(left - 10, y + 11, clipped(name, left - 14), anchor="end"))
        marks.append(bar(left, y, size, 22, shade, tip=f"{name}: {duration(seconds)}"))
        marks.append(words(left + size + 8, y + 11, duration(seconds), anchor="start"))
    return svg(
        width,
        6 + row * len(costs),
        "Time spent, and what training every candidate would have taken",
        *marks,
        class_="chart wide",
    )
