"""What holds of a store whichever database is behind it."""

from __future__ import annotations

import csv
import math
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.postgres import Server
from trainless.core.errors import InputError
from trainless.store import Key, Result, Selection, SqliteStore, SqlStore, merge, store_at, turns
from trainless.store import claims as store_claims
from trainless.store import sql as store_sql
from trainless.store.folder import FolderStore
from trainless.store.keys import brief, context_of
from trainless.store.postgres import PostgresStore
from trainless.store.schema import SCHEMA
from trainless.store.sql import export

KEY = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "cafe", 0)
GOOD = Result(2.5, "ok", 10.0, 1.25)
BAD = Result(math.nan, "no weights", math.nan, math.nan)

FIRST_SCHEMA = """
CREATE TABLE scores (
    space TEXT NOT NULL, arch TEXT NOT NULL, proxy TEXT NOT NULL, version INTEGER NOT NULL,
    setting TEXT NOT NULL, task TEXT NOT NULL, seed INTEGER NOT NULL,
    value DOUBLE PRECISION, status TEXT NOT NULL, ms DOUBLE PRECISION, fbe DOUBLE PRECISION,
    PRIMARY KEY (space, arch, proxy, version, setting, task, seed)
)
"""
FIRST_ROW = "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@pytest.fixture(params=["sqlite", "folder", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "scores.sqlite")
    if request.param == "folder":
        return f"{tmp_path}/shared/"
    server: Server = request.getfixturevalue("postgres")
    return server.fresh()


def key(arch: str = "0,1", **parts: object) -> Key:
    return KEY._replace(arch=arch, **parts)  # type: ignore[arg-type]


def same(one: Result, other: Result) -> bool:
    """Equal, NaN to NaN; SQLite keeps no sign of a zero."""
    return all(a == b or (a != a and b != b) for a, b in zip(astuple(one), astuple(other), strict=True))


def test_what_is_kept_is_found_in_another_connection(place: str) -> None:
    with store_at(place) as one, store_at(place) as other:
        one.keep([(KEY, GOOD), (key("1,1"), BAD)])
        found = other.find([KEY, key("1,1"), key("2,2")])
        assert found.keys() == {KEY, key("1,1")}
        assert same(found[KEY], GOOD)
        assert same(found[key("1,1")], BAD)


@pytest.mark.parametrize("part", range(len(KEY)))
def test_every_part_of_the_key_counts(place: str, part: int) -> None:
    changed = [*KEY]
    changed[part] = 7 if isinstance(changed[part], int) else "other"
    with store_at(place) as store:
        store.keep([(KEY, GOOD)])
        assert store.find([Key(*changed)]) == {}


def test_the_first_result_stays(place: str) -> None:
    with store_at(place) as store:
        store.keep([(KEY, GOOD), (KEY, BAD)])
        store.keep([(KEY, Result(7.0, "ok", 1.0, 1.0))])
        assert store.find([KEY])[KEY] == GOOD


TEXT = st.text(max_size=12) | st.sampled_from(["'; DROP TABLE results; --", "%s", "?", "\\", "now_seconds()", "\x00"])
NUMBER = st.floats(allow_infinity=False)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2**62), NUMBER, TEXT), max_size=6))
def test_it_is_a_dictionary_of_first_results(place: str, rows: list[tuple[str, str, int, float, str]]) -> None:
    """Whatever texts and numbers: the store agrees with a dictionary, but for what no database can hold."""
    clean = {"\x00": "\N{REPLACEMENT CHARACTER}"}
    expected: dict[Key, Result] = {}
    for arch, proxy, seed, value, status in rows:
        texts = [part.encode("utf-8", "replace").decode() for part in (arch, proxy, status)]
        texts = ["".join(clean.get(letter, letter) for letter in part) for part in texts]
        where = Key("space", texts[0], texts[1], 1, "own", f"fresh {time.monotonic_ns()}", seed)
        expected[where] = Result(value, texts[2], 1.0, 1.0)
    with store_at(place) as store:
        store.keep(expected.items())
        found = store.find(expected)
        assert found.keys() == expected.keys()
        assert all(same(found[each], expected[each]) for each in expected)


def test_a_very_long_arch_is_kept(place: str) -> None:
    long, longer = ("".join(f"{(i * k) % 977}," for i in range(3000)) for k in (7, 11))
    with store_at(place) as store:
        store.keep([(key(long), GOOD)])
        assert store.find([key(long), key(longer)]) == {key(long): GOOD}


