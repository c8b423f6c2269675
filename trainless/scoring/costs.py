"""Costs: counts, memory and latency of a network, and limits on them; milliseconds of a proxy."""

from __future__ import annotations

import contextlib
import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch
from trainless.core.errors import InputError, TrainlessError, UnknownName, Unscorable
from trainless.core.seeds import one_thread, seeded
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.text import one_line
from trainless.probe.counts import count
from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.running import run
from trainless.proxies import registry
from trainless.spaces.protocol import Counted, Counts, Space, counter, key
from trainless.store import Key, Result, Store


def counted(space: Space, arch: Arch, task: Task) -> Counts:
    """The counts of a space that does not know them, on a network without memory."""
    net = outline(space, arch, task)
    try:
        return count(net, task.input_shape, one_sample(task, torch.device("meta")).dtype)
    except Unscorable as error:
        raise InputError(f"{space.name}: {error}: leave out the limits on parameters, FLOPs and layers") from error


def outline(space: Space, arch: Arch, task: Task) -> nn.Module:
    """A network of shapes without memory."""
    try:
        with seeded(0), torch.device("meta"):
            return space.build(arch, task).eval()
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(
            f"{space.name}: {space.format(arch)} cannot be made in outline ({one_line(error)}): mend its build, or"
            " leave out the limits"
        ) from error


def memory(space: Space, arch: Arch, task: Task) -> int:
    """Bytes of weights, buffers and all layers' outputs for one sample, from shapes alone.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space, task = NasBench201(), Task.noise((3, 32, 32))
        >>> memory(space, (3, 3, 3, 3, 3, 3), task) > memory(space, (1, 1, 1, 1, 1, 1), task)
        True
    """
    net = outline(space, arch, task)
    total = sum(_bytes(tensor) for tensor in (*net.parameters(), *net.buffers()))
    outputs: list[int] = []
    for module in net.modules():
        if not any(True for _ in module.children()):
            module.register_forward_hook(lambda module, inputs, output: outputs.append(_output_bytes(output)))
    with torch.no_grad():
        net(one_sample(task, torch.device("meta")))
    return total + sum(outputs)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _output_bytes(output: object) -> int:
    if isinstance(output, Tensor):
        return _bytes(output)
    return sum(map(_output_bytes, output)) if isinstance(output, (tuple, list)) else 0


def one_sample(task: Task, device: torch.device) -> Tensor:
    """Zeros in the shape of a sample."""
    dtype = torch.int64 if task.vocabulary else torch.float32
    return torch.zeros((1, *task.input_shape), dtype=dtype, device=device)


T = TypeVar("T")
BRIEF_MS = 100.0  # below this one measurement is mostly noise
Cost: TypeAlias = Callable[[Arch], float]
COUNTS = ("params", "flops", "layers")
SHAPES_ALONE = (*COUNTS, "memory")
MOST_BUILT = 300
WARM_UP, REPEATS = 3, 15
Tried: TypeAlias = Callable[[str, int, float], None]
"""Called with a cost's name, how many networks it was found of, and the least of it so far."""


def costs(
    space: Space,
    task: Task,
    *,
    store: Store | None = None,
    given: Mapping[str, Cost] | None = None,
    wanted: Sequence[str] = (),
) -> dict[str, Cost]:
    """The costs that a search looks at, by name: the space's counts, what is wanted, and what is given.

    Args:
        space: The space.
        task: What gives the inputs' shape.
        store: Where measured latencies are kept.
        given: Costs of one's own, such as a table's latency or energy; they replace ours of the same name.
        wanted: Further names: ``memory`` (bytes of weights and activations of one sample) and ``latency`` (seconds
            per sample on this machine).

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> found = costs(NasBench201(), Task.noise((3, 32, 32)))
        >>> found["params"]((1, 1, 1, 1, 1, 1))
        73306.0
    """
    found: dict[str, Cost] = {}
    if isinstance(space, Counted):
        count = functools.lru_cache(maxsize=65536)(counter(space, task))
        found |= {name: _part(count, name) for name in COUNTS}
    found |= given or {}
    for name in wanted:
        if name not in found:
            found[name] = _made(name, space, task, store)
    return found


