from __future__ import annotations

from pathlib import Path

from trainless.core.arch import Proposal
from trainless.designs.training import by_training
from trainless.learn.recipe import recipe
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.spaces import space
from trainless.tasks import task


def test_real_training_tells_a_dead_network_from_a_live_one_and_drives_a_search(tmp_path: Path) -> None:
    """A cell without any path from input to output cannot beat chance."""
    digits, thin = task("digits"), space("nb201", channels=4, cells=1)
    measure = by_training(thin, digits, recipe("default", epochs=2), store=str(tmp_path / "store.sqlite"))
    dead, live = (measure(Proposal(arch)).values["trained"] for arch in ((0,) * 6, (3, 0, 0, 1, 0, 3)))
    assert dead < 0.2 < live
    search(
        digits, thin, "random", evaluations=2, seed=3, out=tmp_path / "run", settings=SearchSettings(measure=measure)
    )
    assert (tmp_path / "run" / "leaderboard.csv").read_text().count("\n") == 3