def test_counts_rows_and_drops_agree_with_a_plain_filter(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sql, "PAGE", 4)
    everything = {
        Key(space, f"{arch}", proxy, version, "own", "cafe", seed): BAD
        if arch % 3 == 0
        else Result(arch, "ok", 1.0, 1.0)
        for space in ("nb201(cells=1)", "darts")
        for arch in range(9)
        for proxy, version in (("snip", 1), ("snip", 2), ("zico", 1))
        for seed in (0, 1)
    }
    with store_at(place) as store:
        store.keep(everything.items())
        assert {row.key for row in store.rows()} == everything.keys()
        assert sum(1 for _ in store.rows()) == len(everything) == 108
        assert {(c.space, c.proxy, c.version, c.seed): (c.scores, c.failures) for c in store.counts()} == {
            (k.space, k.proxy, k.version, k.seed): (9, 3) for k in everything
        }
        chosen = Selection(space="nb201", proxy="snip", version=2, failures=True)
        meant = {
            k
            for k, result in everything.items()
            if k.space.startswith("nb201") and k.proxy == "snip" and k.version == 2 and result is BAD
        }
        assert {row.key for row in store.rows(chosen)} == meant
        assert store.drop(chosen) == len(meant) == 6
        assert {row.key for row in store.rows()} == everything.keys() - meant
        assert store.drop(Selection(before=time.time() - 3600)) == 0
        assert store.drop(Selection(before=time.time() + 3600)) == len(everything) - len(meant)
        assert store.counts() == []


def test_stores_merge_and_the_target_keeps_its_own(place: str, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "other.sqlite") as other, store_at(place) as store:
        other.keep([(key("a"), GOOD), (key("b"), GOOD)])
        store.keep([(key("b"), BAD), (key("c"), BAD)])
        assert merge(other, store) == 2
        assert merge(store, other) == 3
        assert [store.find([key(arch)])[key(arch)].status for arch in "abc"] == ["ok", "no weights", "no weights"]
        assert [other.find([key(arch)])[key(arch)].status for arch in "abc"] == ["ok", "ok", "no weights"]


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)  # there were no folders then
def test_a_store_of_the_first_schema_is_brought_up_to_date(place: str) -> None:
    rows: list[tuple[object, ...]] = [
        (*key(f"{arch}", seed=seed), 2.5, "ok", 1.0, None) for arch in range(20) for seed in (0, 1)
    ]
    rows.append((*key("1," * 400), None, "no weights", None, None))
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA trainless")
            connection.execute("SET search_path TO trainless")
            connection.execute(FIRST_SCHEMA)
            connection.cursor().executemany(FIRST_ROW.replace("?", "%s"), rows)
            connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (1)")
    else:
        old = sqlite3.connect(place)
        old.execute(FIRST_SCHEMA + " WITHOUT ROWID")
        old.executemany(FIRST_ROW, rows)
        old.execute(f"PRAGMA application_id = {0x74726C73}")
        old.execute("PRAGMA user_version = 1")
        old.commit()
        old.close()
    for _ in range(2):
        with store_at(place) as store:
            found = store.find([Key(*row[:7]) for row in rows])
            assert len(found) == len(rows)
            assert sum(count.scores for count in store.counts()) in (len(rows), len(rows) + 1)
            assert found[key("3", seed=1)].value == 2.5
            assert math.isnan(found[key("3", seed=1)].fbe)
            assert found[key("1," * 400)].status == "no weights"
            assert {result.notes for result in found.values()} == {""}
            store.keep([(key("new"), replace(GOOD, notes="the seed fixes what it draws"))])
            assert store.find([key("new")])[key("new")].notes == "the seed fixes what it draws"


