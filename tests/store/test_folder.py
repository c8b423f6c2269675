"""What a store in a shared folder has to stand that a database's server takes care of itself."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.writers import own
from trainless.core.errors import InputError
from trainless.store import Key, Result, Selection, claim_files, is_folder, store_at
from trainless.store import claims as store_claims
from trainless.store import folder as store_folder
from trainless.store.folder import FolderStore
from trainless.store.journal import FolderJournal, entries, line_of
from trainless.store.schema import SCHEMA

KEY = Key("nb201", "0,1", "snip", 1, "own", "cafe", 0)
GOOD = Result(2.5, "ok", 10.0, 1.25)


def key(arch: str) -> Key:
    return KEY._replace(arch=arch)


def result(number: float) -> Result:
    return Result(number, "ok", 1.0, 1.0)


def archs(store: FolderStore) -> list[str]:
    return sorted(row.key.arch for row in store.rows())


def journals(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "journals").iterdir() if not path.name.startswith("base-"))


def test_a_folder_is_known_by_its_slash_or_because_it_is_there(tmp_path: Path) -> None:
    assert not is_folder(str(tmp_path / "shared"))
    with store_at(f"{tmp_path}/shared/") as store:
        store.keep([(KEY, GOOD)])
        assert store.url == f"{tmp_path}/shared/"
    with store_at(tmp_path / "shared") as store:
        assert store.find([KEY]) == {KEY: GOOD}


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("")
    with pytest.raises(InputError, match=r"holds 'letter.txt' and no store: give an empty or new folder"):
        FolderStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "store.json").write_text('{"kind": "wine"}')
    with pytest.raises(InputError, match="another program's file"):
        FolderStore(tmp_path / "mine")


@pytest.mark.parametrize("name", ["journals", "claims", "files", "store.json"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    FolderStore(elsewhere).close()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / name).symlink_to(elsewhere / name)
    with pytest.raises(InputError, match=r"is a link|cannot be used"):
        FolderStore(tmp_path / "shared")


def test_a_journal_that_is_a_link_is_refused(tmp_path: Path) -> None:
    with FolderStore(tmp_path / "shared") as store:
        (tmp_path / "secret").write_text("secret\n")
        (tmp_path / "shared" / "journals" / "theirs").symlink_to(tmp_path / "secret")
        with pytest.raises(InputError, match="cannot be used"):
            store.find([KEY])


def test_the_beginning_of_a_line_does_not_count(tmp_path: Path) -> None:
    """At every byte at which a writer may have died, all lines before it are there and nothing else."""
    with FolderStore(tmp_path / "whole") as store:
        for number in range(3):
            store.keep([(key(f"{number}"), result(number))])
        (journal,) = journals(tmp_path / "whole")
        text = journal.read_bytes()
    ends = [place for place, letter in enumerate(text, start=1) if letter == ord("\n")]
    journal.write_bytes(text[:0])
    for cut in range(0, len(text), 7):
        journal.write_bytes(text[:cut])
        with FolderStore(tmp_path / "whole") as store:
            whole = sum(end <= cut for end in ends)  # the first line says who writes
            assert archs(store) == [str(number) for number in range(max(0, whole - 1))]


def test_a_damaged_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.store.journal._AGAIN", (0.01,))
    with FolderStore(tmp_path / "shared") as store:
        store.keep([(key("a"), GOOD)])
        store.keep([(key("b"), GOOD)])
    (journal,) = journals(tmp_path / "shared")
    journal.write_bytes(journal.read_bytes().replace(b'"a"', b'"c"'))
    with pytest.raises(InputError, match=r"is damaged at byte \d+: give another store, or restore this file"):
        FolderStore(tmp_path / "shared")


def test_parts_of_a_line_that_come_late_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server may show a file's new length before all that is in it."""
    with FolderStore(tmp_path / "shared") as store:
        store.keep([(key("a"), GOOD)])
    (journal,) = journals(tmp_path / "shared")
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b'"a"', b"\0\0\0"))
    monkeypatch.setattr("trainless.store.journal.time.sleep", lambda seconds: journal.write_bytes(text))
    with FolderStore(tmp_path / "shared") as store:
        assert archs(store) == ["a"]


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, room = os.write, 30

    def little(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[:room])
        room -= done
        return done

    with FolderStore(tmp_path / "shared") as store:
        store.keep([(key("a"), GOOD)])
        monkeypatch.setattr("trainless.store.journal.os.write", little)
        with pytest.raises(InputError, match="free some space on its disk; everything so far is kept"):
            store.keep([(key("b"), GOOD)])
        assert archs(store) == ["a"]
        monkeypatch.setattr("trainless.store.journal.os.write", write)
        store.keep([(key("c"), GOOD)])
    with FolderStore(tmp_path / "shared") as store:
        assert archs(store) == ["a", "c"]


