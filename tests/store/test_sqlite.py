from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.store import Key, Result, SqliteStore, default_path, open_store

KEY = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "cafe", 0)

WRITER = """
import sys
from trainless.store import Key, Result, SqliteStore
with SqliteStore(sys.argv[1]) as store:
    for seed in range(40):
        store.keep([(Key("space", "0,1", "snip", 1, "own", "cafe", seed), Result(float(sys.argv[2]), "ok", 1.0, 1.0))])
"""


def test_what_is_kept_is_found_in_another_connection(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "new" / "scores.sqlite") as store:
        store.keep([(KEY, Result(2.5, "ok", 10.0, 1.25))])
    with SqliteStore(tmp_path / "new" / "scores.sqlite") as store:
        assert store.find([KEY]) == {KEY: Result(2.5, "ok", 10.0, 1.25)}


@pytest.mark.parametrize("part", range(len(KEY)))
def test_every_part_of_the_key_counts(part: int) -> None:
    changed = list(KEY)
    changed[part] = 7 if isinstance(changed[part], int) else "other"
    store = SqliteStore(":memory:")
    store.keep([(KEY, Result(2.5, "ok", 1.0, 1.0))])
    assert store.find([Key(*changed)]) == {}


def test_a_failure_is_kept_with_its_reason() -> None:
    store = SqliteStore(":memory:")
    store.keep([(KEY, Result(math.nan, "no weights", math.nan, math.nan))])
    found = store.find([KEY])[KEY]
    assert math.isnan(found.value)
    assert found.status == "no weights"


def test_the_first_result_stays() -> None:
    store = SqliteStore(":memory:")
    store.keep([(KEY, Result(1.0, "ok", 1.0, 1.0))])
    store.keep([(KEY, Result(2.0, "ok", 1.0, 1.0))])
    assert store.find([KEY])[KEY].value == 1.0


def test_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(value)]) for value in (1, 2, 3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with SqliteStore(path) as store:
        keys = [Key("space", "0,1", "snip", 1, "own", "cafe", seed) for seed in range(40)]
        assert len(store.find(keys)) == 40


def test_a_damaged_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(InputError, match=r"cannot be used \(file is not a database\): give another file"):
        SqliteStore(path)


def test_a_path_below_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        SqliteStore(tmp_path / "file" / "scores.sqlite")


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.sqlite")
    connection.execute("CREATE TABLE scores (mine)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="another program's database"):
        SqliteStore(tmp_path / "other.sqlite")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "scores.sqlite").close()
    connection = sqlite3.connect(tmp_path / "scores.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(InputError, match="newer trainless"):
        SqliteStore(tmp_path / "scores.sqlite")


def test_the_default_place_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_STORE", str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"
    monkeypatch.delenv("TRAINLESS_STORE")
    assert default_path().name == "scores.sqlite"
    with open_store("none") as nothing:
        assert nothing is None


def test_whoever_finds_it_locked_waits_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trainless.store.sqlite.BUSY_SECONDS", 0.1)
    monkeypatch.setattr("trainless.store.sqlite.SAY_SECONDS", 0.1)
    with SqliteStore(tmp_path / "scores.sqlite") as store:
        other = sqlite3.connect(tmp_path / "scores.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.8, lambda: other.execute("COMMIT")).start()
        store.keep([(KEY, Result(2.5, "ok", 1.0, 1.0))])
        assert KEY in store.find([KEY])
        assert any("another process is writing to" in message for message in caplog.messages)
        monkeypatch.setattr("trainless.store.sqlite.WAIT_SECONDS", 0.3)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match=r"another process has been writing to .* everything so far is kept"):
            store.keep([(KEY._replace(arch="b"), Result(2.5, "ok", 1.0, 1.0))])
        other.execute("ROLLBACK")
        other.close()


def test_a_file_that_another_keeps_to_itself_is_waited_for_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainless.store.sqlite.BUSY_SECONDS", 0.1)
    path = tmp_path / "scores.sqlite"
    with SqliteStore(path) as store:
        store.keep([(KEY, Result(2.5, "ok", 1.0, 1.0))])
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.8, other.close).start()
    with SqliteStore(path) as store:
        assert KEY in store.find([KEY])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("trainless.store.sqlite.WAIT_SECONDS", 0.3)
    with pytest.raises(InputError, match="another process has been writing to"):
        SqliteStore(path)
    other.close()


FILLER = """
import resource, sys
from trainless.core.errors import InputError
from trainless.store import Key, Result, SqliteStore
with SqliteStore(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    try:
        for batch in range(10_000):
            keys = [Key("space", f"{batch},{number}" * 20, "snip", 1, "own", "cafe", 0) for number in range(100)]
            store.keep([(key, Result(1.0, "ok", 1.0, 1.0)) for key in keys])
    except InputError as error:
        print(batch * 100, error)
"""


def test_a_full_disk_stops_cleanly_and_keeps_everything(tmp_path: Path) -> None:
    """A process that may write a megabyte per file is told by the system what a full disk tells it."""
    done = subprocess.run(
        [sys.executable, "-c", FILLER, str(tmp_path / "scores.sqlite")], capture_output=True, text=True, check=True
    )
    kept, _, said = done.stdout.partition(" ")
    assert "free some space on its disk; everything so far is kept, and the same command goes on" in said
    with SqliteStore(tmp_path / "scores.sqlite") as store:
        assert sum(count.scores for count in store.counts()) == int(kept) > 0
        store.keep([(KEY, Result(2.5, "ok", 1.0, 1.0))])
