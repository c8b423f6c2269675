from __future__ import annotations

import base64
import bz2
import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from trainless.bench.tables import table
from trainless.bench.tables.darts import convert_nds
from trainless.bench.tables.files import read_columns
from trainless.bench.tables.nb101 import convert_nasbench101
from trainless.bench.tables.nb201 import convert_nats
from trainless.bench.tables.unpickle import load_plain
from trainless.core.checksums import checksums, digest
from trainless.core.errors import InputError

ARCH = "|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|none~2|"


# --- the restricted unpickler -------------------------------------------------------------------------------------


class Hostile:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_comes_back_as_it_was(protocol: int) -> None:
    plain = {
        "text": "ρ",
        "bytes": b"\x00\xff",
        "number": np.float64(0.5),
        "ordered": OrderedDict(a=1, b=[2, (3, None, True)]),
        ("cifar10", 777): {1: -2.5},
    }
    arrays = [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array([1, 2], ">i4")]
    found = load_plain(BytesIO(pickle.dumps([plain, arrays], protocol)), "example")
    assert found[0] == plain
    for expected, array in zip(arrays, found[1], strict=True):
        assert np.array_equal(expected, array)


@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch hacked"),
        (eval, "__import__('os').mkdir('hacked')"),
        (getattr, OrderedDict, "fromkeys"),
        (__import__, "os"),
        (open, "hacked", "w"),
        (np.load, "hacked"),
        (Path, "hacked"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_hostile_pickles_are_refused_and_do_nothing(
    call: tuple[object, ...], protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"example is not read: it asks for .*, but only plain data is made"):
        load_plain(BytesIO(pickle.dumps({"a": Hostile(*call)}, protocol)), "example")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "program",
    [
        b"ccollections\nOrderedDict\n.",  # a callable on its own
        b"cnumpy\ndtype\n(VO\ntR.",  # an array type of objects
        b"cnumpy\ndtype\n}b.",  # a change of the reader itself
        b"cnumpy.core.multiarray\nscalar\n(I1\nI2\ntR.",  # numbers from nothing
        b"cnumpy.core.multiarray\n_reconstruct\n(tR(I1\n(I9999999999999\ntcnumpy\ndtype\n(Vf8\ntRI00\nV\ntb.",
        b"Pelsewhere\n.",  # data outside of the pickle
        b"garbage",
        b"",
    ],
)
def test_hand_written_pickles_are_refused(program: bytes) -> None:
    with pytest.raises(InputError, match="example is not read"):
        load_plain(BytesIO(program), "example")


def test_shared_and_circular_data_end() -> None:
    circle: list[object] = [1]
    circle.append(circle)
    found = load_plain(BytesIO(pickle.dumps(circle)), "example")
    assert found[1] is found
    laughs: list[object] = []
    for _ in range(60):
        laughs = [laughs, laughs]
    assert load_plain(BytesIO(pickle.dumps(laughs)), "example")[0] is not None


# --- NATS-Bench ---------------------------------------------------------------------------------------------------


def trial(epochs: int, accuracies: dict[str, float]) -> dict[str, object]:
    """One trial as ``ResultsCount.state_dict`` writes it."""
    return {
        "name": "infer.tiny",
        "net_state_dict": None,
        "train_acc1es": {epochs - 1: 99.0},
        "train_times": OrderedDict((epoch, 2.0) for epoch in range(epochs)),
        "params": 0.5,
        "flop": 80.0,
        "seed": 777,
        "epochs": epochs,
        "latency": [0.01, 0.03],
        "eval_names": list(accuracies),
        "eval_acc1es": {f"{split}@{epochs - 1}": value for split, value in accuracies.items()},
        "eval_times": {},
        "eval_losses": {},
    }


def arch_results(index: int, epochs: int, shift: float) -> dict[str, object]:
    """One arch as ``ArchResults.state_dict`` writes it: two seeds on CIFAR-10, one elsewhere."""
    results = {
        ("cifar10-valid", 777): trial(epochs, {"x-valid": 80 + shift, "ori-test": 79 + shift}),
        ("cifar10-valid", 888): trial(epochs, {"x-valid": 82 + shift, "ori-test": 81 + shift}),
        ("cifar10", 777): trial(epochs, {"ori-test": 85 + shift}),
        ("cifar10", 888): trial(epochs, {"ori-test": np.float64(86 + shift)}),
        ("cifar100", 777): trial(epochs, {"x-valid": 60 + shift, "x-test": 61 + shift, "ori-test": 62}),
        ("ImageNet16-120", 777): trial(epochs, {"x-valid": 30 + shift, "x-test": 31 + shift, "ori-test": 32}),
    }
    seeds = {"cifar10-valid": [777, 888], "cifar10": [777, 888], "cifar100": [777], "ImageNet16-120": [777]}
    return {
        "arch_index": index,
        "arch_str": ARCH,
        "all_results": results,
        "dataset_seed": seeds,
        "clear_net_done": True,
    }


