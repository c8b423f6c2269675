"""Limits on what a candidate may cost, checked before it is proposed, and the same costs as objectives.

Parameters, multiply–accumulates, layers and memory come from shapes alone. Latency is measured on this machine, once
per arch, and kept in the store, so that a resumed run decides as before; or it comes from a table.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch
from trainless.core.errors import InputError, UnknownName
from trainless.core.task import Task
from trainless.engine.store import Key, Result, Store
from trainless.engine.subjects import seeded
from trainless.spaces.constraint import counter
from trainless.spaces.protocol import Counted, Space, key

Cost: TypeAlias = Callable[[Arch], float]
COUNTS = ("params", "flops", "layers")
SHAPES_ALONE = (*COUNTS, "memory")
WARM_UP, REPEATS = 3, 15


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
        found |= {
            "params": lambda arch: float(count(arch).params),
            "flops": lambda arch: float(count(arch).flops),
            "layers": lambda arch: float(count(arch).layers),
        }
    found |= given or {}
    for name in wanted:
        if name not in found:
            found[name] = _made(name, space, task, store)
    return found


def _made(name: str, space: Space, task: Task, store: Store | None) -> Cost:
    if name == "memory":
        return functools.lru_cache(maxsize=65536)(lambda arch: float(memory(space, arch, task)))
    if name == "latency":
        return Latency(space, task, store)
    if name in COUNTS:
        raise InputError(f"{space.name} cannot count {name} before it builds: leave out the limit on {name}")
    raise UnknownName(f"no cost is called {name!r}; there are: {', '.join((*SHAPES_ALONE, 'latency'))}, or a table's")


def feasible(space: Space, known: Mapping[str, Cost], limits: Mapping[str, float]) -> Callable[[Arch], bool] | None:
    """Whether an arch is valid and within all limits; None where there are none.

    What is cheap to know is asked first, so a latency is measured only of archs that keep the other limits.

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
    if not limits:
        return None
    order = sorted(limits, key=lambda name: (*SHAPES_ALONE, "latency").index(name) if name in SHAPES_ALONE else 99)
    checks = [(known[name], limits[name]) for name in order]

    def allowed(arch: Arch) -> bool:
        return space.valid(arch) and all(cost(arch) <= most for cost, most in checks)

    return allowed


def memory(space: Space, arch: Arch, task: Task) -> int:
    """Bytes of weights, buffers and all layers' outputs for one sample, from shapes alone.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space, task = NasBench201(), Task.noise((3, 32, 32))
        >>> memory(space, (3, 3, 3, 3, 3, 3), task) > memory(space, (1, 1, 1, 1, 1, 1), task)
        True
    """
    with torch.device("meta"):
        net = space.build(arch, task).eval()
    total = sum(_bytes(tensor) for tensor in (*net.parameters(), *net.buffers()))
    outputs: list[int] = []
    for module in net.modules():
        if not any(True for _ in module.children()):
            module.register_forward_hook(lambda module, inputs, output: outputs.append(_output_bytes(output)))
    with torch.no_grad():
        net(_sample(task, torch.device("meta")))
    return total + sum(outputs)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _output_bytes(output: object) -> int:
    if isinstance(output, Tensor):
        return _bytes(output)
    return sum(map(_output_bytes, output)) if isinstance(output, (tuple, list)) else 0


def _sample(task: Task, device: torch.device) -> Tensor:
    dtype = torch.int64 if task.vocabulary else torch.float32
    return torch.zeros((1, *task.input_shape), dtype=dtype, device=device)


class Latency:
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
        self._space, self._task, self._store = space, task, store
        self._known: dict[Arch, float] = {}

    def __call__(self, arch: Arch) -> float:
        """The latency, measured once."""
        if arch not in self._known:
            self._known[arch] = self._found(arch)
        return self._known[arch]

    def _found(self, arch: Arch) -> float:
        setting = f"cpu, 1 thread, 1 sample, median of {REPEATS} after {WARM_UP}"
        shape = "x".join(map(str, self._task.input_shape))
        where = Key(key(self._space), ",".join(map(str, arch)), "latency", 1, setting, shape, 0)
        known = self._store.find([where]) if self._store else {}
        if where in known:
            return known[where].value
        with seeded(0):
            seconds = measured_latency(self._space.build(arch, self._task), _sample(self._task, torch.device("cpu")))
        if self._store:
            self._store.keep([(where, Result(seconds, "ok", 1000 * seconds, math.nan))])
        return seconds


def measured_latency(net: nn.Module, x: Tensor) -> float:
    """The median seconds of a forward pass in evaluation mode on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        net.eval()
        with torch.inference_mode():
            times = [_timed(net, x) for _ in range(WARM_UP + REPEATS)]
    finally:
        torch.set_num_threads(threads)
    return statistics.median(times[WARM_UP:])


def _timed(net: nn.Module, x: Tensor) -> float:
    start = time.perf_counter()
    net(x)
    return time.perf_counter() - start
