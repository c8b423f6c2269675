"""Reading what somebody else may have written, or cut short: what is not as it should be is one line for the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainless.core.errors import InputError

DAMAGE = (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError)


@contextmanager
def undamaged(what: object, remedy: str) -> Iterator[None]:
    """Say in one line that a file does not hold what it should, whatever reading it stumbled over.

    Args:
        what: The file or folder.
        remedy: What to do.

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
