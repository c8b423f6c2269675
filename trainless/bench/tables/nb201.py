"""NAS-Bench-201 with its converter, HW-NAS-Bench's devices and the adversarial accuracies of its networks."""

from __future__ import annotations

import bz2
import io
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainless.bench.tables.files import DataFile, FileColumns, columns_of, mean_of, write_columns
from trainless.bench.tables.table import ColumnKey, Table
from trainless.bench.tables.unpickle import load_plain
from trainless.core.errors import InputError
from trainless.core.types import Floats, Indices

TASKS = ("cifar10", "cifar100", "ImageNet16-120")
CLASSES = {"cifar10": 10, "cifar100": 100, "ImageNet16-120": 120}
SEEDS = 3
DEVICES = (
    *("edgegpu_latency", "edgegpu_energy", "raspi4_latency", "edgetpu_latency", "pixel3_latency"),
    *("eyeriss_latency", "eyeriss_energy", "eyeriss_arithmetic_intensity", "fpga_latency", "fpga_energy"),
)
_AUTO = ("0.1", "0.5", "1.0", "2.0", "3.0", "4.0", "8.0")
_SIGN = (*_AUTO[:-1], "5.0", "6.0", "7.0", "8.0", "255.0")
ATTACKS = (
    *(f"aa_apgd-ce@Linf_eps-{size}" for size in _AUTO),
    *(f"aa_square@Linf_eps-{size}" for size in _AUTO),
    *(f"fgsm@Linf_eps-{size}" for size in _SIGN),
    *(f"pgd@Linf_eps-{size}" for size in _AUTO),
)

MAIN = DataFile(
    "nb201/nb201_all.csv.gz",
    "NAS-Bench-201's accuracies and times (15,625 networks, three datasets, 12 and 200 epochs)",
    "https://github.com/D-X-Y/NATS-Bench (trainless.bench.tables.nb201.convert_nats converts its file)",
    ("arch_str", "ops", "cifar10_test_acc_200_seeds"),
)
HARDWARE = DataFile(
    "nb201/nb201_hw_nas_bench.csv.gz",
    "HW-NAS-Bench's latencies and energies of NAS-Bench-201 on ten devices",
    "https://github.com/GATECH-EIC/HW-NAS-Bench",
    ("dataset",),
)
ROBUSTNESS = DataFile(
    "nb201/nb201_robustness_cifar10.csv.gz",
    "adversarial accuracies of NAS-Bench-201 on CIFAR-10",
    "Jung, Lukasik and Keuper, Neural Architecture Design and Robustness: A Dataset (ICLR 2023)",
)

_FIELDS = {
    ("valid", 12): "val_acc_12",
    ("valid", 200): "val_acc_200",
    ("test", 12): "test_acc_12",
    ("test", 200): "test_acc_200",
    ("valid_std", 200): "val_acc_200_std",
    ("valid_seeds", 200): "val_nseeds",
    ("train_time", 200): "train_time_200_s",
    ("latency", 0): "latency_s",
    ("flops_with_norms", 0): "flops_m",
}


def open_nb201() -> Table:
    """All 15,625 archs in the official order.

    Accuracies in percent, averaged over seeds (``test_seed_0`` … on CIFAR-10 are single ones); ``train_time`` in
    seconds, that of 12 epochs being 12/200 of the recorded one; ``latency`` in seconds, ``params`` and
    ``flops_with_norms`` in millions. ``params`` follows from the operations: 150 recorded numbers do not.
    Devices are in milliseconds and millijoules, attacks in percent of test images.
    """
    columns = columns_of(MAIN)
    groups = {
        frozenset(_main(columns)): partial(_main, columns),
        frozenset(ColumnKey(task, device) for task in TASKS for device in DEVICES): partial(_devices, len(columns)),
        frozenset(ColumnKey("cifar10", attack, 200) for attack in ("clean", *ATTACKS)): partial(_attacks, len(columns)),
    }
    return Table("nb201", "nb201", columns.strings("arch_str"), groups, keys=columns.strings("arch_str"))


