"""How far a ranking may be trusted on the candidates at hand: who was heard and why, and which space this resembles."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from trainless.core.scores import Scores
from trainless.rankings.products import FEWEST, Consensus
from trainless.rankings.ranking import Ranking, coverage

UNLIKE = 0.5  # root mean square difference of agreements beyond which no space is like these candidates


def trust(rule: Ranking, scores: Scores) -> list[str]:
    """Sentences on a ranking of some candidates; none of a ranking that hears everything anyway.

    Example:
        >>> from trainless.core.scores import Record
        >>> rows = [Record(f"{n}", name, float(n), True) for n in range(20) for name in "abc"]
        >>> trust(Consensus(("a", "b", "c"), core=("a", "b")), Scores(rows))
        ['All have a voice beside the core (a, b): c agrees with it by 1.00.']
    """
    if not isinstance(rule, Consensus):
        return []
    if len(scores) < FEWEST:
        return [
            f"All {len(rule.proxies)} measures have a voice: with fewer than {FEWEST} candidates nothing says"
            " which contradicts the others."
        ]
    if rule.mixed and rule.likeness(scores) < rule.akin:
        return [
            f"These candidates are of several families: more {rule.core[0]} do not go with more {rule.size} (ρ"
            f" {rule.likeness(scores):.2f}), as they do within a search space. They are ranked by"
            f" {' × '.join(rule.mixed)} alone: train a few networks before you trust it.",
            *_covered(rule, scores),
        ]
    found = rule.agreements(scores)
    heard = set(rule.heard(scores))
    silent = [f"{_named(names)} ({value:.2f})" for names, value in found.items() if not heard >= set(names)]
    voices = [f"{_named(names)} agrees with it by {value:.2f}" for names, value in found.items() if heard >= set(names)]
    if rule.core:
        core = f"the core ({', '.join(rule.core)})"
        every = f"All have a voice beside {core}: {', '.join(voices)}."
        some = f"Silenced, because they do not agree with {core} on these candidates: {', '.join(silent)}."
        if silent and voices:
            some = f"{some[:-1]}; {', '.join(voices)}."
    else:
        every = f"All {len(rule.proxies)} measures have a voice: none contradicts the others on these candidates."
        some = f"Silenced, because they do not agree with the others on these candidates: {', '.join(silent)}."
    return [some if silent else every, *_covered(rule, scores), *_resembling(rule, found)]


def _named(names: tuple[str, ...]) -> str:
    return " × ".join(names)


def _covered(rule: Consensus, scores: Scores) -> list[str]:
    share = coverage(rule, scores)
    if share == 1:
        return []
    instead = "the mean of its core stands in" if rule.core else "it is last in that measure"
    return [f"{100 * share:.0f} % of the candidates have every score; where one lacks a measure, {instead}."]


def _resembling(rule: Consensus, agreements: Mapping[tuple[str, ...], float]) -> list[str]:
    """The space of those that the ranking was developed on whose agreements are the nearest."""
    from trainless.rankings import registry  # which is made of these

    known: Mapping[str, Any] = next((spaces for name, spaces in _experience().items() if registry[name] == rule), {})
    if not known:
        return []
    here = {_named(names): value for names, value in agreements.items()}
    far = {
        space: math.sqrt(sum((here[name] - one) ** 2 for name, one in held["agreements"].items()) / len(here))
        for space, held in known.items()
    }
    nearest = min(far, key=far.__getitem__)
    had = f"where its ρ with trained accuracies is {known[nearest]['spearman']:.2f}"
    if far[nearest] > UNLIKE:
        return [
            f"Its measures agree here as on none of the {len(known)} spaces that it was developed on; the nearest is"
            f" {nearest}, {had}: train a few networks before you trust it."
        ]
    return [f"Of the spaces that it was developed on, its measures agree here most as on {nearest}, {had}."]


@cache
def _experience() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        resources.files("trainless.rankings").joinpath("experience.json").read_text(encoding="utf-8")
    )
    return found
