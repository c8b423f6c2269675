"""NAS-Bench-201 with HW-NAS-Bench's devices and the adversarial accuracies of its networks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from trainless.bench.tables.files import Columns, DataFile, columns_of
from trainless.bench.tables.table import Key, Table
from trainless.core.types import Floats

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
    "https://github.com/D-X-Y/NATS-Bench (convert an official file with trainless.bench.convert.nats)",
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
        frozenset(Key(task, device) for task in TASKS for device in DEVICES): partial(_devices, len(columns)),
        frozenset(Key("cifar10", attack, 200) for attack in ("clean", *ATTACKS)): partial(_attacks, len(columns)),
    }
    return Table("nb201", "nb201", columns.strings("arch_str"), groups, keys=columns.strings("arch_str"))


def _main(columns: Columns) -> Mapping[Key, Floats]:
    """The columns of the main file; the classifier has 64 weights and a bias for every further class."""
    found = {
        Key(task, metric, epochs): columns.floats(f"{task}_{name}")
        for task in TASKS
        for (metric, epochs), name in _FIELDS.items()
        if f"{task}_{name}" in columns.numbers
    }
    params = columns.floats("cifar10_params_exact_m")
    for task in TASKS:
        found[Key(task, "params", 0)] = params + (CLASSES[task] - 10) * 65 / 1e6
        if Key(task, "train_time", 200) in found:
            found[Key(task, "train_time", 12)] = found[Key(task, "train_time", 200)] * (12 / 200)
    return found | _single_seeds(columns)


def _single_seeds(columns: Columns) -> dict[Key, Floats]:
    """The accuracy of each seed on its own; seeds that were not run are NaN."""
    runs = np.full((len(columns), SEEDS), np.nan)
    for row, text in enumerate(columns.strings("cifar10_test_acc_200_seeds")):
        for seed, value in enumerate(text.split("|")[:SEEDS] if text else ()):
            runs[row, seed] = float(value)
    return {Key("cifar10", f"test_seed_{seed}", 200): runs[:, seed].copy() for seed in range(SEEDS)}


def _devices(size: int) -> Mapping[Key, Floats]:
    columns = columns_of(HARDWARE)
    dataset, arch = np.array(columns.strings("dataset")), columns.floats("arch_index").astype(np.intp)
    found = {}
    for device in DEVICES:
        values = columns.floats(device)
        for task in TASKS:
            mine = dataset == task
            found[Key(task, device)] = _spread(size, arch[mine], values[mine])
    return found


def _attacks(size: int) -> Mapping[Key, Floats]:
    columns = columns_of(ROBUSTNESS)
    arch = columns.floats("arch_index").astype(np.intp)
    names = {"clean": "val_accs"} | {attack: attack for attack in ATTACKS}
    return {Key("cifar10", metric, 200): _spread(size, arch, columns.floats(name)) for metric, name in names.items()}


def _spread(size: int, rows: np.ndarray[tuple[int], np.dtype[np.intp]], values: Floats) -> Floats:
    """The values at their rows, NaN elsewhere."""
    column = np.full(size, np.nan)
    column[rows] = values
    return column
