"""InceptionTime for signals: kernels of several lengths side by side (Ismail Fawaz et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.ops import BlockNetwork, Tally, conv
from trainless.spaces.protocol import Counts, IndependentDecisions, require_arch, require_grid
from trainless.spaces.residual import initialise
from trainless.spaces.sketch import Block, Chain

FILTERS = (8, 16, 32)
MODULES = (3, 6, 9)
KERNELS = ((5, 9, 19), (9, 19, 39))
STRIDES = (1, 2, 4, 8, 16)
EVERY = 3  # modules around which a shortcut goes
STEM = 9
LONGEST = 256  # of a plain network's maps
_DECISIONS = (
    Decision("filters", tuple(map(str, FILTERS))),
    Decision("modules", tuple(map(str, MODULES))),
    Decision("kernels", tuple("/".join(map(str, kernels)) for kernels in KERNELS)),
    Decision("stride", tuple(map(str, STRIDES))),
)


@dataclass(frozen=True)
class Inception(IndependentDecisions):
    """InceptionTime: filters, modules, kernels and stem stride are open; signals only.

    A module is a 1×1 bottleneck, three convolutions of different lengths on it, a maximum of three positions with a 1×1
    convolution beside them, all put together, norm and ReLU; a shortcut goes around every three modules. A stride
    above 1 is that of a stem before them (convolution of nine, stride 2, and a maximum over the rest), which the paper
    does not have. Kernels are odd, where the paper's are 10, 20 and 40 long.

    Example:
        >>> space = Inception()
        >>> space.format(space.plain(Task.noise((1, 150), classes=2)))
        'filters=32,modules=6,kernels=9/19/39,stride=1'
    """

    name = "inception"
    decisions = _DECISIONS

    def check(self, task: Task) -> None:
        require_grid(self, task, 4)
        if task.dims != 1:
            raise InputError(
                f"inception takes signals; the task {task.name!r} has inputs of shape {task.input_shape}: choose"
                " another space, such as residual"
            )

    def plain(self, task: Task) -> Arch:
        """The paper's network; half of its filters and a stem where signals are longer than 256."""
        self.check(task)
        length = task.input_shape[1]
        fits = [place for place, stride in enumerate(STRIDES) if -(-length // stride) <= LONGEST]
        return (2 if length <= LONGEST else 1, 1, 1, fits[0] if fits else len(STRIDES) - 1)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        filters, modules, kernels, stride = _values(arch)
        inputs, blocks = task.input_shape[0], list[nn.Module]()
        front = stem(inputs, 4 * filters, stride)
        inputs = inputs if stride == 1 else 4 * filters
        for _ in range(modules // EVERY):
            blocks.append(InceptionBlock(inputs, filters, kernels))
            inputs = 4 * filters
        net = BlockNetwork(1, front, blocks, nn.Identity(), nn.Linear(inputs, task.target.outputs))
        initialise(net)
        return net

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        filters, modules, kernels, stride = _values(arch)
        tally, (inputs, length) = Tally(), task.input_shape
        size: tuple[int, ...] = (length,)
        if stride > 1:
            size = tally.conv(inputs, 4 * filters, STEM, size, stride=2, norm=True)
            size, inputs = ((size[0] - 1) // (stride // 2) + 1,), 4 * filters
        for _ in range(modules // EVERY):
            tally.conv(inputs, 4 * filters, 1, size, norm=True)  # the shortcut
            for _ in range(EVERY):
                tally.conv(inputs, filters, 1, size)
                for kernel in kernels:
                    tally.conv(filters, filters, kernel, size)
                tally.conv(inputs, filters, 1, size)
                tally.norm(4 * filters)
                inputs = 4 * filters
        tally.linear(inputs, task.target.outputs)
        return tally.counts()

    def sketch(self, arch: Arch) -> tuple[Chain]:
        filters, modules, kernels, stride = _values(arch)
        front = (Block("stem", f"stride {stride}"),) if stride > 1 else ()
        named = f"{EVERY} × inception, kernels {'/'.join(map(str, kernels))}"
        blocks = (Block(named, f"{4 * filters} channels") for _ in range(modules // EVERY))
        return (Chain("network", (*front, *blocks, Block("average, classifier"))),)


def _values(arch: Arch) -> tuple[int, int, tuple[int, ...], int]:
    filters, modules, kernels, stride = arch
    return FILTERS[filters], MODULES[modules], KERNELS[kernels], STRIDES[stride]


def stem(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Nothing at stride 1; else a convolution of stride 2, norm, ReLU and a maximum over the rest."""
    if stride == 1:
        return nn.Identity()
    layers = [conv(1, inputs, outputs, STEM, 2), nn.BatchNorm1d(outputs), nn.ReLU()]
    if (rest := stride // 2) > 1:
        layers.append(nn.MaxPool1d(rest + 1, rest, rest // 2))
    return nn.Sequential(*layers)


class InceptionModule(nn.Module):
    """Convolutions of three lengths and a maximum side by side, norm and ReLU."""

    def __init__(self, inputs: int, filters: int, kernels: tuple[int, ...], *, last: bool) -> None:
        super().__init__()
        self.bottleneck = conv(1, inputs, filters, 1)
        self.convs = nn.ModuleList(conv(1, filters, filters, kernel) for kernel in kernels)
        self.beside = nn.Sequential(nn.MaxPool1d(3, 1, 1), conv(1, inputs, filters, 1))
        self.norm = nn.BatchNorm1d((len(kernels) + 1) * filters)
        self.relu = nn.Identity() if last else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bottleneck(x)
        together = torch.cat([*(each(inner) for each in self.convs), self.beside(x)], 1)
        result: Tensor = self.relu(self.norm(together))
        return result


class InceptionBlock(nn.Module):
    """Three modules and a shortcut around them; ReLU after the sum, where the last module has none of its own."""

    def __init__(self, inputs: int, filters: int, kernels: tuple[int, ...]) -> None:
        super().__init__()
        outputs = 4 * filters
        self.inner = nn.Sequential(
            *(
                InceptionModule(outputs if place else inputs, filters, kernels, last=place == EVERY - 1)
                for place in range(EVERY)
            )
        )
        self.shortcut = nn.Sequential(conv(1, inputs, outputs, 1), nn.BatchNorm1d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.relu(self.inner(x) + self.shortcut(x))
        return result
