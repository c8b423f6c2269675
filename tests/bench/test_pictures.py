"""What papers show as pictures, in numbers."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest

from trainless.bench.papers.pictures import EDGES, TEG, Replaced, Selected, Toy, chosen_alone, depth
from trainless.bench.papers.sources import Where
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.tables import table
from trainless.proxies import registry
from trainless.runs.score_file import ScoreFile
from trainless.spaces.nb201 import NasBench201


def test_the_toy_rankings_are_those_of_the_paper() -> None:
    damaged, perfect = (
        Toy(order).answer(ScoreLibrary(Path()), Where()).out for order in ("damaged_top", "perfect_top")
    )
    assert damaged["kendall"].value == pytest.approx(1 - 2 * 4 / 45)  # four pairs in the wrong order
    assert perfect["kendall"].value == pytest.approx(1 - 2 * 6 / 45)  # six
    assert damaged["spearman"].value == pytest.approx(1 - 6 * 16 / 990)  # 6 Σd² / (n³ − n)
    assert perfect["spearman"].value == pytest.approx(1 - 6 * 20 / 990)
    assert damaged["ndcg_5"].value == pytest.approx(0.5, abs=1e-3)
    assert perfect["ndcg_5"].value == pytest.approx(1)


def test_depth_is_the_longest_path() -> None:
    for arch in np.random.default_rng(0).integers(0, 5, (60, 6)).tolist():
        graph = networkx.DiGraph([edge for edge, operation in zip(EDGES, arch, strict=True) if operation])
        graph.add_nodes_from(range(4))
        paths = networkx.all_simple_paths(graph, 0, 3)
        assert depth(tuple(arch)) == max((len(path) - 1 for path in paths), default=0)


def test_a_row_that_two_indicators_choose_is_neithers() -> None:
    values = np.random.default_rng(0).normal(size=(200, 3))
    found, best = chosen_alone(values), values >= np.sort(values, axis=0)[-20]
    assert (found.sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(found, best & (best.sum(axis=1) == 1)[:, None])


@pytest.fixture
def library(data_dir: Path, tmp_path: Path) -> ScoreLibrary:
    """Indicators that are simple functions of a cell: R its 3×3 convolutions, κ its nones, MSE its skips."""
    archs = tuple(table("nb201").archs)
    cells = np.array([NasBench201().parse(arch) for arch in archs])
    values = np.stack([(cells == 0).sum(1), (cells == 3).sum(1), -(cells == 1).sum(1)], axis=1)[..., None] + 1.0
    about = {name: {"higher_is_better": registry[name].higher_is_better} for name in TEG}
    codes = np.zeros(values.shape, np.uint16)
    ScoreFile(archs, TEG, (0,), values, codes, ms=np.ones(3), settings={"proxies": about}).write(tmp_path / "nb201.npz")
    return ScoreLibrary(tmp_path)


def test_selections_and_replacements_on_the_table(library: ScoreLibrary) -> None:
    found = {name: Selected(name).answer(library, Where()).out for name in ("linear_regions", "ntk_mse")}
    assert found["linear_regions"]["convolutions"].value > found["ntk_mse"]["convolutions"].value
    change = Replaced("skip").answer(library, Where())
    assert change.networks == 6 * 4**5
    shares = {name: each.value for name, each in change.out.items()}
    assert (shares["better κ"], shares["better R"], shares["better MSE"]) == (1, 0, 1)
    nb201 = table("nb201")
    pairs = [(arch, arch.replace("none", "skip_connect")) for arch in nb201.archs if arch.count("none") == 1]
    rows = [nb201.rows(each) for each in zip(*pairs, strict=True)]
    before, after = (nb201.column("cifar10", "test")[each] for each in rows)
    assert shares["better accuracy"] == pytest.approx((after > before).mean())
