from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainless.bench.tables import peer_scores, registry, table
from trainless.bench.tables.files import DataFile, columns_of, read_columns
from trainless.bench.tables.nb101 import hashed
from trainless.bench.tables.nb201 import ATTACKS, DEVICES, TASKS
from trainless.bench.tables.peers import PEERS
from trainless.bench.tables.table import population
from trainless.core.errors import InputError, UnknownName
from trainless.core.files import data_directory

BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
FILE = DataFile("toy/toy.csv.gz", "a toy", "a toy shop", ("name",))


@pytest.fixture
def toy_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    (tmp_path / "toy").mkdir()
    with gzip.open(tmp_path / FILE.path, "wt") as stream:
        stream.write("name,value\na,1.5\nb,\n")
    return tmp_path


def test_columns_are_numbers_and_text(toy_data: Path) -> None:
    columns = columns_of(FILE)
    assert columns.strings("name") == ("a", "b")
    assert columns.floats("value").tolist() == pytest.approx([1.5, np.nan], nan_ok=True)
    with pytest.raises(InputError, match="has no column 'nothing'; its columns are: value"):
        columns.floats("nothing")


def test_a_missing_table_says_what_it_is_and_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"nb201_all.csv.gz is not in .*NAS-Bench-201's accuracies.*github.*put it at"):
        table("nb201")
    for name in registry.names():
        with pytest.raises(InputError, match="TRAINLESS_DATA"):
            table(name)


def test_a_damaged_table_is_not_opened(toy_data: Path) -> None:
    (toy_data / "SHA256SUMS").write_text(f"{'0' * 64}  ./{FILE.path}\n")
    with pytest.raises(InputError, match=r"checksum .* but SHA256SUMS expects 000000000000"):
        columns_of(FILE)


def test_the_data_directory_is_in_the_users_cache_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINLESS_DATA", raising=False)
    assert data_directory().parts[-2:] == ("trainless", "data")


