"""The sections on training, on the test, and on how sure the ensemble is."""

from __future__ import annotations

import numpy as np

from trainless.learn.ensemble import average
from trainless.learn.predictor import doubt
from trainless.report.about_search import origins
from trainless.report.chart import colour, legend
from trainless.report.contents import Contents, Json
from trainless.report.figures_result import (
    confidence_figure,
    confusion_figure,
    error_figure,
    metrics_figure,
    referral_figure,
    reliability_figure,
    roc_figure,
    sizes_figure,
    values_figure,
)
from trainless.report.figures_search import in_words
from trainless.report.figures_training import accuracy_figure, loss_figure
from trainless.report.headline import deferral_in_words, width_in_words
from trainless.report.markup import Content, Markup, figure, joined, percent, table, tag
from trainless.report.page import Section, drawn, grid

MOST_OUTPUTS = 4


def training_section(contents: Contents) -> Section:
    """The members while they were trained."""
    recipe = contents.summary["plan"]["recipe"]
    names, shades = origins(contents), {}
    for member in contents.summary["members"]:
        method = member["search"].partition("-")[0]
        shades[member["name"]] = colour(names.index(method)) if method in names else "cn"
    names_in_order = sorted(shades, key=lambda name: shades[name] != "cn")
    held = {name: contents.histories[name] for name in names_in_order if name in contents.histories}
    entries = [(colour(place), f"found by {in_words(name)}") for place, name in enumerate(names)]
    if any(shade == "cn" for shade in shades.values()):
        entries.append(("cn", "one architecture, to compare with"))
    stop = f" Training stopped early after {recipe['patience']} epochs without gain." if recipe["patience"] else ""
    text = (
        f"{len(held)} networks were trained for up to {recipe['epochs']} epochs by the recipe {recipe['name']}"
        f" ({recipe['summary']}).{stop}"
    )
    loss = drawn(
        "Loss", loss_figure(held, shades), "On validation cases; faint on training cases. Dots are the lowest."
    )
    right = drawn("Accuracy", accuracy_figure(held, shades), "On the validation cases that decide when to stop.")
    return Section("training", "Training", (tag("p", text), legend(entries), grid(loss, right)))


def result_section(contents: Contents) -> Section:
    """How good it is on cases that it has never seen."""
    test = contents.test
    if test is None:
        return Section("test", "The test", (tag("p", "The data have no test part."),))
    parts: list[Content] = [_metrics(test)]
    said = contents.predictions
    single = said.get("single")
    if contents.classes:
        curves = drawn(
            "ROC",
            roc_figure(said["y"], said["mean"], said["members"], single, contents.classes),
            _roc_words(contents),
        )
        many = " The classes with the most mistakes are shown." if len(contents.classes) > 20 else ""
        matrix = drawn(
            "Confusions",
            confusion_figure(said["y"], said["label"], contents.classes),
            f"Rows are the truth, columns what the ensemble says; blue is right, red is wrong.{many}",
        )
        parts.append(grid(curves, matrix))
    else:
        parts.append(grid(*_values(contents)))
    parts.append(_by_method(test))
    return Section("test", "The test", tuple(parts))


def _roc_words(contents: Contents) -> str:
    if len(contents.classes) == 2:
        return f"Of the cases of {contents.classes[1]}, how many are found, against false alarms among the others."
    more = " The first ten classes are shown." if len(contents.classes) > 10 else ""
    return f"Each class against all others: how many of it are found, against false alarms.{more}"


def _values(contents: Contents) -> list[Markup | None]:
    said = contents.predictions
    mean, low, high = said["mean"], said.get("low"), said.get("high")
    y, many = said["y"].reshape(mean.shape), mean.shape[-1] > 1
    return [
        drawn(
            "Predicted against true" + (f", value {output + 1}" if many else ""),
            values_figure(
                y[:, output],
                mean[:, output],
                None if low is None else low[:, output],
                None if high is None else high[:, output],
                f" of output {output + 1}" if many else "",
            ),
            "On the dashed line a prediction is right; the upright lines are its interval.",
        )
        for output in range(min(MOST_OUTPUTS, mean.shape[-1]))
    ]


def _metrics(test: Json) -> Markup:
    rows = []
    for name, value in test["ensemble"].items():
        row = [name.replace("_", " "), *_estimate(value), figure(test["members_mean"][name])]
        if "single" in test:
            row += [" ".join(_estimate(test["single"]["ensemble"][name]))]
        rows.append(row)
    head = ["metric", "the ensemble", "95 % interval", "members on average"]
    head += ["one architecture"] if "single" in test else []
    how = "by bootstrap over the cases" if "mae" in test["ensemble"] else "exact for shares, else by bootstrap"
    words = table(head, rows, caption=f"{test['samples']:,} test cases; intervals {how}")
    if "mae" in test["ensemble"]:
        return words
    picture = drawn("Metrics", metrics_figure(test), "Dots are values, bars their 95 % intervals.")
    return joined([picture, words])


