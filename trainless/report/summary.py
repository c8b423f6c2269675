"""The top of a report, in words that need no explanation, and the exact numbers at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainless.learn.metrics import clopper_pearson
from trainless.learn.sanity import metric_in_words
from trainless.report.contents import Contents, report_part
from trainless.report.page import Content, Markup, code, duration, joined, percent, rounded, table, tag
from trainless.report.training import inputs_in_words
from trainless.report.words import Facts, answer_in_words, held_against, missing_in_words, space_in_words

FEW = 100  # test cases, below which intervals are called wide


@report_part("design")
def headline(contents: Contents) -> list[Content]:
    """The answer for somebody who will not read further, and above it what has to alarm."""
    alarming = alarms(contents)
    alarm = tag("div", tag("ul", *(tag("li", one) for one in alarming)), class_="alarms", role="alert")
    facts = tag("div", *_facts(contents), class_="facts")
    return [alarm if alarming else None, facts, tag("p", _how_good(contents)), tag("p", _what(contents))]


@report_part("design")
def warnings(contents: Contents) -> Content:
    """What a reader has to know besides."""
    return tag("div", tag("ul", *(tag("li", one) for one in cautions(contents))), class_="cautions")


@report_part("tested")
def promises(contents: Contents) -> list[Content]:
    """What it promises about its own doubt, and whether that held."""
    test, facts = contents.summary["test"], _promised(contents)
    return [tag("div", *facts, class_="facts") if facts else None, tag("p", _doubt(contents, test))]


def verdict(contents: Contents) -> Markup | None:
    """The first thing on the page: whether the ensemble is worth anything, in red where it is not."""
    test = contents.test
    if test is None or "sanity" not in test:
        return None
    found = test["sanity"]
    if found["ok"]:
        told = [tag("p", f"{answer_in_words(test)}."), tag("p", " ".join(held_against(found)))]
        return tag("div", *told, class_="verdict good", role="status")
    problems = tag("ul", *(tag("li", f"{problem}.") for problem in found["problems"]))
    words = tag("p", f"{found['verdict']}. {found['advice']}.")
    return tag("div", words, problems, class_="verdict bad", role="alert")


def _what(contents: Contents) -> str:
    task, count = contents.summary["task"], len(contents.ensemble["members"])
    names = contents.classes
    aim = f"which of {len(names)} classes it belongs to" if names else "its value"
    if 2 <= len(names) <= 6:
        quoted = [f"“{name}”" for name in names]
        aim = f"whether it is {', '.join(quoted[:-1])} or {quoted[-1]}"
    many = f"{count} small neural networks, chosen for these data, together look"
    who = "One small neural network, chosen for these data, looks" if count == 1 else many
    aims = f"{inputs_in_words(task['input_shape'])} and say{'s' * (count == 1)} {aim}"
    learnt = task["samples"]["train"] + (task["samples"]["valid"] if task.get("folds", 1) > 1 else 0)
    return f"{who} at {aims}. {'It' if count == 1 else 'They'} learnt from {learnt:,} cases."


def _how_good(contents: Contents) -> str:
    test = contents.test
    if test is None:
        return "There was no test part: how good it is on cases that it has never seen is not known."
    if contents.classes:
        right, n = right_of(contents), test["samples"]
        low, high = clopper_pearson(right, n)
        return (
            f"On {n:,} cases that it had never seen it was right in {right:,} ({percent(right / n)};"
            f" with 95 % confidence between {percent(low)} and {percent(high)} for cases like these). Always saying"
            f" “{_usual(contents)[0]}” would have been right in {_usual(contents)[1]:,}."
        )
    mae, r2 = test["ensemble"]["mae"], test["ensemble"]["r2"]["value"]
    share = "an unknown share" if r2 is None else percent(r2) if r2 > 0 else "none"
    return (
        f"On {test['samples']:,} cases that it had never seen it was off by {rounded(mae['value'])} on average (95 %"
        f" interval {rounded(mae['low'])} to {rounded(mae['high'])}); it explains {share} of the variance."
    )


def _usual(contents: Contents) -> tuple[str, int]:
    """The most frequent class of the test part, and how often it is there."""
    counts = np.bincount(contents.predictions["y"], minlength=len(contents.classes))
    return contents.classes[int(counts.argmax())], int(counts.max())


def right_of(contents: Contents) -> int:
    """The number of test cases that the ensemble had right."""
    return int((contents.predictions["label"] == contents.predictions["y"]).sum())


def _doubt(contents: Contents, test: Facts) -> str:
    said = []
    if "deferral" in test:
        said.append(deferral_in_words(test["deferral"], contents.settings["accuracy"]))
    if "sets" in test:
        own = test["sets"]
        said.append(
            f"For every case it also names a set of possible answers; the truth was in that set in"
            f" {percent(own['coverage']['value'])} of the test cases (promised: {percent(own['promised'], 0)}), with"
            f" {own['mean_size']:.2f} answers in it on average."
        )
    if "intervals" in test:
        own = test["intervals"]
        said.append(
            f"It gives an interval with every value; the truth was inside in {percent(own['coverage']['value'])} of the"
            f" test cases (promised: {percent(own['promised'], 0)}), and the interval is {width_in_words(own)}."
        )
    return " ".join(said)


def width_in_words(own: Facts) -> str:
    """The width of intervals, in words.

    Example:
        >>> width_in_words({"mean_width": None}), width_in_words({"mean_width": 2.5})
        ('without bounds', '2.500 wide on average')
    """
    return "without bounds" if own["mean_width"] is None else f"{rounded(own['mean_width'])} wide on average"


def deferral_in_words(own: Facts, asked: float) -> str:
    """The rule of referral, for somebody who will be referred to."""
    if not own["promised"]:
        return (
            f"It cannot promise {percent(asked, 0)} right answers, so by its rule it refers"
            f" {percent(own['referred'])} of the cases to a person ({own['rule']})."
        )
    right, share = own["accuracy"]["value"], percent(own["referred"])
    if right is None:
        return f"It refers {share} of the test cases to a person and answers none of them by itself."
    held = "that did NOT hold on the test cases"
    if own["holds"]:
        held = "that held on the test cases" if right >= asked else "what is missing is no more than chance explains"
    return (
        f"When it is in doubt it says so: it refers {share} of the test cases to a person, and of those that it answers"
        f" {percent(right)} are right. It promises at least {percent(asked, 0)}, and {held}."
    )


def _fact(value: str, what: str, more: str, kind: str = "") -> Markup:
    return tag("div", tag("b", value, class_=kind or None), tag("span", what), tag("i", more), class_="fact")


def _range(own: Facts) -> str:
    return f"{rounded(own['low'])} to {rounded(own['high'])}"


def _facts(contents: Contents) -> list[Markup]:
    test = contents.test
    if test is None:
        return [_fact("–", "not tested", "the data have no test part")]
    if not contents.classes:
        return _value_facts(test)
    right, n = right_of(contents), test["samples"]
    low, high = clopper_pearson(right, n)
    facts, kind = [], "" if test.get("sanity", {}).get("ok", True) else "bad"
    for name, what in (("auc", "AUC, the area under the ROC curve"), ("balanced_accuracy", "balanced accuracy")):
        own = test["ensemble"].get(name)
        if own and own["value"] is not None:
            facts.append(_fact(rounded(own["value"]), what, _range(own), kind))
    share = f"{right:,} of {n:,} test cases; {percent(low)} to {percent(high)}"
    facts.append(_fact(percent(right / n), "right", share, kind))
    if "positive" in test:
        own = test["positive"]
        more = f"{_range(own['sensitivity'])}; specificity {rounded(own['specificity']['value'])}"
        facts.append(_fact(rounded(own["sensitivity"]["value"]), f"sensitivity for {own['name']}", more, kind))
    return facts


def _promised(contents: Contents) -> list[Markup]:
    """What was promised, in figures; green where it held and the ensemble is worth something."""
    test, facts = contents.summary["test"], list[Markup]()
    held = "good" if test.get("sanity", {}).get("ok", True) else ""
    if "deferral" in test:
        own = test["deferral"]
        asked = percent(contents.settings["accuracy"], 0)
        more = f"{percent(own['accuracy']['value'])} right on the rest; {asked} asked for"
        more = more if own["promised"] else f"no promise of {asked} is possible"
        shade = held if own["holds"] and own["promised"] else "bad"
        facts.append(_fact(percent(own["referred"]), "referred to a person", more, shade))
    if "sets" in test:
        own = test["sets"]
        more = f"{percent(own['promised'], 0)} promised; {own['mean_size']:.2f} answers on average"
        shade = held if kept(own) else "bad"
        facts.append(_fact(percent(own["coverage"]["value"]), "of the sets hold the truth", more, shade))
    if "intervals" in test:
        own = test["intervals"]
        more = f"{percent(own['promised'], 0)} promised; {width_in_words(own)}"
        shade = held if kept(own) else "bad"
        facts.append(_fact(percent(own["coverage"]["value"]), "of the intervals hold the truth", more, shade))
    return facts


def _value_facts(test: Facts) -> list[Markup]:
    own = test["ensemble"]
    named = {"mae": "off on average", "r2": "R², of 1 at best"}
    kind = "" if test.get("sanity", {}).get("ok", True) else "bad"
    return [_fact(rounded(own[name]["value"]), what, _range(own[name]), kind) for name, what in named.items()]


def kept(promise: Facts) -> bool:
    """Whether the coverage that was found is compatible with what was promised.

    Example:
        >>> kept({"promised": 0.9, "coverage": {"value": 0.88, "low": 0.8, "high": 0.94}})
        True
    """
    return bool(promise["coverage"]["high"] is None or promise["coverage"]["high"] >= promise["promised"])


def alarms(contents: Contents) -> list[str]:
    """What speaks against trusting the numbers at all: broken promises, other data, classes without a test case."""
    test = contents.test
    if test is None:
        return []
    found = _broken(test)
    drift: Any = test.get("drift")
    if drift and drift["warn"]:
        found.append(f"The test cases look unlike the training data: {drift['text']}.")
    if contents.classes:
        there = np.unique(contents.predictions["y"])
        missing = [name for number, name in enumerate(contents.classes) if number not in there]
        if missing:
            shown = ", ".join(missing[:8]) + (" and more" if len(missing) > 8 else "")
            found.append(f"No test case is of class {shown}: nothing is known about it.")
    return found


def cautions(contents: Contents) -> list[Content]:
    """What a reader has to know to read the numbers."""
    test, summary = contents.test, contents.summary
    found: list[Content] = [f"About the data: {note}." for note in summary["task"]["notes"]]
    if test is not None:
        if test["samples"] < FEW:
            found.append(f"There are only {test['samples']} test cases: look at the intervals, not at the values.")
        if contents.classes and "sets" in test and test["sets"]["mean_size"] >= len(contents.classes):
            found.append("The sets name every class, so they say nothing: too few cases were kept for this promise.")
    found += [f"About the searches: {note}." for note in summary["plan"].get("notes", ())]
    found += [f"{line[0].upper()}{line[1:]}." for line in missing_in_words(summary)]
    found.append(
        "All of this was found on cases from the same source as the training data. Other devices, places or patients"
        " have to be tested for themselves."
    )
    return found


def _broken(test: Facts) -> list[str]:
    found = []
    if "deferral" in test and test["deferral"]["promised"] and not test["deferral"]["holds"]:
        found.append("The rule of referral did not keep its promise on the test cases.")
    if "intervals" in test and test["intervals"]["mean_width"] is None:
        found.append("The intervals have no bounds, so they say nothing: too few cases were kept for this promise.")
    for kind, word in (("sets", "prediction sets"), ("intervals", "intervals")):
        if kind in test and not kept(test[kind]):
            found.append(f"The {word} hold the truth less often than promised on the test cases.")
    return found


@report_part("search")
def search_headline(contents: Contents) -> list[Content]:
    """The top of a report of a search alone."""
    one = contents.searches[0]
    distinct = len(set(one.candidates))
    text = (
        f"{one.evaluations:,} candidates ({distinct:,} different ones) of {space_in_words(contents.settings['space'])}"
        f" were looked at by {one.searcher} in {duration(one.seconds)}, none of them trained, for the task"
        f" {contents.settings['task']['name']}."
    )
    facts = [
        _fact(f"{one.evaluations:,}", "candidates", f"{distinct:,} different ones"),
        _fact(duration(one.seconds), "spent", "without training"),
        _fact(one.ranking or ", ".join(one.directions), "judged by", f"seed {one.seed}"),
    ]
    return [tag("p", text), tag("div", joined(facts), class_="facts")]


@report_part()
def searches(contents: Contents) -> list[Content]:
    """Every search with its winner, and the winners' scores."""
    names, found = list(contents.searches[0].directions), contents.searches
    rows: list[Sequence[Content]] = []
    for one in found:
        text = contents.space.format(one.best[0]) if contents.space and one.best else str(list(one.best[:1]))
        counts = [str(one.seed), f"{one.evaluations:,}", f"{one.seconds:.1f}"]
        rows.append([one.name, one.searcher, *counts, code(text)])
    head = ["search", "searcher", "seed", "candidates", "seconds", "winner"]
    scores = [[rounded((one.best_values[0] if one.best_values else {}).get(name)) for name in names] for one in found]
    if len(found) < len(names):  # the longer side goes down the page
        cells = [[name, *column] for name, column in zip(names, zip(*scores, strict=True), strict=True)]
        beside = table(["score", *(one.name for one in found)], cells, caption="Scores of the winners")
    else:
        cells = [[one.name, *row] for one, row in zip(found, scores, strict=True)]
        beside = table(["search", *names], cells, caption="Scores of the winners")
    return [table(head, rows, caption="Searches and their winners"), beside]


