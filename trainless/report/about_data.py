"""The section on the data: what was given, how it was split, how many of what, and what it looks like."""

from __future__ import annotations

from trainless.report.chart import legend
from trainless.report.contents import Contents
from trainless.report.figures_training import balance_figure, values_balance_figure
from trainless.report.headline import inputs_in_words
from trainless.report.markup import Content, Markup, figure, tag
from trainless.report.page import Section, drawn, grid
from trainless.report.pictures import picture


def data_section(contents: Contents) -> Section:
    """What the networks learnt from."""
    task = contents.summary["task"]
    samples = task["samples"]
    deciding = {
        "when to stop training": contents.summary["plan"]["recipe"]["keep"] == "best",
        "which members to train later": contents.settings.get("learn", False),
    }
    what = " and ".join(name for name, so in deciding.items() if so)
    split = (
        f"Of the validation cases {task['stopping']:,} decided {what}; the other"
        f" {task['calibration']:,} were kept from training, and the promises were made on them."
        if task["stopping"]
        else "The validation cases were kept from training, and the promises were made on them."
    )
    text = (
        f"The task {task['name']}: each case is {inputs_in_words(task['input_shape'])}. {samples['train']:,} cases were"
        f" for training, {samples['valid']:,} for validation and {samples['test']:,} for the test. {split} The test"
        " cases chose nothing."
    )
    parts: list[Content] = [tag("p", text)]
    if contents.shown:
        parts.append(tag("p", "This page shows samples of these data: whoever has the page has them, too."))
        parts += [_balance(contents), tag("h3", "Examples from the training part"), _examples(contents)]
    return Section("data", "The data", tuple(parts))


def _balance(contents: Contents) -> Markup | None:
    counts = contents.shown["counts"].tolist()
    key = legend([("thick c0", "training"), ("thick c5", "validation"), ("thick c1", "test")])
    if not contents.classes:
        drawing = Markup(values_balance_figure(counts, contents.shown["edges"].tolist()) + key)
        return drawn("Values", drawing, "How the values are spread, in each part (of the first value, where many).")
    names = contents.classes
    more = f" The first 20 of {len(names)} classes are shown." if len(names) > 20 else ""
    drawing = Markup(balance_figure(counts, names) + key)
    return drawn("Classes", drawing, f"How many cases there are of each class, in each part.{more}")


def _examples(contents: Contents) -> Markup:
    figures = []
    for kept, y in zip(contents.shown["examples"], contents.shown["examples_y"], strict=True):
        name = contents.classes[int(y)] if contents.classes else figure(float(y.reshape(-1)[0]))
        figures.append(tag("figure", picture(kept, f"An example of {name}"), tag("figcaption", name)))
    tiny = contents.shown["examples"].ndim == 5 and contents.shown["examples"].shape[1] == 1
    return grid(*figures, size=("tiny" if len(figures) > 5 else "few") if tiny else "small")
