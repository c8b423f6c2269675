"""The MobileNetV2 space of ZenNAS, AZ-NAS and VKDNW, and a variant for small inputs."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import Extent, has_options, size
from trainless.spaces.ops import CONV, NORM, BlockNetwork, Tally, conv
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid
from trainless.spaces.sketch import Block, Chain


@dataclass(frozen=True)
class Stages:
    """Strides and the lists to choose from, one per stage."""

    stem_stride: int
    stem: tuple[int, ...]
    strides: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    bottlenecks: tuple[tuple[int, ...], ...]
    last: int

    @property
    def halvings(self) -> int:
        return (self.stem_stride, *self.strides).count(2)


IMAGENET = Stages(
    stem_stride=2,
    stem=(8, 16, 24, 32, 48),
    strides=(2, 2, 2, 2),
    channels=(
        (16, 24, 32, 40, 48, 64),
        (24, 32, 48, 64, 80, 96),
        (48, 64, 80, 96, 128, 160),
        (96, 128, 160, 192, 224, 256),
    ),
    bottlenecks=(
        (8, 16, 24, 32, 40, 64),
        (16, 24, 32, 48, 64, 80),
        (32, 48, 64, 80, 96, 128),
        (64, 96, 128, 160, 192, 224),
    ),
    last=2048,
)
SMALL = Stages(
    stem_stride=1,
    stem=(8, 16, 24, 32),
    strides=(1, 2, 2),
    channels=((8, 16, 24, 32), (16, 24, 32, 48, 64), (32, 48, 64, 96, 128)),
    bottlenecks=((8, 16, 24), (8, 16, 24, 32, 48), (16, 24, 32, 48, 64)),
    last=512,
)


_CALL = re.compile(r"\s*(\w+)\(([0-9,\s]*)\)\s*")
_GROUP = re.compile(r"SuperResIDWE([0-9]{1,6})K([0-9]{1,6})")
_STEM, _LAST = "SuperConvK3BNRELU", "SuperConvK1BNRELU"


def write_plan(plan: NetworkPlan) -> str:
    """The string of a plan; the stem's inputs are written as 3, whatever the task has."""
    groups = "".join(
        f"SuperResIDWE{g.expansion}K{g.kernel}({g.inputs},{g.outputs},{g.stride},{g.bottleneck},{g.layers})"
        for g in plan.groups
    )
    stem = f"{_STEM}(3,{plan.stem},{plan.stem_stride},1)"
    return f"{stem}{groups}{_LAST}({plan.groups[-1].outputs},{plan.last},1,1)"


def read_plan(text: str, space: str) -> NetworkPlan:
    """The plan of a string; each block has to take what the one before it gives."""
    calls = _calls(text, space)
    shape = f"{_STEM}(…), blocks SuperResIDWE<expansion>K<kernel>(…) and {_LAST}(…)"
    for place, wanted in ((0, _STEM), (-1, _LAST)):
        if calls[place][0] != wanted:
            where = "begins" if place == 0 else "ends"
            raise InputError(f"{space}: the network {where} with {calls[place][0]}; expected {wanted}: {shape}")
    if len(calls) < 3:
        raise InputError(f"{space}: there is no block between {_STEM} and {_LAST}; expected {shape}")
    stem = _numbers(calls[0], 4, "inputs,outputs,stride,1", space)
    last = _numbers(calls[-1], 4, "inputs,outputs,1,1", space)
    groups = tuple(_group(call, space) for call in calls[1:-1])
    given = stem[1]
    for (block, _), inputs, outputs in [
        *((call, g.inputs, g.outputs) for call, g in zip(calls[1:-1], groups, strict=True)),
        (calls[-1], last[0], last[1]),
    ]:
        if inputs != given:
            raise InputError(f"{space}: {block} takes {inputs} channels, but the block before it gives {given}")
        given = outputs
    return NetworkPlan(stem[1], stem[2], groups, last[1])


def _calls(text: str, space: str) -> list[tuple[str, str]]:
    calls, position = [], 0
    if not text.strip():
        raise InputError(f"{space}: nothing was given; expected {_STEM}(3,8,2,1) and so on (trainless show random)")
    while position < len(text):
        match = _CALL.match(text, position)
        if match is None:
            raise InputError(
                f"{space}: {text[position : position + 30]!r} is no block of numbers; expected such as"
                " SuperResIDWE6K3(8,32,2,8,1)"
            )
        calls.append((match[1], match[2]))
        position = match.end()
    return calls


def _numbers(call: tuple[str, str], length: int, meaning: str, space: str) -> tuple[int, ...]:
    parts = [part.strip() for part in call[1].split(",")]
    if len(parts) != length or not all(re.fullmatch("[0-9]{1,6}", part) for part in parts):
        raise InputError(f"{space}: {call[0]}({call[1]}) was given; expected {call[0]}({meaning})")
    return tuple(map(int, parts))


