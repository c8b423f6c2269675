"""What a design came to, in words: the terminal and the top of the report say the same.

The answer comes first, then how sure it is, then why: what it was held against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainless.learn.metrics import BALANCED
from trainless.learn.sanity import metric_in_words
from trainless.learn.screening import predictive_values

Facts = Mapping[str, Any]
FIRST = ("auc", "balanced_accuracy", "f1_macro", "accuracy", "r2", "mae")  # the order in which metrics are told
HEADLINE = 2  # metrics in the first line


def sanity_in_words(test: Facts) -> tuple[bool, str]:
    """Whether the ensemble passes its sanity check, and the one line that says so first.

    Example:
        >>> found = {"ok": False, "verdict": "Useless", "problems": ["It answers “N” for every case"], "advice": "Stop"}
        >>> sanity_in_words({"sanity": found})
        (False, 'USELESS: It answers “N” for every case. Stop.')
    """
    found = test.get("sanity")
    if found is None:
        return True, answer_in_words(test)
    if not found["ok"]:
        return False, f"{found['verdict'].upper()}: {'. '.join(found['problems'])}. {found['advice']}."
    return True, f"{answer_in_words(test)}.{' '.join(['', *held_against(found)])}"


def held_against(found: Facts) -> list[str]:
    """What the ensemble is better than, and what it is level with, a sentence each.

    Example:
        >>> held_against({"passed": ["chance"], "level": ["trees (AUC 1.000 against 1.000)"]})
        ['Better than chance.', 'Level with trees (AUC 1.000 against 1.000).']
    """
    lists = {"Better than": found["passed"], "Level with": found.get("level", ())}
    return [f"{words} {'; '.join(names)}." for words, names in lists.items() if names]


def answer_in_words(test: Facts) -> str:
    """The one or two figures that matter, with their intervals."""
    told = list(ordered(test["ensemble"]))[:HEADLINE]
    figures = ", ".join(f"{metric_in_words(name)} {estimate_in_words(test['ensemble'][name])}" for name in told)
    return f"{figures} on {test['samples']:,} test {test.get('unit', 'cases')}"


def ordered(metrics: Facts) -> Iterator[str]:
    """The names of metrics that have a value, the most telling first."""
    there = [name for name, value in metrics.items() if value["value"] is not None]
    yield from (name for name in FIRST if name in there)
    yield from (name for name in there if name not in FIRST)


def estimate_in_words(value: Facts) -> str:
    """A value with its interval.

    Example:
        >>> estimate_in_words({"value": 0.9, "low": 0.8, "high": None})
        '0.900 [0.800, –]'
    """
    return f"{plain(value['value'])} [{plain(value['low'])}, {plain(value['high'])}]"


def plain(value: float | None) -> str:
    """A number to three digits; a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def positive_in_words(test: Facts, prevalence: float | None = None) -> list[str]:
    """How often the class to find is found, and the others spared; what an answer is worth at its prevalence."""
    own = test.get("positive")
    if own is None:
        return []
    name = own["name"]
    lines = [f"sensitivity for “{name}” {_found_and_spared(own)}{_called(test, own)}"]
    if (alone := own.get("label")) is not None and _values(alone) != _values(own):
        lines.append(f"  of the most probable class alone: sensitivity {_found_and_spared(alone)}")
    for share, where in ((own["prevalence"], "as in the training data"), (prevalence, "as asked for")):
        told = None if share is None else _worth(own, share)
        if told is not None:
            lines.append(
                f"where {share:.1%} of the cases are “{name}”, {where}: {told[0]:.0%} of the cases that it"
                f" calls “{name}” are, and {told[1]:.0%} of the others are not"
            )
    if "screening" in own:
        rule = own["screening"]
        kept = "" if rule["holds"] else "; THE PROMISE DOES NOT HOLD"
        lines += [
            f"threshold: {rule['rule']}",
            f"  on the test part: sensitivity {estimate_in_words(rule['sensitivity'])}, specificity"
            f" {estimate_in_words(rule['specificity'])}, {rule['flagged']:.0%} called “{name}”{kept}",
        ]
    return lines


def _found_and_spared(own: Facts) -> str:
    return f"{estimate_in_words(own['sensitivity'])}, specificity {estimate_in_words(own['specificity'])}"


def _values(own: Facts) -> tuple[Any, Any]:
    return own["sensitivity"]["value"], own["specificity"]["value"]


