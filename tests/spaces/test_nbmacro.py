"""NAS-Bench-Macro against the benchmark's own parameters and FLOPs, and twins on real networks."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
import torch

from tests.spaces.oracle import built_counts
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nbmacro import NasBenchMacro

SPACE = NasBenchMacro()
CIFAR = Task.noise((3, 32, 32), classes=10)


def test_parameters_and_flops_of_all_networks_are_the_tables(data_dir: Path) -> None:
    with gzip.open(data_dir / "nbmacro" / "nbmacro_cifar10.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    archs = [SPACE.parse(row["arch"]) for row in rows]
    assert set(archs) == set(enumerate_archs(SPACE))
    for arch, row in zip(archs, rows, strict=True):
        counts = SPACE.counts(arch, CIFAR)
        assert (counts.params, counts.flops) == (int(row["params"]), int(row["flops"])), row["arch"]


@pytest.mark.parametrize("text", ["00000000", "02012100", "22222222"])
@pytest.mark.parametrize("shape", [(2, 33), (3, 32, 32), (1, 9, 12, 10)], ids=str)
def test_counts_are_those_of_the_network_in_every_dimension(text: str, shape: tuple[int, ...]) -> None:
    space, task = NasBenchMacro(channels=4, last=16), Task.noise(shape, classes=3)
    arch = space.parse(text)
    assert space.counts(arch, task) == built_counts(space, arch, task)


def test_twins_compute_the_same_with_the_same_weights() -> None:
    """What is left out has no weights, so the state of one fits the other layer by layer, in order."""
    space, task = NasBenchMacro(channels=2, last=4), Task.noise((3, 16, 16), classes=3)
    assert len({space.canonical(arch) for arch in enumerate_archs(space)}) == space.extent().different
    x, _ = task.batch(4, seed=0)
    for text, twin in (("20101001", "20110010"), ("00002021", "00020021"), ("01102120", "01120120")):
        arch = space.parse(text)
        key = space.canonical(arch)
        assert space.format(key) == twin
        net, other = space.build(arch, task).eval(), space.build(key, task).eval()
        other.load_state_dict(dict(zip(other.state_dict(), net.state_dict().values(), strict=True)))
        assert torch.equal(net(x), other(x))


def test_leading_zeros_may_be_missing() -> None:
    assert SPACE.format(SPACE.parse("201210")) == "00201210"


@pytest.mark.parametrize("text", ["", "3", "020121000", "0201210x", "²"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a digit from 0 to 2"):
        SPACE.parse(text)