@report_part("design")
def members(contents: Contents) -> Content:
    """Every trained member, and its loss."""
    rows: list[Sequence[Content]] = []
    test = contents.test
    names = contents.ensemble["members"]
    for member in contents.summary["members"]:
        if not member["folder"]:  # it was not trained; the top of the page says why
            continue
        value = None
        if test is not None and member["folder"] in names and member["search"] != "single":
            value = test["members"][test["main"]][names.index(member["folder"])]
        what = [member["name"], member["search"], str(member["seed"]), str(member["epochs"])]
        found = [rounded(member["valid_loss"]), rounded(value), f"{member['seconds']:.1f}"]
        rows.append([*what, *found, code(member["arch"])])
    main = "test" if test is None else f"test {metric_in_words(test['main'])}"
    head = ["member", "from", "seed", "epochs", "validation loss", main, "seconds", "architecture"]
    return table(head, rows, caption="Trained members")


@report_part("design")
def plan(contents: Contents) -> list[Content]:
    """The thresholds of the calibration, and the numbers of the plan."""
    calibration = _details("Calibration", contents.ensemble, ("task",))
    return [calibration, _details("Plan", contents.summary["plan"], ("searches", "version"))]


@report_part()
def settings(contents: Contents) -> Content:
    """The settings and versions with which to do it again."""
    return _details("Settings and versions", contents.settings, ("decisions", "format"))


def _details(title: str, data: Mapping[str, object], without: Sequence[str]) -> Content:
    rows = [[name, tag("code", value)] for name, value in _flat(data) if name.partition(".")[0] not in without]
    return tag("details", tag("summary", title), table(["setting", "value"], rows))


@report_part("search")
def leaderboard(contents: Contents) -> Content:
    """The best candidates with their scores."""
    one = contents.searches[0]
    names = list(one.directions)
    rows: list[Sequence[Content]] = []
    for place, (arch, values) in enumerate(zip(one.best, one.best_values, strict=True), start=1):
        text = contents.space.format(arch) if contents.space else str(list(arch))
        rows.append([str(place), *(rounded(values.get(name)) for name in names), code(text)])
    return table(["rank", *names, "architecture"], rows, caption="The best candidates")


def _flat(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names and values.

    Example:
        >>> list(_flat({"a": {"b": 1}, "c": None}))
        [('a.b', '1'), ('c', '–')]
        >>> list(_flat({"seconds": 156.50759207251417}))
        [('seconds', '156.508')]
    """
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            text = "–" if value is None or value in ("", {}, []) else text
            yield f"{prefix}{name}", text if len(text) <= 400 else text[:400] + "…"
