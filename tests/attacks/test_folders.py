"""Attacks by a run folder of somebody else's, and by what stands in the place of a new one."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.readers import READERS
from tests.fuzz.seeds import NOISE, SEEDS, SPACE, settings
from trainless.cli.app import run as command
from trainless.core.errors import InputError
from trainless.core.opening import folder_at, open_file, read_bytes, without_links
from trainless.runs.folder import BESIDE, FILES, locked
from trainless.runs.search import search
from trainless.store.sqlite import JOURNALS

pytestmark = pytest.mark.slow
FOLDERS = {"design": ("members", "members/00", "searches", "searches/genetic-00")}
OF = {"search": [], "sweep": [], "design": []} | {
    seed: [name for name, each in READERS.items() if each.seed == seed and name != "open a store"]
    for seed in ("search", "sweep", "design")
}


def answer(reader: str, place: Path) -> str:
    """What a reader says of a folder; nothing where it reads it."""
    try:
        READERS[reader].read(place)
    except InputError as error:
        return str(error)
    return ""


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", ["search", "sweep", "design"])
def test_no_reader_follows_a_link_in_a_run_folder(seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and every folder in turn is a link to a good one elsewhere, which nobody may read or change."""
    monkeypatch.chdir(tmp_path)
    good = SEEDS[seed]()
    files = [path.relative_to(good).as_posix() for path in sorted(good.rglob("*")) if path.is_file()]
    asked = 0
    for name in (*FOLDERS.get(seed, ()), *files, *(BESIDE if seed == "search" else ())):
        for number, reader in enumerate(OF[seed]):
            if READERS[reader].share < 0.5 and (zlib.crc32(name.encode()) + number) % 3:
                continue  # what takes long is asked about some of them
            outside, place = tmp_path / "outside", tmp_path / "given" / seed
            shutil.copytree(good, outside)
            shutil.copytree(good, place)
            victim, elsewhere = place / name, outside / name
            elsewhere.parent.mkdir(parents=True, exist_ok=True)
            if not elsewhere.exists():
                elsewhere.write_text("a thesis, without an end of line")
            if victim.is_dir():
                shutil.rmtree(victim)
            victim.unlink(missing_ok=True)
            victim.symlink_to(elsewhere)
            before = snapshot(outside)
            accessed = {path: os.stat(path).st_mtime_ns for path in before}
            assert "thesis" not in answer(reader, place)
            assert snapshot(outside) == before, (reader, name)
            assert {path: os.stat(path).st_mtime_ns for path in before} == accessed, (reader, name)
            shutil.rmtree(tmp_path / "given")
            shutil.rmtree(outside)
            asked += 1
    assert asked >= len(files) * 2


@pytest.mark.parametrize("name", [*FILES, *BESIDE])
def test_a_start_in_a_prepared_folder_harms_nothing(name: str, tmp_path: Path) -> None:
    """``ln -s victim run/lock; trainless search … --out run``, and the same with a hard link."""
    victim = tmp_path / "victim"
    for make in (Path.symlink_to, Path.hardlink_to):
        victim.write_text("a thesis")
        (tmp_path / "run").mkdir()
        make(tmp_path / "run" / name, victim)
        if make is Path.symlink_to or name in ("trajectory.jsonl", "scores.sqlite", "run.json", "lock"):
            with pytest.raises(InputError, match=r"is a link|has a second name elsewhere"):
                search(NOISE, SPACE, out=tmp_path / "run", settings=settings())
        assert victim.read_text() == "a thesis"
        shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("ending", JOURNALS)
def test_sqlite_writes_to_no_journal_of_somebody_elses(
    ending: str, make: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A good store with ``scores.sqlite-wal`` as a second name of another file, which SQLite would write over."""
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(SEEDS["search"](), tmp_path / "given" / "search")
    victim = tmp_path / "victim"
    victim.write_text("a thesis " * 5000)
    make(run / f"scores.sqlite{ending}", victim)
    for reader in ("resume a search", "fork a search", "open a store"):
        assert "is a link" in answer(reader, run), reader
        assert victim.read_text() == "a thesis " * 5000


@pytest.mark.parametrize("name", ["../../other", "/etc", "..", "", "a/b", "\x00", "x" * 500])
def test_no_name_in_a_file_leads_out_of_its_folder(name: str, tmp_path: Path) -> None:
    """``plan.searches[0].name`` and the members' names, in every file that has one."""
    other = tmp_path / "other"
    shutil.copytree(SEEDS["design"]() / "searches" / "genetic-00", other)
    before = snapshot(other)
    for file in ("plan.json", "summary.json", "ensemble.json"):
        place = tmp_path / "given" / "design"
        shutil.copytree(SEEDS["design"](), place)
        about = json.loads((place / file).read_text())
        plan = about.get("plan", about)
        for trial in plan.get("searches", []):
            trial["name"] = name
        if "members" in about and isinstance(about["members"], list):
            about["members"] = [
                {**one, "name": name, "folder": name} if isinstance(one, dict) else name for one in about["members"]
            ]
        (place / file).write_text(json.dumps(about))
        if file == "plan.json":
            (place / "summary.json").unlink()
        for reader in ("watch a design", "predict", "resume a design"):
            assert "\n" not in answer(reader, place)
        shutil.rmtree(tmp_path / "given")
    assert snapshot(other) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]