def test_everybody_takes_the_same_of_two_results_that_were_kept_at_once(tmp_path: Path) -> None:
    """Neither had seen the other's: the one that was kept first counts, in whatever order they are read."""
    with FolderStore(tmp_path / "shared") as store:
        store.keep([(KEY, result(1.0))])
    (journal,) = journals(tmp_path / "shared")
    found = [entry for _, entry in entries(journal)]
    (row,) = [row for row in found[1]["rows"] if row[0] == "results"]
    for name, value, later in (("0" * 24, 7.0, 5.0), ("f" * 24, 8.0, -5.0)):
        other = FolderJournal(journal.with_name(name))
        other.append(found[0])
        theirs = [*row[:3], value, *row[4:]]
        theirs[7] += later
        other.append({"at": found[1]["at"], "rows": [theirs]})
        other.close()
    with FolderStore(tmp_path / "shared") as one:
        assert one.find([KEY])[KEY].value == 8.0


def test_what_is_removed_stays_removed_for_all(tmp_path: Path) -> None:
    with FolderStore(tmp_path / "shared") as one, FolderStore(tmp_path / "shared") as other:
        other.keep([(key("a"), GOOD), (key("b"), Result(1.0, "no weights", 1.0, 1.0))])
        one.keep([(key("c"), GOOD)])
        with FolderStore(tmp_path / "shared") as third:
            third.keep([(key("d"), Result(1.0, "no weights", 1.0, 1.0))])
        assert one.drop(Selection(failures=True)) == 2
        assert archs(other) == archs(one) == ["a", "c"]
        other.keep([(key("d"), GOOD)])
        assert one.find([key("d")]) == {key("d"): GOOD}
        one.runs.save("mine", "{}")
        one.runs.append("mine", 1, ["first"])
        other.runs.publish("mine", "rank\n", "well")
        assert other.drop(Selection(proxy="snip")) == 3
        assert [(run.leaderboard, run.ending, run.lines) for run in one.runs.all()] == [("rank\n", "well", 1)]
    with FolderStore(tmp_path / "shared") as last:
        assert archs(last) == []
        assert last.runs.all()[0].ending == "well"
    assert sorted(path.name for path in (tmp_path / "shared" / "journals").glob("base-*")) == [
        "base-000001",
        "base-000002",
    ]


def test_only_one_makes_the_next_base(tmp_path: Path) -> None:
    """The other does its own again, with what the first has left."""
    with FolderStore(tmp_path / "shared") as one, FolderStore(tmp_path / "shared") as other:
        one.keep([(key(each), GOOD) for each in "abc"])
        make, raced = other._database._make_base, []  # type: ignore[attr-defined]

        def late() -> bool:
            if not raced:
                raced.append(one.drop(Selection(before=time.time() + 100)))
                one.keep([(key("d"), GOOD)])
            return bool(make())

        other._database._make_base = late  # type: ignore[attr-defined]
        assert other.drop(Selection()) == 1
        assert raced == [3]
        assert archs(one) == archs(other) == []


def test_journals_of_the_past_become_one_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "MANY_JOURNALS", 3)
    with FolderStore(tmp_path / "shared") as watching:
        for number in range(12):
            with FolderStore(tmp_path / "shared") as store:
                store.keep([(key(f"{number:02d}"), result(number))])
            assert archs(watching) == [f"{each:02d}" for each in range(number + 1)]
    assert len(journals(tmp_path / "shared")) <= 9
    with FolderStore(tmp_path / "shared") as store:
        assert [row.result.value for row in store.rows()] == [float(number) for number in range(12)]


def test_a_file_of_a_run_that_was_changed_is_refused(tmp_path: Path) -> None:
    with FolderStore(tmp_path / "shared") as store:
        store.runs.put("mine", "a", b"content")
        (path,) = (tmp_path / "shared" / "files").iterdir()
        path.write_bytes(b"another")
        with pytest.raises(InputError, match="is damaged"):
            store.runs.file("mine", "a")


def test_a_file_system_without_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with FolderStore(tmp_path / "shared") as store:
        monkeypatch.setattr("trainless.store.claim_files.os.link", link)
        with pytest.raises(InputError, match=r"without hard links .* give a folder on another one, or postgresql://"):
            store.claim([KEY])


