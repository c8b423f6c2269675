"""Callbacks of training, and the loggers against the readers of the programs they write for."""

from __future__ import annotations

import json
import math
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.designs.tiny import blobs, small
from trainless.core.errors import InputError, UnknownName
from trainless.core.task import Task
from trainless.designs.pipeline import design
from trainless.learn.callbacks import Callback, loggers, values_of
from trainless.learn.loop import train
from trainless.learn.members import history_of
from trainless.learn.recipe import recipe
from trainless.runs.search import Found, search
from trainless.runs.settings import SearchCallbacks, SearchSettings
from trainless.spaces.nb201 import NasBench201
from trainless.tasks import task

RECIPE = recipe("default", epochs=3, samples=256)


class Notes:
    """What a callback is told."""

    def __init__(self, stop: int = -1) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.ends: list[str] = []
        self.stop = stop

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.rows.append((step, dict(values)))
        if step == self.stop:
            raise KeyboardInterrupt

    def end(self, status: str) -> None:
        self.ends.append(status)


@pytest.fixture(scope="module")
def digits() -> Task:
    return task("digits")


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 10))


class Nosy(Notes):
    """Draws random numbers and counts on no gradients."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        super().log(step, values)
        torch.rand(7)


def test_every_epoch_is_told_and_changes_nothing(digits: Task) -> None:
    notes: Notes = Nosy()
    followed, alone = train(net(), digits, RECIPE, callbacks=[notes]), train(net(), digits, RECIPE)
    assert notes.rows == [(epoch.number, values_of(epoch)) for epoch in followed.history]
    assert [step for step, _ in notes.rows] == [0, 1, 2]
    assert notes.ends == ["ok"]
    mine, other = followed.net.state_dict(), alone.net.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in other)


def test_the_end_is_told_also_where_there_is_no_loop_or_a_mistake(digits: Task) -> None:
    closed, stopped, diverged = Notes(), Notes(stop=1), Notes()
    train(net(), digits, recipe("ridge"), callbacks=[closed])
    assert (len(closed.rows), closed.ends) == (1, ["ok"])
    with pytest.raises(KeyboardInterrupt):
        train(net(), digits, RECIPE, callbacks=[stopped])
    assert (len(stopped.rows), stopped.ends) == (2, ["ended by KeyboardInterrupt"])
    broken = net()
    with torch.no_grad():
        broken[2].weight.fill_(math.inf)
    train(broken, digits, RECIPE, callbacks=[diverged])
    assert all("train_loss" not in values for _, values in diverged.rows)
    assert diverged.ends[0].startswith("diverged: ")


def test_a_search_tells_every_step_the_same_after_a_break(tmp_path: Path) -> None:
    """The best is the running maximum of what was told; a resumed search goes on where it was."""
    notes, first, second = Notes(), Notes(stop=5), Notes()
    data, space = Task.noise((3, 8, 8)), NasBench201(2, 1)

    def run(folder: str, callback: Callback) -> Found:
        told = SearchCallbacks(stepped=[callback])
        how: dict[str, Any] = {"proxies": "params", "evaluations": 9, "seed": 3, "callbacks": told}
        return search(data, space, "random", out=tmp_path / folder, **how)

    found = run("whole", notes)
    assert [step for step, _ in notes.rows] == list(range(1, 10))
    told = found.history["params"]
    assert [values["params"] for _, values in notes.rows] == told
    assert [values["best"] for _, values in notes.rows] == [max(told[:n]) for n in range(1, 10)]
    with pytest.raises(KeyboardInterrupt):
        run("broken", first)
    run("broken", second)
    assert (first.ends, second.ends) == (["ended by KeyboardInterrupt"], ["ok"])
    known = {step: values["best"] for step, values in [*first.rows, *second.rows]}
    assert known == {step: values["best"] for step, values in notes.rows}


def test_unknown_and_missing_loggers_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"no logger is called 'tensorbord'; did you mean 'tensorboard'\?"):
        SearchSettings(log="tensorbord")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"--log wandb .* not installed: pip install 'trainless\[wandb\]'"):
        SearchSettings(log="mlflow,wandb")


def test_without_a_logger_none_is_imported() -> None:
    assert loggers("", Path(), "search") == []


ROWS = {0: {"valid_loss": 2.5, "lr": 0.1}, 1: {"valid_loss": 1.25, "lr": 0.05}}


def written(name: str, folder: Path, status: str = "ok") -> None:
    (logger,) = loggers(name, folder, "members/00")
    for step, values in ROWS.items():
        logger.log(step, values)
    logger.end(status)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_link_in_the_run_folder_is_not_followed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(name)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    (logger,) = loggers(name, tmp_path / "run", "search")
    with pytest.raises(InputError, match=f"'{name}' is a link"):
        logger.log(0, {"best": 1.0})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_tensorboard_reads_the_event_files(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    written("tensorboard", tmp_path)
    read = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "members" / "00"))
    read.Reload()
    assert sorted(read.Tags()["scalars"]) == ["lr", "valid_loss"]
    assert [(one.step, one.value) for one in read.Scalars("valid_loss")] == [(0, 2.5), (1, 1.25)]


@pytest.mark.slow
def test_mlflows_client_reads_the_runs_and_a_resumed_one_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    written("mlflow", tmp_path, "diverged: too far")
    (logger,) = loggers("mlflow", tmp_path, "members/00")
    logger.log(2, {"valid_loss": 1.0})
    logger.end("ok")
    client = tracking.MlflowClient(f"sqlite:///{tmp_path}/mlflow/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("trainless").experiment_id])
    history = client.get_metric_history(run.info.run_id, "valid_loss")
    assert [(one.step, one.value) for one in history] == [(0, 2.5), (1, 1.25), (2, 1.0)]
    assert (run.info.status, run.data.tags["trainless-status"]) == ("FINISHED", "ok")
    assert run.info.run_name == f"{tmp_path.name}/members/00"


def _history(data: bytes, messages: Any) -> list[dict[str, Any]]:
    """The values by step in a log in LevelDB's format, as far as it is written: a head, then messages."""
    place, rows = 7, []  # after the head ":W&B", a number and the version
    assert data[:4] in (b":W&B", b"")
    while place + 7 <= len(data):
        _, length, kind = struct.unpack_from("<IHB", data, place)
        if kind == 0 or place + 7 + length > len(data):
            break  # not written yet
        assert kind == 1, "a whole message; the file is smaller than one block"
        record = messages.Record()
        record.ParseFromString(data[place + 7 : place + 7 + length])
        place += 7 + length
        if record.WhichOneof("record_type") == "history":
            rows.append({(*item.nested_key, item.key)[0]: json.loads(item.value_json) for item in record.history.item})
    return rows