def test_malformed_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1\n")
    with pytest.raises(InputError, match="a row has 1 fields, but the header has 2"):
        read_columns(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("x\nword\n")
    with pytest.raises(InputError, match=r"column 'x' of .* should hold numbers"):
        read_columns(tmp_path / "b.csv")


def test_nb201_has_the_stated_facts(data_dir: Path) -> None:
    nb201 = table("nb201")
    assert len(nb201) == 15_625
    best = [nb201.column(task, "test").max() for task in TASKS]
    assert best == pytest.approx([94.373333, 73.513333, 47.311111], abs=1e-6)
    assert nb201.archs[int(nb201.column("cifar10", "test").argmax())] == BEST
    assert nb201.query(BEST, "cifar10", "test", 200) == nb201.query((3, 3, 3, 1, 3, 2), "cifar10", "test")
    assert nb201.query(BEST, "cifar10", "test", 12) < nb201.query(BEST, "cifar10", "test", 200)
    assert nb201.query(BEST, "cifar10", "train_time", 12) == pytest.approx(
        nb201.query(BEST, "cifar10", "train_time", 200) * 12 / 200
    )
    assert nb201.fidelities("cifar100", "valid") == (12, 200)


def test_nb201_params_follow_from_the_operations(data_dir: Path) -> None:
    from trainless.core.task import Task
    from trainless.spaces.nb201 import NasBench201

    nb201, space = table("nb201"), NasBench201()
    for classes, task in ((10, "cifar10"), (100, "cifar100"), (120, "ImageNet16-120")):
        shape = Task.noise((3, 32, 32), classes)
        for row in range(0, 15_625, 1571):
            arch = space.parse(nb201.archs[row])
            assert nb201.column(task, "params")[row] == pytest.approx(space.counts(arch, shape).params / 1e6)


def test_nb201_devices_and_attacks_cover_every_arch(data_dir: Path) -> None:
    nb201 = table("nb201")
    for task in TASKS:
        for device in DEVICES:
            assert np.isfinite(nb201.column(task, device)).all()
    for attack in ("clean", *ATTACKS):
        assert np.isfinite(nb201.column("cifar10", attack)).all()
    assert nb201.query(nb201.archs[0], "ImageNet16-120", "edgegpu_latency") == 5.82804
    assert nb201.query(nb201.archs[1], "cifar10", "fgsm@Linf_eps-8.0") == 38.1
    runs = [nb201.query(nb201.archs[0], "cifar10", f"test_seed_{seed}") for seed in range(3)]
    assert runs == [85.62, 86.18, 85.79]


def test_transnas_micro_and_macro_have_the_stated_facts(data_dir: Path) -> None:
    micro, macro = table("transnas-micro"), table("nb-macro")
    assert (len(micro), len(macro)) == (4_096, 6_561)
    assert len(micro.tasks) == 7
    assert micro.query("0_00_001", "class_scene", "valid") == 7.4840765
    assert micro.query("64-41414-0_00_001", "room_layout", "valid") == -1.0942842
    assert all(np.isfinite(micro.column(task, "valid")).all() for task in micro.tasks)
    seeds = [macro.query("2012100", "cifar10", f"test_seed_{seed}") for seed in range(3)]
    assert macro.query("02012100", "cifar10", "test") == pytest.approx(np.mean(seeds))
    assert macro.query((0, 2, 0, 1, 2, 1, 0, 0), "cifar10", "params") == pytest.approx(0.890666)


def test_columns_are_read_only(data_dir: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        table("darts").column("cifar10", "valid")[0] = 0


@pytest.mark.slow
def test_opening_nb201_is_quick_and_small(data_dir: Path) -> None:
    program = (
        "import resource, time; from trainless.bench.tables import table\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "before, began = peak(), time.process_time()\n"
        "nb201 = table('nb201'); nb201.column('cifar10', 'test'); opened = time.process_time() - began\n"
        "[nb201.column(*key) for key in nb201.columns]; nb201.index(nb201.archs[5])\n"
        "print(opened, peak() - before)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, found.stdout.split())
    assert seconds < 1
    assert megabytes < 100


def test_nb101_is_found_by_hash_and_by_any_twin(data_dir: Path) -> None:
    nb101 = table("nb101")
    assert len(nb101) == 20_001
    assert nb101.fidelities("cifar10", "valid") == (4, 12, 36, 108)
    first = "00005c142e6f48ac74fdcf73e3439874"
    assert nb101.query(first, "cifar10", "valid") == 93.0489
    assert nb101.query(nb101.archs[0], "cifar10", "params") == pytest.approx(8.555530)
    rows, operations = nb101.archs[0].split(";")
    twin = _swapped(rows.split("/"), operations.split("|"), 3, 4)
    assert twin != nb101.archs[0]
    assert nb101.index(twin) == 0
    assert all(hashed(arch) == key for arch, key in zip(nb101.archs[::1000], nb101.keys[::1000], strict=True))


def _swapped(rows: list[str], operations: list[str], one: int, other: int) -> str:
    order = list(range(len(rows)))
    order[one], order[other] = order[other], order[one]
    matrix = ["".join(rows[source][target] for target in order) for source in order]
    return f"{'/'.join(matrix)};{'|'.join(operations[vertex] for vertex in order)}"


def test_ecnas_and_darts(data_dir: Path) -> None:
    ecnas, darts = table("ecnas"), table("darts")
    assert len(ecnas) == 2_532
    assert ecnas.query("e1aeb470572477cf15b1bd3644d59370", "cifar10", "energy") == 0.01758
    assert ecnas.query(ecnas.archs[0], "cifar10", "valid") == pytest.approx(58.16306)
    accuracy = darts.column("cifar10", "valid")
    assert (len(darts), round(accuracy.min(), 1), round(accuracy.max(), 1)) == (1000, 10.2, 86.6)
    assert darts.index(darts.archs[7].replace(" ", "")) == darts.index(darts.archs[7])


def test_nbnlp_is_found_by_number_and_recipe(data_dir: Path) -> None:
    nbnlp = table("nbnlp")
    perplexity = nbnlp.column("ptb", "perplexity")
    assert np.isfinite(perplexity).sum() >= 10_032
    assert nbnlp.query("1000075", "ptb", "perplexity") == 146.0358807
    assert nbnlp.query("1000000", "wikitext2", "params") == pytest.approx(15.066078)
    recipe = json.loads(nbnlp.archs[nbnlp.index("1000000")])
    turned = json.dumps(dict(reversed(recipe.items())))
    assert nbnlp.index(turned) == nbnlp.index("1000000")


def test_questions_without_an_answer_are_named(data_dir: Path) -> None:
    nb201 = table("nb201")
    with pytest.raises(UnknownName, match="no task 'svhn'; its tasks are: ImageNet16-120, cifar10, cifar100"):
        nb201.column("svhn", "test")
    with pytest.raises(UnknownName, match=r"no metric 'loss' of cifar10; there are: .*test"):
        nb201.query(BEST, "cifar10", "loss")
    with pytest.raises(InputError, match="after 12, 200 epochs, not 90"):
        nb201.query(BEST, "cifar10", "test", 90)
    with pytest.raises(InputError, match="table nb201 does not have 'nonsense'"):
        nb201.index("nonsense")
    with pytest.raises(UnknownName, match="no table is called 'nb202'; did you mean 'nb201'"):
        table("nb202")


def test_populations(data_dir: Path) -> None:
    nb201 = table("nb201")
    assert population(nb201, "all").sum() == 15_625
    assert population(nb201, "no-dead-edges").sum() == 9_445
    with pytest.raises(UnknownName, match="no population is called 'some'; there are: all, no-dead-edges, canonical"):
        population(nb201, "some")
    with pytest.raises(InputError, match="dead edges are known in nb201, but table darts"):
        population(table("darts"), "no-dead-edges")


@pytest.mark.slow
def test_canonical_networks_stand_for_all(data_dir: Path) -> None:
    from trainless.spaces.nb201 import NasBench201

    nb201, space = table("nb201"), NasBench201()
    mask = population(nb201, "canonical")
    classes = {space.canonical(space.parse(arch)) for arch in nb201.archs}
    chosen = [space.canonical(space.parse(nb201.archs[row])) for row in np.flatnonzero(mask)]
    assert len(chosen) == len(set(chosen)) == len(classes)


@pytest.mark.slow
def test_every_peer_loads_on_archs_of_its_table(data_dir: Path) -> None:
    sizes = {}
    for name, peer in PEERS.items():
        frame = peer_scores(name, peer.tasks[0])
        sizes[name] = len(frame)
        assert frame.index.name == "arch"
        assert frame.index.is_unique or name in ("nb101-suite-zero", "nbnlp-metrics")  # which repeat some cells
        if peer.table != "nb101":
            table(peer.table).rows(frame.index[:5])
    assert sizes == {
        "suite-zero": 9_445,
        "suite-zero-timed": 725,
        "zen": 15_625,
        "naswot": 15_625,
        "epsilon": 15_625,
        "nb101-suite-zero": 500,
        "nb101-zen": 10_250,
        "nbnlp-metrics": 12_342,
    }
    assert peer_scores("epsilon")["epsilon"].isna().sum() == 6_399
    with pytest.raises(UnknownName, match="no published scores are called 'zero'"):
        peer_scores("zero")
    with pytest.raises(UnknownName, match="have no task 'svhn'; there are: cifar10, ImageNet16-120"):
        peer_scores("epsilon", "svhn")


def test_suite_zeros_archs_are_those_without_dead_edges(data_dir: Path) -> None:
    nb201 = table("nb201")
    mask = population(nb201, "no-dead-edges")
    assert set(peer_scores("suite-zero").index) == {nb201.archs[row] for row in np.flatnonzero(mask)}


def test_a_copy_of_the_data_opens_without_checksums(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "darts").mkdir()
    shutil.copy(data_dir / "darts/darts_1000_cifar10.csv.gz", tmp_path / "darts")
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    assert len(table("darts")) == 1000
