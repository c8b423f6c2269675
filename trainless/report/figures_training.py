"""Figures of training and of what was spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.learn.checkpoint import Epoch
from trainless.report.chart import WIDE, axes, bar, bounds, chart, clipped, dot, frame, line, svg, words
from trainless.report.contents import Contents
from trainless.report.markup import Markup, duration, figure, percent, tag
from trainless.report.page import Section, drawn


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


def costs_section(contents: Contents) -> Section:
    """Time and evaluations."""
    spent, seconds = contents.summary["spent"], training_seconds(contents)
    single = sum(value for name, value in seconds.items() if name.startswith("single"))
    instead, count = instead_seconds(contents), different(contents)
    costs = {
        "judging candidates": (spent["search_seconds"], "c0"),
        "training the members": (sum(seconds.values()) - single, "c2"),
        **({"training the comparison": (single, "c1")} if single else {}),
        "training every candidate": (instead, "cn"),
    }
    regions = sum(is_region(c) for one in contents.searches for c in one.candidates)
    also = f" {regions:,} of them were supernets of the pruning, which stand for many networks each." if regions else ""
    return Section(
        "costs",
        "What was spent",
        (
            tag(
                "p",
                f"{spent['evaluations']:,} candidates were judged, {count:,} of them different networks.{also} The mean"
                f" training of a member took {duration(float(np.mean(list(seconds.values()) or [0.0])))}.",
            ),
            drawn(
                "Time",
                costs_figure(costs),
                f"The grey bar is an estimate, not a measurement: {count:,} different networks, each trained as long as"
                " a member on average, on this machine. Who searches by training would stop poor candidates early and"
                " pay less; who repeats each training, as tables of benchmarks do, would pay more. The times of"
                " members that were trained side by side are added up.",
            ),
        ),
    )


History = Sequence[Epoch]


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


def balance_figure(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> Markup:
    """Cases of each class in the training, validation and test part."""
    shown = min(len(classes), 20)
    width, left = WIDE, 16 + max(min(7.3 * len(name), 150.0) for name in classes[:shown])
    row, top = 24.0, max(max(sum(part[place] for part in counts) for place in range(shown)), 1)
    marks = []
    for place in range(shown):
        y, x = 4 + row * place, left
        marks.append(words(left - 8, y + 9, clipped(classes[place], left - 12), anchor="end"))
        for part, (name, shade) in enumerate((("training", "c0"), ("validation", "c5"), ("test", "c1"))):
            size = (width - left - 70) * counts[part][place] / top
            tip = f"{classes[place]}: {counts[part][place]:,} in the {name} part"
            marks.append(bar(x, y, size, 18, shade, tip=tip))
            x += size
        marks.append(words(x + 8, y + 9, f"{sum(part[place] for part in counts):,}", anchor="start"))
    return svg(width, 4 + row * shown, "Cases of each class in each part", *marks, class_="chart wide")


def values_balance_figure(counts: Sequence[Sequence[int]], edges: Sequence[float]) -> Markup:
    """How the values are spread in the three parts."""
    top = max([sum(part[place] for part in counts) for place in range(len(edges) - 1)] + [1])
    plane = frame((edges[0], edges[-1]), (0.0, top * 1.06), x_title="value", y_title="cases", width=WIDE, height=260)
    marks = []
    for place in range(len(edges) - 1):
        x, wide, done = plane.x(edges[place]), plane.x(edges[place + 1]) - plane.x(edges[place]), 0
        for part, (name, shade) in enumerate((("training", "c0"), ("validation", "c5"), ("test", "c1"))):
            count = counts[part][place]
            tip = f"{figure(edges[place])} to {figure(edges[place + 1])}: {count} in the {name} part"
            high = plane.y(done) - plane.y(done + count)
            marks.append(bar(x + 0.5, plane.y(done + count), wide - 1, high, shade, tip=tip))
            done += count
    return svg(plane.width, plane.height, "Values in each part", axes(plane), *marks, class_="chart wide")
