"""A tiny corpus of sentences from a small grammar."""

from __future__ import annotations

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.text import LEVELS, from_tokens, tokenise

# Nouns and verbs are (singular, plural); the verb agrees with its subject across whatever stands between.
NOUNS = (
    ("nurse", "nurses"),
    ("doctor", "doctors"),
    ("patient", "patients"),
    ("scan", "scans"),
    ("signal", "signals"),
    ("network", "networks"),
    ("cell", "cells"),
    ("child", "children"),
)
VERBS = (("sees", "see"), ("reads", "read"), ("finds", "find"), ("shows", "show"), ("follows", "follow"))
ADJECTIVES = ("small", "bright", "grey", "quiet", "noisy", "second")
PLACES = ("near the window", "in the clinic", "behind the door", "on the screen", "beside the river")
ADVERBS = ("slowly", "again", "today", "with care")


def tiny_text(*, level: str = "words", length: int = 16, sentences: int = 2000, seed: int = 0) -> Task:
    """Sentences of a small grammar of our own, where verbs agree with subjects that may be far away.

    Args:
        level: ``words`` or ``characters``.
        length: Tokens in one window.
        sentences: How many.
        seed: Of the sentences.

    Example:
        >>> made = tiny_text(sentences=200)
        >>> made.target.kind, made.input_shape, made.vocabulary == made.target.outputs
        ('tokens', (16,), True)
    """
    if sentences < 1:
        raise InputError(f"sentences={sentences} was given; expected at least 1")
    if level not in LEVELS:
        raise InputError(f"level={level!r} was given; expected one of {', '.join(LEVELS)}")
    text = corpus(sentences, seed)
    return from_tokens(
        "tiny-text", {"train": tokenise(text, level)}, length=length, notes=["sentences of a small grammar"]
    )


def corpus(sentences: int, seed: int) -> str:
    """So many sentences, one per line.

    Example:
        >>> len(corpus(3, seed=0).splitlines())
        3
    """
    random = np.random.default_rng(seed)
    return "\n".join(_sentence(random) for _ in range(sentences)) + "\n"


def _sentence(random: np.random.Generator) -> str:
    number = int(random.integers(2))
    words = [_phrase(number, random)]
    if random.random() < 0.4:
        words.append(_pick(PLACES, random))
    if random.random() < 0.3:
        other = int(random.integers(2))
        words.append(f"that {_phrase(other, random)} {VERBS[random.integers(len(VERBS))][other]}")
    words += [VERBS[random.integers(len(VERBS))][number], _phrase(int(random.integers(2)), random)]
    if random.random() < 0.4:
        words.append(_pick(ADVERBS, random))
    return " ".join(words) + " ."


def _phrase(number: int, random: np.random.Generator) -> str:
    article = ("a", "some")[number] if random.random() < 0.5 else "the"
    adjective = [_pick(ADJECTIVES, random)] if random.random() < 0.4 else []
    return " ".join([article, *adjective, NOUNS[random.integers(len(NOUNS))][number]])


def _pick(options: tuple[str, ...], random: np.random.Generator) -> str:
    return options[random.integers(len(options))]
