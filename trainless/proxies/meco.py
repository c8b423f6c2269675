"""MeCo (Jiang et al., 2023): the smallest eigenvalue of the channels' correlation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from trainless.core.errors import Unscorable
from trainless.probe.axes import (
    Axes,
    arranges,
    axes_after,
    is_arithmetic,
    is_layer,
    is_product,
    name_of,
    settled,
    taken,
)
from trainless.probe.blocks import QUESTIONS, tensors_in
from trainless.probe.formulas import ACTIVATIONS, FORMULAS, Formula, Formulas, operation
from trainless.probe.layers import block_names, modules, removed_after
from trainless.probe.norms import Statistics
from trainless.probe.points import First, Noise
from trainless.probe.probe import Probe
from trainless.probe.record import guard, prepared, require_followed, trace
from trainless.probe.running import run
from trainless.probe.spectra import least_eigenvalues
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Jiang", "Wang", "Bie"),
    "MeCo: Zero-Shot NAS with One Data and Single Forward Pass via Minimum Eigenvalue of Correlation",
    "NeurIPS",
    2023,
)


@proxy(
    higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=Setting(inputs=Noise()), version=3
)
def meco(p: Probe, count: Literal["tensors", "modules"] = "tensors", channels: int | None = None) -> float:
    """Independence of the channels of every feature map, for a single input.

    Σ_maps λ_min(ρ), ρ the correlation matrix of the map's channels over its positions.

    Args:
        p: The probe; only the first sample is used.
        count: ``tensors`` counts every feature map once: what operations make (layers, norms, activations, poolings,
            sums of streams but not their products; a function of one tensor, entry by entry, is one however it is
            written), or modules give in
            a network that names its blocks; ``modules`` counts it once for every module and container that passes it
            on, as the published program does.
        channels: Take only so many channels of each map, drawn at random, and scale up (the paper's faster variant).

    Differences:
        See ``count``: with the program's counting, the score depends on how a network's code is nested.

    Fails:
        The network has no feature map of more than one channel and position, or one that is not finite.
    """
    require_followed(p)
    q = p.once(x=First(1))
    try:
        maps = _maps(q, count)
    except Unscorable:  # a norm sees a single value per channel: it takes the batch's statistics
        if len(p.x) == 1:
            raise
        maps = _maps(q, count, trace(p.at(norm="isolated")).statistics)
    if not maps:
        raise Unscorable("the network has no feature map of more than one channel and position")
    source = q.generator("meco")
    chosen: list[tuple[Tensor, float]] = []
    for rows in maps:
        if channels is not None and len(rows) > channels:
            picked = torch.randperm(len(rows), generator=source)[:channels].to(rows.device)
            chosen.append((rows[picked], len(rows) / channels))
        else:
            chosen.append((rows, 1.0))
    by_shape: dict[torch.Size, list[tuple[Tensor, float]]] = {}
    for rows, scale in chosen:
        by_shape.setdefault(rows.shape, []).append((rows, scale))
    stacks = [torch.stack([rows for rows, _ in alike]) for alike in by_shape.values()]
    if not bool(torch.stack([torch.isfinite(stacked).all() for stacked in stacks]).all()):
        raise Unscorable("a feature map is not finite")
    matrices: list[Tensor] = []
    scales: list[float] = []
    for stacked, ((size, places), alike) in zip(stacks, by_shape.items(), strict=True):
        if places > size:  # else some channels are the others'
            matrices += correlation(stacked).unbind()
            scales += [scale for _, scale in alike]
    least = least_eigenvalues(matrices)
    return math.fsum(value * scale for value, scale in zip(least, scales, strict=True))


def _maps(p: Probe, count: Literal["tensors", "modules"], statistics: Statistics | None = None) -> list[Tensor]:
    """Channels × positions of every feature map."""
    found = (
        _of_modules(p, count, statistics) if count == "modules" or block_names(p.net) else _of_operations(p, statistics)
    )
    return [rows for rows in found if min(rows.shape) > 1]


def _of_modules(p: Probe, count: Literal["tensors", "modules"], statistics: Statistics | None) -> list[Tensor]:
    guard(p)  # before the hooks, which its passes would call too
    kept: list[tuple[Tensor, Tensor]] = []
    known: set[int] = set()  # of tensors that are kept, so that an id stays that tensor's

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim > 2 and not (count == "tensors" and id(output) in known):
            known.add(id(output))
            kept.append((output, output[0].detach().clone()))  # a copy: what follows may work in place

    hooks = [
        module.register_forward_hook(keep)
        for name, module in modules(p.net)
        if "parametrizations" not in name.split(".")
    ]
    with removed_after(hooks), torch.no_grad(), prepared(p, statistics=statistics):
        run(p.net, p.weights, p.x)
    return [sample.flatten(1) for _, sample in kept]


_SCALES = frozenset(
    (
        *("add", "iadd", "radd", "sub", "isub", "rsub", "mul", "imul", "rmul", "div", "truediv", "neg"),
        *("to", "float", "double", "clone", "detach"),
    )
)


class _FeatureMaps(TorchFunctionMode):
    """Keeps what operations make, but for arrangements, arithmetic with a single stream, and products of streams.

    A function of one tensor, entry by entry, is one operation however it is written: what is kept is what goes on to
    another one. So it is with a tensor that is written part by part. A map that is only scaled or shifted by numbers,
    as the first one in Python's ``sum``, is the same map.
    """

    def __init__(self, x: Tensor, weights: Iterable[Tensor]) -> None:
        super().__init__()
        self.samples = len(x)
        self.weights = WeakIdKeyDictionary(dict.fromkeys(weights, True))  # and what is made of them alone
        self.axes = WeakIdKeyDictionary()  # of what depends on the input
        self.axes[x] = Axes(0)
        self.made_by = WeakIdKeyDictionary()  # the operation, counted
        self.made_by[x] = 0
        self.taken: list[set[int]] = [set()]  # by each operation: what made what it takes
        self.mixed = WeakIdKeyDictionary()  # products of streams, and what is made of them alone but for layers
        self.formulas = Formulas(FORMULAS | ACTIVATIONS)
        self.waiting: dict[int, tuple[Tensor, bool]] = {}  # what is kept once something takes it; whether a formula has
        self.marks = WeakIdKeyDictionary()  # by which a map and what it is but for numbers are known
        self.numbers = itertools.count()
        self.found: list[tuple[int, int, Tensor]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if name_of(func) in QUESTIONS:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # what is looked at here is no part of the network
            given = {id(each): each for each in tensors_in(taken(func, args, kwargs)) if each in self.axes}
            known = [(each, self.axes[each]) for each in given.values()]
            formula = self.formulas.of(func, args, kwargs) if given else None
            self._leave(func, args, given, formula)
            versions = {at: each._version for at, each in given.items()}
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            made = [args[0]] if result is None and args else list(tensors_in((result,)))
            if given:
                axes = axes_after(func, args, kwargs, made, known, self.weights.__contains__)
                self.taken.append({self.made_by[each] for each in given.values()})
                mixed = all(each in self.mixed for each in given.values()) and not is_layer(func)
                mixed |= is_product(func) and len(given) > 1
                for each, where in zip(made, axes, strict=True):
                    if versions.get(id(each)) != each._version:  # else it was handed back as it is
                        self.axes[each], self.made_by[each] = where, len(self.taken) - 1
                        self._see(func, len(given), each, mixed, None if id(each) in given else formula)
                        if operation(func) in _SCALES and len(list(tensors_in((*args, *kwargs.values())))) == 1:
                            self._is_scaled(next(iter(given.values())), each)
            elif any(each in self.weights for each in tensors_in((*args, *kwargs.values()))):
                self.weights.update(dict.fromkeys(made, True))
        return result

    def _leave(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[int, Tensor], formula: Formula | None
    ) -> None:
        """Keep what was waiting to be taken by something else than more of its kind."""
        for at, each in given.items():
            if at in self.waiting and not (operation(func) == "setitem" and each is args[0]):
                inside = self.formulas.get(each)
                if formula is not None and inside is not None and inside.x is formula.x:
                    self.waiting[at] = each, True
                else:
                    self._keep(self.waiting.pop(at)[0])

    def _see(
        self, func: Callable[..., Any], streams: int, tensor: Tensor, mixed: bool, formula: Formula | None
    ) -> None:
        self.formulas.note(tensor, formula)
        if mixed:
            self.mixed[tensor] = True
        elif formula is not None or operation(func) == "setitem":
            if formula is None or not formula.affine:
                self.waiting[id(tensor)] = tensor, False
        elif not arranges(func) and name_of(func) != "stack" and not (is_arithmetic(func) and streams < 2):
            self._keep(tensor)

    def _is_scaled(self, tensor: Tensor, result: Tensor) -> None:
        """Note that a tensor is another one but for numbers."""
        if result is not tensor:
            self.marks[result] = self._mark(tensor), result._version

    def _mark(self, tensor: Tensor) -> int:
        """The number of a map, which it has until it is written to."""
        mark, version = self.marks.get(tensor, (0, -1))
        if version != tensor._version:
            mark = next(self.numbers)
            self.marks[tensor] = mark, tensor._version
        return int(mark)

    def _keep(self, tensor: Tensor) -> None:
        layout = settled(tensor, self.axes[tensor], self.samples) if tensor.is_floating_point() else None
        if tensor.ndim > 2 and layout is not None:
            self.found.append((self.made_by[tensor], self._mark(tensor), layout.turned(tensor)[0].flatten(1).clone()))

    def all(self, outputs: Tensor) -> list[Tensor]:
        """What was kept of all that the outputs come of, and what nothing has taken in the end."""
        for each, inner in self.waiting.values():
            if not inner:
                self._keep(each)
        live, going_on = set[int](), {self.made_by[outputs]} if outputs in self.made_by else set[int]()
        while going_on:
            live |= going_on
            going_on = set[int]().union(*(self.taken[each] for each in going_on)) - live
        return list({mark: rows for made_by, mark, rows in self.found if made_by in live}.values())


def _of_operations(p: Probe, statistics: Statistics | None) -> list[Tensor]:
    x = p.x.detach()
    maps = _FeatureMaps(x, p.weights.values())
    with torch.no_grad(), prepared(p, statistics=statistics), maps:
        outputs = run(p.net, p.weights, x)
    return maps.all(outputs)


def correlation(rows: Tensor) -> Tensor:
    """The rows' correlation matrix; a constant row correlates with nothing, itself included."""
    rows = rows.double()
    rows = rows - rows.mean(-1, keepdim=True)
    norms = rows.norm(dim=-1, keepdim=True)
    rows = torch.where(norms > 0, rows / norms.clamp_min(1e-300), 0)
    return rows @ rows.mT
