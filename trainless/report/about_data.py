"""The section on the data: what was given, how it was split, how many of what, and what it looks like."""

from __future__ import annotations

import numpy as np

from trainless.learn.drift import LEVEL
from trainless.report.chart import clipped, legend
from trainless.report.contents import Contents
from trainless.report.figures_result import in_doubt
from trainless.report.figures_training import balance_figure, values_balance_figure
from trainless.report.headline import inputs_in_words
from trainless.report.markup import Content, Markup, figure, joined, percent, table, tag
from trainless.report.page import Section, drawn, grid
from trainless.report.pictures import CASES, picture


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


TOP, MOST_VOTES = 3, 30


def cases_section(contents: Contents) -> Section:
    """The least sure cases, so that a person can see what makes them hard; needs a test part."""
    shown = contents.shown.get("cases_x")
    index = contents.shown["cases"] if shown is not None else in_doubt(contents.predictions, CASES)
    order = "of the lowest probability of its answer" if contents.classes else "of the widest interval"
    text = f"The {len(index)} test cases that the ensemble is least sure of, in the order {order}. Cases count from 0."
    text += " Each member's vote is in bold." if contents.classes else ""
    cards = []
    for place, case in enumerate(index.tolist()):
        image = None if shown is None else picture(shown[place], f"Test case {case}")
        cards.append(_class_card(contents, case, image) if contents.classes else _value_card(contents, case, image))
    return Section("cases", "The cases in doubt", (tag("p", text), grid(*cards, size="small")))


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
        chips.append(tag("span", f"unlike the training data (p = {figure(float(said['drift'][case]))})", class_="chip"))
    return list(chips)


def _card(case: int, image: Markup | None, chips: list[Content], facts: dict[str, str], votes: Markup) -> Markup:
    listed = joined(part for name, value in facts.items() for part in (tag("dt", name), tag("dd", value)))
    return tag("figure", tag("h3", f"Case {case}"), image, tag("div", *chips), tag("dl", listed), votes, class_="case")


def _class_card(contents: Contents, case: int, image: Markup | None) -> Markup:
    said, names = contents.predictions, contents.classes
    p = said["mean"][case]
    facts = {
        "truth": names[int(said["y"][case])],
        "it says": f"{names[int(said['label'][case])]} ({percent(float(p.max()))})",
    }
    if "sets" in said:
        inside = [names[number] for number in np.flatnonzero(said["sets"][case])]
        more = f" and {len(inside) - 6} more" if len(inside) > 6 else ""
        facts["possible"] = (", ".join(inside[:6]) + more) or "no class fits"
    total, apart = float(said["total"][case]), float(said["epistemic"][case])
    facts["doubt"] = f"entropy {figure(total)}, {percent(apart / total if total else 0.0, 0)} from disagreement"
    members = said["members"][:, case]
    order = np.argsort(-members.mean(0), kind="stable")
    top = sorted({int(said["y"][case]), *order[:TOP].tolist()}, key=lambda k: -float(members[:, k].mean()))[: TOP + 1]
    rows: list[list[Content]] = []
    for name, row in zip(contents.ensemble["members"][:MOST_VOTES], members, strict=False):
        best = int(row.argmax())
        cells = [percent(float(row[k]), 0) for k in top]
        rows.append([name, *(tag("b", c) if k == best else c for c, k in zip(cells, top, strict=True))])
    return _card(
        case, image, _chips(contents, case), facts, table(["member", *(clipped(names[k], 130) for k in top)], rows)
    )


def _value_card(contents: Contents, case: int, image: Markup | None) -> Markup:
    said = contents.predictions
    truth, mean = said["y"].reshape(said["mean"].shape)[case], said["mean"][case]
    facts = {"truth": _numbers(truth), "it says": _numbers(mean)}
    if "low" in said:
        facts["interval"] = "; ".join(
            f"{figure(float(low))} to {figure(float(high))}"
            for low, high in zip(said["low"][case], said["high"][case], strict=True)
        )
    names = contents.ensemble["members"][:MOST_VOTES]
    rows = [[name, _numbers(row)] for name, row in zip(names, said["members"][:, case], strict=False)]
    return _card(case, image, _chips(contents, case), facts, table(["member", "says"], rows))


def _numbers(values: object) -> str:
    return ", ".join(figure(float(value)) for value in np.asarray(values).reshape(-1)[:4])
