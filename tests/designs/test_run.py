"""A design that is resumed on another machine, which has the store and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.designs.tiny import blobs, small
from trainless.core.errors import InputError
from trainless.designs import run
from trainless.designs.pipeline import design
from trainless.designs.run import StoredDesign
from trainless.store import store_at


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres").fresh())
    return str(tmp_path / "shared.sqlite")


def designed(out: Path, store: str = "", until: str = "", seed: int = 0) -> list[str]:
    """The members that were trained here, by their epochs; interrupted where a detail is this."""
    epochs: list[str] = []

    def progress(stage: str, done: float, total: float, detail: str) -> None:
        if "validation loss" in detail:
            epochs.append(detail.split()[1].rstrip(":"))
        if until and detail == until:
            raise KeyboardInterrupt

    own = small(baseline=1, store=store, seed=seed)
    try:
        design(blobs(), out, settings=own, report=False, progress=progress)
    except KeyboardInterrupt:
        assert until
    return epochs


def predictions(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.mark.slow
def test_trained_members_travel(place: str, tmp_path: Path) -> None:
    alone, first, second, third = (tmp_path / name / "run" for name in ("alone", "first", "second", "third"))
    assert set(designed(alone)) == {"00", "01", "single-00"}
    assert set(designed(first, place, until="member 00 is trained")) == {"00"}
    assert set(designed(second, place)) == {"01", "single-00"}
    for name in ("weights.safetensors", "member.json"):
        assert (second / "members" / "00" / name).read_bytes() == (first / "members" / "00" / name).read_bytes()
    assert designed(third, place) == []
    assert designed(first, place) == []  # and back again
    for folder in (first, second, third):
        for name, array in predictions(alone).items():
            assert np.array_equal(array, predictions(folder)[name]), name


@pytest.mark.slow
def test_what_is_too_large_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "MOST", 100)
    store = str(tmp_path / "shared.sqlite")
    designed(tmp_path / "one" / "run", store)
    assert len([line for line in caplog.messages if "is too large for the store" in line]) == 3
    with store_at(store) as opened:
        assert opened.runs.files("run") == ["plan.json", "run.json"]


def test_another_design_of_the_same_name_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    store = str(tmp_path / "shared.sqlite")
    designed(tmp_path / "one" / "run", store, until="genetic-00")
    with pytest.raises(InputError, match=r"has another design called 'run'.*give another"):
        designed(tmp_path / "two" / "run", store, seed=1)
    assert not (tmp_path / "two" / "run" / "run.json").exists()


def test_a_store_cannot_write_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"format": 1, "seed": 0}')
    evil = (
        "../evil",
        "/evil",
        "members/../../evil/member.json",
        "members/a/b/member.json",
        "members/x/evil.py",
        "evil",
    )
    with store_at(tmp_path / "shared.sqlite") as store:
        for name in (*evil, "members/00/member.json", "late"):
            store.runs.put("run", name, b"{}")
        StoredDesign(store, folder).fetch()
    held = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    ours = {f"deep/run/{name}" for name in ("run.json", "late", "members/00/member.json")}
    assert {name for name in held if not name.startswith("shared.sqlite")} == ours


def test_designs_that_went_on_apart_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"format": 1, "seed": 0}')
    with store_at(tmp_path / "shared.sqlite") as store:
        (folder / "plan.json").write_text('{"members": 3, "settled": false}')
        store.runs.put("run", "plan.json", b'{"members": 2, "settled": true}')
        StoredDesign(store, folder).fetch()
        assert (folder / "plan.json").read_text() == '{"members": 2, "settled": true}'
        (folder / "plan.json").write_text('{"members": 4, "settled": true}')
        with pytest.raises(InputError, match="went on apart from each other"):
            StoredDesign(store, folder).fetch()
        store.runs.put("run", "plan.json", b"\xff{")
        with pytest.raises(InputError, match="is damaged"):
            StoredDesign(store, folder).fetch()


def test_what_is_stored_while_one_waits_for_the_design_is_brought(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"verb": "design"}')
    with store_at(str(tmp_path / "shared.sqlite")) as store:
        waiting = StoredDesign(store, folder)
        store.runs.put("run", "late", b"")
        store.runs.put("run", "members/00/weights.safetensors", b"theirs")
        with waiting.held():
            waiting.fetch()
    assert (folder / "late").exists()
    assert (folder / "members/00/weights.safetensors").read_bytes() == b"theirs"