def test_a_newer_schema_is_refused(place: str) -> None:
    store_at(place).close()
    if "://" in place:
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("UPDATE trainless.schema_version SET version = 99")
    elif place.endswith("/"):
        mark = Path(place) / "store.json"
        mark.write_text(mark.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99'))
    else:
        with sqlite3.connect(place) as old:
            old.execute("PRAGMA user_version = 99")
        old.close()
    with pytest.raises(InputError, match=r"newer trainless \(schema 99, this one knows 4\): update trainless"):
        store_at(place)


def test_many_open_a_new_store_at_once(place: str) -> None:
    command = [sys.executable, "-c", "import sys; from trainless.store import store_at; store_at(sys.argv[1])"]
    openers = [subprocess.Popen([*command, place], stderr=subprocess.PIPE) for _ in range(6)]
    assert [opener.communicate(timeout=60)[1] for opener in openers] == [b""] * 6


def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Be another process on another machine from here on."""

    def be(name: str) -> None:
        monkeypatch.setattr(store_claims, "owner", lambda: f"{name} 1 0")

    return be


def test_what_another_machine_has_claimed_is_not_ours_until_it_is_given_back(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    be = named(monkeypatch)
    with store_at(place) as one, store_at(place) as other:
        be("alpha")
        assert one.claim([key("a"), key("b")]) == {key("a"), key("b")}
        assert one.claim([key("a")]) == {key("a")}
        be("beta")
        assert other.claim([key("a"), key("b"), key("c")]) == {key("c")}
        be("alpha")
        one.keep([(key("a"), GOOD)])
        one.release([key("a"), key("b")])
        be("beta")
        assert other.claim([key("a"), key("b")]) == {key("b")}
        other.release([key("b"), key("c")])


def test_the_claim_of_a_process_that_was_killed_is_taken_at_once(place: str) -> None:
    script = (
        "import sys, time\nfrom trainless.store import Key, store_at\n"
        f"store = store_at(sys.argv[1])\nprint(len(store.claim([Key(*{tuple(KEY)!r})])), flush=True)\ntime.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, place], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"1\n"
    with store_at(place) as store:
        assert store.claim([KEY]) == set()
        holder.kill()
        holder.wait()
        holder.stdout.close()
        began = time.monotonic()
        assert [mine for _, mine in turns(store, [KEY])] == [[KEY]]
        assert time.monotonic() - began < 5


def leased(place: str, lease: float) -> SqlStore:
    if place.endswith("/"):
        return FolderStore(place, lease=lease)
    return PostgresStore(place, lease=lease) if "://" in place else SqliteStore(place, lease=lease)


def test_a_lease_ends_unless_it_is_renewed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart of the machine: nobody can tell whether the process of before still lives."""
    be = named(monkeypatch)
    with leased(place, 0.8) as one, leased(place, 0.8) as other:
        be("alpha")
        one.claim([KEY])
        be("beta")  # the renewing thread is called so too, so that nobody renews alpha's claims
        assert other.claim([KEY]) == set()
        time.sleep(1.5)
        assert other.claim([KEY]) == {KEY}


def test_a_lease_is_renewed_while_its_process_lives(place: str) -> None:
    with leased(place, 3.0) as store, leased(place, 3.0) as look:
        store.runs.save("mine", "{}")
        with store.runs.hold("mine"):
            for _ in range(10):
                time.sleep(0.4)
                assert look.runs.all()[0].owner == store_claims.owner()
        assert look.runs.all()[0].owner == ""


def test_whoever_waits_gets_what_the_other_computed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_at(place) as one:
        named(monkeypatch)("alpha")
        assert one.claim([KEY]) == {KEY}
        named(monkeypatch)("beta")
        seen: list[tuple[dict[Key, Result], list[Key]]] = []

        def wait() -> None:
            with store_at(place) as other:
                seen.extend(turns(other, [KEY, key("b")]))

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.5)
        assert [mine for _, mine in seen] == [[key("b")]]
        one.keep([(KEY, GOOD)])
        waiting.join(10)
    assert seen[1:] == [({KEY: GOOD}, [])]


