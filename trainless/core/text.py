"""What errors say, as one line that can be stored, sent and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from trainless.core.errors import InputError

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
    except Exception:  # a user's class may say anything
        text = "it cannot say what"
    return printable(" ".join(text.split()))


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


DAMAGE = (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError)


@contextmanager
def undamaged(what: object, remedy: str) -> Iterator[None]:
    """Say in one line that a file does not hold what it should, whatever reading it stumbled over.

    Example:
        >>> with undamaged("run/plan.json", "give another folder"):
        ...     {}["seed"]
        Traceback (most recent call last):
        trainless.core.errors.InputError: run/plan.json is damaged (KeyError: 'seed'): give another folder
    """
    try:
        yield
    except DAMAGE as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise InputError(f"{what} is damaged ({said}): {remedy}") from error
