"""Runs that live in a store: names that clash are said, refusals leave nothing, reports can be made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trainless as tl
from tests.commands import Command
from tests.store.searched import found, places
from trainless.core.errors import InputError
from trainless.report.report import write_report
from trainless.runs.folder import Shared
from trainless.runs.settings import SearchSettings
from trainless.store import store_at

SPACE = {"channels": 4, "cells": 1}


@pytest.fixture(params=["folder", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that many machines may share."""
    if request.param == "folder":
        return f"{tmp_path}/shared/"
    return str(request.getfixturevalue("postgres").fresh())


def searched(out: Path, store: Path, seed: int) -> None:
    tl.search(
        tl.task("digits"),
        tl.space("nb201", **SPACE),
        "random",
        proxies="params",
        evaluations=4,
        seed=seed,
        out=out,
        settings=SearchSettings(store=str(store)),
    )


def test_another_run_of_the_same_name_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    store = tmp_path / "shared.sqlite"
    searched(tmp_path / "one" / "run", store, seed=1)
    with pytest.raises(InputError, match=r"has another run called 'run'.*give another"):
        searched(tmp_path / "two" / "run", store, seed=2)
    assert not (tmp_path / "two" / "run" / "run.json").exists()
    searched(tmp_path / "two" / "mine", store, seed=2)


def test_a_report_is_made_from_the_store_alone(tmp_path: Path) -> None:
    store = tmp_path / "shared.sqlite"
    searched(tmp_path / "one" / "run", store, seed=1)
    here = tmp_path / "elsewhere" / "run"
    with store_at(store) as opened:
        Shared(opened, "run", here).copy()
        with pytest.raises(InputError, match="has no run called 'none'"):
            Shared(opened, "none", tmp_path / "none").copy()
    assert (here / "trajectory.jsonl").read_bytes() == (tmp_path / "one" / "run" / "trajectory.jsonl").read_bytes()
    assert "<svg" in write_report(here).read_text(encoding="utf-8")


def test_a_search_is_seen_live_and_gone_on_with_on_another_machine(database: str, tmp_path: Path) -> None:
    """Another machine has the database and nothing else: a folder of its own, empty."""
    alone = found(tmp_path / "alone" / "run")
    seen: list[int] = []
    with store_at(database) as other:

        def stop(loop: object, budget: object) -> None:
            seen.append(len(list(other.runs.lines("run"))))
            if len(seen) == 12:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            found(tmp_path / "first" / "run", store=database, watch=stop)
        assert seen[-1] > 0
        assert other.runs.find("run") is not None
        rows_before = {row.key for row in other.rows()}
    assert not (tmp_path / "first" / "run" / "scores.sqlite").exists()
    again = found(tmp_path / "second" / "run", store=database)
    assert places(again) == places(alone)
    assert (again.best, again.steps, again.spent.evaluations) == (alone.best, alone.steps, alone.spent.evaluations)
    first = (tmp_path / "first" / "run" / "trajectory.jsonl").read_text()
    assert (tmp_path / "second" / "run" / "trajectory.jsonl").read_text().startswith(first)
    with store_at(database) as other:
        assert rows_before < {row.key for row in other.rows()}
        entry = other.runs.find("run")
        assert entry is not None
        assert entry.leaderboard == (tmp_path / "second" / "run" / "leaderboard.csv").read_text()
        assert json.loads(entry.configuration)["seed"] == 3
    back = found(tmp_path / "first" / "run", store=database)
    assert places(back) == places(alone)


def test_another_run_of_the_same_name_is_refused(database: str, tmp_path: Path) -> None:
    found(tmp_path / "a" / "run", store=database)
    with pytest.raises(InputError, match="holds a run with seed 3, and seed 4 was asked for"):
        found(tmp_path / "b" / "run", store=database, seed=4)
    found(tmp_path / "c" / "run", seed=4)
    with pytest.raises(InputError, match=r"holds another run than 'run' in .*/"):
        found(tmp_path / "c" / "run", seed=4, store=database)


def test_a_run_that_went_on_without_the_store_is_brought_to_it(database: str, tmp_path: Path) -> None:
    found(tmp_path / "run", store=database, evaluations=10)
    longer = found(tmp_path / "run", evaluations=20)
    assert places(found(tmp_path / "run", store=database, evaluations=20)) == places(longer)
    lines = (tmp_path / "run" / "trajectory.jsonl").read_text().splitlines()
    with store_at(database) as store:
        assert list(store.runs.lines("run")) == lines
        store.runs.append("run", len(lines) + 1, ["{}"])
    (tmp_path / "run" / "trajectory.jsonl").write_text("\n".join([*lines[:-1], "[]"]) + "\n")
    with pytest.raises(InputError, match="went on apart from each other: remove"):
        found(tmp_path / "run", store=database, evaluations=20)


SWEEP = "bench sweep --space nb201 --space-args channels=2,cells=1 --archs sample:24 --batch 8 --init own --proxies"


@pytest.mark.slow
def test_two_sweeps_of_the_same_compute_each_candidate_once(database: str, tmp_path: Path) -> None:
    """A proxy that writes down every call of it: no arch is there twice, and both sweeps have all of them."""
    (tmp_path / "counted.py").write_text(
        "import os, time, trainless as tl\n"
        "@tl.proxy(higher_is_better=True, paper='none')\n"
        "def counted(p):\n"
        "    'Counts its calls.'\n"
        "    time.sleep(0.05)\n"
        "    value = float(sum(w.double().sum() for w in p.net.parameters()))\n"
        f"    with open({str(tmp_path / 'calls')!r}, 'a') as file:\n"
        "        file.write(f'{value!r}\\n')\n"
        "    return value\n"
    )
    command = [*SWEEP.split(), f"{tmp_path}/counted.py:counted", "--store", database]
    sweeps = [Command([*command, "--out", name], tmp_path) for name in ("one", "other")]
    for sweep in sweeps:
        assert sweep.wait() == 0, sweep.err
    with store_at(database) as store:
        rows = list(store.rows())
    assert len({row.key.arch for row in rows}) == len(rows) == 24
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 24
    from trainless.runs.score_file import read_scores

    one, other = (read_scores(tmp_path / name / "scores.npz") for name in ("one", "other"))
    assert sorted(zip(one.archs, one.values.ravel(), strict=True)) == sorted(
        zip(other.archs, other.values.ravel(), strict=True)
    )
