"""Runs that live in a store: names that clash are said, refusals leave nothing, reports can be made elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainless as tl
from trainless.core.errors import InputError
from trainless.report.report import write_report
from trainless.runs.folder import Shared
from trainless.runs.settings import SearchSettings
from trainless.store import store_at

SPACE = {"channels": 4, "cells": 1}


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
