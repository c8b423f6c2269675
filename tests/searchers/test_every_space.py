"""Every registered searcher keeps its contract on every registered space, under a limit."""

from __future__ import annotations

import pytest

from tests.searchers.test_contract import ASSISTED, NAMES, PARAMETERS
from tests.spaces.thin import THIN
from trainless.core.arch import Arch
from trainless.searchers import make
from trainless.spaces import registry
from trainless.spaces import space as find_space
from trainless.testing.searchers import check_searcher

SMALL = {
    **PARAMETERS,
    "local": {"restarts": 1},
    "hyperband": {"iterations": 2},
    "bohb": {"iterations": 2},
    "g_hb": {"iterations": 2},
    "optuna": {"sampler": "RandomSampler"},
}
SLOW_TO_ASK = {"prune": 1, "optuna": 1}
"""Fewer asks: a round of pruning is hundreds of candidates, and Optuna takes milliseconds for each."""


def uneven(arch: Arch) -> bool:
    """A limit that two of three archs keep, in any space."""
    return sum(arch) % 3 != 0


@pytest.mark.slow
@pytest.mark.parametrize("space", registry.names())
@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str, space: str) -> None:
    if name == "exhaustive" and space == "recurrent":
        pytest.skip(
            "some 10^40 archs, of which the first valid one in order is out of reach: nobody can enumerate them"
        )
    made = find_space(space, nodes=3) if space == "recurrent" else THIN[space].space(space)
    parameters = {**SMALL.get(name, {}), "feasible": uneven}
    if name in ASSISTED:
        parameters["proxy"] = lambda arch: float(arch[0] - arch[-1])
    check_searcher(
        lambda seed: make(name, made, seed=seed, **parameters), made, feasible=uneven, steps=SLOW_TO_ASK.get(name, 2)
    )
