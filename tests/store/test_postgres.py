"""Real work on a real PostgreSQL: it goes away and comes back, and several share it."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.commands import Command
from tests.postgres import Server
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.search import Found, search
from trainless.runs.settings import SearchCallbacks, SearchSettings, Watch
from trainless.spaces.nb201 import NasBench201
from trainless.store import Key, Result, store_at
from trainless.store.postgres import PostgresStore

KEY = Key("nb201", "0,1", "snip", 1, "own", "cafe", 0)
GOOD = Result(2.5, "ok", 1.0, 1.0)
SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def found(out: Path, watch: Watch = lambda loop, budget: None, **options: Any) -> Found:
    settings = SearchSettings(**{"proxies": "naswot", "evaluations": 30, "batch": 8, "seed": 3, **options})
    return search(TASK, SPACE, "evolution", out=out, settings=settings, callbacks=SearchCallbacks(measured=watch))


def places(run: Found) -> list[tuple[str, str]]:
    return [(place.text, repr(dict(place.scores))) for place in run.places]  # NaN is not equal to itself


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
    with pytest.raises(InputError, match="holds a run with seed=3, and seed=4 was asked for"):
        found(tmp_path / "b" / "run", store=database, seed=4)
    found(tmp_path / "c" / "run", seed=4)
    with pytest.raises(InputError, match="holds another run than 'run' in postgresql://"):
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


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "workers"), [("fast", 1), ("immediate", 2)])
def test_a_server_that_restarts_in_mid_run_changes_nothing(
    postgres: Server, tmp_path: Path, mode: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    place, count = postgres.fresh(), 0
    alone = found(tmp_path / "alone", workers=workers, evaluations=40)
    restarted = threading.Event()

    def restart() -> None:
        postgres.stop(mode)
        time.sleep(1.0)
        postgres.start()
        restarted.set()

    def watch(loop: object, budget: object) -> None:
        nonlocal count
        count += 1
        if count == 10:
            threading.Thread(target=restart).start()
        if count == 20:
            assert restarted.wait(60)

    with caplog.at_level(logging.WARNING, logger="trainless.store"):
        shaken = found(tmp_path / "shaken", store=place, watch=watch, workers=workers, evaluations=40)
    assert restarted.is_set()
    assert places(shaken) == places(alone)
    assert (tmp_path / "shaken" / "leaderboard.csv").read_text() == (tmp_path / "alone" / "leaderboard.csv").read_text()
    lines = (tmp_path / "shaken" / "trajectory.jsonl").read_text().splitlines()
    with store_at(place) as store:
        assert list(store.runs.lines("shaken")) == lines
        assert len(list(store.rows())) == len(shaken.places)
    assert any("is away" in message and "nothing is lost" in message for message in caplog.messages)
    assert any("is back after" in message for message in caplog.messages)


def test_a_lost_connection_is_made_again(database: str) -> None:
    with store_at(database) as store, psycopg.connect(database, autocommit=True) as other:
        store.keep([(KEY, GOOD)])
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'trainless' AND datname = current_database()"
        )
        store.keep([(KEY._replace(arch="b"), GOOD)])
        assert store.find([KEY, KEY._replace(arch="b")]).keys() == {KEY, KEY._replace(arch="b")}


def test_patience_ends_with_a_clear_line() -> None:
    with pytest.raises(InputError, match=r"//me@127\.0\.0\.1:1/scores does not answer since .* goes on when"):
        PostgresStore("postgresql://me:secret@127.0.0.1:1/scores", patience=0.3)


def test_what_waiting_does_not_mend_is_said_at_once(postgres: Server) -> None:
    with pytest.raises(InputError, match=r'cannot be used .*database "nowhere" does not exist.*give another one'):
        PostgresStore(postgres.url("nowhere"))


def test_a_full_disk_stops_cleanly_and_keeps_everything(postgres: Server, tmp_path: Path) -> None:
    """A tablespace on a disk of a few megabytes, where one may be mounted."""
    disk = postgres.folder / "small"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m,mode=777", "none", disk], check=False)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    shutil.chown(disk, disk.parent.owner())
    try:
        place = postgres.fresh()
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        with store_at(place) as store:
            store.keep([(KEY, GOOD)])
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute("ALTER TABLE trainless.results SET TABLESPACE small")
            kept = 1
            with pytest.raises(InputError, match=r"the disk of the store .* is full: free some space"):
                for batch in range(1000):
                    keys = [KEY._replace(arch=f"{batch},{number}" * 20) for number in range(500)]
                    store.keep([(key, GOOD) for key in keys])
                    kept += len(keys)
            assert sum(count.scores for count in store.counts()) == kept
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {place.rpartition('/')[2]}")
            connection.execute("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


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
