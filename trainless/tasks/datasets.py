"""Real data sets in the data directory: CIFAR-10, MedMNIST and the CinC 2017 ECG set."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainless.core.checksums import unofficial, verify
from trainless.core.errors import InputError
from trainless.core.files import data_directory
from trainless.core.task import PartName, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.medmnist import class_names
from trainless.tasks.numpy_files import arrays_of, parts_of
from trainless.tasks.reading import Samples
from trainless.tasks.recordings import Recordings, from_recordings, stored
from trainless.tasks.settings import Reading
from trainless.tasks.split import stratified


def _missing(what: str, source: str, file: str, folder: Path) -> InputError:
    """The error for a set that is not there: what it is, where it comes from and where it goes."""
    return InputError(
        f"{what} is not in the data directory: get it from {source} and put {file} in {folder}"
        " (TRAINLESS_DATA sets another data directory)"
    )


CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY = "cifar-10-batches-bin"
RECORD = 1 + 3 * 32 * 32  # a label and the three colour planes


def cifar10(*, seed: int = 0) -> Task:
    """CIFAR-10 (Krizhevsky 2009): photographs of 32×32 in 10 classes.

    Reads ``cifar10.npz`` or the official binary version; else the 4,000 lossless images of
    ``cifar10_subset.npz``, whose test images were JPEG and are left out: a test part is cut off instead.
    """
    folder = data_directory() / "cifar10"
    if (folder / BINARY).is_dir():
        return _task(_binary(folder / BINARY), seed)
    if (folder / "cifar10.npz").is_file():
        return _task(parts_of(arrays_of(folder / "cifar10.npz")), seed)
    if (folder / "cifar10_subset.npz").is_file():
        notes = ("a subset of 4,000 training images, split here; its lossy test images are left out",)
        return _task(parts_of(arrays_of(folder / "cifar10_subset.npz")), seed, notes)
    raise _missing("CIFAR-10", "www.cs.toronto.edu/~kriz/cifar.html (binary version)", f"its folder {BINARY}", folder)


def _task(given: dict[PartName, Samples], seed: int, notes: tuple[str, ...] = ()) -> Task:
    if "train" not in given:
        raise InputError("the CIFAR-10 file lacks train_images and train_labels: get it again")
    return assemble("cifar10", given, Reading(dims=2, seed=seed), CIFAR10_CLASSES, notes)


def _binary(folder: Path) -> dict[PartName, Samples]:
    train = [_records(folder / f"data_batch_{batch}.bin") for batch in range(1, 6)]
    test = _records(folder / "test_batch.bin")
    x, y = (np.concatenate([batch[part] for batch in train]) for part in range(2))
    return {"train": Samples(x, y), "test": Samples(*test)}


def _records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    raw = np.fromfile(path, np.uint8) if path.is_file() else np.empty(0, np.uint8)
    if not len(raw) or len(raw) % RECORD:
        raise InputError(f"{path.name} of CIFAR-10 is missing or incomplete: unpack the binary version again")
    rows = raw.reshape(-1, RECORD)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


# Of the files that the papers use, as medmnist.com's own package lists them: Zenodo's records 5208230 and 10519652.
MD5 = {"nodulemnist3d": ("902d495e3d91ad1a7bcac1a6b58a8fa2", "8755a7e9e05a4d9ce80a24c3e7a256f3")}


def medmnist(name: str, *, label: str | int = "") -> Task:
    """A MedMNIST set (Yang et al. 2023, CC BY 4.0) with its own split.

    ``name`` is the file's without ``.npz``; ``label`` the column, for sets with several (``chestmnist``).
    """
    if not re.fullmatch(r"\w+", name):
        raise InputError(f"medmnist:{name} was given; expected a set's name such as medmnist:bloodmnist")
    folder = data_directory() / "medmnist"
    paths = [folder / f"{name}.npz", folder / f"{name}_rebuilt.npz"]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise _missing(f"MedMNIST's {name}", "medmnist.com (files on Zenodo)", f"{name}.npz", folder)
    given = parts_of(arrays_of(path))
    if set(given) != {"train", "valid", "test"}:
        raise InputError(f"{path.name} lacks train_images, val_images or test_images with labels: get it again")
    solid = name.split("_")[0].endswith("3d")
    channels = "last" if given["train"].x.ndim == (5 if solid else 4) else "none"
    reading = Reading(dims=3 if solid else 2, channels=channels, label=label)
    notes = [f"read from {path.name}, a rebuilt copy of the set"] if path.stem != name else []
    if path.stem in MD5 and (doubt := unofficial(path, MD5[path.stem])):
        notes.append(doubt)
    return assemble(name, given, reading, class_names(name, given), notes)


RHYTHMS = ("N", "A", "O", "~")  # normal, atrial fibrillation, other, too noisy
RECORDS = 8528  # of training2017.zip


def cinc2017(*, window: int = 0, size: int | str = "", seed: int = 0) -> Task:
    """Short single-lead ECG at 300 Hz (Clifford et al. 2017, ODC-By) in 4 classes, answered by recording.

    Recordings are split stratified by rhythm; their windows are those of :mod:`trainless.tasks.recordings`, which are
    30 s long at 150 Hz by default.
    """
    recordings = _recordings(data_directory() / "ecg2017")
    reading = Reading(kind="multiclass", seed=seed, window=window, size=size)
    made = from_recordings("cinc2017", {"train": recordings}, reading, names=RHYTHMS)
    return replace(made, notes=(*made.notes, *_partial(recordings)))


def cinc2017_windows(*, length: int = 1000, stride: int = 500, seed: int = 0) -> Task:
    """Windows of the CinC 2017 recordings, each a case of its own, as the TEACUP paper has them.

    Records are split first, stratified by rhythm, and windows are cut afterwards, so that no record is in two
    parts. ``groups`` of each part hold the record's name.
    """
    if length < 1 or stride < 1:
        raise InputError(f"length={length} and stride={stride} were given; expected at least 1")
    recordings = _recordings(data_directory() / "ecg2017")
    long = np.flatnonzero(np.array([signal.shape[1] for signal in recordings.signals]) >= length)
    if not len(long):
        raise InputError(f"length={length} was given, but no record is that long")
    names: tuple[PartName, ...] = ("train", "valid", "test")
    parts = [long[index] for index in stratified(recordings.y[long], seed)]
    given = {name: _windows(recordings, part, length, stride) for name, part in zip(names, parts, strict=True)}
    short = len(recordings.y) - len(long)
    notes = [f"{short} records shorter than {length} samples are left out"] if short else []
    notes += _partial(recordings)
    return assemble("cinc2017-windows", given, Reading(dims=1, kind="multiclass"), RHYTHMS, notes)


def _partial(recordings: Recordings) -> list[str]:
    """A note where these are not all of the challenge's public records."""
    count = len(recordings.y)
    return [] if count == RECORDS else [f"{count:,} of the challenge's {RECORDS:,} records"]


