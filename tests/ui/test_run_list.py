"""Runs in a shared folder and in a real PostgreSQL, seen live."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.ui.made import EVALUATIONS, leaderboard, searched, site
from trainless.cli.app import run as command
from trainless.core.errors import InputError
from trainless.store import store_at
from trainless.ui.run_list import OpenRuns, StoreRuns, runs_at


@pytest.fixture(params=["folder", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"{tmp_path}/shared/"
    return str(request.getfixturevalue("postgres").fresh())


@pytest.mark.slow
def test_runs_of_a_store(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("one", 0), ("two", 1)):
        searched(tmp_path / name, seed=seed, store=database)
    with site(database) as at:
        listed = at.get("/api/runs").json
        assert [run["id"] for run in listed["runs"]] == ["one", "two"]
        assert {run["progress"]["state"] for run in listed["runs"]} == {"finished"}
        assert listed["title"] == database
        rows = at.get("/api/rows", id="one", count=500).json["rows"]
        assert [row["arch"] for row in rows] == [row["arch"] for row in leaderboard(tmp_path / "one")]
        assert at.get("/report", id="one").status == 404
        assert at.get("/api/run", id="absent").status == 404
    assert command(["watch", "two", "--once", "--store", database]) == 0
    assert f"{EVALUATIONS} of {EVALUATIONS}" in capsys.readouterr().out


def test_a_run_in_a_store_goes_on_when_it_has_more_lines(tmp_path: Path) -> None:
    place = tmp_path / "shared.sqlite"
    folder = searched(tmp_path / "one", store=str(place))
    lines = (folder / "trajectory.jsonl").read_text().splitlines()
    with store_at(place) as store:
        store.runs.save("begun", (folder / "run.json").read_text())
        store.runs.append("begun", 1, lines[:4])
        runs = OpenRuns(StoreRuns(store))
        with runs.reading("begun") as reader:
            assert reader.progress().state == "stopped"  # nobody holds it
        with store.runs.hold("begun"), runs.reading("begun") as reader:
            assert reader.progress().state == "running"
            before = reader.progress().done
        store.runs.append("begun", 5, lines[4:])
        store.runs.publish("begun", (folder / "leaderboard.csv").read_text(), '{"end": "budget"}')
        with runs.reading("begun") as reader:
            assert before < reader.progress().done == EVALUATIONS
            assert reader.progress().state == "finished"
        with pytest.raises(InputError, match="has no run 'absent'"), runs.reading("absent"):
            pass


def test_a_database_that_cannot_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.ui.run_list.PATIENCE", 0.2)
    with pytest.raises(InputError, match=r"cannot be used|does not answer"):
        runs_at("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")


def test_the_projects_own_corpus_is_no_list_of_runs() -> None:
    """Who looks at the runs below a checkout sees their own."""
    here = Path(__file__).resolve().parents[1]
    assert (here / "fuzz" / ".folders").is_dir()
    with closing(runs_at(str(here))) as listed:
        assert listed.names() == []