def test_a_link_that_the_user_names_himself_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    search(NOISE, SPACE, out=tmp_path / "runs" / "one", settings=settings())
    assert (tmp_path / "disk" / "one" / "leaderboard.csv").is_file()
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "one")
    READERS["watch a search"].read(tmp_path / "latest")
    READERS["report a search"].read(tmp_path / "latest")
    assert (tmp_path / "disk" / "one" / "report.html").is_file()


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path: Path) -> None:
    """A folder and a link to another take each other's place as fast as they can; nothing of the other is ever read."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    place, spare = tmp_path / "place", tmp_path / "spare"
    (tmp_path / "ours").rename(place)
    spare.symlink_to(tmp_path / "theirs")
    ending = threading.Event()

    def swap() -> None:
        while not ending.is_set():
            place.rename(tmp_path / "aside")
            spare.rename(place)
            place.rename(spare)
            (tmp_path / "aside").rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    read, until = 0, time.monotonic() + 1.0
    try:
        while time.monotonic() < until:
            try:
                assert read_bytes(place / "file") == b"ours"
                read += 1
            except (InputError, OSError):
                continue
    finally:
        ending.set()
        thread.join()
    assert read


@pytest.mark.parametrize("kind", [os.mkfifo, lambda path: path.mkdir()])
def test_pipes_and_folders_in_the_place_of_files_are_refused_at_once(
    kind: Callable[[Path], None], tmp_path: Path
) -> None:
    """A named pipe as ``run.json`` or ``leaderboard.csv`` hung for ever."""
    for name in ("run.json", "leaderboard.csv", "trajectory.jsonl", "ending.json", "scores.sqlite", "lock"):
        place = tmp_path / "given" / "search"
        shutil.copytree(SEEDS["search"](), place)
        (place / name).unlink()
        kind(place / name)
        start = time.monotonic()
        for reader in OF["search"]:
            assert "\n" not in answer(reader, place)
        assert time.monotonic() - start < 20
        shutil.rmtree(tmp_path / "given")


def test_a_file_that_says_it_is_vast_is_weighed_before_it_is_read(tmp_path: Path) -> None:
    for name in ("trajectory.jsonl", "run.json", "leaderboard.csv"):
        place = tmp_path / "given" / "search"
        shutil.copytree(SEEDS["search"](), place)
        os.truncate(place / name, 2**43)  # a hole
        for reader in ("resume a search", "report a search", "fork a search"):
            start = time.monotonic()
            assert "\n" not in answer(reader, place)
            assert time.monotonic() - start < 20
        shutil.rmtree(tmp_path / "given")


def test_opening_says_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InputError, match="'link' is a link, not a file or folder of its own"):
        open_file(tmp_path / "link" / "file")
    with pytest.raises(InputError, match="leads out of its folder"), folder_at(tmp_path / ".." / "x"):
        pass
    os.link(tmp_path / "real" / "file", tmp_path / "real" / "second")
    with pytest.raises(InputError, match="has a second name elsewhere"):
        open_file(tmp_path / "real" / "file", "append")
    assert read_bytes(without_links(tmp_path / "link") / "file") == b"x"


PLACES = ["x" * 5000, "/" + "y/" * 3000, "a\x1b[2Jb" * 100, "/proc/nowhere/run", "/sys/run", "/dev/null/run"]


@pytest.mark.parametrize("place", PLACES)
def test_places_that_cannot_be_are_one_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--out`` of 5,000 characters, and places where nobody may write, for every command that goes there."""
    monkeypatch.chdir(tmp_path)
    run = str(SEEDS["search"]())
    small = ("--space", "nb201", "--space-args", "channels=2,cells=1", "--proxies", "params", "--batch", "4")
    for arguments in (
        ("search", "digits", *small, "--evaluations", "1", "--out", place),
        ("search", "digits", *small, "--fork", run, "--step", "1", "--out", place),
        ("search", "digits", *small, "--fork", place, "--step", "1", "--out", "fork"),
        ("bench", "sweep", "--task", "digits", *small, "--archs", "sample:1", "--out", place),
        ("design", "digits", "--preset", "fast", "--out", place),
        ("demo", "--count", "2", "--out", place),
        ("report", place),
        ("watch", place, "--once"),
        ("ui", place, "--port", "0"),
        ("predict", place, "x.npz"),
        ("export", place, "--onnx", "x.onnx"),
        ("serve", place),
        ("export-study", run, f"{place}/study.db"),
        ("store", "list", place),
        ("show", "random", "--space", "nb201", "--svg", f"{place}/x.svg"),
    ):
        code = command(arguments)
        said = capsys.readouterr()
        assert code == 2, (arguments, said.err)
        assert said.err.count("trainless: ") == 1
        assert "Traceback" not in said.err
        assert len(said.err.rpartition("trainless: ")[2]) < 1500, arguments
    assert not (tmp_path / "fork").exists()


def test_a_refused_run_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no mistake"), locked(tmp_path / "deep" / "run"):
        raise InputError("no mistake")
    assert not (tmp_path / "deep" / "run").exists()
    with pytest.raises(InputError, match="no mistake"), locked(tmp_path / "run"):
        (tmp_path / "run" / "kept").touch()
        raise InputError("no mistake")
    assert (tmp_path / "run" / "kept").exists()


def test_a_refused_design_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "design"
    for refused in (
        ("--ranking", "nobody"),
        ("--space", "nb101", "--space-args", "channels=1"),
        ("--device", "cuda:99"),
    ):
        assert command(("design", "digits", "--preset", "fast", "--out", str(place), *refused)) == 2
        capsys.readouterr()
        assert not place.exists(), refused