def _windows(recordings: Recordings, chosen: Array, length: int, stride: int) -> Samples:
    x, y, groups = [], [], []
    names = np.asarray(recordings.names)
    for index in chosen:
        cut = np.lib.stride_tricks.sliding_window_view(recordings.signals[index][0], length)[::stride]
        x.append(cut)
        y += [recordings.y[index]] * len(cut)
        groups += [names[index]] * len(cut)
    return Samples(np.concatenate(x), np.array(y), np.array(groups))


def _recordings(folder: Path) -> Recordings:
    subset = folder / "cinc2017_subset1500.npz"
    if (folder / "training2017").is_dir():
        return _official(folder / "training2017")
    if subset.is_file():
        held = stored(arrays_of(subset), subset.name)
        if held is None:
            raise InputError(f"{subset.name} lacks signal, offsets or labels: get it again")
        return replace(held, y=_codes(held.y))
    raise _missing(
        "the CinC 2017 ECG set",
        "physionet.org (Challenge 2017, training2017.zip)",
        "its folder training2017 (with REFERENCE.csv)",
        folder,
    )


def _official(folder: Path) -> Recordings:
    """The challenge's own files: one MATLAB file per record and a table of rhythms without a header."""
    import pandas as pd
    from scipy.io import loadmat

    table = next((path for path in sorted(folder.glob("REFERENCE*.csv"), reverse=True)), None)
    if table is None:
        raise InputError(f"{folder.name} has no REFERENCE.csv: unpack training2017.zip again")
    verify(table, data_directory())
    rows = pd.read_csv(table, header=None, names=["record", "label"], dtype=str)
    signals = []
    for record in rows["record"]:
        path = folder / f"{Path(record).name}.mat"
        try:
            signals.append(loadmat(path)["val"].reshape(1, -1).astype(np.int16))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"record {path.name} is missing or cannot be read: unpack training2017.zip again"
            ) from error
    return Recordings(signals, _codes(rows["label"].to_numpy(str)), names=rows["record"].to_numpy(str))


def _codes(labels: Array) -> Array:
    wrong = np.setdiff1d(labels, RHYTHMS)
    if len(wrong):
        raise InputError(f"the CinC 2017 labels have {str(wrong[0])!r}; expected {', '.join(RHYTHMS)}")
    return np.array([RHYTHMS.index(label) for label in labels.tolist()])


def imagenet(*, per_class: int = 1, size: int = 224, seed: int = 0) -> Task:
    """A sample of ImageNet-1k (Russakovsky et al. 2015): images of each class, cut to squares.

    Reads the official images by class, ``imagenet/train/n01440764/*.JPEG``, and the validation images sorted into such
    folders below ``imagenet/val``; where there are none, a test part is cut off. The classes are the folders. Proxies
    need no more than batches of it: ``per_class`` images of each class are read, drawn by the seed.
    """
    from trainless.tasks.images import is_image, square

    if per_class < 1 or size < 1:
        raise InputError(f"per_class={per_class} and size={size} were given; expected at least 1")
    folder = data_directory() / "imagenet"
    classes = sorted(path.name for path in (folder / "train").glob("*") if path.is_dir())
    if len(classes) < 2:
        asked = "its folder train, with one folder of images for each class,"
        raise _missing("ImageNet-1k", "image-net.org (ILSVRC2012, for whoever has registered there)", asked, folder)
    given: dict[PartName, Samples] = {}
    parts: tuple[tuple[PartName, str], ...] = (("train", "train"), ("test", "val"))
    for part, name in parts:
        if not (folder / name).is_dir():
            continue
        x, y = [], []
        for label, each in enumerate(classes):
            images = sorted(path for path in (folder / name / each).glob("*") if is_image(path))
            order = np.random.default_rng([seed, label]).permutation(len(images))[:per_class]
            if not len(order):
                raise InputError(f"imagenet/{name}/{each} has no images: unpack the archive of this class again")
            x += [square(images[at], size) for at in order]
            y += [label] * len(order)
        given[part] = Samples(np.stack(x), np.array(y))
    notes = [f"{per_class} of each class"]
    if len(classes) != IMAGENET_CLASSES:
        notes.append(f"{len(classes)} of ImageNet's {IMAGENET_CLASSES:,} classes")
    return assemble("imagenet", given, Reading(dims=2, seed=seed, channels="last"), tuple(classes), notes)


IMAGENET_CLASSES = 1000