@pytest.fixture
def be(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Be another process on another machine from here on."""

    def become(name: str) -> None:
        monkeypatch.setattr(store_claims, "owner", lambda: f"{name} 1 0")

    return become


def test_whoever_slept_longer_than_its_lease_lets_go_of_nothing_of_others(
    tmp_path: Path, be: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a machine that was suspended: it does not even know that time has passed."""
    real = claim_files.clock
    with FolderStore(tmp_path / "s", lease=60.0) as sleeper, FolderStore(tmp_path / "s", lease=60.0) as other:
        be("alpha")
        assert sleeper.claim([key("a"), key("b")]) == {key("a"), key("b")}
        for path in (tmp_path / "s" / "claims").glob("ticket-*"):
            os.utime(path, (time.time() - 100, time.time() - 100))
        be("beta")
        assert other.claim([key("a")]) == {key("a")}
        monkeypatch.setattr(claim_files, "clock", lambda: real() + 100)
        be("alpha")
        sleeper.release([key("a"), key("b")])
        monkeypatch.setattr(claim_files, "clock", real)
        be("gamma")
        with FolderStore(tmp_path / "s") as third:
            assert third.claim([key("a"), key("b")]) == {key("b")}


def test_a_process_that_died_while_it_took_away_claims_is_in_nobodys_way(
    tmp_path: Path, be: Callable[[str], None]
) -> None:
    folder = tmp_path / "s" / "claims"
    with FolderStore(tmp_path / "s") as one, FolderStore(tmp_path / "s") as two, FolderStore(tmp_path / "s") as three:
        be("alpha")
        assert one.claim([KEY]) == {KEY}
        be("beta")
        assert two.claim([key("other")]) == {key("other")}
        alpha, beta = (
            next(path for path in folder.glob("ticket-*") if name in path.read_text()) for name in ("alpha", "beta")
        )
        os.link(beta, folder / f"burial-{alpha.name}")  # beta was at it when it died
        for path in (alpha, beta):
            os.utime(path, (time.time() - 100, time.time() - 100))
        be("gamma")
        assert three.claim([KEY]) == {KEY}
        assert three.claim([key("other")]) == {key("other")}
        names = sorted(path.name.partition("-")[0] for path in folder.iterdir())
        assert names == ["claim", "claim", "ticket"]


def test_a_forked_process_claims_and_writes_for_itself(tmp_path: Path) -> None:
    with FolderStore(tmp_path / "shared") as store:
        store.claim([KEY])
        store.keep([(key("before"), GOOD)])
        child = os.fork()
        if not child:
            fine = store.claim([KEY, key("b")]) == {key("b")}
            store.keep([(key("child"), GOOD)])
            store.release([KEY])
            os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        store.keep([(key("after"), GOOD)])
        assert archs(store) == ["after", "before", "child"]
        with FolderStore(tmp_path / "shared") as other:
            assert other._claims.is_held_here((store_folder.RUN, "none")) is False
            assert len(list((tmp_path / "shared" / "claims").glob("claim-*"))) == 2  # ours, and the dead child's


SCRIPT = Path(__file__).with_name("writers.py")


def write(place: str, number: int, seconds: float, said: Path) -> subprocess.Popen[bytes]:
    """A writer that says in a file what it has kept, each as soon as it is."""
    return subprocess.Popen([sys.executable, str(SCRIPT), place, str(number), str(seconds), str(said)])


@pytest.mark.slow
def test_whatever_a_killed_writer_has_said_to_be_kept_is_there_once(tmp_path: Path) -> None:
    place, chance = f"{tmp_path}/shared/", random.Random(3)
    writers = {number: write(place, number, 3600, tmp_path / f"{number}") for number in range(4)}
    for number in (0, 1, 4, 2):
        victim = number % 4
        until = time.monotonic() + 60
        said = tmp_path / f"{number}"
        while not said.exists() or len(said.read_text().splitlines()) < 20:
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.2 * chance.random())
        writers[victim].send_signal(signal.SIGKILL)
        writers[victim].wait()
        if number == 0:
            writers[0] = write(place, 4, 3600, tmp_path / "4")
    last = write(place, 9, 0.5, tmp_path / "9")
    assert last.wait(60) == 0
    for writer in writers.values():
        writer.kill()
        writer.wait()
    with store_at(place) as store:
        rows = list(store.rows())
    found = {row.key: row.result for row in rows}
    assert len(found) == len(rows)
    for number in (0, 1, 2, 3, 4, 9):
        kept = [int(line) for line in (tmp_path / f"{number}").read_text().splitlines()]
        assert kept == list(range(len(kept)))
        assert [found[own(number, each)] for each in kept] == [Result(float(n), "ok", 1.0, float(number)) for n in kept]
    theirs = {int(each.arch): kept.value for each, kept in found.items() if each.space == "shared"}
    assert theirs == {number: 3.0 * number for number in range(len(theirs))}