def _main(columns: FileColumns) -> Mapping[ColumnKey, Floats]:
    """The columns of the main file; the classifier has 64 weights and a bias for every further class."""
    found = {
        ColumnKey(task, metric, epochs): columns.floats(f"{task}_{name}")
        for task in TASKS
        for (metric, epochs), name in _FIELDS.items()
        if f"{task}_{name}" in columns.numbers
    }
    params = columns.floats("cifar10_params_exact_m")
    for task in TASKS:
        found[ColumnKey(task, "params", 0)] = params + (CLASSES[task] - 10) * 65 / 1e6
        if ColumnKey(task, "train_time", 200) in found:
            found[ColumnKey(task, "train_time", 12)] = found[ColumnKey(task, "train_time", 200)] * (12 / 200)
    return found | _single_seeds(columns)


def _single_seeds(columns: FileColumns) -> dict[ColumnKey, Floats]:
    """The accuracy of each seed on its own; seeds that were not run are NaN."""
    runs = np.full((len(columns), SEEDS), np.nan)
    for row, text in enumerate(columns.strings("cifar10_test_acc_200_seeds")):
        for seed, value in enumerate(text.split("|")[:SEEDS] if text else ()):
            runs[row, seed] = float(value)
    return {ColumnKey("cifar10", f"test_seed_{seed}", 200): runs[:, seed].copy() for seed in range(SEEDS)}


def _devices(size: int) -> Mapping[ColumnKey, Floats]:
    columns = columns_of(HARDWARE)
    dataset, arch = np.array(columns.strings("dataset")), columns.floats("arch_index").astype(np.intp)
    found = {}
    for device in DEVICES:
        values = columns.floats(device)
        for task in TASKS:
            mine = dataset == task
            found[ColumnKey(task, device)] = _spread(size, arch[mine], values[mine])
    return found


def _attacks(size: int) -> Mapping[ColumnKey, Floats]:
    columns = columns_of(ROBUSTNESS)
    arch = columns.floats("arch_index").astype(np.intp)
    names = {"clean": "val_accs"} | {attack: attack for attack in ATTACKS}
    return {ColumnKey("cifar10", key, 200): _spread(size, arch, columns.floats(name)) for key, name in names.items()}


def _spread(size: int, rows: Indices, values: Floats) -> Floats:
    """The values at their rows, NaN elsewhere."""
    column = np.full(size, np.nan)
    column[rows] = values
    return column


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
    """Write NAS-Bench-201's table, ``nb201/nb201_all.csv.gz`` of the data directory, from an official release.

    The source is NATS-Bench's ``NATS-tss-*.pickle.pbz2``, the folder ``NATS-tss-*-simple`` with a file per arch, or
    NAS-Bench-201's ``NAS-Bench-201-*.pth``. Accuracies are means over the seeds that the release has.
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
    row: Row = {f"{task}_val_acc_{epochs}": mean_of(validation), f"{task}_test_acc_{epochs}": mean_of(testing)}
    if epochs != 200:
        return row
    row[f"{task}_val_acc_200_std"] = float(np.std(validation)) if validation else ""
    row[f"{task}_val_nseeds"] = len(validation)
    trials = _trials(run, valid[0])
    row[f"{task}_train_time_200_s"] = mean_of([sum(t["train_times"].values()) for t in trials if t.get("train_times")])
    row[f"{task}_latency_s"] = mean_of([float(np.mean(t["latency"])) for t in trials if t.get("latency")])
    row[f"{task}_params_m"] = mean_of([t["params"] for t in trials])
    row[f"{task}_flops_m"] = mean_of([t["flop"] for t in trials])
    if task == "cifar10":
        row["cifar10_test_acc_200_seeds"] = "|".join(f"{accuracy:g}" for accuracy in testing)
    return row


def _trials(run: Any, dataset: str) -> list[Any]:
    return [run["all_results"][dataset, seed] for seed in run["dataset_seed"].get(dataset, ())]


def _accuracies(run: Any, dataset: str, split: str) -> list[float]:
    """The last accuracy of each seed."""
    found = (trial["eval_acc1es"].get(f"{split}@{trial['epochs'] - 1}") for trial in _trials(run, dataset))
    return [float(accuracy) for accuracy in found if accuracy is not None]


def _exact_params(edges: list[str]) -> float:
    """Parameters in millions from the operations: 15 cells at 16, 32 and 64 channels, CIFAR-10's classifier."""
    widths = (16, 32, 64)
    cell = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
    inside = sum(5 * (cell[edge] * width**2 + 2 * width) for edge in edges if edge in cell for width in widths)
    reductions = sum(9 * c * 2 * c + 9 * (2 * c) ** 2 + c * 2 * c + 4 * 2 * c for c in widths[:2])
    return (27 * 16 + 32 + inside + reductions + 128 + 650) / 1e6