def release(names: tuple[str, str]) -> dict[str, object]:
    runs = OrderedDict([(names[0], arch_results(0, 12, -20)), (names[1], arch_results(0, 200, 0))])
    return {"meta_archs": [ARCH], "arch2infos": OrderedDict({0: runs}), "evaluated_indexes": {0}}


def nats_file(folder: Path) -> Path:
    content = release(("12", "200"))
    content["evaluated_indexes"] = [0]
    file = folder / "NATS-tss-v1_0.pickle.pbz2"
    file.write_bytes(bz2.compress(pickle.dumps(content)))
    return file


def nats_folder(folder: Path) -> Path:
    source = folder / "NATS-tss-simple"
    source.mkdir()
    runs = {"12": arch_results(0, 12, -20), "200": arch_results(0, 200, 0)}
    (source / "000000.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps(runs)))
    (source / "meta.pickle.pbz2").write_bytes(bz2.compress(pickle.dumps({"meta_archs": [ARCH]})))
    return source


def legacy_file(folder: Path) -> Path:
    content = release(("less", "full"))
    content["evaluated_indexes"] = [0]
    parts = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, content, [])
    file = folder / "NAS-Bench-201-v1_1.pth"
    file.write_bytes(b"".join(pickle.dumps(part, 2) for part in parts))
    return file


def zip_file(folder: Path) -> Path:
    content = release(("less", "full"))
    content["evaluated_indexes"] = [0]
    file = folder / "NAS-Bench-201-v1_1.pth"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, 2))
    return file


