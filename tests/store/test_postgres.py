"""Real work on a real PostgreSQL: it goes away and comes back, and several share it."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest

from tests.commands import Command
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


@pytest.mark.parametrize(
    "secret", ["sec?ret", "sec#ret", "sec/ret", "sec@ret", "sec%ret", "sec ret", "sec%zzret", "sec/x?password=ret"]
)
def test_no_part_of_a_password_is_shown(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match="is not written as a URL") as found:
        store_at(f"postgresql://me:{secret}@127.0.0.1:1/scores")
    assert "sec" not in str(found.value).replace("seconds", "")
    for url in ("postgresql://127.0.0.1:secret/db", "postgresql://me:secret@[::1", "postgresql://[bad"):
        with pytest.raises(InputError, match="is not written as a URL") as found:
            store_at(url)
        assert "secret" not in str(found.value)
    with pytest.raises(InputError, match=r"//me@127.0.0.1:1/scores does not answer") as found:
        PostgresStore("postgresql://me:s[e]cr=%2Ft@127.0.0.1:1/scores?password=other", patience=0.1)
    assert not any(part in str(found.value) + caplog.text for part in ("s[e]cr", "%2Ft", "s[e]cr=/t", "other"))


def waiting(folder: Path, place: str, workers: int) -> Command:
    """A search whose candidates take a moment, and whose scores are kept in a database."""
    proxy = folder / "slow.py"
    proxy.write_text(
        "import time, trainless as tl\n"
        "@tl.proxy(higher_is_better=True, paper='none')\n"
        "def slow(p):\n"
        "    'Takes a moment.'\n"
        "    time.sleep(0.05)\n"
        "    return float(sum(w.numel() for w in p.weights.values()))\n"
    )
    space = ("--space", "nb201", "--space-args", "channels=2,cells=1", "--batch", "4", "--proxies", f"{proxy}:slow")
    budget = ("--evaluations", "2000", "--workers", str(workers), "--searcher", "random")
    return Command(["search", "digits", *space, *budget, "--store", place, "--out", "run"], folder)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "frozen"])
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_a_run_whose_server_is_away(postgres: Server, tmp_path: Path, how: str, workers: int) -> None:
    """The server is gone, or it holds its connections and answers nothing; one Ctrl-C is enough."""
    search = waiting(tmp_path, postgres.fresh(), workers)
    steps = tmp_path / "run" / "trajectory.jsonl"
    until = time.monotonic() + 60
    while not (steps.exists() and steps.stat().st_size > 2000):
        assert time.monotonic() < until, search.err
        assert search.poll() is None, search.err
        time.sleep(0.05)
    postgres.stop("immediate") if how == "stopped" else postgres.freeze()
    try:
        time.sleep(1.5)
        start = time.monotonic()
        search.send(signal.SIGINT)
        assert search.wait(30) == 130, search.err
        assert time.monotonic() - start < 5.0  # 2 seconds on a machine that does nothing else
    finally:
        postgres.start() if how == "stopped" else postgres.thaw()
    assert "Traceback" not in search.err
    assert (tmp_path / "run" / "leaderboard.csv").exists()
