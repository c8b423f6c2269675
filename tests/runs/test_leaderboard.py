"""The leaderboard: its order and its CSV."""

from __future__ import annotations

import math

from tests.runs.test_trajectory import SPACE, fresh
from trainless.core.arch import Proposal
from trainless.runs.leaderboard import leaderboard, to_csv
from trainless.scoring.measures import Outcome


def test_the_leaderboard_puts_higher_fidelities_first_and_failures_last() -> None:
    loop = fresh()
    proposals = [Proposal((1,) * 6, 0.5), Proposal((2,) * 6), Proposal((3,) * 6), Proposal((1,) * 6, 0.2)]
    outcomes = [
        Outcome({"sum": 9.0}),
        Outcome({"sum": 1.0}),
        Outcome({"sum": math.nan}, {"sum": "dead"}),
        Outcome({"sum": 0.0}),
    ]
    loop.learn(proposals, outcomes)
    places = leaderboard(loop, SPACE, {"sum": True}, {"ones": lambda arch: float(arch.count(1))})
    assert [(place.arch[0], place.rank, place.fidelity) for place in places] == [(2, 1, 1.0), (3, 2, 1.0), (1, 3, 0.5)]
    lines = to_csv(places).splitlines()
    assert lines[0] == "rank,arch,fidelity,sum,ones,status"
    assert lines[2].endswith(",1.0,,0,sum: dead")
    assert lines[3].endswith(",0.5,9.0,6,ok")
    assert to_csv([]) == "rank,arch,status\n"
