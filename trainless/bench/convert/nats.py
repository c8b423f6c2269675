"""NAS-Bench-201 from NATS-Bench's pickles, or from NAS-Bench-201's own ``.pth`` files."""

from __future__ import annotations

import bz2
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainless.bench.convert.unpickle import load_plain
from trainless.bench.tables.files import write_columns
from trainless.core.errors import InputError

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_SETTINGS = {"12": 12, "200": 200, "less": 12, "full": 200}
_OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
# task: the training set of its validation accuracies and their split, and the same of its test accuracies
_SPLITS = {
    "cifar10": (("cifar10-valid", "x-valid"), ("cifar10", "ori-test")),
    "cifar100": (("cifar100", "x-valid"), ("cifar100", "x-test")),
    "ImageNet16-120": (("ImageNet16-120", "x-valid"), ("ImageNet16-120", "x-test")),
}
Row = dict[str, object]


def convert_nats(source: Path, destination: Path) -> Path:
    """Write NAS-Bench-201's table from an official release.

    Args:
        source: NATS-Bench's ``NATS-tss-*.pickle.pbz2``, the folder ``NATS-tss-*-simple`` with a file per arch, or
            NAS-Bench-201's ``NAS-Bench-201-*.pth``.
        destination: The file to write, ``nb201/nb201_all.csv.gz`` of the data directory.

    Returns:
        The destination. Accuracies are means over the seeds that the release has.
    """
    by_index = {index: _row(index, arch, runs) for index, arch, runs in _archs(source)}
    rows = [by_index[index] for index in sorted(by_index)]
    if not rows:
        raise InputError(f"{source} has no results of architectures: expected a release of NATS-Bench or NAS-Bench-201")
    header = list(dict.fromkeys(name for row in rows for name in row))
    return write_columns(destination, header, [[row.get(name, "") for name in header] for row in rows])


def _archs(source: Path) -> Iterator[tuple[int, str, Mapping[int, Any]]]:
    """Index, notation and results by epochs of every arch of a release."""
    if source.is_dir():
        for file in sorted(source.glob("[0-9]*.pickle.pbz2")):
            yield _arch(file.name, _read(file))
        return
    content = _read(source)
    if not isinstance(content, dict) or not isinstance(content.get("arch2infos"), dict):
        raise InputError(f"{source} has no 'arch2infos': expected a release of NATS-Bench or NAS-Bench-201")
    for number, runs in content["arch2infos"].items():
        yield _arch(f"arch {number} of {source.name}", runs)


def _arch(name: str, runs: Any) -> tuple[int, str, Mapping[int, Any]]:
    try:
        known = {_SETTINGS[str(setting)]: run for setting, run in runs.items() if str(setting) in _SETTINGS}
        first = next(iter(known.values()))
        return int(first["arch_index"]), str(first["arch_str"]), known
    except (AttributeError, KeyError, StopIteration, TypeError):
        raise InputError(f"{name} does not have the layout of NATS-Bench's topology space") from None


def _read(file: Path) -> Any:
    """The plain data of a compressed pickle, a plain one, or a file of torch.save without tensors."""
    if not file.is_file():
        raise InputError(f"{file} is not a file: give an official release of NATS-Bench or NAS-Bench-201")
    if file.suffix in (".pbz2", ".bz2"):
        with bz2.open(file) as stream:
            return load_plain(io.BufferedReader(stream), file.name)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            name = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            if name is None:
                raise InputError(f"{file} is a zip file without data.pkl: it was not written by torch.save")
            return load_plain(io.BytesIO(archive.read(name)), file.name)
    with file.open("rb") as stream:
        content = load_plain(stream, file.name)
        if content != _LEGACY_MAGIC:
            return content
        load_plain(stream, file.name)  # the version of the format
        load_plain(stream, file.name)  # the sizes of numbers
        return load_plain(stream, file.name)


def _row(index: int, arch: str, runs: Mapping[int, Any]) -> Row:
    edges = [edge.partition("~")[0] for node in arch.split("+") for edge in node.split("|") if edge]
    if len(edges) != 6 or not set(edges) <= set(_OPERATIONS):
        raise InputError(f"arch {index} is {arch!r}, which is not a cell of NAS-Bench-201")
    row: Row = {"arch_index": index, "arch_str": arch, "ops": "".join(str(_OPERATIONS.index(edge)) for edge in edges)}
    for task, (valid, test) in _SPLITS.items():
        for epochs in sorted(runs, reverse=True):
            row |= _results(task, runs[epochs], epochs, valid, test)
    row["cifar10_params_exact_m"] = _exact_params(edges)
    return row


def _results(task: str, run: Any, epochs: int, valid: tuple[str, str], test: tuple[str, str]) -> Row:
    validation, testing = _accuracies(run, *valid), _accuracies(run, *test)
    row: Row = {f"{task}_val_acc_{epochs}": _mean(validation), f"{task}_test_acc_{epochs}": _mean(testing)}
    if epochs != 200:
        return row
    row |= {
        f"{task}_val_acc_200_std": float(np.std(validation)) if validation else "",
        f"{task}_val_nseeds": len(validation),
    }
    trials = _trials(run, valid[0])
    row[f"{task}_train_time_200_s"] = _mean([sum(t["train_times"].values()) for t in trials if t.get("train_times")])
    row[f"{task}_latency_s"] = _mean([float(np.mean(t["latency"])) for t in trials if t.get("latency")])
    row[f"{task}_params_m"] = _mean([t["params"] for t in trials])
    row[f"{task}_flops_m"] = _mean([t["flop"] for t in trials])
    if task == "cifar10":
        row["cifar10_test_acc_200_seeds"] = "|".join(f"{accuracy:g}" for accuracy in testing)
    return row


def _trials(run: Any, dataset: str) -> list[Any]:
    return [run["all_results"][dataset, seed] for seed in run["dataset_seed"].get(dataset, ())]


def _accuracies(run: Any, dataset: str, split: str) -> list[float]:
    """The last accuracy of each seed."""
    found = (trial["eval_acc1es"].get(f"{split}@{trial['epochs'] - 1}") for trial in _trials(run, dataset))
    return [float(accuracy) for accuracy in found if accuracy is not None]


def _mean(values: list[float]) -> float | str:
    return round(float(np.mean(values)), 6) if values else ""


def _exact_params(edges: list[str]) -> float:
    """Parameters in millions from the operations: 15 cells at 16, 32 and 64 channels, CIFAR-10's classifier."""
    widths = (16, 32, 64)
    cell = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
    inside = sum(5 * (cell[edge] * width**2 + 2 * width) for edge in edges if edge in cell for width in widths)
    reductions = sum(9 * c * 2 * c + 9 * (2 * c) ** 2 + c * 2 * c + 4 * 2 * c for c in widths[:2])
    return (27 * 16 + 32 + inside + reductions + 128 + 650) / 1e6