def test_what_was_not_kept_is_given_back(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_at(place) as one, store_at(place) as other:
        named(monkeypatch)("alpha")
        rounds = turns(one, [KEY])
        assert next(rounds) == ({}, [KEY])
        rounds.close()
        named(monkeypatch)("beta")
        assert other.claim([KEY]) == {KEY}


def test_runs_are_written_line_by_line_and_held_by_one(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.store.runs.PAGE", 2)
    monkeypatch.setattr("trainless.store.runs.Runs._patience", lambda runs, place: 0.2)
    be = named(monkeypatch)
    with store_at(place) as one, store_at(place) as other:
        be("alpha")
        with one.runs.hold("mine"):
            one.runs.save("mine", '{"a": 1}')
            one.runs.append("mine", 1, ["first", "second"])
            one.runs.append("mine", 1, ["first", "second"])  # as after a connection that was lost at the wrong moment
            one.runs.append("mine", 3, ["third", "fourth", "fifth"])
            assert list(other.runs.lines("mine")) == ["first", "second", "third", "fourth", "fifth"]
            assert list(other.runs.lines("mine", after=3)) == ["fourth", "fifth"]
            be("beta")
            with (
                pytest.raises(InputError, match="another process is working on the run 'mine'"),
                other.runs.hold("mine"),
            ):
                pass
            be("alpha")
        be("beta")
        with other.runs.hold("mine"):
            other.runs.publish("mine", "rank,arch\n", "well")
        (entry,) = one.runs.all()
        assert (entry.name, entry.configuration, entry.leaderboard, entry.lines) == (
            "mine",
            '{"a": 1}',
            "rank,arch\n",
            5,
        )
        assert one.runs.find("other") is None
        assert entry.ending == "well"
        one.runs.save("mine", '{"a": 2}')
        assert one.runs.all()[0].ending == ""  # another session has begun


HELD = """
import sys, time
from trainless.store import store_at
store = store_at(sys.argv[1])
with store.runs.hold("mine"):
    store.runs.save("mine", "{}")
    sys.stdout.write("held")
    sys.stdout.flush()
    time.sleep(60)
"""


def test_a_run_is_running_as_long_as_its_process_lives(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_at(place) as store:
        with subprocess.Popen([sys.executable, "-c", HELD, place], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(4) == b"held"
            assert [entry.running for entry in store.runs.all()] == [True]
            process.kill()
        entry = store.runs.find("mine")
        assert entry is not None
        assert entry.owner  # its claim is still there
        assert (entry.running, entry.ending) == (False, "")
        named(monkeypatch)("alpha")
        with store.runs.hold("mine"):
            assert [entry.running for entry in store.runs.all()] == [True]
        assert [entry.running for entry in store.runs.all()] == [False]


def test_a_machine_that_was_lost_runs_until_its_lease_ends(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    be = named(monkeypatch)
    be("alpha")
    with leased(place, 2.0) as lost, leased(place, 2.0) as store:
        lost.runs.save("mine", "{}")
        began = time.monotonic()
        with lost.runs.hold("mine"):
            be("beta")  # nobody renews alpha's claims
            with store.runs.hold("mine"):
                assert 1.9 < time.monotonic() - began < 30
            assert not store.runs.all()[0].running


def test_files_are_kept_with_a_run(place: str) -> None:
    odd = bytes(range(256)) * 40
    with store_at(place) as store:
        assert (store.runs.files("mine"), store.runs.file("mine", "a")) == ([], None)
        store.runs.put("mine", "b/c", odd)
        store.runs.put("mine", "a", b"first")
        store.runs.put("mine", "a", b"")
        store.runs.put("other", "a", b"another's")
    with store_at(place) as store:
        assert store.runs.files("mine") == ["a", "b/c"]
        assert (store.runs.file("mine", "a"), store.runs.file("mine", "b/c")) == (b"", odd)


def _filled(store: SqlStore, number: int) -> None:
    store.keep([(key(f"{arch}"), GOOD if arch else BAD) for arch in range(number)])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_everything_is_exported(place: str, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.store.sql.GROUP", 4)
    with store_at(place) as store:
        _filled(store, 10)
        assert export(store.rows(), tmp_path / f"out.{kind}") == 10
    if kind == "csv":
        with (tmp_path / "out.csv").open(newline="") as stream:
            rows = [{**row, "value": float(row["value"]) if row["value"] else None} for row in csv.DictReader(stream)]
    else:
        from pyarrow import parquet

        rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert {(row["arch"], row["value"], row["status"]) for row in rows} == {
        (str(arch), 2.5 if arch else None, "ok" if arch else "no weights") for arch in range(10)
    }
    assert not list(tmp_path.glob(".*"))


def test_an_export_into_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in \.csv or \.parquet"):
        export([], tmp_path / "out.xlsx")
    with pytest.raises(InputError, match="cannot be written"):
        export([], tmp_path / "nowhere" / "out.csv")


def test_another_kind_of_database_is_refused() -> None:
    for typed in (
        "postgresql:/me:secret@host/scores",
        "postgres:me:secret@host",
        " postgresql://me:secret@host/scores",
        "host=there password=secret",
    ):
        with pytest.raises(InputError, match="is nearly an address") as found:  # and no file of that name is made
            store_at(typed)
        assert "secret" not in str(found.value)
    with pytest.raises(InputError, match=r"a store at mysql:// was given; expected a file, a folder"):
        store_at("mysql://me@host/scores")


def test_contexts_have_numbers_of_their_own_and_long_archs_are_cut() -> None:
    one, other = (context_of(KEY._replace(seed=seed)) for seed in (0, 1))
    assert one.number != other.number
    assert 0 <= one.number < 2**63
    assert (one.space, one.proxy, one.seed) == (KEY.space, KEY.proxy, 0)
    assert (brief("3,0,1"), len(brief("0," * 1000))) == ("3,0,1", 533)
