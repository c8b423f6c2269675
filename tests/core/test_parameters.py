"""Values that are written as text, and parameters in words."""

from __future__ import annotations

import inspect
from typing import Literal

from trainless.core.parameters import described, parsed, takes


def test_text_stands_for_numbers_lists_and_itself() -> None:
    assert [parsed(text) for text in ("8", "0.5", "2+4", "cifar")] == [8, 0.5, (2, 4), "cifar"]


def test_parameters_are_described_by_kind_and_default() -> None:
    def make(width: int = 8, kind: Literal["a", "b"] = "a") -> None: ...

    known = inspect.signature(make, eval_str=True).parameters
    assert described(known) == "it has: width=8 (a whole number), kind=a (a or b)"
    assert takes(make, "width")
    assert takes(make, "depth") is False
    assert takes(lambda **anything: None, "a") is None
