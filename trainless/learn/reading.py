"""How answers are read: the class that matters, the sensitivity that is wanted and the prevalence that is expected.

Nothing heavy is imported here: the command line reads this class to print its help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainless.core.errors import InputError
from trainless.core.settings import setting


@dataclass(frozen=True)
class ReadingSettings:
    """How answers are read; none of it changes how networks are found or trained.

    Args:
        positive: The name of the class whose sensitivity and specificity are told, such as ``"malignant"``; by default
            the second of two classes.
        sensitivity: The share of that class that is to be found: a threshold for it is chosen on the calibration part.
        prevalence: The share of that class among the cases to come; by default as in the training data.
    """

    positive: str = setting(
        "", "The class to find, such as malignant: it has sensitivity and specificity.", metavar="NAME"
    )
    sensitivity: float | None = setting(
        None,
        "The share of the class to find that is to be found, such as 0.95, by a threshold.",
        kind=float,
    )
    prevalence: float | None = setting(
        None, "The share of the class to find among new cases; by default that of the training data.", kind=float
    )

    def check_reading(self) -> None:
        """Raise InputError where a share is none."""
        for name, usual in (("sensitivity", 0.95), ("prevalence", 0.02)):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(f"{name}={value} was given; expected a number between 0 and 1, such as {usual}")


def class_index(names: Sequence[str], positive: str) -> int | None:
    """The number of the class to find: that of a name, or the second of two; None where there is none.

    Example:
        >>> class_index(["benign", "malignant"], ""), class_index(["a", "b", "c"], ""), class_index(["a", "b"], "a")
        (1, None, 0)
    """
    if not positive:
        return 1 if len(names) == 2 else None
    if positive in names:
        return list(names).index(positive)
    shown = ", ".join(list(names)[:12]) or "none: it predicts values"
    raise InputError(f"there is no class {positive!r}; expected one of: {shown}")
