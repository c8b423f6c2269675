"""Data and training: a few samples, the members while they were trained, and the time that was spent.

What is kept of a sample is small, whatever its size: tiles of 8-bit pixels, or the least and the greatest value of
every stretch of a signal. ``shown`` holds ``counts`` (parts × classes) or ``edges`` and ``counts`` of values,
``examples`` with ``examples_y``, ``cases_x`` with ``cases`` (which test samples they are).
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from trainless.core.arch import Arch, is_region
from trainless.core.task import Part, Task
from trainless.core.types import Bytes, Floats
from trainless.learn.checkpoint import Epoch
from trainless.report.chart import WIDE, axes, bar, bounds, chart, clipped, colour, dot, frame, legend, line, svg, words
from trainless.report.contents import Contents, report_part
from trainless.report.page import Content, Markup, drawn, duration, grid, joined, percent, rounded, short, tag
from trainless.report.search import in_words, origins

EXAMPLES, CASES, BINS = 10, 9, 24
STRETCHES, LEADS, TILES, PIXELS = 400, 12, 5, 160
WIDTH, _HIGH = 320.0, 120.0


@report_part("design")
def data_words(contents: Contents) -> Content:
    """The data, and how they were split."""
    task = contents.summary["task"]
    samples = task["samples"]
    deciding = {
        "when to stop training": contents.summary["plan"]["recipe"]["keep"] == "best",
        "which members to train later": contents.settings.get("learn", False),
    }
    what = " and ".join(name for name, so in deciding.items() if so)
    kept = "The validation cases were kept from training, and the promises were made on them."
    if task["stopping"]:
        kept = (
            f"Of the validation cases {task['stopping']:,} decided {what}; the other {task['calibration']:,} were kept"
            " from training, and the promises were made on them."
        )
    elif task.get("folds", 1) > 1:
        kept = (
            f"Training and validation cases were put together and divided into {task['folds']} parts: each network"
            " learnt from all but one of them, and the promises were made on what networks said of cases that they had"
            " not learnt from."
        )
    return tag(
        "p",
        f"The task {task['name']}: each case is {inputs_in_words(task['input_shape'])}. {samples['train']:,} cases were"
        f" for training, {samples['valid']:,} for validation and {samples['test']:,} for the test. {kept}"
        " The test cases were used for the figures of this page alone.",
    )


def inputs_in_words(shape: list[int]) -> str:
    """One case of a shape, in words.

    Example:
        >>> inputs_in_words([1, 28, 28]), inputs_in_words([12, 1000])
        ('an image of 28 × 28 pixels', 'a signal of 1,000 values in 12 leads')
    """
    channels, *sizes = shape
    size = " × ".join(f"{each:,}" for each in sizes)
    if not 1 <= len(sizes) <= 3:
        return f"{channels:,} numbers"
    what, unit = (("a signal", "values"), ("an image", "pixels"), ("a volume", "voxels"))[len(sizes) - 1]
    many = f" in {channels} leads" if len(sizes) == 1 else f" with {channels} channels"
    return f"{what} of {size} {unit}{many if channels > 1 else ''}"


@report_part("design", "samples")
def balance(contents: Contents) -> list[Content]:
    """The number of cases of each class or value."""
    shared = tag("p", "This page holds samples of these data: share it only with those who may see them.")
    counts = contents.shown["counts"].tolist()
    key = legend([("thick c0", "training"), ("thick c5", "validation"), ("thick c1", "test")])
    if not contents.classes:
        drawing = Markup(values_balance_figure(counts, contents.shown["edges"].tolist()) + key)
        words = "How the values are spread, in each part (of the first value, where many)."
        return [shared, drawn("Values", drawing, words)]
    names = contents.classes
    more = f" The first 20 of {len(names)} classes are shown." if len(names) > 20 else ""
    drawing = Markup(balance_figure(counts, names) + key)
    return [shared, drawn("Classes", drawing, f"How many cases there are of each class, in each part.{more}")]


@report_part("design", "samples")
def examples(contents: Contents) -> list[Content]:
    """A few samples of the training part."""
    figures = []
    for kept, y in zip(contents.shown["examples"], contents.shown["examples_y"], strict=True):
        name = contents.classes[int(y)] if contents.classes else rounded(float(y.reshape(-1)[0]))
        figures.append(tag("figure", picture(kept, f"An example of {name}"), tag("figcaption", name)))
    tiny = contents.shown["examples"].ndim == 5 and contents.shown["examples"].shape[1] == 1
    size = ("tiny" if len(figures) > 5 else "few") if tiny else "small"
    return [tag("h3", "Examples from the training part"), grid(*figures, size=size)]


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
    """A histogram of the values in the three parts."""
    top = max([sum(part[place] for part in counts) for place in range(len(edges) - 1)] + [1])
    plane = frame((edges[0], edges[-1]), (0.0, top * 1.06), x_title="value", y_title="cases", width=WIDE, height=260)
    marks = []
    for place in range(len(edges) - 1):
        x, wide, done = plane.x(edges[place]), plane.x(edges[place + 1]) - plane.x(edges[place]), 0
        for part, (name, shade) in enumerate((("training", "c0"), ("validation", "c5"), ("test", "c1"))):
            count = counts[part][place]
            tip = f"{rounded(edges[place])} to {rounded(edges[place + 1])}: {count} in the {name} part"
            high = plane.y(done) - plane.y(done + count)
            marks.append(bar(x + 0.5, plane.y(done + count), wide - 1, high, shade, tip=tip))
            done += count
    return svg(plane.width, plane.height, "Values in each part", axes(plane), *marks, class_="chart wide")


def shown_of(task: Task, cases: npt.NDArray[np.integer]) -> dict[str, npt.NDArray[Any]]:
    """Keep what a report shows of the data: counts, an example of each class, and some cases of the test part."""
    parts = [task.train, task.valid, task.test]
    found: dict[str, npt.NDArray[Any]] = {}
    train = task.part("train")
    y = np.asarray(train.y)
    if task.target.kind == "regression":
        first = y.reshape(len(y), -1)[:, 0].astype(np.float64)
        found["edges"] = np.histogram_bin_edges(first, BINS)
        columns = [np.zeros(0) if p is None else _values(p) for p in parts]
        found["counts"] = np.stack([np.histogram(column, found["edges"])[0] for column in columns])
        chosen = np.argsort(first, kind="stable")[np.linspace(0, len(y) - 1, min(len(y), 6)).round().astype(int)]
    else:
        held = [np.zeros(0, np.int64) if part is None else np.asarray(part.truth, np.int64) for part in parts]
        found["counts"] = np.stack([np.bincount(column, minlength=task.target.outputs) for column in held])
        firsts = np.unique(y, return_index=True)[1]
        chosen = firsts[:EXAMPLES]
    found["examples"], found["examples_y"] = reduced(train, chosen, task.dims), y[chosen]
    if task.test is not None and len(cases):
        rows = task.test.first[cases]
        found["cases"], found["cases_x"] = np.asarray(cases), reduced(task.test, rows, task.dims)
        if task.test.names is not None:
            found["cases_names"] = np.asarray(task.test.names)[rows].astype(str)
    return found


def _values(part: Part) -> Floats:
    """The first value of each case."""
    return np.asarray(part.truth, np.float64).reshape(part.cases, -1)[:, 0]


def reduced(part: Part, index: npt.NDArray[np.integer], dims: int) -> npt.NDArray[Any]:
    """One sample after the other, so that a memory-mapped part is never read whole."""
    samples = [np.asarray(part.x[np.array([place])], np.float64)[0] for place in index]
    return np.stack([tiles(sample) if dims >= 2 else trace(sample.reshape(-1, sample.shape[-1])) for sample in samples])


def trace(signal: Floats) -> Floats:
    """A signal ``(leads, length)`` as the least and the greatest value of each of up to 400 stretches, in turn.

    Example:
        >>> trace(np.arange(8000.0).reshape(1, 8000)).shape
        (1, 800)
    """
    signal = signal[:LEADS]
    if signal.shape[1] <= 2 * STRETCHES:
        return signal
    ends = np.linspace(0, signal.shape[1], STRETCHES + 1).astype(int)[:-1]
    low, high = np.minimum.reduceat(signal, ends, axis=1), np.maximum.reduceat(signal, ends, axis=1)
    return np.stack([low, high], axis=2).reshape(len(signal), -1)


def tiles(sample: Floats) -> Bytes:
    """An image or a volume as 8-bit tiles ``(tiles, height, width, 1 or 3)``.

    An image of three channels is one tile in colour, of any other number a grey tile each, five at most; a volume is
    five slices along its first axis, of its first channel. Grey levels run from the 1st to the 99th percentile.

    Example:
        >>> tiles(np.zeros((1, 8, 8))).shape, tiles(np.zeros((3, 9, 8))).shape, tiles(np.zeros((1, 16, 8, 8))).shape
        ((1, 8, 8, 1), (1, 9, 8, 3), (5, 8, 8, 1))
    """
    if sample.ndim == 4:
        stack = sample[0, cuts_of(sample.shape[1])][..., None]
    elif len(sample) == 3:
        stack = np.moveaxis(sample, 0, -1)[None]
    else:
        stack = sample[:TILES, ..., None]
    stack = thinned(stack)
    low, high = np.percentile(stack, [1, 99]) if stack.min() < stack.max() else (stack.min(), stack.max())
    if not low < high:
        low, high = float(stack.min()), float(stack.max())
    scaled = (stack - low) / (high - low) if low < high else np.full_like(stack, 0.5)
    return (255 * scaled.clip(0, 1)).round().astype(np.uint8)


def cuts_of(depth: int) -> npt.NDArray[np.int64]:
    """The slices of a volume that are shown.

    Example:
        >>> cuts_of(16).tolist()
        [2, 5, 8, 10, 12]
    """
    return np.linspace(0, depth - 1, min(TILES, depth) + 2).round().astype(np.int64)[1:-1]


def thinned(stack: Floats) -> Floats:
    """Pictures ``(tiles, height, width, channels)`` of at most 160 pixels: means of squares of pixels.

    What is left at the edges goes.
    """
    step = max(1, -(-max(stack.shape[1:3]) // PIXELS))
    if step == 1:
        return stack
    count, high, wide, channels = stack.shape
    high, wide = max(1, high // step), max(1, wide // step)
    cut = stack[:, : high * step, : wide * step]
    blocks = cut.reshape(count, high, cut.shape[1] // high, wide, cut.shape[2] // wide, channels)
    return np.asarray(blocks.mean((2, 4)))


def picture(kept: npt.NDArray[Any], words: str, behind: Markup | None = None) -> Markup:
    """A kept sample as markup; the words say what it is to those who cannot see it.

    What is ``behind`` a signal is in its coordinates, 320 wide and as high as :func:`height_of` says.
    """
    if kept.ndim == 2:
        return _traces(kept, words, behind)
    drawn = [tag("img", src=_address(tile), alt=words if not place else "") for place, tile in enumerate(kept)]
    return tag("div", *drawn, class_=f"tiles t{len(kept)}")


def _address(tile: Bytes) -> str:
    from PIL import Image

    pixels = np.ascontiguousarray(tile[..., 0] if tile.shape[2] == 1 else tile)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def height_of(leads: int) -> float:
    """How high a signal is drawn."""
    return max(_HIGH, 34.0 * leads)


def _traces(kept: Floats, words: str, behind: Markup | None = None) -> Markup:
    """All leads below each other, each in its own range."""
    leads, length = kept.shape
    high = height_of(leads)
    lines = []
    for lead, values in enumerate(kept):
        there = values[np.isfinite(values)]
        low, top = (float(there.min()), float(there.max())) if len(there) else (0.0, 1.0)
        reach, room = (top - low) or 1.0, high / leads
        ys = room * lead + room - 4 - (room - 8) * (np.nan_to_num(values, nan=low) - low) / reach
        xs = np.linspace(2, WIDTH - 2, length) if length > 1 else np.array([WIDTH / 2])
        points = " ".join(f"{short(x)},{short(y)}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
        lines.append(tag("polyline", points=points, class_="trace"))
    return svg(WIDTH, high, words, joined([behind, *lines]), class_="signal")


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
    """The recipe of the training, and the colour of each method."""
    recipe, (held, shades) = contents.summary["plan"]["recipe"], _held(contents)
    entries = [(colour(place), in_words(name)) for place, name in enumerate(origins(contents))]
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
    text = "On validation cases; faint on training cases. Dots are the lowest."
    return drawn("Loss", loss_figure(*_held(contents)), text)


@report_part("design", beside=True)
def accuracies(contents: Contents) -> Content:
    """Accuracies while the members were trained."""
    which = " that decide when to stop" if contents.summary["task"]["stopping"] else ""
    return drawn("Accuracy", accuracy_figure(*_held(contents)), f"On the validation cases{which}.")


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
    whole = f" All of it took {duration(spent['seconds'])} of wall time." if "seconds" in spent else ""
    text = (
        f"{spent['evaluations']:,} candidates were judged without training, in {duration(spent['search_seconds'])};"
        f" {count:,} of them were different networks.{also} The mean training of a member took"
        f" {duration(float(np.mean(list(seconds.values()) or [0.0])))}.{whole}"
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
    every = [epoch for history in histories.values() for epoch in history]
    span = bounds([loss for epoch in every for loss in (epoch.valid_loss, epoch.train_loss)], log=True)
    floor = max(span[0], span[1] / 1e6)
    plane = frame((1.0, max(2.0, epochs)), (floor, span[1]), y_log=True, x_title="epoch", y_title="loss")
    marks = []
    for name, history in histories.items():
        losses = [_at_least(epoch.train_loss, floor) for epoch in history]
        marks.append(line(plane, [e.number + 1 for e in history], losses, shades[name], kind="thin faint"))
    for name, history in histories.items():
        xs = [epoch.number + 1 for epoch in history]
        losses = [_at_least(epoch.valid_loss, floor) for epoch in history]
        marks.append(line(plane, xs, losses, shades[name], tip=f"member {name}: validation loss"))
        there = [(loss, x) for loss, x in zip(losses, xs, strict=True) if math.isfinite(loss)]
        if there:
            loss, x = min(there)
            tip = f"member {name}: least validation loss {rounded(loss)} after epoch {x}"
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
    spans = ((1.0, max(2.0, epochs)), (max(0.0, min(held) - 0.03), 1.01))
    plane = frame(*spans, x_title="epoch", y_title="validation accuracy", y_words=lambda value: percent(value, 0))
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
    title = "Time spent, and what training every candidate would have taken"
    return svg(width, 6 + row * len(costs), title, *marks, class_="chart wide")
