"""Network Design Spaces from the official file to a published table, on a small stand-in of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.nds import convert, score_nds
from trainless.bench.papers import compare, definitions
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.tables import table
from trainless.core.checksums import digest
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.settings import SweepSettings
from trainless.scoring.evaluate import score
from trainless.spaces import sample, space

DARTS = space("darts")
SIZES = ((4, 3), (6, 3))


def official(count: int = 6) -> list[dict[str, object]]:
    """Networks as NDS writes them, with errors that fall as networks grow."""
    rng, networks = np.random.default_rng(0), []
    for place in range(count):
        width, depth = SIZES[place % len(SIZES)]
        genotype = DARTS._nodes(sample(DARTS, rng))
        cells = {}
        for name, nodes in zip(("normal", "reduce"), genotype, strict=True):
            cells |= {name: [list(pair) for node in nodes for pair in node], f"{name}_concat": [2, 3, 4, 5]}
        network = {"genotype": cells, "width": width, "depth": depth, "aux": False}
        errors = {"test_ep_top1": [60.0, 20.0 - place], "params": 10_000, "flops": 1_000_000, "rng_seed": place}
        networks.append({"net": network, **errors})
    return networks


@pytest.mark.slow
def test_from_the_official_file_to_the_published_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path / "data"))
    source, results = tmp_path / "DARTS.json", tmp_path / "results"
    networks = official()
    source.write_text(json.dumps([*networks, networks[0]]))  # one was trained twice
    assert digest(source) in convert("darts", source)
    opened = table("nds-darts")
    assert opened.column("cifar10", "test").tolist() == [80.0, 81.0, 82.0, 83.0, 84.0, 85.0, 80.0]
    settings = SweepSettings(
        out=str(tmp_path / "run"), proxies="naswot,gradsign", task="noise:3x8x8:3", batch=4, init="own"
    )
    said: list[str] = []
    file = score_nds("darts", settings, say=said.append)
    assert said == [f"darts, channels={w},cells={d}: 3 networks" for w, d in ((4, 3), (6, 3))]
    assert np.isfinite(file.values).all()
    assert (file.values[0] == file.values[-1]).all()
    arch = opened.archs[1]
    made = space("darts", channels=6, cells=3)
    alone = score((made, [made.parse(arch.partition(" ")[2])]), 4, task=Task.noise((3, 8, 8), 3), proxies="naswot")
    assert file.column("naswot")[1] == pytest.approx(alone.column("naswot")[0], rel=1e-5)
    results.mkdir()
    file.write(results / "nds-darts.npz")
    sheet = compare(definitions()["gradsign:table5.3"], ScoreLibrary(results), draws=0)
    rows = {row[0]: dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows}
    order = np.sign(np.subtract.outer(file.column("gradsign"), file.column("gradsign")))
    truth = np.sign(np.subtract.outer(opened.column("cifar10", "test"), opened.column("cifar10", "test")))
    tau = (order * truth).sum() / np.sqrt((order**2).sum() * (truth**2).sum())
    assert rows["GradSign, DARTS"]["ours"] == pytest.approx(tau)
    assert rows["GradSign, DARTS"]["published"] == 0.54
    assert rows["grad_norm, DARTS"]["note"] == "no data here: grad_norm is not among the stored scores of nds-darts"
    assert rows["GradSign, ENAS"]["note"] == "no data here: no table nds-enas"
    assert any("python -m benchmarks.nds enas --source ENAS.json" in note for note in sheet.notes)


def test_what_is_not_there_or_is_not_ndss_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path / "data"))
    (tmp_path / "ENAS.json").write_text("[1]")
    with pytest.raises(InputError, match="a network without genotype"):
        convert("enas", tmp_path / "ENAS.json")
    with pytest.raises(
        InputError, match=r"NDS's trained networks of ENAS, from .*benchmarks.nds enas --source ENAS.json"
    ):
        table("nds-enas")
