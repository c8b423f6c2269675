"""The section on the cases that the ensemble is least sure of: each one shown, with every member's vote."""

from __future__ import annotations

import numpy as np

from trainless.learn.drift import LEVEL
from trainless.report.chart import clipped
from trainless.report.contents import Contents
from trainless.report.markup import Content, Markup, figure, joined, percent, table, tag
from trainless.report.measured import in_doubt
from trainless.report.page import Section, grid
from trainless.report.pictures import CASES, picture

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