@pytest.mark.parametrize("made", [nats_file, nats_folder, legacy_file, zip_file])
def test_nas_bench_201_from_each_official_layout(made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert_nats(made(tmp_path), tmp_path / "nb201/nb201_all.csv.gz")
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    nb201 = table("nb201")
    assert nb201.archs == (ARCH,)
    expected = {
        ("cifar10", "valid", 200): 81,
        ("cifar10", "test", 200): 85.5,
        ("cifar10", "test", 12): 65.5,
        ("cifar10", "valid_std", 200): 1,
        ("cifar10", "valid_seeds", 200): 2,
        ("cifar10", "test_seed_1", 200): 86,
        ("cifar10", "train_time", 200): 400,
        ("cifar10", "latency", 0): 0.02,
        ("cifar100", "valid", 12): 40,
        ("cifar100", "test", 200): 61,
        ("ImageNet16-120", "test", 200): 31,
    }
    assert {key: nb201.query(ARCH, *key) for key in expected} == pytest.approx(expected)


def test_conversion_keeps_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  ./nb201/nb201_all.csv.gz\n")
    written = convert_nats(nats_file(tmp_path), tmp_path / "nb201/nb201_all.csv.gz")
    assert checksums(tmp_path) == {"nb201/nb201_all.csv.gz": digest(written)}


def test_other_pickles_are_not_taken_for_nats_bench(tmp_path: Path) -> None:
    file = tmp_path / "other.pickle"
    file.write_bytes(pickle.dumps({"weights": [1]}))
    with pytest.raises(InputError, match="has no 'arch2infos': expected a release"):
        convert_nats(file, tmp_path / "out.csv")
    file.write_bytes(pickle.dumps({"arch2infos": {0: {"12": {"arch_index": 0}}}}))
    with pytest.raises(InputError, match=r"arch 0 of other.pickle does not have the layout"):
        convert_nats(file, tmp_path / "out.csv")
    file.write_bytes(pickle.dumps(Hostile(os.mkdir, str(tmp_path / "hacked"))))
    with pytest.raises(InputError, match=r"other.pickle is not read: it asks for posix.mkdir"):
        convert_nats(file, tmp_path / "out.csv")
    assert not (tmp_path / "hacked").exists()
    with pytest.raises(InputError, match="is not a file: give an official release"):
        convert_nats(tmp_path / "nothing", tmp_path / "out.csv")


# --- NAS-Bench-101 ------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def evaluation(epoch: float, time: float, train: float, valid: float, test: float) -> bytes:
    body = b"".join(
        bytes([i << 3 | 1]) + struct.pack("<d", v) for i, v in enumerate((epoch, time, train, valid, test), 1)
    )
    body += bytes([6 << 3 | 2]) + varint(4) + b"path"
    return bytes([1 << 3 | 2]) + varint(len(body)) + body


def row(name: str, epochs: int, valid: float) -> list[object]:
    metrics = evaluation(0, 0, 0.1, 0.1, 0.1) + evaluation(epochs / 2, 50, 0.5, 0.5, 0.5)
    metrics += evaluation(epochs, 100, 0.99, valid, valid - 0.01)
    metrics += bytes([2 << 3]) + varint(8_555_530) + bytes([3 << 3 | 1]) + struct.pack("<d", 123.0)
    return [name, epochs, "011001000", "input,maxpool3x3,output", base64.b64encode(metrics).decode()]


ROWS = [row("b" * 32, 108, 0.9), row("b" * 32, 108, 0.92), row("b" * 32, 4, 0.4), row("a" * 32, 108, 0.8)]


def tfrecord(folder: Path) -> Path:
    file = folder / "nasbench.tfrecord"
    parts = (json.dumps(one).encode() for one in ROWS)
    file.write_bytes(b"".join(struct.pack("<Q", len(p)) + b"crc0" + p + b"crc1" for p in parts))
    return file


def json_list(folder: Path) -> Path:
    file = folder / "nasbench.json"
    file.write_text(json.dumps(ROWS))
    return file


def json_lines(folder: Path) -> Path:
    file = folder / "nasbench.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)))
    return file


@pytest.mark.parametrize("made", [tfrecord, json_list, json_lines])
def test_nas_bench_101_from_each_layout(made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert_nasbench101(made(tmp_path), tmp_path / "nb101/nb101_subset20001.csv.gz")
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    nb101 = table("nb101")
    assert nb101.keys == ("a" * 32, "b" * 32)
    assert nb101.archs[0] == "011/001/000;input|maxpool3x3|output"
    assert nb101.query("b" * 32, "cifar10", "valid", 108) == pytest.approx(91)
    assert nb101.query("b" * 32, "cifar10", "test", 108) == pytest.approx(90)
    assert nb101.query("b" * 32, "cifar10", "valid", 4) == pytest.approx(40)
    assert np.isnan(nb101.query("a" * 32, "cifar10", "valid", 4))
    assert nb101.query("a" * 32, "cifar10", "train_time") == 100
    assert nb101.query("a" * 32, "cifar10", "params") == pytest.approx(8.55553)


def test_damaged_nas_bench_101_files_are_named(tmp_path: Path) -> None:
    file = tfrecord(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    with pytest.raises(InputError, match="is cut off within a record"):
        convert_nasbench101(file, tmp_path / "out.csv")
    file.write_bytes(b"PK" + whole)
    with pytest.raises(InputError, match="is cut off or is not a TFRecord file"):
        convert_nasbench101(file, tmp_path / "out.csv")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([["a", 108, "01", "input", "AAAA"]]))
    with pytest.raises(InputError, match=r"not \[hash, epochs, adjacency, operations, metrics\]"):
        convert_nasbench101(wrong, tmp_path / "out.csv")
    wrong.write_text("{")
    with pytest.raises(InputError, match="a record that is not JSON"):
        convert_nasbench101(wrong, tmp_path / "out.csv")
    with pytest.raises(InputError, match="is not a file"):
        convert_nasbench101(tmp_path / "nothing", tmp_path / "out.csv")


# --- NDS ----------------------------------------------------------------------------------------------------------

CELL = [["sep_conv_3x3", 0], ["skip_connect", 1]]
GENOTYPE = {"normal": CELL, "normal_concat": [2], "reduce": CELL, "reduce_concat": [2]}
NETWORK = {
    "net": {"genotype": GENOTYPE, "depth": 8, "width": 16, "aux": False},
    "test_ep_top1": [40.0, 12.5],
    "params": 1_500_000,
    "flops": 250_000_000,
    "rng_seed": 1,
}


@pytest.mark.parametrize("content", [[NETWORK, NETWORK], {"top": [NETWORK], "mid": [NETWORK]}])
def test_nds_from_each_layout(content: object, tmp_path: Path) -> None:
    source = tmp_path / "DARTS.json"
    source.write_text(json.dumps(content))
    columns = read_columns(convert_nds(source, tmp_path / "nds.csv"), text=("genotype",))
    edges = "[('sep_conv_3x3', 0), ('skip_connect', 1)]"
    assert columns.strings("genotype")[0] == (
        f"Genotype(normal={edges}, normal_concat=[2], reduce={edges}, reduce_concat=[2])"
    )
    found = {name: values.tolist() for name, values in columns.numbers.items()}
    assert found == {
        "depth": [8, 8],
        "width": [16, 16],
        "val_acc": [87.5, 87.5],
        "params_m": [1.5, 1.5],
        "flops_m": [250, 250],
        "epochs": [2, 2],
        "seed": [1, 1],
    }


def test_other_json_is_not_taken_for_nds(tmp_path: Path) -> None:
    source = tmp_path / "other.json"
    for content, message in [
        ("[", "is not a JSON file"),
        ("{}", "has no networks"),
        ("[{}]", "a network without genotype"),
    ]:
        source.write_text(content)
        with pytest.raises(InputError, match=message):
            convert_nds(source, tmp_path / "out.csv")