def _made(name: str, space: Space, task: Task, store: Store | None) -> Cost:
    if name == "memory":
        return Built(lambda arch: float(memory(space, arch, task)))
    if name == "latency":
        return Latency(space, task, store)
    if name in COUNTS:
        return Built(_part(lambda arch: counted(space, arch, task), name))
    raise UnknownName(f"no cost is called {name!r}; there are: {', '.join((*SHAPES_ALONE, 'latency'))}, or a table's")


def _part(count: Callable[[Arch], Counts], name: str) -> Cost:
    return lambda arch: float(getattr(count(arch), name))


class Built:
    """A cost for which a network has to be made, if only in outline: found once per arch.

    Example:
        >>> length = Built(lambda arch: float(len(arch)))
        >>> length((1, 2)), length((1, 2))
        (2.0, 2.0)
    """

    def __init__(self, find: Cost) -> None:
        self._find = functools.lru_cache(maxsize=65536)(find)

    def __call__(self, arch: Arch) -> float:
        return self._find(arch)


def _ignore(name: str, tried: int, least: float) -> None:
    """Tell nobody."""


class Limits:
    """Whether an arch is valid and within all limits.

    What is cheap to know is asked first, so a latency is measured only of archs that keep the other limits. Where
    networks have to be made to know (memory, latency, and everything of a space that cannot count) and none of the
    first 300 keeps the limit, it says so instead of going on: fewer than one random network in a hundred would.

    Args:
        space: The space.
        known: The costs by name.
        most: The most of each cost that is limited.
        tried: Called whenever memory or latency was found of another arch.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space = NasBench201()
        >>> limits = Limits(space, costs(space, Task.noise((3, 32, 32))), {"flops": 5e6})
        >>> limits((3, 3, 3, 3, 3, 3))
        False
        >>> limits.refused()[:57]
        'the least flops seen are 220 M, above the limit of 5 M: a'
    """

    def __init__(
        self, space: Space, known: Mapping[str, Cost], most: Mapping[str, float], tried: Tried = _ignore
    ) -> None:
        order = (*SHAPES_ALONE, "latency")
        names = sorted(most, key=lambda name: order.index(name) if name in order else -1)
        self._space, self._tried = space, tried
        self._checks = [(name, known[name], most[name]) for name in names]
        self._least = dict.fromkeys(names, math.inf)
        self._kept = dict.fromkeys(names, False)
        built = [name for name in names if isinstance(known[name], Built)]
        self._seen: dict[str, set[Arch]] = {name: set() for name in built}

    def __call__(self, arch: Arch) -> bool:
        return self._space.valid(arch) and all(self._keeps(arch, *check) for check in self._checks)

    def _keeps(self, arch: Arch, name: str, cost: Cost, most: float) -> bool:
        value = cost(arch)
        self._least[name] = min(self._least[name], value)
        self._kept[name] |= value <= most
        if name in self._seen and arch not in self._seen[name]:
            self._seen[name].add(arch)
            self._tried(name, len(self._seen[name]), self._least[name])
            if len(self._seen[name]) >= MOST_BUILT and not self._kept[name]:
                how = "measured here" if name == "latency" else "sized"
                raise InputError(
                    f"{self._space.name}: {MOST_BUILT} networks were {how}, and none keeps the limit: {self.refused()}"
                )
        return value <= most

    def refused(self) -> str:
        """The first limit that nothing has kept, the least seen and what to do; empty where something keeps all."""
        for place, (name, _, most) in enumerate(self._checks):
            if not self._kept[name] and math.isfinite(self._least[name]):
                before = ", ".join(earlier for earlier, _, _ in self._checks[:place])
                among = f" among networks that keep the limits on {before}" if before else ""
                least = f"{'are' if name in COUNTS else 'is'} {amount(self._least[name], name)}"
                return (
                    f"the least {name} seen{among} {least}, above the limit of {amount(most, name)}: allow more"
                    f" (--max-{name}), or choose a smaller space"
                )
        return ""


def amount(value: float, name: str) -> str:
    """A cost as people write it.

    Example:
        >>> amount(0.00042, "latency"), amount(64e6, "memory"), amount(1234567, "params"), amount(12, "layers")
        ('0.42 ms', '64 MB', '1.23 M', '12')
    """
    if name == "latency":
        return f"{1000 * value:.3g} ms"
    unit = "B" if name == "memory" else ""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:g} {unit}".strip()