def _group(call: tuple[str, str], space: str) -> Group:
    match = _GROUP.fullmatch(call[0])
    if match is None:
        raise InputError(f"{space}: {call[0]!r} is not a block; expected SuperResIDWE<expansion>K<kernel>")
    inputs, outputs, stride, bottleneck, layers = _numbers(call, 5, "inputs,outputs,stride,bottleneck,layers", space)
    return Group(int(match[2]), int(match[1]), inputs, outputs, stride, bottleneck, layers)


KERNELS = (3, 5, 7)
EXPANSIONS = (1, 2, 4, 6)
_PARTS = 5  # decisions of one group: kernel, expansion, channels, bottleneck, layers


@dataclass(frozen=True)
class MobileNet(ShownSpace):
    """MobileNet: inverted residual blocks; kernel, expansion, widths and depth of each stage are open.

    A network is a 3×3 stem, stages of one or two groups ``SuperResIDWE<e>K<k>(inputs, outputs, stride,
    bottleneck, layers)``, a last 1×1 convolution, global average and a linear classifier; only the first group
    of a stage has its stride. A layer is two inverted residuals, to the bottleneck and to the outputs. The sum
    of the layers is at most ``max_layers`` (14 at 450 M multiply–accumulates in the papers).

    Deviations: the published searches walk through widths of any multiple of 8 and split a group of six layers
    or more in two; here widths come from lists, a group has up to five layers and its stage's second group up
    to three, so that the number of decisions is fixed and every searcher can work on them. Batch norm has the
    published ε = 0.001.

    ``max_layers`` is the most that all groups may have together. ``small`` has a stem and first stage of stride 1 and
    three narrow stages, for 28×28, 32×32, signals and volumes.

    Example:
        >>> space = MobileNet()
        >>> arch = space.parse(START)
        >>> space.counts(arch, Task.noise((3, 224, 224), classes=1000)).flops
        159334080
    """

    max_layers: int = 14
    small: bool = False

    def __post_init__(self) -> None:
        if self.max_layers < len(self._skeleton.strides):
            raise InputError(
                f"{self.name}: max_layers={self.max_layers} was given; its {len(self._skeleton.strides)} stages need"
                " at least one layer each"
            )

    @property
    def name(self) -> str:
        return "mobilenet-small" if self.small else "mobilenet"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self._skeleton)

    @property
    def _skeleton(self) -> Stages:
        return SMALL if self.small else IMAGENET

    def check(self, task: Task) -> None:
        times, other = self._skeleton.halvings, "" if self.small else ", or choose mobilenet-small"
        remedy = f"give larger inputs,{' or' if self.small else ''} --size for a task{other}"
        require_grid(self, task, 2**times, f", which halves them {times} times", remedy)

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch) and self.layers(arch) <= self.max_layers

    def layers(self, arch: Arch) -> int:
        first = sum(arch[_PARTS :: 2 * _PARTS]) + len(arch[_PARTS :: 2 * _PARTS])
        return first + sum(arch[2 * _PARTS :: 2 * _PARTS])

    def canonical(self, arch: Arch) -> Arch:
        """The same network with the unused choices of absent groups at their first option."""
        parts = list(arch)
        for last in range(2 * _PARTS, len(arch), 2 * _PARTS):
            if arch[last] == 0:
                parts[last - _PARTS + 1 : last] = [0] * (_PARTS - 1)
        return tuple(parts)

    def extent(self) -> Extent:
        """Counted exactly, by how many ways there are to reach each sum of layers."""
        return Extent(size(self), self._ways(), self._ways(absent_once=True))

    def _ways(self, absent_once: bool = False) -> int:
        """How many archs keep the limit on layers; an absent group's other choices may count once."""
        ways = Counter({0: len(self.decisions[0])})
        for slot, start in enumerate(range(1, len(self.decisions), _PARTS)):
            *shape, layers = self.decisions[start : start + _PARTS]
            shapes, after = math.prod(map(len, shape)), Counter[int]()
            for used, archs in ways.items():
                for added in range(1 - slot % 2, len(layers) + 1 - slot % 2):
                    after[used + added] += archs * (shapes if added or not absent_once else 1)
            ways = after
        return sum(archs for used, archs in ways.items() if used <= self.max_layers)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return MobileNetwork(self.plan(arch), task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        return count(self.plan(arch), task)

    def plan(self, arch: Arch) -> NetworkPlan:
        skeleton = self._skeleton
        inputs = stem = skeleton.stem[arch[0]]
        groups: list[Group] = []
        for stage, stride in enumerate(skeleton.strides):
            for second in (0, 1):
                start = 1 + (2 * stage + second) * _PARTS
                kernel, expansion, channels, bottleneck, layers = arch[start : start + _PARTS]
                if second and not layers:
                    continue
                groups.append(
                    Group(
                        KERNELS[kernel],
                        EXPANSIONS[expansion],
                        inputs,
                        skeleton.channels[stage][channels],
                        1 if second else stride,
                        skeleton.bottlenecks[stage][bottleneck],
                        layers + 1 - second,
                    )
                )
                inputs = groups[-1].outputs
        return NetworkPlan(stem, skeleton.stem_stride, tuple(groups), skeleton.last)

    def parse(self, text: str) -> Arch:
        """PlainNet notation; the number of inputs of the stem is the task's and not looked at."""
        plan = read_plan(text, self.name)
        self._require_ends(plan)
        arch = [_option(self.decisions[0], plan.stem, self.name)]
        for slot, group in enumerate(self._slots(plan.groups)):
            decisions = self.decisions[1 + slot * _PARTS : 1 + (slot + 1) * _PARTS]
            if group is None:
                arch += [0] * _PARTS
            else:
                values = (group.kernel, group.expansion, group.outputs, group.bottleneck, group.layers)
                arch += [_option(d, value, self.name) for d, value in zip(decisions, values, strict=True)]
        if (layers := self.layers(tuple(arch))) > self.max_layers:
            raise InputError(
                f"{self.name}: the blocks have {layers} layers together (their last numbers); expected at most"
                f" {self.max_layers}: take fewer, or allow more (max_layers)"
            )
        return tuple(arch)

    def _require_ends(self, plan: NetworkPlan) -> None:
        """Raise InputError where the stem or the last convolution is not this variant's."""
        ours, other = self._skeleton, MobileNet(small=not self.small)
        meant = (plan.stem_stride, plan.last) == (other._skeleton.stem_stride, other._skeleton.last)
        hint = f"; it looks like an architecture of {other.name}: choose that space" if meant else ""
        for what, given, wanted in (
            ("the stem SuperConvK3BNRELU(inputs,outputs,stride,1) has stride", plan.stem_stride, ours.stem_stride),
            ("the last SuperConvK1BNRELU(inputs,outputs,1,1) has outputs", plan.last, ours.last),
        ):
            if given != wanted:
                raise InputError(f"{self.name}: {what}={given}; expected {wanted}{hint}")

    def _slots(self, groups: tuple[Group, ...]) -> Iterator[Group | None]:
        """The groups in their places: two to a stage, the second or none of stride 1."""
        rest = list(groups)
        for stage, stride in enumerate(self._skeleton.strides, start=1):
            if not rest or rest[0].stride != stride:
                given = f"one of stride {rest[0].stride}" if rest else "no block"
                raise InputError(
                    f"{self.name}: stage {stage} of {len(self._skeleton.strides)} has to begin with a block of stride"
                    f" {stride}; got {given}"
                )
            yield rest.pop(0)
            yield rest.pop(0) if rest and rest[0].stride == 1 else None
        if rest:
            raise InputError(
                f"{self.name}: {len(rest)} blocks are left over after {len(self._skeleton.strides)} stages of one or"
                " two blocks each"
            )

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        return write_plan(self.plan(arch))

    def sketch(self, arch: Arch) -> tuple[Chain]:
        plan = self.plan(arch)
        groups = (
            Block(
                f"{g.layers} × inverted residual {g.kernel}×{g.kernel}, expansion {g.expansion}",
                f"{g.inputs} → {g.bottleneck} → {g.outputs} channels, stride {g.stride}",
            )
            for g in plan.groups
        )
        stem = Block("convolution 3×3", f"{plan.stem} channels, stride {plan.stem_stride}")
        last = Block("convolution 1×1", f"{plan.last} channels")
        return (Chain("network", (stem, *groups, last, Block("average, classifier"))),)


def small_mobilenet(max_layers: int = 14) -> MobileNet:
    """MobileNet for small inputs: three stages, two halvings, narrower."""
    return MobileNet(max_layers, small=True)


START = (
    "SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)SuperResIDWE6K3(32,48,2,32,1)"
    "SuperResIDWE6K3(48,96,2,48,1)SuperResIDWE6K3(96,128,2,96,1)SuperConvK1BNRELU(128,2048,1,1)"
)
"""Where the published searches start."""


@functools.cache
def _decisions(skeleton: Stages) -> tuple[Decision, ...]:
    decisions = [Decision("stem", tuple(map(str, skeleton.stem)))]
    for stage in range(len(skeleton.strides)):
        for second in (0, 1):
            label = f"stage{stage + 1}{'ab'[second]}"
            decisions += [
                Decision(f"{label}.kernel", tuple(map(str, KERNELS))),
                Decision(f"{label}.expansion", tuple(map(str, EXPANSIONS))),
                Decision(f"{label}.channels", tuple(map(str, skeleton.channels[stage]))),
                Decision(f"{label}.bottleneck", tuple(map(str, skeleton.bottlenecks[stage]))),
                Decision(f"{label}.layers", ("absent", "1", "2", "3") if second else ("1", "2", "3", "4", "5")),
            ]
    return tuple(decisions)


def _option(decision: Decision, value: int, space: str) -> int:
    if str(value) not in decision.options:
        raise InputError(f"{space}: {decision.name}={value} was given; expected one of {', '.join(decision.options)}")
    return decision.options.index(str(value))


_EPSILON = 1e-3


@dataclass(frozen=True)
class Group:
    """One ``SuperResIDWE<expansion>K<kernel>(inputs,outputs,stride,bottleneck,layers)``."""

    kernel: int
    expansion: int
    inputs: int
    outputs: int
    stride: int
    bottleneck: int
    layers: int

    def residuals(self) -> Iterator[ResidualShapes]:
        """The residual blocks it stands for: two per layer, to the bottleneck and to the outputs."""
        inputs, stride = self.inputs, self.stride
        for layer in range(self.layers):
            into = self.bottleneck * self.expansion
            project = layer == 0 or inputs != self.bottleneck
            yield ResidualShapes(inputs, into, self.bottleneck, self.kernel, stride, project)
            out = self.outputs * self.expansion
            yield ResidualShapes(self.bottleneck, out, self.outputs, self.kernel, 1, self.bottleneck != self.outputs)
            inputs, stride = self.outputs, 1


@dataclass(frozen=True)
class ResidualShapes:
    """Expand by 1×1, convolve every channel by itself, reduce by 1×1, add the input (projected or not), ReLU."""

    inputs: int
    middle: int
    outputs: int
    kernel: int
    stride: int
    project: bool


@dataclass(frozen=True)
class NetworkPlan:
    """A whole network: a 3×3 stem, groups of inverted residuals, a last 1×1 convolution."""

    stem: int
    stem_stride: int
    groups: tuple[Group, ...]
    last: int


def count(plan: NetworkPlan, task: Task) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of a plan at the task's resolution."""
    tally = Tally()
    size = tally.conv(task.input_shape[0], plan.stem, 3, task.input_shape[1:], stride=plan.stem_stride, norm=True)
    for group in plan.groups:
        for r in group.residuals():
            tally.conv(r.inputs, r.middle, 1, size, norm=True)
            after = tally.conv(r.middle, r.middle, r.kernel, size, stride=r.stride, groups=r.middle, norm=True)
            tally.conv(r.middle, r.outputs, 1, after, norm=True)
            if r.project:
                tally.conv(r.inputs, r.outputs, 1, size, stride=r.stride, bias=True, norm=True)
            size = after
    tally.conv(plan.groups[-1].outputs, plan.last, 1, size, norm=True)
    tally.linear(plan.last, task.target.outputs)
    return tally.counts()


def _norm(dims: int, channels: int) -> nn.Module:
    return NORM[dims](channels, eps=_EPSILON)


class ConvNormRelu(nn.Sequential):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(conv(dims, inputs, outputs, kernel, stride, groups=groups), _norm(dims, outputs), nn.ReLU())


class InvertedResidual(nn.Module):
    """The module of a :class:`ResidualShapes`; its output is after the ReLU, where AZ-NAS looks."""

    def __init__(self, dims: int, residual: ResidualShapes) -> None:
        super().__init__()
        middle = residual.middle
        self.body = nn.Sequential(
            ConvNormRelu(dims, residual.inputs, middle, 1),
            ConvNormRelu(dims, middle, middle, residual.kernel, residual.stride, groups=middle),
            conv(dims, middle, residual.outputs, 1),
            _norm(dims, residual.outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if residual.project:
            projection = CONV[dims](residual.inputs, residual.outputs, 1, residual.stride)
            self.shortcut = nn.Sequential(projection, _norm(dims, residual.outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return y


class MobileNetwork(BlockNetwork):
    """The network of a plan, with global average and a linear classifier at its end."""

    def __init__(self, plan: NetworkPlan, task: Task) -> None:
        dims = task.dims
        stem = ConvNormRelu(dims, task.input_shape[0], plan.stem, 3, plan.stem_stride)
        residuals = [residual for group in plan.groups for residual in group.residuals()]
        blocks = [InvertedResidual(dims, residual) for residual in residuals]
        last = ConvNormRelu(dims, plan.groups[-1].outputs, plan.last, 1)
        super().__init__(dims, stem, blocks, last, nn.Linear(plan.last, task.target.outputs))
        self.block_names = (*self.block_names, "last")
