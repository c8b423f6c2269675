"""Convolutions that are never trained: MiniROCKET's fixed kernels (Dempster et al., 2021) and Hydra's competing ones.

Written from the papers: Dempster, Schmidt & Webb, "MiniRocket: A Very Fast (Almost) Deterministic Transform for Time
Series Classification", KDD 2021; Tan et al., "MultiRocket", 2022; Dempster, Schmidt & Webb, "Hydra", 2023.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.task import Task
from trainless.spaces.ops import Tally
from trainless.spaces.protocol import Counts, IndependentDecisions, Network, require_arch, require_grid
from trainless.spaces.sketch import Block, Chain

FEATURES = (1000, 2500, 5000, 10_000)
KINDS = ("fixed", "fixed+means", "competing", "averages")
KERNELS = 84  # all ways to place three weights of 2 among nine, the others −1
SIDES = {1: 9, 2: 3, 3: 3}
EXPONENTS = 32  # dilations at most, before those that are equal are taken together
RIVALS = 8  # kernels of a group that compete at each position
MOST_CHANNELS = {"fixed": 9, "competing": 8}
GOLDEN = (math.sqrt(5) + 1) / 2
SHARP = 1000.0  # steps are ramps of a thousandth, so that rounding cannot move an answer
LITTLE = 1e-4  # under a root, so that its slope is finite
CPU_NUMBERS, GPU_NUMBERS = 2**20, 2**26  # that one comparison makes at a time
AFFORDABLE = 4e10  # comparisons of a plain one over the training part: a minute or so of one core
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_DECISIONS = (
    Decision("features", tuple(map(str, FEATURES))),
    Decision("kernels", KINDS),
    Decision("differences", ("no", "yes")),
)


@dataclass(frozen=True)
class RocketShape:
    """What an arch stands for."""

    features: int
    kind: str
    differences: bool

    @property
    def competing(self) -> bool:
        return self.kind == "competing"

    @property
    def means(self) -> bool:
        return self.kind == "fixed+means"


@dataclass(frozen=True)
class Rocket(IndependentDecisions):
    """Convolutions that are never trained: number of features, kind of kernels and differences are open.

    Fixed kernels are MiniROCKET's: 84 of nine weights at dilations up to the input's length, and of each the share of
    positions above thresholds, which are quantiles of its answers to training inputs (``prepare``); ``fixed+means`` has
    the mean of what is above a threshold too, as MultiROCKET. Competing ones are Hydra's: random kernels in groups of
    eight, and how often and how much each is the largest or the least of its group. Averages are no kernels but the
    means of every channel over the whole, its halves, quarters and so on: slow changes, which kernels that sum to zero
    do not see. Differences add the input's first differences along every axis. Each kernel reads a random few
    channels. The recipe ``ridge`` fits the linear layer at the end.

    Differences from the papers: a step is a ramp of a thousandth, so that two programs that round differently agree;
    in images and volumes kernels have three positions along each axis (in volumes nine random ones of 27 weigh 2).

    Example:
        >>> space = Rocket()
        >>> task = Task.noise((1, 150), classes=2)
        >>> space.format(space.plain(task))
        'features=10000,kernels=fixed,differences=no'
        >>> space.counts(space.plain(task), task).params
        19994
    """

    name = "rocket"
    decisions = _DECISIONS

    def check(self, task: Task) -> None:
        require_grid(self, task, 4, ", whose kernels span several positions")

    def plain(self, task: Task) -> Arch:
        """MiniROCKET, with as many of its 10,000 features as a training part of such a size affords in a minute."""
        self.check(task)
        samples = 1 if task.train is None else len(task.train)
        work = samples * math.prod(task.input_shape[1:])
        return (max([0, *(i for i, features in enumerate(FEATURES) if features * work <= AFFORDABLE)]), 0, 0)

    def seconds(self, arch: Arch, task: Task) -> float:
        """About how long it takes one core to fit an arch on a task's training part."""
        work = len(task.part("train")) * math.prod(task.input_shape[1:]) * _shape(arch).features
        return 0.5 + 60 * work / AFFORDABLE

    def panel(self, task: Task) -> tuple[Arch, ...]:
        """One of each kind, from the plain one on; they err on different data, so that several are better than one."""
        plain = self.plain(task)
        return plain, (plain[0], 1, 1), (min(plain[0], 2), 2, 1), (0, 3, 0)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return RocketNetwork(_shape(arch), task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        shape, tally, features = _shape(arch), Tally(), 0
        channels, *size = task.input_shape
        for each in _sizes(size, shape):
            if shape.kind == "averages":
                for windows in _windows(channels, each, shape):
                    tally.flops += _products(channels, each, windows)
                    features += channels * math.prod(windows)
                continue
            per, plan = _plan(each, shape)
            outputs = per * RIVALS if shape.competing else KERNELS
            taps = SIDES[task.dims] ** task.dims
            tally.flops += len(plan) * outputs * channels * taps * math.prod(each)
            features += _number(plan, per, shape)
        tally.linear(features, task.target.outputs)
        return tally.counts()

    def sketch(self, arch: Arch) -> tuple[Chain]:
        features, kernels, differences = (
            decision.options[option] for decision, option in zip(self.decisions, arch, strict=True)
        )
        read = "input and its differences" if differences == "yes" else "input"
        middle = Block(f"{kernels} kernels, many dilations", f"{features} features")
        return (Chain("network", (Block(read), middle, Block("linear"))),)


def _shape(arch: Arch) -> RocketShape:
    features, kind, differences = arch
    return RocketShape(FEATURES[features], KINDS[kind], bool(differences))


def _sizes(size: Sequence[int], shape: RocketShape) -> list[tuple[int, ...]]:
    """The sizes of all that is looked at: the input and, where they are wanted, its differences along each axis."""
    less = [tuple(length - (a == axis) for a, length in enumerate(size)) for axis in range(len(size))]
    return [tuple(size), *(less if shape.differences else [])]


def _plan(size: Sequence[int], shape: RocketShape) -> tuple[int, dict[int, int]]:
    """Groups of competing kernels at each dilation, or thresholds of each kernel, and those of every dilation."""
    inputs = 1 + len(size) * shape.differences
    longest = (max(size) - 1) / (SIDES[len(size)] - 1)
    top = max(0.0, math.log2(longest)) if longest > 0 else 0.0
    if shape.competing:
        found = [2**exponent for exponent in range(int(top) + 1)]
        groups = max(1, shape.features // (2 * RIVALS * len(found) * inputs))
        return groups, dict.fromkeys(found, groups)
    per = max(1, shape.features // (KERNELS * inputs * (1 + shape.means)))
    steps = min(per, EXPONENTS)
    times = Counter(int(2 ** (top * step / max(1, steps - 1)) + 1e-9) for step in range(steps))
    plan = {dilation: count * per // steps for dilation, count in sorted(times.items())}
    for dilation in itertools.islice(itertools.cycle(list(plan)), per - sum(plan.values())):
        plan[dilation] += 1
    return per, plan


def _number(plan: dict[int, int], per: int, shape: RocketShape) -> int:
    if shape.competing:
        return 2 * RIVALS * per * len(plan)
    return KERNELS * per * (1 + shape.means)


class RocketNetwork(Network):
    """Features of the input and of its differences, and a linear layer on them."""

    def __init__(self, shape: RocketShape, task: Task) -> None:
        super().__init__()
        channels, *size = task.input_shape
        kind = {"competing": Competing, "averages": Averages}.get(shape.kind, Fixed)
        parts: list[Features] = [kind(channels, each, shape) for each in _sizes(size, shape)]
        self.parts = nn.ModuleList(parts)
        self.classifier = nn.Linear(sum(part.number for part in parts), task.target.outputs)
        self.largest = max(part.largest for part in parts)

    def prepare(self, x: Tensor) -> None:
        """Set thresholds to quantiles of what kernels answer to training inputs, drawn by torch's random state."""
        for part, each in zip(self.parts, self._read(x), strict=True):
            if isinstance(part, Fixed):
                part.prepare(each)

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            found = self.features(x)
        else:
            room = GPU_NUMBERS if x.is_cuda else CPU_NUMBERS
            found = torch.cat([self.features(part) for part in x.split(max(1, room // self.largest))])
        answers: Tensor = self.classifier(found)
        return answers

    def features(self, x: Tensor) -> Tensor:
        """All features of some inputs at once."""
        return torch.cat([part(each) for part, each in zip(self.parts, self._read(x), strict=True)], 1)

    def _read(self, x: Tensor) -> list[Tensor]:
        if len(self.parts) == 1:
            return [x]
        return [x, *(x.narrow(a, 1, x.shape[a] - 1) - x.narrow(a, 0, x.shape[a] - 1) for a in range(2, x.ndim))]


class Features(nn.Module):
    """Numbers that kernels find in one input: how many, and how many a comparison makes for one sample."""

    number: int
    largest: int


class Fixed(Features):
    """MiniROCKET's kernels and thresholds on one input."""

    patterns: Tensor
    channels: Tensor
    shares: Tensor
    thresholds: Tensor

    def __init__(self, channels: int, size: Sequence[int], shape: RocketShape) -> None:
        super().__init__()
        self.dims, self.means = len(size), shape.means
        per, self.plan = _plan(size, shape)
        self.number = _number(self.plan, per, shape)
        self.largest = KERNELS // 2 * max(self.plan.values()) * math.prod(size)
        self.inside = [dilation * (SIDES[self.dims] - 1) < min(size) for dilation in self.plan]
        self.register_buffer("patterns", _patterns(self.dims), persistent=False)
        chosen = [_subset(channels, _how_many(channels)) for _ in range(len(self.plan) * KERNELS)]
        self.register_buffer("channels", torch.stack(chosen).reshape(len(self.plan), KERNELS, channels))
        golden = torch.arange(1, KERNELS * per + 1, dtype=torch.float64) * GOLDEN % 1
        self.register_buffer("shares", golden.float().reshape(KERNELS, per), persistent=False)
        expected = self._expected()
        spread = torch.cat([expected[:, [place]].expand(-1, n) for place, n in enumerate(self.plan.values())], 1)
        self.register_buffer("thresholds", spread * torch.special.ndtri(self.shares))

    def _expected(self) -> Tensor:
        """The deviation of each kernel's answers to white noise, at every dilation."""
        energy = self.patterns.flatten(1).square().sum(1)
        return (self.channels.sum(2).T * energy.unsqueeze(1)).sqrt()

    def prepare(self, x: Tensor) -> None:
        at = 0
        for place, (dilation, count) in enumerate(self.plan.items()):
            chosen = torch.randint(len(x), (KERNELS,)).to(x.device)
            one = x[chosen].flatten(0, 1).unsqueeze(0)
            answers = self._answers(one, place, dilation, groups=KERNELS)[0].flatten(1)
            shares = self.shares[:, at : at + count]
            found = [answers[kernel].quantile(shares[kernel]) for kernel in range(KERNELS)]
            self.thresholds[:, at : at + count] = torch.stack(found)
            at += count

    def _answers(self, x: Tensor, place: int, dilation: int, groups: int = 1) -> Tensor:
        kernels = self.channels[place].reshape(KERNELS, -1, *[1] * self.dims) * self.patterns.unsqueeze(1)
        return CONV[self.dims](x, kernels, padding=_padding(self.dims, dilation), dilation=dilation, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        found, at = [], 0
        for place, (dilation, count) in enumerate(self.plan.items()):
            answers = self._answers(x, place, dilation)
            for half in (0, 1):
                seen = answers[:, half::2]
                if (half + place) % 2 and self.inside[place]:
                    seen = _without_border(seen, _padding(self.dims, dilation))
                found += self._pooled(seen.flatten(2), self.thresholds[half::2, at : at + count])
            at += count
        return torch.cat(found, 1)

    def _pooled(self, seen: Tensor, thresholds: Tensor) -> list[Tensor]:
        above = seen.unsqueeze(2) - thresholds.unsqueeze(2)
        strengths = above.relu().mean(-1) if self.means else None
        share = above.mul_(SHARP).clamp_(-0.5, 0.5).mean(-1) + 0.5
        if strengths is None:
            return [share.flatten(1)]
        return [share.flatten(1), (strengths / (share + 1 / SHARP)).flatten(1)]


class Competing(Features):
    """Hydra's groups of rival kernels on one input."""

    kernels: Tensor

    def __init__(self, channels: int, size: Sequence[int], shape: RocketShape) -> None:
        super().__init__()
        self.dims = len(size)
        self.groups, self.plan = _plan(size, shape)
        self.number = _number(self.plan, self.groups, shape)
        self.largest = RIVALS * self.groups * math.prod(size)
        taps = (SIDES[self.dims],) * self.dims
        drawn = torch.randn(len(self.plan), self.groups * RIVALS, math.prod(taps))
        drawn = drawn - drawn.mean(-1, keepdim=True)
        drawn = drawn / drawn.abs().sum(-1, keepdim=True)
        most = max(1, min(MOST_CHANNELS["competing"], channels // 2))
        chosen = torch.stack([_subset(channels, most) for _ in range(len(self.plan) * self.groups)])
        chosen = chosen.reshape(len(self.plan), self.groups, channels).repeat_interleave(RIVALS, 1)
        self.register_buffer("kernels", (chosen.unsqueeze(3) * drawn.unsqueeze(2)).unflatten(3, taps))

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for place, dilation in enumerate(self.plan):
            padding = _padding(self.dims, dilation)
            answers = CONV[self.dims](x, self.kernels[place], padding=padding, dilation=dilation)
            rivals = answers.flatten(2).unflatten(1, (self.groups, RIVALS))
            most, least = rivals.amax(2, keepdim=True), rivals.amin(2, keepdim=True)
            wins = ((rivals - most) * SHARP + 1).clamp(0, 1) * most
            losses = ((least - rivals) * SHARP + 1).clamp(0, 1)
            found += [(part.mean(-1).clamp_min(0) + LITTLE).sqrt().flatten(1) for part in (wins, losses)]
        return torch.cat(found, 1)


class Averages(Features):
    """Means of every channel over the whole, its halves, quarters and so on, along every axis."""

    def __init__(self, channels: int, size: Sequence[int], shape: RocketShape) -> None:
        super().__init__()
        self.windows = _windows(channels, size, shape)
        self.number = channels * sum(map(math.prod, self.windows))
        self.largest = channels * math.prod(size)
        for scale, windows in enumerate(self.windows):
            for axis, (length, count) in enumerate(zip(size, windows, strict=True)):
                pooled = F.adaptive_avg_pool1d(torch.eye(length).unsqueeze(0), count)[0]
                self.register_buffer(f"mean{scale}_{axis}", pooled, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for scale in range(len(self.windows)):
            means = x
            for axis in range(x.ndim - 2):
                pooled = self.get_buffer(f"mean{scale}_{axis}")
                means = torch.matmul(means.movedim(axis + 2, -1), pooled).movedim(-1, axis + 2)
            found.append(means.flatten(1))
        return torch.cat(found, 1)


def _windows(channels: int, size: Sequence[int], shape: RocketShape) -> list[tuple[int, ...]]:
    """How many windows there are along each axis, from one on, twice as many each time, as features allow."""
    room = shape.features // (1 + len(size) * shape.differences)
    found = [(1,) * len(size)]
    while max(found[-1]) < max(size):
        finer = tuple(min(2 ** len(found), length) for length in size)
        if channels * sum(map(math.prod, [*found, finer])) > room:
            break
        found.append(finer)
    return found


def _products(channels: int, size: Sequence[int], windows: Sequence[int]) -> int:
    """Multiply–accumulates of means along one axis after the other."""
    now, total = list(size), 0
    for axis, count in enumerate(windows):
        total += channels * math.prod(now) * count
        now[axis] = count
    return total


def _patterns(dims: int) -> Tensor:
    """84 kernels of weights 2 and −1 that sum to zero: all of nine positions, or drawn ones of 27."""
    positions = SIDES[dims] ** dims
    if positions == 9:
        high = torch.tensor(list(itertools.combinations(range(9), 3)))
    else:
        source, third = torch.Generator().manual_seed(0), positions // 3
        drawn = [torch.randperm(positions, generator=source, device="cpu")[:third].tolist() for _ in range(KERNELS)]
        high = torch.tensor(drawn)
    flat = torch.full((KERNELS, positions), -1.0).scatter_(1, high, 2.0)
    return flat.reshape(KERNELS, *[SIDES[dims]] * dims)


def _how_many(channels: int) -> int:
    """How many channels a fixed kernel reads: few more often than many."""
    most = min(channels, MOST_CHANNELS["fixed"])
    return min(most, int(2 ** (float(torch.rand((), device="cpu")) * math.log2(most + 1))))


def _subset(channels: int, count: int) -> Tensor:
    """Ones at so many random channels, and zeros."""
    return torch.zeros(channels).index_fill(0, torch.randperm(channels)[:count], 1.0)


def _padding(dims: int, dilation: int) -> int:
    return dilation * (SIDES[dims] // 2)


def _without_border(x: Tensor, border: int) -> Tensor:
    for axis in range(2, x.ndim):
        x = x.narrow(axis, border, x.shape[axis] - 2 * border)
    return x