def feasible(
    space: Space, known: Mapping[str, Cost], limits: Mapping[str, float], tried: Tried = _ignore
) -> Limits | None:
    """The limits as one question about an arch; None where there are none.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space = NasBench201()
        >>> allowed = feasible(space, costs(space, Task.noise((3, 32, 32))), {"flops": 50e6})
        >>> allowed((3, 3, 3, 1, 3, 3)), allowed((1, 1, 1, 1, 1, 1))
        (False, True)
    """
    for name, most in limits.items():
        if name not in known:
            raise UnknownName(f"a limit on {name!r} was given; there are: {', '.join(known)}")
        if not most > 0:
            raise InputError(f"a limit of {most} on {name} was given; expected more than 0")
    return Limits(space, known, limits, tried) if limits else None


class Latency(Built):
    """Seconds of one forward pass of one sample here: the median of repeats after a warm-up, on one thread.

    Args:
        space: The space.
        task: What gives the input's shape.
        store: Where measurements are kept and found again; None remembers them in this object alone.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> latency = Latency(NasBench201(2, 1), Task.noise((3, 8, 8)))
        >>> latency((1,) * 6) == latency((1,) * 6) > 0
        True
    """

    def __init__(self, space: Space, task: Task, store: Store | None = None) -> None:
        super().__init__(self._measured)
        self._space, self._task, self._store = space, task, store

    def _measured(self, arch: Arch) -> float:
        setting = f"cpu, 1 thread, 1 sample, median of {REPEATS} after {WARM_UP}"
        shape = "x".join(map(str, self._task.input_shape))
        where = Key(key(self._space), ",".join(map(str, arch)), "latency", 1, setting, shape, 0)
        known = self._store.find([where]) if self._store else {}
        if where in known:
            return known[where].value
        with seeded(0):
            seconds = measured_latency(self._space.build(arch, self._task), one_sample(self._task, torch.device("cpu")))
        if self._store:
            self._store.keep([(where, Result(seconds, "ok", 1000 * seconds, math.nan))])
        return seconds


def measured_latency(net: nn.Module, x: Tensor) -> float:
    """The median seconds of a forward pass in evaluation mode on one thread."""
    net.eval()
    with one_thread(), torch.inference_mode():
        times = [timed(lambda: net(x), x.device)[1] / 1000 for _ in range(WARM_UP + REPEATS)]
    return statistics.median(times[WARM_UP:])


def timed(compute: Callable[[], T], device: torch.device) -> tuple[T, float]:
    """A result and the milliseconds that it took, a GPU's queue included.

    Example:
        >>> timed(lambda: 3, torch.device("cpu"))[0]
        3
    """
    _settle(device)
    start = time.perf_counter()
    result = compute()
    _settle(device)
    return result, 1000 * (time.perf_counter() - start)


@quantity
def forward_backward_ms(p: Probe) -> float:
    """The time of one plain forward and backward pass after a first one, the lesser of two where brief; the FBE's unit.

    The first pass is not counted: kernels are chosen and memory is taken in it, which an LSTM feels most. NaN where the
    network cannot be run on this batch; the proxies then say why.
    """
    warm_up(p.x.device)
    try:
        first = timed(lambda: _plain(p), p.x.device)[1]
        return min(timed(lambda: _plain(p), p.x.device)[1] for _ in range(1 if first > BRIEF_MS else 2))
    except Exception:
        return math.nan


@functools.cache
def warm_up(device: torch.device) -> None:
    """Do once what PyTorch does at first use (loading kernels and shape rules), so that no proxy is charged for it."""
    net = nn.Sequential(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)).to(device)
    x, y = torch.zeros(4, 2, 8, 8, device=device), torch.zeros(4, dtype=torch.int64, device=device)
    p = Probe.of(net, (x, y), Target("binary", 2), private=True)
    for name in ("flops", "gradsign", "jacov", "grasp", "synflow", "swap", "zen", "vkdnw", "epsilon"):
        with contextlib.suppress(Unscorable):
            registry[name](p)


def _plain(p: Probe) -> None:
    weights = {name: tensor.detach().requires_grad_(tensor.is_floating_point()) for name, tensor in p.weights.items()}
    with quiet_randomness(p), normalised(p.net, "batch"), torch.enable_grad():
        value = run(p.net, weights, p.x).square().mean()
    torch.autograd.grad(value, list(weights.values()), allow_unused=True)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
