"""The run folder: configuration, lock, and what is not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.runs.folder import locked, open_folder, read_configuration
from trainless.runs.loop import Loop
from trainless.runs.search import search
from trainless.runs.settings import SearchCallbacks
from trainless.searchers.stopping import Budget
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201(2, 1)
BUDGET = {"evaluations": 5}


def test_a_run_is_started_gone_on_with_and_extended(tmp_path: Path) -> None:
    first = open_folder(tmp_path / "run", {"searcher": "random", "ahead": 2}, BUDGET)
    again = open_folder(tmp_path / "run", {"searcher": "random", "ahead": None}, {"evaluations": 9})
    assert again == {**first, "budget": {"evaluations": 9}}
    assert read_configuration(tmp_path / "run") == again
    assert {"trainless", "torch", "python"} <= set(first["environment"])
    with pytest.raises(InputError, match="holds a run with searcher 'random', and searcher 'local' was asked for"):
        open_folder(tmp_path / "run", {"searcher": "local"}, BUDGET)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds 'thesis.tex' and no run"), locked(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        open_folder(tmp_path / "bad", {}, BUDGET)
    (tmp_path / "bad" / "run.json").write_text("[]")
    with pytest.raises(InputError, match="not of a kind that this version"):
        open_folder(tmp_path / "bad", {}, BUDGET)
    with pytest.raises(InputError, match=r"nowhere is not there; expected a run folder"):
        read_configuration(tmp_path / "nowhere")


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(InputError, match="another process is working"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("name", ["lock", "trajectory.jsonl", "scores.sqlite", "run.json"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("a thesis, without an end of line")
    run.mkdir()
    (run / name).symlink_to(victim)
    with pytest.raises(InputError, match=f"{name} is a link, not a file of a run"):
        search("noise:3x8x8:10", SPACE, "random", proxies="params", evaluations=2, out=run)
    assert victim.read_text() == "a thesis, without an end of line"
    assert [path.name for path in run.iterdir()] == [name]


def test_a_lock_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("kept")
    with locked(tmp_path):
        pass
    assert (tmp_path / "lock").read_text() == "kept"


def test_a_second_start_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    refused: list[bytes] = []

    def again(loop: Loop, budget: Budget) -> None:
        before = (tmp_path / "run.json").read_bytes()
        for seed, evaluations in ((1, 99), (2, 3)):
            with pytest.raises(InputError, match="another process is working"):
                search(
                    "noise:3x8x8:10",
                    SPACE,
                    "random",
                    proxies="params",
                    evaluations=evaluations,
                    seed=seed,
                    out=tmp_path,
                )
        assert (tmp_path / "run.json").read_bytes() == before
        refused.append(before)

    search(
        "noise:3x8x8:10", SPACE, "random", proxies="params", evaluations=3, seed=1, out=tmp_path,
        callbacks=SearchCallbacks(measured=again),
    )  # fmt: skip
    assert refused
    configuration = read_configuration(tmp_path)
    assert (configuration["seed"], configuration["budget"]["evaluations"]) == (1, 3)