def _estimate(value: Json) -> tuple[str, str]:
    return figure(value["value"]), f"[{figure(value['low'])}, {figure(value['high'])}]"


def _by_method(test: Json) -> Markup | None:
    main = test["main"]
    rows = [
        [
            in_words(name),
            str(own["size"]),
            f"{figure(own['members_mean'][main])} ± {figure(own['members_deviation'][main])}",
            " ".join(_estimate(own["ensemble"][main])),
        ]
        for name, own in test["by_searcher"].items()
    ]
    head = ["found by", "members", f"{main.replace('_', ' ')} of a member", "of their own ensemble"]
    return table(head, rows, caption="The members by the method that found them") if len(rows) > 1 else None


def doubt_section(contents: Contents) -> Section:
    """Whether it knows when it does not know; needs a test part."""
    test = contents.summary["test"]
    return _doubt_classes(contents, test) if contents.classes else _doubt_values(contents, test)


def _doubt_classes(contents: Contents, test: Json) -> Section:
    said = contents.predictions
    raw = average(said["members"], np.asarray(contents.ensemble["weights"], np.float64))
    single = test["single"]["confidence_curve"] if "single" in test else None
    figures = [
        drawn("Accuracy against confidence", confidence_figure(test["confidence_curve"], single), _area_words(test)),
        drawn("Calibration", reliability_figure(said["mean"], raw, said["y"]), _calibration_words(test)),
    ]
    if "deferral" in test:
        own, asked = test["deferral"], contents.settings["accuracy"]
        right = own["accuracy"]["value"]
        at = None if right is None or not own["promised"] else (own["referred"], right)
        drawing = referral_figure(doubt(said["mean"]), said["label"] == said["y"], asked, at)
        figures.append(drawn("Referral", drawing, deferral_in_words(own, asked)))
    if "sets" in said and "sets" in test:
        figures.append(drawn("Prediction sets", sizes_figure(said["sets"]), _sets_words(test["sets"])))
    return Section("doubt", "How sure it is", (grid(*figures), tag("p", _drift_words(test))))


def _area_words(test: Json) -> str:
    own = test["confidence_curve"]["area"]
    text = (
        "The vote of the members, on the cases on which they agree most, then on more and more of them. The mean over"
        f" the curve is {figure(own)}"
    )
    if "single" not in test:
        return text + "."
    other, size = test["single"]["confidence_curve"]["area"], test["single"]["size"]
    verdict = "the same" if round(own, 3) == round(other, 3) else "better" if own > other else "worse"
    return f"{text}, that of {size} networks of one architecture {figure(other)}: {verdict} on these cases."


def _calibration_words(test: Json) -> str:
    after, before = test["calibration_error"], test["calibration_error_raw"]
    return (
        "Where it states a probability, how often it is right: on the dashed line both are the same. Calibration error"
        f" {figure(after['value'])} {_estimate(after)[1]}, before calibration {figure(before['value'])}"
        f" (temperature {figure(test['temperature'])})."
    )


def _sets_words(own: Json) -> str:
    each = " for every class by itself" if own["by_class"] else ""
    return (
        "A set names every answer that cannot be ruled out. Promised: the truth is in it in"
        f" {percent(own['promised'], 0)} of the cases{each}; found: {percent(own['coverage']['value'])} (95 % interval"
        f" {percent(own['coverage']['low'])} to {percent(own['coverage']['high'])}). One answer is a clear one, none or"
        " several call for a person."
    )


def _drift_words(test: Json) -> str:
    if "drift" not in test:
        return ""
    text = test["drift"]["text"]
    return f"Do the test cases look like the training data? {text[:1].upper()}{text[1:]}."


def _doubt_values(contents: Contents, test: Json) -> Section:
    said = contents.predictions
    y = said["y"].reshape(said["mean"].shape)[:, 0]
    single = said["single"][:, :, 0] if "single" in said else None
    curve = drawn(
        "Error against confidence",
        error_figure(y, said["mean"][:, 0], said["members"][:, :, 0].var(0), single),
        "The mean error on the cases on which the members agree most, then on more and more of them.",
    )
    parts: list[Content] = [grid(curve)]
    if "intervals" in test:
        own = test["intervals"]
        parts.append(
            tag(
                "p",
                f"Intervals promise to hold the truth in {percent(own['promised'], 0)} of the cases; found:"
                f" {percent(own['coverage']['value'])} (95 % interval {percent(own['coverage']['low'])} to"
                f" {percent(own['coverage']['high'])}). They are {width_in_words(own)}.",
            )
        )
    return Section("doubt", "How sure it is", (*parts, tag("p", _drift_words(test))))
