"""Searches that were run once and kept: what their networks reach on a table, and what their cells are made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kept_searches import PLANS
from benchmarks.kept_searches import Plan as SearchPlan
from benchmarks.kept_searches import run as run_search
from trainless.bench.papers import definitions
from trainless.bench.papers.kept import KeptCells, KeptSearch
from trainless.bench.papers.sources import Where
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.bench.tables import table
from trainless.core.task import Task
from trainless.spaces import space

TABLE2 = {"TE-NAS": "te-nas", "TE-NAS + TEG": "te-nas + teg"}


def library(folder: Path, **searches: object) -> ScoreLibrary:
    (folder / "searches.json").write_text(json.dumps(searches))
    return ScoreLibrary(folder)


def test_what_was_found_is_looked_up_in_the_table(tmp_path: Path) -> None:
    nb201 = table("nb201")
    runs = [{"arch": nb201.archs[row], "evaluations": 57, "seconds": 10.0 + row} for row in (3, 5)]
    held = library(tmp_path, made={"space": "nb201", "runs": runs})
    reached = nb201.column("cifar100", "test")[[3, 5]]
    found = KeptSearch("made").answer(held, Where(task="cifar100"))
    assert found.out["mean"].value == pytest.approx(reached.mean())
    assert found.out["std"].value == pytest.approx(np.std(reached))
    assert found.out["seconds"].value == 14.0
    assert found.seeds == 2
    with pytest.raises(Missing, match=r"no runs of other are kept: python -m benchmarks.kept_searches 'other' --out"):
        KeptSearch("other").answer(held, Where())


def test_cells_are_counted_in_the_published_networks(tmp_path: Path) -> None:
    rules = space("darts")
    names = [decision.options for decision in rules.decisions]
    arch = tuple(options.index("skip_connect") if "none" in options else 0 for options in names)
    chosen = [place for place, options in enumerate(names) if "none" in options]
    arch = tuple(
        options.index("sep_conv_3x3") if place in chosen[:5] else arch[place] for place, options in enumerate(names)
    )
    held = library(tmp_path, made={"space": "darts", "runs": [{"arch": rules.format(arch), "evaluations": 9}]})
    found = KeptCells("made").answer(held, Where())
    assert {name: found.out[name].value for name in ("none", "skips", "pools", "separable", "dilated")} == {
        **{"none": 0, "skips": 11, "pools": 0, "separable": 5, "dilated": 0}
    }
    counts = rules.counts(arch, Task.noise((3, 32, 32), 10))  # type: ignore[attr-defined]
    assert found.out["params"].value == counts.params / 1e6
    larger = KeptCells("made", "imagenet").answer(held, Where())
    assert larger.out["params"].value > found.out["params"].value
    assert "600 epochs" in found.lacking["error"]
    assert "imagenet/train/CLASS/" in larger.lacking["error_top5"]


def test_every_kept_search_of_the_papers_has_a_plan() -> None:
    sources = [row.source for each in definitions().values() for row in each.rows]
    named = {source.name for source in sources if isinstance(source, (KeptSearch, KeptCells))}
    assert named == set(PLANS)


@pytest.mark.slow
def test_a_plan_runs_and_is_resumed(tmp_path: Path, data_dir: Path) -> None:
    plan = SearchPlan("nb201", "prune", "params,flops", 1, "", {})
    found = run_search(plan, 0, tmp_path)
    assert found == {**run_search(plan, 0, tmp_path), "seconds": found["seconds"]}
    rules = space("nb201")
    assert "none" not in found["arch"]
    assert rules.format(rules.canonical(rules.parse(found["arch"]))) == found["arch"]
    assert found["evaluations"] > 50
