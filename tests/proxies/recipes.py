"""The golden values' recipes: fixed weights and inputs on which the published programs were run."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, whole
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.spaces.nb201 import OPERATIONS, NasBench201

SPACE = NasBench201()
TASK = Task.noise((3, 32, 32), 10)
SINGLE = Task.noise((3, 32, 32), 1, kind="regression")
REDUCTION_NORMS = ("blocks.*.first.2", "blocks.*.second.2")


def rows(golden: Path) -> list[dict[str, str]]:
    with open(golden / "scores.csv", newline="") as file:
        return list(csv.DictReader(file))


def named_batch(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = np.random.RandomState(1000 + seed).standard_normal((n, 3, 32, 32)).astype("f4")
    return torch.from_numpy(x), torch.from_numpy(np.random.RandomState(2000 + seed).randint(0, 10, n))


def indexed_batch(n: int, j: int = 0) -> tuple[Tensor, Tensor]:
    x = np.random.RandomState(7 + j).standard_normal((n, 3, 32, 32)).astype("f4")
    return torch.from_numpy(x), torch.from_numpy(np.random.RandomState(107 + j).randint(0, 10, n))


def keyed_layers(net: nn.Module) -> list[tuple[str, nn.Module]]:
    """The recipe's keys and our layers."""
    found: list[tuple[str, nn.Module]] = [("stem", net.stem[0])]
    cell = reduction = 0
    for block in net.blocks:
        if not isinstance(getattr(block, "edges", None), nn.ModuleList):
            reduction += 1
            parts = {"a": block.first[1], "b": block.second[1], "d": block.shortcut[1]}
            found += [(f"r{reduction}.{key}", layer) for key, layer in parts.items()]
            continue
        for edge, operations in enumerate(block.edges):
            found += [(f"c{cell}.e{edge}", operations[name][1]) for name in OPERATIONS[2:4] if name in operations]
        cell += 1
    return [*found, ("fc", net.classifier)]


@torch.no_grad()
def by_name(net: nn.Module, seed: int = 0) -> nn.Module:
    for key, layer in keyed_layers(net):
        layer.weight.copy_(torch.from_numpy(named_weight(key, tuple(layer.weight.shape), seed)))
        if layer.bias is not None:
            layer.bias.zero_()
    return net


def named_weight(key: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    bound = 1 / np.sqrt(np.prod(shape[1:]))
    source = np.random.RandomState(zlib.crc32(f"{seed}/{key}".encode()))
    return source.uniform(-bound, bound, shape).astype("f4")


@torch.no_grad()
def by_index(net: nn.Module, first: int = 0) -> nn.Module:
    for index, (name, tensor) in enumerate(net.named_parameters(), start=first):
        if tensor.ndim > 1:
            drawn = np.random.RandomState(1000 + index).standard_normal(tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(drawn * np.sqrt(2 / tensor[0].numel())))
        elif name.endswith("weight"):
            tensor.fill_(1)
        else:
            tensor.zero_()
    return net


def named_probe(arch: Arch, n: int, task: Task = TASK) -> Probe:
    x, y = named_batch(n)
    y = y.float() if task is SINGLE else y
    return Probe.of(by_name(SPACE.build(arch, task)), (x, y), task.target)


def indexed_probe(arch: Arch, sizes: list[int], double: bool = False) -> Probe:
    """Batches j = 0, 1, … one after the other."""
    batches = [indexed_batch(size, j) for j, size in enumerate(sizes)]
    x, y = torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])
    net = SPACE.build(arch, TASK)
    net = by_index(net.double() if double else net)
    return Probe.of(net, (x.double() if double else x, y), TASK.target)


def teg_probe(arch: Arch, sizes: list[int]) -> Probe:
    """TEG-NAS's thin network: weights are drawn for the whole supernet, and the arch's own are used."""
    space = SPACE.scaled(3, 1)
    weights = dict(by_index(space.build_region(whole(space.decisions), TASK), first=1).named_parameters())
    net = space.build(arch, TASK)
    batches = [indexed_batch(size, j) for j, size in enumerate(sizes)]
    return Probe.of(_with(net, weights), tuple(torch.cat(part) for part in zip(*batches, strict=True)), TASK.target)


def teg_cell_probe(arch: Arch) -> Probe:
    """One cell of one channel on three batches of 3×3 inputs; index 0 is the architecture, 1 to 3 an unused stem."""
    supernet = SPACE.build_cell_region(whole(SPACE.decisions), 2)
    weights = dict(by_index(supernet, first=4).named_parameters())
    source = np.random.RandomState(99)
    x = np.concatenate([source.standard_normal((1000, 1, 3, 3)) for _ in range(3)]).astype("f4")
    y = torch.zeros(len(x), dtype=torch.long)
    return Probe.of(
        _with(SPACE.build_cell(arch, 2), weights), (torch.from_numpy(x), y), Task.noise((1, 3, 3), 2).target
    )


@torch.no_grad()
def _with(net: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    for name, tensor in net.named_parameters():
        tensor.copy_(weights[name])
    return net
