"""Real work on a real PostgreSQL: it goes away and comes back, and several share it."""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Server
from tests.store.searched import found, places
from trainless.core.errors import InputError
from trainless.store import Key, Result, store_at
from trainless.store.postgres import PostgresStore

KEY = Key("nb201", "0,1", "snip", 1, "own", "cafe", 0)
GOOD = Result(2.5, "ok", 1.0, 1.0)


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
