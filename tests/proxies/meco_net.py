"""NAS-Bench-201 nested as zero-cost-nas nests it: MeCo's published score counts every container's output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.proxies.recipes import named_weight
from trainless.core.arch import Arch

CONVOLUTIONS = (2, 3)


class _Through(nn.Module):
    """A module that passes on what its one part gives."""

    def __init__(self, op: nn.Module) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Tensor:
        return self.op(x)


class _Zero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, *, plain: bool = True) -> _Through:
    """In cells the convolution has a bias and the norm no scale; in reductions it is the other way round."""
    return _Through(
        nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=plain),
            nn.BatchNorm2d(outputs, affine=not plain, track_running_stats=not plain),
        )
    )


class _Cell(nn.Module):
    """All five operations of all six edges are there; only the chosen ones run."""

    def __init__(self, arch: Arch, channels: int) -> None:
        super().__init__()
        self.arch = arch
        self.edges = nn.ModuleList(
            nn.ModuleList(
                [
                    _Zero(),
                    nn.Identity(),
                    _conv(channels, channels, 1),
                    _conv(channels, channels, 3),
                    _Through(nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
                ]
            )
            for _ in arch
        )

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x]
        edges = iter(zip(self.edges, self.arch, strict=True))
        for node in (1, 2, 3):
            chosen = [next(edges) for _ in range(node)]
            nodes.append(sum(edge[option](nodes[source]) for source, (edge, option) in enumerate(chosen)))
        return nodes[3]


class _Reduction(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a = _conv(channels, 2 * channels, 3, 2, plain=False)
        self.b = _conv(2 * channels, 2 * channels, 3, plain=False)
        self.d = nn.Sequential(nn.AvgPool2d(2, 2), nn.Conv2d(channels, 2 * channels, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)) + self.d(x)


class NestedNet(nn.Module):
    def __init__(self, arch: Arch) -> None:
        super().__init__()
        self.stem = _Through(nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)))
        self.stages = nn.ModuleList(nn.Sequential(*(_Cell(arch, width) for _ in range(5))) for width in (16, 32, 64))
        self.reductions = nn.ModuleList(_Reduction(width) for width in (16, 32))
        self.top = nn.Sequential(nn.BatchNorm2d(64), nn.ReLU())
        self.classifier = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stages[0](self.stem(x))
        for reduction, stage in zip(self.reductions, self.stages[1:], strict=True):
            x = stage(reduction(x))
        return self.classifier(self.top(x).mean((2, 3)))


def _keyed(net: NestedNet) -> list[tuple[str, nn.Module]]:
    found = [("stem", net.stem.op[0]), ("fc", net.classifier)]
    for index, reduction in enumerate(net.reductions, start=1):
        parts = {"a": reduction.a.op[1], "b": reduction.b.op[1], "d": reduction.d[1]}
        found += [(f"r{index}.{key}", layer) for key, layer in parts.items()]
    cells = [cell for stage in net.stages for cell in stage]
    for index, cell in enumerate(cells):
        for edge, option in enumerate(cell.arch):
            if option in CONVOLUTIONS:
                found.append((f"c{index}.e{edge}", cell.edges[edge][option].op[1]))
    return found


def nested(arch: Arch, seed: int = 0) -> tuple[NestedNet, Tensor]:
    """The network and the noise image that the published program draws right after building its network."""
    with torch.random.fork_rng():
        torch.manual_seed(seed + 77)
        net = NestedNet(arch)
        image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        for key, layer in _keyed(net):
            layer.weight.copy_(torch.from_numpy(named_weight(key, tuple(layer.weight.shape), seed)))
            if layer.bias is not None:
                layer.bias.zero_()
    return net, image
