from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.engine.store import Key, Result, SqliteStore, default_path, open_store

KEY = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "cafe", 0)

WRITER = """
import sys
from trainless.engine.store import Key, Result, SqliteStore
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
    with pytest.raises(InputError, match=r"cannot be used \(file is not a database\): give another file with --store"):
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
