"""What errors say, as one line that can be stored, sent and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from trainless.core.errors import InputError, TrainlessError

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Text without signs that move a terminal's cursor, colour it, turn the text around or cannot be encoded.

    Example:
        >>> printable("red\x1b[31m")
        'red�[31m'
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def message(error: BaseException | str) -> str:
    r"""What an error says, without its type."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a user's class may do anything when it is asked
        text = "it cannot say what"
    return printable(" ".join(text.split()))


def reason(error: BaseException) -> str:
    """What an error says, briefly; its type where it says nothing."""
    return message(error)[:160] or type(error).__name__


def one_line(error: BaseException) -> str:
    r"""An exception as ``Type: message``.

    Example:
        >>> one_line(ValueError("bad shape\n  in layer 3"))
        'ValueError: bad shape in layer 3'
    """
    return f"{type(error).__name__}: {message(error)}".removesuffix(": ")[:400]


def counted(number: int, one: str, several: str = "") -> str:
    """A number of things in words; ``several`` is the plural where it is not made by an s.

    Example:
        >>> counted(1, "network"), counted(2_000, "network"), counted(0, "process", "processes")
        ('1 network', '2,000 networks', '0 processes')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


@contextmanager
def in_a_sentence(words: Callable[[Exception], str]) -> Iterator[None]:
    """Turn whatever a reader stumbles over into one sentence, made of the error: the one place that does so.

    A file that is broken on purpose has libraries raise anything: of zip, zlib, numbers, memory or recursion.

    Example:
        >>> with in_a_sentence(lambda error: f"scan.nii cannot be read ({reason(error)})"):
        ...     raise OverflowError("too large")
        Traceback (most recent call last):
        trainless.core.errors.InputError: scan.nii cannot be read (too large)
    """
    try:
        yield
    except TrainlessError:
        raise
    except Exception as error:
        raise InputError(words(error)) from error


def undamaged(what: object, remedy: str) -> AbstractContextManager[None]:
    """Say in one line that a file does not hold what it should, whatever reading it stumbled over.

    Example:
        >>> with undamaged("run/plan.json", "give another folder"):
        ...     {}["seed"]
        Traceback (most recent call last):
        trainless.core.errors.InputError: run/plan.json is damaged (KeyError: 'seed'): give another folder
    """
    return in_a_sentence(lambda error: f"{what} is damaged ({one_line(error)[:160]}): {remedy}")
