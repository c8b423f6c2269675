"""What a reader is told of the rule of referral: kept, missed within chance, or broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from trainless.cli.design import _kept
from trainless.report.doubt import _calibration_words, referral_figure
from trainless.report.summary import deferral_in_words
from trainless.report.words import networks_in_words
from trainless.spaces import space
from trainless.spaces.custom import space_from
from trainless.spaces.protocol import key


def checked(right: float | None, holds: bool) -> dict[str, Any]:
    """A rule that was promised, checked on a test part."""
    accuracy = {"value": right, "low": 0.9, "high": 0.97}
    return {"promised": True, "asked": 0.95, "accuracy": accuracy, "referred": 0.04, "holds": holds, "rule": ""}


@pytest.mark.parametrize(
    ("right", "holds", "said", "printed"),
    [
        (0.96, True, "that held on the test cases", "the promise holds"),
        (0.935, True, "no more than chance explains", "less than promised, but no more so than chance explains"),
        (0.9, False, "that did NOT hold", "THE PROMISE DOES NOT HOLD"),
        (None, True, "answers none of them", "the promise holds"),
    ],
)
def test_a_promise_is_kept_missed_by_chance_or_broken(
    right: float | None, holds: bool, said: str, printed: str
) -> None:
    assert said in deferral_in_words(checked(right, holds), 0.95)
    assert _kept(checked(right, holds)) == printed


def test_a_space_of_ones_own_is_called_by_its_name() -> None:
    """As a person calls it, not as the key of its scores has it."""

    def my_space(width: int) -> nn.Module:
        return nn.Linear(width, 2)

    made = space_from(my_space, {"width": [4, 8]})
    assert networks_in_words(2, key(made)) == "2 networks of the space my_space"
    assert networks_in_words(1, key(space("nb201", channels=8, cells=1))) == "1 network of the space nb201"


def test_a_calibration_error_has_no_interval() -> None:
    """It is biased upwards on few cases, and so is its bootstrap, whose interval may lie beside it."""
    error = {"value": 0.032, "low": 0.041, "high": 0.117}
    told = _calibration_words({"calibration_error": error, "calibration_error_raw": error, "temperature": 1.0})
    assert "Calibration error 0.032, before calibration 0.032 (temperature" in told


def test_the_legend_names_the_rule_where_there_is_one() -> None:
    unsure, right = np.array([0.1, 0.2, 0.4]), np.array([True, True, False])
    assert "the rule" not in referral_figure(unsure, right, 0.95, None)
    assert "the rule" in referral_figure(unsure, right, 0.6, (0.3, 1.0))