def _called(test: Facts, own: Facts) -> str:
    """When a case is called the class to find, where that is not for being the most probable one."""
    if "label" not in own:
        return ""
    if own["prevalence"] is None or len(test.get("classes", ())) != 2:
        return f", by {BALANCED}"
    return f", called so from a probability of {own['prevalence']:.1%} on ({BALANCED})"


def rule_in_words(test: Facts) -> str:
    """Which answers the figures are of; empty where the most probable class is also the one that stands out most.

    Example:
        >>> rule_in_words({}), rule_in_words({"classes_by": "balanced_label"}).partition(";")[0]
        ('', 'accuracy is of the most probable class (label)')
    """
    if "classes_by" not in test:
        return ""
    return (
        f"accuracy is of the most probable class (label); balanced accuracy, macro F1, sensitivity, specificity and the"
        f" figures of each class are of {test['classes_by']}, the class that stands out most against its share of the"
        " training data"
    )


def _worth(own: Facts, prevalence: float) -> tuple[float, float] | None:
    sensitivity, specificity = own["sensitivity"]["value"], own["specificity"]["value"]
    if sensitivity is None or specificity is None:
        return None
    found = predictive_values(sensitivity, specificity, prevalence)
    return None if any(value != value for value in found) else found


def class_rows(test: Facts) -> list[list[str]]:
    """One row per class: name, cases, precision, recall and F1, each with its exact interval."""
    return [
        [one["name"], f"{one['support']:,}", *(estimate_in_words(one[kind]) for kind in ("precision", "recall", "f1"))]
        for one in test.get("classes", ())
    ]


def yardstick_rows(test: Facts) -> tuple[list[str], list[list[str]]]:
    """The metrics that yardsticks have, and one row for each yardstick, the ensemble first."""
    yardsticks: Sequence[Facts] = test.get("yardsticks") or ()
    names = [name for name in ordered(test["ensemble"]) if any(_held(one.get(name)) for one in yardsticks)]
    if not names:
        return [], []
    rows = [["this ensemble", *(_cell(test["ensemble"].get(name)) for name in names)]]
    return names, rows + [[str(one["name"]), *(_cell(one.get(name)) for name in names)] for one in yardsticks]


def _held(value: Any) -> bool:
    return value is not None and (not isinstance(value, Mapping) or value.get("value") is not None)


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return estimate_in_words(value) if value.get("low") is not None else plain(value["value"])
    return plain(value)


def missing_in_words(summary: Facts) -> list[str]:
    """Why members were trained again or are missing: one line for each reason, with all whom it holds for.

    Example:
        >>> missing_in_words({"replaced": {"00": "diverged"}, "left_out": {"01": "not begun", "02": "not begun"}})
        ['member 00: diverged', 'members 01, 02: not begun']
    """
    alike: dict[str, list[str]] = {}
    for name, why in {**summary["replaced"], **summary["left_out"]}.items():
        alike.setdefault(why, []).append(name)
    return [f"member{'s' if len(names) > 1 else ''} {', '.join(names)}: {why}" for why, names in alike.items()]


def networks_in_words(count: int, space: str) -> str:
    """So many networks of a space, by the name that a person gave it.

    Example:
        >>> networks_in_words(2, "my_space.py:MySpace"), networks_in_words(1, "nb201")
        ('2 networks of the space MySpace', '1 network of the space nb201')
    """
    return f"{count} network{'s' * (count != 1)} of the space {space_in_words(space)}"


def ensemble_in_words(members: Sequence[Facts]) -> str:
    """The networks that count, by the space that they are from.

    Example:
        >>> ensemble_in_words([{"folder": "00", "search": "genetic-00", "space": "nb201", "weight": 1.0}])
        '1 network of the space nb201'
    """
    homes = Counter(member["space"] for member in members if counts(member))
    return " and ".join(networks_in_words(count, home) for home, count in homes.items())


def counts(member: Facts) -> bool:
    """Whether a member is of the ensemble: trained, not there to compare with, and of some weight."""
    return bool(member["folder"] and member["search"] != "single" and member["weight"])


def space_in_words(space: str) -> str:
    """The name of a space without the file that it is from and the parameters that it was made with.

    Example:
        >>> space_in_words("wide(name='wide', options=(8, 16), network=net#7095)"), space_in_words("spaces.py:wide")
        ('wide', 'wide')
        >>> space_in_words("nb201(channels=8, cells=1)"), space_in_words("mine#12ab")
        ('nb201', 'mine')
    """
    text = space.partition("(")[0].partition("#")[0].strip() or space
    return text.rpartition(":")[2] or text
