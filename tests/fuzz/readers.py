"""Everything that reads a file or folder of somebody else's, called as the commands call it, in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.designs.tiny import small
from tests.fuzz.seeds import FUZZED, NOISE, SPACE, noisy_images, settings
from trainless.cli.predict import open_predictor, rows_of
from trainless.cli.watch import frame
from trainless.core.text import undamaged
from trainless.designs.pipeline import design
from trainless.learn.predictor import class_names
from trainless.report.report import write_report
from trainless.runs.export_study import export_study
from trainless.runs.reader import catch_up, reader_at
from trainless.runs.score_file import read_known, read_scores
from trainless.runs.search import search
from trainless.runs.sweep import _described, _sessions
from trainless.scoring.request import select
from trainless.store import Result, Selection, SqliteStore
from trainless.store.folder import FolderStore
from trainless.store.sql import export
from trainless.tasks import task
from trainless.tasks.new import read_new
from trainless.ui import api
from trainless.ui.run_list import FolderRuns, OpenRuns
from trainless.ui.table import RowFilter


@dataclass(frozen=True)
class Reader:
    """Reads a kind of seed; ``share`` is how often it is chosen beside the others."""

    seed: str
    read: Callable[[Path], object]
    share: float = 1.0


def watched(place: Path) -> None:
    """``trainless watch``."""
    with undamaged(place, "look at its folder"):
        reader = catch_up(reader_at(place))
        frame(reader, str(place))


def shown(place: Path) -> None:
    """``trainless ui``: every question of the page."""
    runs = OpenRuns(FolderRuns(place.parent))
    for run in api.listed(runs)["runs"]:
        if "problem" in run or run["id"].count("/"):
            continue
        about = api.about(runs, run["id"])
        found = api.rows(runs, run["id"], RowFilter(), count=50)
        for row in found["rows"][:1]:
            api.drawing(runs, run["id"], row["arch"])
        columns = [column["name"] for column in about["columns"]]
        for column in columns[:2]:
            api.curve(runs, run["id"], column)
            api.scattered(runs, run["id"], column, columns[0], RowFilter())
        api.failed(runs, run["id"])


def reported(place: Path) -> None:
    """``trainless report``."""
    write_report(place)


def resumed(place: Path) -> None:
    """``trainless search`` again, with one more evaluation."""
    search(NOISE, SPACE, out=place, settings=settings(7))


def forked(place: Path) -> None:
    """``trainless search --fork``."""
    out = place.parent / "fork"
    try:
        search(NOISE, SPACE, out=out, settings=settings_of_fork(place))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def settings_of_fork(place: Path) -> object:
    from dataclasses import replace

    return replace(settings(7), fork=str(place), step=1, seed=2)


def studied(place: Path) -> None:
    """``trainless export-study``."""
    export_study(place, "sqlite:///:memory:")


def kept(place: Path) -> None:
    """``trainless store list``, ``export``, and a search's look into it."""
    with SqliteStore(place / "scores.sqlite") as store:
        store.counts()
        rows = list(store.rows())
        store.find([row.key for row in rows])
        for entry in store.runs.all():
            list(store.runs.lines(entry.name))
        export(store.rows(), place.parent / "out.csv")
    (place.parent / "out.csv").unlink(missing_ok=True)


def shared_by(place: Path) -> None:
    """``trainless store list``, a search's look into it, and what removes scores and makes a base."""
    with FolderStore(place) as store:
        store.counts()
        store.find([row.key for row in store.rows()])
        for entry in store.runs.all():
            list(store.runs.lines(entry.name))
            store.runs.file(entry.name, "weights")
        if store.claim([FUZZED]):
            store.keep([(FUZZED, Result(1.0, "ok", 1.0, 2.0))])
        store.drop(Selection())


def swept(place: Path) -> None:
    """``trainless bench sweep`` again, up to where the workers would start."""
    about = {
        "space": "nb201(channels=2, cells=1)", "task": "noise", "fingerprint": NOISE.fingerprint, "init": "own",
        "batch": 4, "device": "cpu",
    }  # fmt: skip
    _described(place, about, select("params"))
    _sessions(place)
    known = read_known(place)
    known.to_file([], ["params"], [0])
    known.missing("x", [("params", 0)])


def scores(place: Path) -> None:
    """``trainless bench correlate --scores``."""
    found = read_scores(place / "scores.npz")
    for proxy in found.proxies:
        found.column(proxy)
        found.failures(proxy)
        found.higher_is_better(proxy)
    found.to_csv()


def predicted(place: Path) -> None:
    """``trainless predict`` and ``serve``."""
    predictor = open_predictor(place)
    x = np.zeros((3, *predictor.task.input_shape), np.float32)
    with undamaged(place, "design it again"):
        said = predictor.predict(x)
        list(rows_of(predictor, said, ["a", "b", "c"]))
    class_names(predictor.task.target)


def designed_again(place: Path) -> None:
    """``trainless design`` again, which reads the whole folder."""
    design(noisy_images(), place, settings=small(baseline=0))


def loaded(place: Path) -> None:
    """A task from data."""
    task(place)


def new_cases(place: Path) -> None:
    """``trainless predict`` on a file of data."""
    from tests.tasks.test_new import stripped

    made = stripped(task((np.random.default_rng(0).normal(size=(30, 6)), np.arange(30) % 2)))
    read_new(place, made)


READERS: dict[str, Reader] = {
    "watch a search": Reader("search", watched, 2),
    "show a search": Reader("search", shown),
    "report a search": Reader("search", reported, 0.5),
    "resume a search": Reader("search", resumed, 2),
    "fork a search": Reader("search", forked),
    "study a search": Reader("search", studied, 0.2),
    "open a store": Reader("search", kept),
    "watch a sweep": Reader("sweep", watched),
    "show a sweep": Reader("sweep", shown),
    "resume a sweep": Reader("sweep", swept),
    "read scores": Reader("sweep", scores),
    "watch a design": Reader("design", watched, 2),
    "show a design": Reader("design", shown),
    "report a design": Reader("design", reported, 0.3),
    "predict": Reader("design", predicted, 2),
    "resume a design": Reader("design", designed_again, 0.5),
    "open a shared folder": Reader("shared", shared_by),
    "pictures": Reader("pictures", loaded),
    "volumes": Reader("volumes", loaded),
    **{
        f"load {kind}": Reader(kind, loaded, 0.5)
        for kind in ("npz", "npy", "csv", "tsv", "csv.gz", "parquet", "ts", "txt", "dicom", "wfdb", "edf")
    },
    **{f"new {kind}": Reader(kind, new_cases, 0.2) for kind in ("npz", "npy", "csv", "parquet", "ts")},
}
MATTERS: dict[str, str] = {  # files that a reader is sure to read, by a part of their names
    "open a store": "scores.sqlite",
    "read scores": "scores.npz",
}
