"""Good files and folders of every kind that trainless reads: what is mutated. Each is made once per process."""

from __future__ import annotations

import atexit
import csv
import json
import shutil
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.designs.tiny import small
from trainless.core.scores import Record
from trainless.core.task import Task
from trainless.designs.pipeline import design
from trainless.runs.score_file import Journal, read_known
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.spaces.nb201 import NasBench201
from trainless.store import Key, Result, Selection
from trainless.store.folder import FolderStore

SPACE = NasBench201(2, 1)
NOISE = Task.noise((3, 8, 8))


@cache
def workshop() -> Path:
    """A folder that is gone with this process."""
    place = mkdtemp(prefix="trainless-fuzz-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def settings(evaluations: int = 6) -> SearchSettings:
    """Those of the search below."""
    return SearchSettings(
        searcher="evolution", proxies=["params", "flops"], searcher_args={"population": 4}, evaluations=evaluations,
        batch=4,
    )  # fmt: skip


@cache
def a_search() -> Path:
    """A finished search with its store."""
    folder = workshop() / "search"
    search(NOISE, SPACE, out=folder, settings=settings())
    with sqlite3.connect(folder / "scores.sqlite") as store:
        store.execute("PRAGMA journal_mode = DELETE")  # one file alone
    store.close()
    return folder


@cache
def a_sweep() -> Path:
    """A finished sweep, with a journal that is not merged yet."""
    folder = workshop() / "sweep"
    folder.mkdir()
    about = {
        "space": "nb201(channels=2, cells=1)", "task": "noise", "fingerprint": NOISE.fingerprint, "init": "own",
        "batch": 4, "device": "cpu", "versions": {"params": 1, "flops": 1}, "networks": 4,
    }  # fmt: skip
    session = {"date": "2026-01-01", "archs": 3, "of": 4, "seconds": 1.5, "archs_per_s": 2.0, "seeds": [0, 1]}
    archs = [SPACE.format((0, 1, 2, 3, 4, number)) for number in range(4)]
    for writer, some in (("w1", archs[:3]), ("w2", archs[3:])):
        journal = Journal(folder, writer)
        for number, arch in enumerate(some):
            pairs = [(proxy, seed) for proxy in ("params", "flops") for seed in (0, 1)]
            good = [Record(arch, proxy, number + 0.5, True, ms=1.0, seed=seed) for proxy, seed in pairs]
            journal.write(arch, [*good[:3], Record(arch, "flops", float("nan"), True, "no graph", seed=1)])
        journal.close()
    pairs = [(proxy, seed) for proxy in ("params", "flops") for seed in (0, 1)]
    read_known(folder).to_file(archs[:3], ["params", "flops"], sorted({seed for _, seed in pairs})).write(
        folder / "scores.npz"
    )
    (folder / "settings.json").write_text(json.dumps(about))
    (folder / "runs.json").write_text(json.dumps([session]))
    (folder / "lock").touch()
    return folder


def noisy_images() -> Task:
    """Images of three classes whose mean tells them, not always."""
    from tests.report.made import classes

    return classes((1, 8, 8), n=60)


@cache
def a_design() -> Path:
    """A finished design of two members with its report."""
    folder = workshop() / "design"
    design(noisy_images(), folder, settings=small(baseline=0))
    return folder


TABLE = [["a", "b", "c", "label"], *[[f"{n / 7:.3f}", str(n % 5), str(-n), str(n % 2)] for n in range(24)]]


@cache
def a_file(kind: str) -> Path:
    """A small data file of a kind."""
    from tests.tasks.test_hostile_data import valid

    folder = workshop() / "data"
    folder.mkdir(exist_ok=True)
    path = folder / f"good.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(TABLE)
        return path
    return valid(path)


@cache
def pictures() -> Path:
    """A folder of images by class."""
    from PIL import Image

    folder = workshop() / "pictures"
    random = np.random.default_rng(0)
    for label in "ab":
        (folder / label).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 255, (8, 8), np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@cache
def volumes() -> Path:
    """A folder of NIfTI volumes with a table of labels."""
    import nibabel

    folder = workshop() / "volumes"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number, ending in enumerate(("nii", "nii.gz", "nii", "nii.gz")):
        values = random.normal(size=(4, 5, 6)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / f"{number}.{ending}")
    rows = [f"{number}.{ending},{number % 2}\n" for number, ending in enumerate(("nii", "nii.gz", "nii", "nii.gz"))]
    (folder / "labels.csv").write_text("file,label\n" + "".join(rows))
    return folder


@cache
def dicom() -> Path:
    """A folder of DICOM series by class."""
    from tests.tasks.test_dicom_files import series

    folder = workshop() / "dicom"
    random = np.random.default_rng(0)
    for label in "ab":
        for number in range(4):
            values = random.integers(0, 255, (2, 4, 4)).astype(np.uint16)
            series(folder / label / f"{number}", values, shuffle=False)
    return folder


@cache
def wfdb() -> Path:
    """A folder of WFDB recordings with PhysioNet's table of labels."""
    from tests.tasks.test_signal_files import wfdb as recording

    folder = workshop() / "wfdb"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(6):
        recording(folder, f"r{number}", random.integers(-99, 99, (2, 60)))
    (folder / "REFERENCE.csv").write_text("".join(f"r{number},{'AN'[number % 2]}\n" for number in range(6)))
    return folder


@cache
def edf() -> Path:
    """A folder of EDF recordings by class."""
    from tests.tasks.test_signal_files import edf as recording

    folder = workshop() / "edf"
    for label in "ab":
        (folder / label).mkdir(parents=True)
        for number in range(3):
            recording(folder / label / f"{number}.edf", 100, value=number)
    return folder


FUZZED = Key("nb201", "0", "snip", 1, "own", "cafe", 0)


@cache
def shared() -> Path:
    """A store in a folder: journals of two processes, a base of both, a run with a file, and a claim."""
    folder = workshop() / "shared"
    names = []
    for writer in "ab":
        with FolderStore(folder) as store:
            store.keep([(FUZZED._replace(arch=f"{writer},{n}"), Result(n / 7, "ok", 1.0, 2.0)) for n in range(3)])
            store.runs.save(f"run-{writer}", "{}")
            store.runs.append(f"run-{writer}", 1, ["one", "two"])
            store.runs.put(f"run-{writer}", "weights", b"content")
        (fresh,) = {path.name for path in (folder / "journals").iterdir()} - set(names)
        (folder / "journals" / fresh).rename(folder / "journals" / (writer * 24))
        names.append(writer * 24)
    with FolderStore(folder) as store:
        store.keep([(FUZZED._replace(proxy="synflow"), Result(1.0, "ok", 1.0, 2.0))])
        assert store.drop(Selection(proxy="synflow")) == 1  # by a base
        assert store.claim([FUZZED])
        (claim,) = (folder / "claims").glob("claim-*")
        about = {**json.loads(claim.read_text()), "owner": "elsewhere 1 2", "ticket": f"ticket-{'0' * 24}"}
    claim.write_text(json.dumps(about))
    for path in (folder / "journals").iterdir():
        if path.name not in (*names, "base-000001"):
            path.rename(path.with_name("c" * 24))
    return folder


SEEDS: dict[str, Callable[[], Path]] = {
    "dicom": dicom,
    "wfdb": wfdb,
    "edf": edf,
    "shared": shared,
    "search": a_search,
    "sweep": a_sweep,
    "design": a_design,
    "pictures": pictures,
    "volumes": volumes,
    **{
        kind: (lambda kind=kind: a_file(kind))
        for kind in ("npz", "npy", "csv", "tsv", "csv.gz", "parquet", "ts", "txt")
    },
}
