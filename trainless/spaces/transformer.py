"""Vision transformers for images, signals and volumes (Dosovitskiy et al., 2021)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import has_options
from trainless.spaces.ops import CONV, Tally
from trainless.spaces.protocol import Counts, Network, ShownSpace, format_pairs, parse_pairs, require_arch, require_grid
from trainless.spaces.sketch import Block, Chain

DEPTHS = (2, 4, 6, 8, 12)
WIDTHS = (64, 96, 128, 192, 256, 384)
HEADS = (1, 2, 3, 4, 6, 8)
RATIOS = (1, 2, 3, 4)
POOLS = ("class", "mean")
_SHORT = 1024


@dataclass(frozen=True)
class Shape:
    """What an arch stands for."""

    depth: int
    width: int
    heads: int
    ratio: int
    patch: int
    pool: str


@dataclass(frozen=True)
class Transformer(ShownSpace):
    """Vision transformers: depth, width, heads, ratio, patch size and pooling are open.

    Patches, learnt positions, pre-norm blocks of attention and a GELU layer pair, class token or mean, head.
    Valid where the heads divide the width. Inputs whose size no patch divides are filled up with zeros at the end
    of each axis. There is no dropout.

    ``patches`` are the edge lengths to choose from.

    Example:
        >>> space = Transformer(patches=(8, 16))
        >>> tiny = space.parse("depth=12,width=192,heads=3,ratio=4,patch=16,pool=class")
        >>> space.counts(tiny, Task.noise((3, 224, 224), classes=1000)).params
        5717416
    """

    patches: tuple[int, ...] = (2, 4, 8)
    name = "transformer"

    def __post_init__(self) -> None:
        object.__setattr__(self, "patches", tuple(self.patches))
        if not self.patches or min(self.patches) < 1 or len(set(self.patches)) < len(self.patches):
            raise InputError(f"transformer: patches={self.patches} was given; expected different sizes of at least 1")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self.patches)

    def check(self, task: Task) -> None:
        require_grid(self, task)
        if min(task.input_shape[1:]) < max(self.patches):
            raise InputError(
                f"a patch of {max(self.patches)} does not fit inputs of size"
                f" {'x'.join(map(str, task.input_shape[1:]))}: give smaller ones, such as patches=(1, 2)"
                " (--space-args patches=1+2)"
            )

    def valid(self, arch: Arch) -> bool:
        if not has_options(self, arch):
            return False
        shape = self.shape(arch)
        return shape.width % shape.heads == 0

    def canonical(self, arch: Arch) -> Arch:
        return arch

    def shape(self, arch: Arch) -> Shape:
        depth, width, heads, ratio, patch, pool = arch
        return Shape(DEPTHS[depth], WIDTHS[width], HEADS[heads], RATIOS[ratio], self.patches[patch], POOLS[pool])

    def build(self, arch: Arch, task: Task) -> nn.Module:
        """Positions and class token are N(0, 0.02²), everything else is by PyTorch's own rules."""
        require_arch(self, arch, task)
        return VisionTransformer(self.shape(arch), task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        """Linear layers, patches and the two products of attention, queries by keys and weights by values."""
        require_arch(self, arch, task)
        shape, tally = self.shape(arch), Tally()
        patches = math.prod(_grid(task, shape.patch))
        tokens = patches + (shape.pool == "class")
        tally.linear(shape.patch**task.dims * task.input_shape[0], shape.width, patches)
        tally.parameter(tokens * shape.width)
        if shape.pool == "class":
            tally.parameter(shape.width)
        for _ in range(shape.depth):
            tally.norm(shape.width)
            tally.linear(shape.width, 3 * shape.width, tokens)
            tally.flops += 2 * tokens * tokens * shape.width
            tally.linear(shape.width, shape.width, tokens)
            tally.norm(shape.width)
            tally.linear(shape.width, shape.ratio * shape.width, tokens)
            tally.linear(shape.ratio * shape.width, shape.width, tokens)
        tally.norm(shape.width)
        tally.linear(shape.width, task.target.outputs)
        return tally.counts()

    def parse(self, text: str) -> Arch:
        arch = parse_pairs(self.name, self.decisions, text)
        shape = self.shape(arch)
        if not self.valid(arch):
            raise InputError(f"transformer: {shape.heads} heads do not divide a width of {shape.width}: change one")
        return arch

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        return format_pairs(self.decisions, arch)

    def sketch(self, arch: Arch) -> tuple[Chain]:
        shape = self.shape(arch)
        blocks = (
            Block("patches", f"edge {shape.patch}, width {shape.width}, learnt positions"),
            Block(f"{shape.depth} × attention", f"{shape.heads} heads of {shape.width // shape.heads}, pre-norm"),
            Block(
                f"{shape.depth} × linear, GELU, linear", f"{shape.width} → {shape.ratio * shape.width} → {shape.width}"
            ),
            Block("class token" if shape.pool == "class" else "mean over tokens"),
            Block("classifier"),
        )
        return (Chain("network", blocks),)


@functools.cache
def _decisions(patches: tuple[int, ...]) -> tuple[Decision, ...]:
    lists = {"depth": DEPTHS, "width": WIDTHS, "heads": HEADS, "ratio": RATIOS, "patch": patches}
    numbers = (Decision(name, tuple(map(str, options))) for name, options in lists.items())
    return (*numbers, Decision("pool", POOLS))


def _grid(task: Task, patch: int) -> tuple[int, ...]:
    """Patches along each axis, the last one filled up where need be."""
    return tuple(-(-length // patch) for length in task.input_shape[1:])


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """``softmax(Q Kᵀ / √d) V`` in plain products, which can be differentiated as often as a proxy needs."""
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v


class Attention(nn.Module):
    """Multi-head self-attention, then one linear layer.

    Up to 1,024 tokens it is :func:`attend`; beyond, PyTorch's fused kernel, which needs little memory but on some
    devices cannot be differentiated twice.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = attend(q, k, v) if tokens <= _SHORT else F.scaled_dot_product_attention(q, k, v)
        y: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return y


class TransformerBlock(nn.Module):
    """``x + attention(norm(x))``, then ``x + mlp(norm(x))``."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, ratio * width), nn.GELU(), nn.Linear(ratio * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class VisionTransformer(Network):
    """The network of a :class:`Shape`."""

    def __init__(self, shape: Shape, task: Task) -> None:
        super().__init__()
        grid = _grid(task, shape.patch)
        missing = [count * shape.patch - length for count, length in zip(grid, task.input_shape[1:], strict=True)]
        self.padding = [part for size in reversed(missing) for part in (0, size)]
        self.patches = CONV[task.dims](task.input_shape[0], shape.width, shape.patch, shape.patch)
        self.token = nn.Parameter(torch.empty(1, 1, shape.width)) if shape.pool == "class" else None
        self.positions = nn.Parameter(torch.empty(1, math.prod(grid) + (shape.pool == "class"), shape.width))
        self.blocks = nn.ModuleList(TransformerBlock(shape.width, shape.heads, shape.ratio) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.width)
        self.classifier = nn.Linear(shape.width, task.target.outputs)
        self.block_names = tuple(f"blocks.{index}" for index in range(shape.depth))
        for parameter in (self.token, self.positions):
            if parameter is not None:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(F.pad(x, self.padding)).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        x = x + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits: Tensor = self.classifier(x.mean(1) if self.token is None else x[:, 0])
        return logits
