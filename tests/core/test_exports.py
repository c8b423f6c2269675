from __future__ import annotations

import pickle
import warnings

import pytest

from trainless.core.exports import deprecated

MARK = deprecated(since="0.2", removed_in="0.4", instead="new")


@MARK
def old(x: int, *, y: int = 1) -> int:
    """Add."""
    return x + y


@MARK
class Old:
    """A thing."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_a_function_warns_once_and_works() -> None:
    with pytest.warns(DeprecationWarning, match=r"old is deprecated since trainless 0.2 .* in 0.4: use new") as said:
        assert old(1, y=2) == 3
    assert said[0].filename == __file__  # the caller's line, not ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old(1) == 2
    assert old.__name__ == "old"
    assert (old.__doc__ or "").startswith("Add.")
    assert "Deprecated since 0.2: use new." in (old.__doc__ or "")


def test_a_class_stays_itself() -> None:
    with pytest.warns(DeprecationWarning, match="Old is deprecated"):
        made = Old(3)
    assert isinstance(made, Old)
    assert pickle.loads(pickle.dumps(made)).x == 3  # noqa: S301 - our own