@pytest.mark.slow
def test_an_offline_run_of_wandb_holds_every_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is a log in LevelDB's format of W&B's own messages; nothing was asked of any server."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    written("wandb", tmp_path)
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    end = time.monotonic() + 30  # W&B's own process may still be writing when the run has ended here
    while len(rows := _history(file.read_bytes(), messages)) < len(ROWS) and time.monotonic() < end:
        time.sleep(0.1)
    assert [(row["_step"], row["valid_loss"], row["lr"]) for row in rows] == [(0, 2.5, 0.1), (1, 1.25, 0.05)]


@pytest.mark.slow
def test_a_design_logs_its_searches_and_its_members_from_all_workers(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = small(log="tensorboard", workers=2)
    made = design(blobs(), tmp_path, settings=settings, report=False)
    logs = tmp_path / "tensorboard"
    places = {path.parent.relative_to(logs).as_posix() for path in tmp_path.rglob("*tfevents*")}
    assert places == {"members/00", "members/01", "searches/genetic-00"}
    for member in made.summary["members"]:
        read = accumulator.EventAccumulator(str(logs / "members" / member["folder"]))
        read.Reload()
        losses = [epoch.valid_loss for epoch in history_of(tmp_path / "members" / member["folder"])]
        assert [one.value for one in read.Scalars("valid_loss")] == pytest.approx(losses)
    assert "log" not in (tmp_path / "run.json").read_text()