NUMBER = st.integers(-(2**80), 2**80) | st.floats() | st.none() | st.booleans()
VALUE = st.recursive(
    NUMBER | st.text(max_size=4) | st.sampled_from(["results", "runs", "steps", "files", "touched", "removed", ".."]),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.sampled_from(["file", "float", "a"]), inner),
    max_leaves=20,
)
ENTRY = st.dictionaries(st.sampled_from(["at", "rows", "schema", "owner", "ended", "whole"]), VALUE)
NAMED = st.sampled_from(["0" * 24, "1" * 24, ".."])
HUGE = st.just(10**4299) | st.just(int("9" * 4300))  # the longest that Python reads
WRONG = {  # each in the place of a part of a base that is right
    "at": HUGE | VALUE,
    "read_to": st.dictionaries(NAMED, HUGE | VALUE, max_size=2) | VALUE,
    "owners": st.dictionaries(NAMED, VALUE, max_size=2) | VALUE,
    "newest": st.lists(st.lists(st.sampled_from(["runs", "mine"]) | HUGE | VALUE, max_size=5), max_size=2) | VALUE,
    "over": st.lists(NAMED | VALUE, max_size=2) | VALUE,
    "rows": VALUE,
}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ENTRY, min_size=1, max_size=3), st.sampled_from(["0" * 24, "base-000007"]))
def test_whatever_a_journal_says_is_understood_or_refused_in_one_line(
    tmp_path: Path, said: list[dict[str, object]], name: str
) -> None:
    """Lines with right checksums, by somebody who may write into the folder."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        FolderStore(folder).close()
        text = b""
        for entry in said:
            with suppress(ValueError):  # what is no JSON
                text += line_of(entry)
        Path(folder, "journals", name).write_bytes(text)
        with suppress(InputError), FolderStore(folder) as store:
            list(store.rows())
            store.runs.all()
            store.runs.file("mine", "a")
            store.keep([(KEY, GOOD)])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(WRONG)).flatmap(lambda name: st.tuples(st.just(name), WRONG[name])))
def test_whatever_a_base_says_is_understood_or_refused_in_one_line(tmp_path: Path, wrong: tuple[str, object]) -> None:
    """The same, of a base that is whole; what is removed afterwards makes the next one of it."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        with FolderStore(folder) as store:
            store.keep([(KEY, GOOD)])
        right = {"schema": SCHEMA, "at": 5, "read_to": {}, "owners": {}, "newest": [], "over": []}
        with suppress(ValueError):  # what is no JSON
            lines = line_of({**right, **dict([wrong])}) + line_of({"whole": True})
            Path(folder, "journals", "base-000001").write_bytes(lines)
        with suppress(InputError), FolderStore(folder) as store:
            store.keep([(KEY._replace(arch="1,1"), GOOD)])
            store.drop(Selection())
            store.runs.save("mine", "{}")
            list(store.rows())


@pytest.mark.parametrize(
    "ticket",
    [
        b"",
        b"[]",
        b'{"owner": "x 1 0", "lease": 60, "ticket": "../../../secret"}',
        b'{"owner": "x 1 0", "lease": NaN, "ticket": "ticket-000000000000000000000000"}',
    ],
)
def test_a_claim_that_lies_deletes_nothing_elsewhere_and_ends(tmp_path: Path, ticket: bytes) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    with FolderStore(tmp_path / "s" / "shared") as store:
        assert store.claim([KEY]) == {KEY}
        (claim,) = (tmp_path / "s" / "shared" / "claims").glob("claim-*")
        claim.unlink()
        claim.write_bytes(ticket)
        os.utime(claim, (time.time() - 1000, time.time() - 1000))
        assert store.claim([KEY]) == {KEY}
    assert secret.exists()


@pytest.mark.parametrize("name", ["../../letter.txt", "{folder}/letter.txt", "../claims/kept"])
def test_a_base_that_lies_deletes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    """A base names the journals that are removed once there is another one."""
    letter, held = tmp_path / "letter.txt", tmp_path / "shared" / "claims" / "kept"
    with FolderStore(tmp_path / "shared") as store:
        store.keep([(KEY, GOOD)])
    letter.write_text("dear\n")
    held.write_text("dear\n")
    schema = json.loads((tmp_path / "shared" / "store.json").read_text())["schema"]
    about = {"schema": schema, "at": 5, "read_to": {}, "owners": {}, "newest": []}
    lines = ({**about, "over": [name.format(folder=tmp_path)]}, {"whole": True})
    (tmp_path / "shared" / "journals" / "base-000001").write_bytes(b"".join(map(line_of, lines)))
    with (
        pytest.raises(InputError, match="cannot name a part of"),
        FolderStore(tmp_path / "shared") as store,
    ):
        store.drop(Selection())
    assert letter.read_text() == held.read_text() == "dear\n"


def test_the_mark_is_plain_json(tmp_path: Path) -> None:
    FolderStore(tmp_path / "shared").close()
    assert json.loads((tmp_path / "shared" / "store.json").read_text())["kind"] == "scores of trainless"
