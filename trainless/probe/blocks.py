"""Blocks by data flow: the stretches of a network between tensors that every path from input to output passes.

While a network runs, every operation is put in order, and what each one takes is read off the autograd graph, whoever
wrote the code and however it is nested. A tensor is a *cut* if nothing made before it is used after it. A *layer* is an
operation that multiplies by parameters (convolutions, linear and recurrent layers, attention, embeddings, products with
matrices; not norms). Between two layers there may be several cuts: norms, activations, poolings, arrangements. The
block's *boundary* is the last of them that has no fewer numbers than the first and is not a mere arrangement: the
features as the next layer sees them, but before they are pooled. What comes before the first layer and after the last
is no block, so that the classifier is none. A residual block, a pre-norm attention or feed-forward part and a mixed
cell are one block each.

Where fewer than two boundaries have more than one place, as in U-Nets without a plain stem or in cells that take two
predecessors, the deepest feature map of every grid, of those with the usual number of axes, stands for a block, ordered
by depth, if there are two of these and each is made from the one before it. What the outputs do not come of, such as an
auxiliary head, has no part in it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from trainless.probe.axes import Axes, Layout, arranges, axes_after, name_of, settled, taken

_MULTIPLIES = re.compile(r"Convolution|(?i:mm)Backward|Mv|Linear|Embedding|(?i:rnn)|Einsum")
_STACKS = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_ASKS = """shape dtype device requires_grad is_cuda ndim is_leaf grad_fn layout names size dim numel stride
    is_contiguous is_floating_point is_complex element_size data_ptr is_mkldnn is_nested is_sparse is_quantized is_meta
    storage_offset"""
QUESTIONS = frozenset(_ASKS.split())
"""Names of functions that ask something about a tensor and compute nothing."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """A tensor between two blocks.

    Attributes:
        order: The operation that made it, counted.
        tensor: Its numbers.
        edge: Its place in the graph.
        layout: Where its samples and channels lie.
        layers: How many layers came before it.
        depth: How many of them on the longest way to it.
        arranged: Whether it holds no more than the numbers of another tensor.
        version: How often it had been written to.
    """

    order: int
    tensor: Tensor
    edge: GradientEdge
    layout: Layout
    layers: int = 0
    depth: int = 0
    arranged: bool = False
    version: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of all axes but those of samples and channels."""
        apart = (self.layout.samples, self.layout.channels)
        several = (self.tensor.shape[self.layout.samples] // self.layout.folded,) if self.layout.folded else ()
        return (*several, *(size for axis, size in enumerate(self.tensor.shape) if axis not in apart))


@dataclass(frozen=True, eq=False)
class Stream:
    """What a recorded pass says about blocks.

    Attributes:
        boundaries: The blocks' outputs, in forward order.
        body: The parameters that are used after the first and before the last boundary.
    """

    boundaries: tuple[Boundary, ...]
    body: frozenset[str]


@dataclass(eq=False)
class _Taken:
    """What an operation took: the oldest of what it took, every edge to it, and whether it multiplied by weights."""

    oldest: int | None = None
    edges: list[tuple[Node, int]] = field(default_factory=list)
    layer: bool = False
    names: set[str] = field(default_factory=set)


class Flow(TorchFunctionMode):
    """Follows a network's operations while it runs.

    Args:
        x: The input, as it is handed to the network.
        weights: The parameters, as they are handed to it.
        careful: Keep copies of what may become a boundary, so that nothing done in place can reach it.
        dead: The operations that an earlier pass found the outputs not to come of, counted.
    """

    def __init__(
        self, x: Tensor, weights: Mapping[str, Tensor], careful: bool = False, dead: frozenset[int] = frozenset()
    ) -> None:
        super().__init__()
        self.samples, self.careful, self.dead = len(x), careful, dead
        self.marks: set[int] = set()  # operations that end cuts or are layers
        self.order: dict[Node, int] = {}  # of what depends on the input
        self.leaves = {
            id(tensor): _key(get_gradient_edge(tensor)) for tensor in (*weights.values(), x) if tensor.requires_grad
        }
        self.fixed = {
            self.leaves[id(tensor)][0]: frozenset((name,)) for name, tensor in weights.items() if tensor.requires_grad
        }
        self.axes: dict[tuple[Node, int], Axes] = {}
        self.depth = [0]
        self.layers = [0]
        self.uses: dict[str, int] = {}
        self.cuts: list[Boundary] = []
        self.deepest: dict[tuple[int, ...], dict[int, Boundary]] = {}  # by grid and depth, the two deepest
        self.given: list[tuple[Tensor, Axes]] = []  # to the function that is being called
        self.outside: list[tuple[Tensor, Axes]] = []  # of what it takes, that which comes from the input otherwise
        self.loose = WeakIdKeyDictionary()  # tensors that come from the input outside the graph, such as tokens
        if x.requires_grad:
            edge = self.leaves[id(x)]
            self.order[edge[0]], self.axes[edge] = 0, Axes(0)
        else:
            self.loose[x] = Axes(0)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if name_of(func) in QUESTIONS:
            return func(*args, **(kwargs or {}))
        if name_of(func) in _STACKS and _layers(args, kwargs) > 1:
            return self._layer_by_layer(func, types, *args)
        with torch._C.DisableTorchFunction():  # what is looked at here is no part of the network
            numbers = taken(func, args, kwargs or {})
            given = self.given = self._given(numbers)
            loose = (
                [(each, self.loose[each]) for each in tensors_in(numbers) if each in self.loose] if self.loose else []
            )
            self.outside = loose
        result = func(*args, **(kwargs or {}))
        written = args[:1] if result is None and name_of(func) == "__setitem__" else ()
        if written or isinstance(result, (Tensor, tuple, list)):
            with torch._C.DisableTorchFunction():
                made = list(tensors_in(written or (result,)))
                self._made(func, args, kwargs or {}, given, loose, made)
        return result

    def _layer_by_layer(self, func: Callable[..., Any], types: Any, x: Tensor, state: Any, *given: Any) -> Any:
        """A stack of recurrent layers as what it is: one after the other."""
        parameters, biases, count, dropout, train, both_ways, batch_first = given
        ways, size = 1 + both_ways, len(parameters) // count
        states = state if isinstance(state, tuple) else (state,)
        ends: list[list[Tensor]] = [[] for _ in states]
        for layer in range(count):
            own = tuple(each[ways * layer : ways * (layer + 1)] for each in states)
            how = parameters[size * layer : size * (layer + 1)], biases, 1, dropout, train, both_ways, batch_first
            begin = own if isinstance(state, tuple) else own[0]
            x, *last = self.__torch_function__(func, types, (x, begin, *how))
            for all_of_them, one in zip(ends, last, strict=True):
                all_of_them.append(one)
        return (x, *map(torch.cat, ends))  # part of the network where they are used, and not before

    # --- axes ---------------------------------------------------------------------------------------------------
    def _given(self, values: tuple[Any, ...]) -> list[tuple[Tensor, Axes]]:
        """What a function takes that depends on the input, oldest first: read before it may work in place."""
        found = []
        for each in tensors_in(values):
            edge = self._edge(each)
            if edge is not None and edge[0] in self.order:
                found.append((self.order[edge[0]], each, self.axes.get(edge, Axes())))
        found.sort(key=lambda one: one[0])
        return [(tensor, axes) for _, tensor, axes in found]

    def _edge(self, value: object) -> tuple[Node, int] | None:
        """A tensor's place in the graph, if it has one."""
        if not isinstance(value, Tensor) or not value.requires_grad:
            return None
        node = value.grad_fn
        return self.leaves.get(id(value)) if node is None else (node, value.output_nr)

    def _is_weight(self, tensor: Tensor) -> bool:
        edge = self._edge(tensor)
        return edge is not None and edge[0] in self.fixed

    def entered(self, gate: Tensor) -> Axes | None:
        """Where the samples of what enters the function that is being called lie; None where it depends on no input."""
        if not self.given:
            return self.outside[0][1] if self.outside else None
        alike = (axes for tensor, axes in self.given if tensor.shape == gate.shape)
        return next(alike, self.given[0][1])

    # --- the graph ----------------------------------------------------------------------------------------------
    def _made(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: list[tuple[Tensor, Axes]],
        loose: list[tuple[Tensor, Axes]],
        results: list[Tensor],
    ) -> None:
        order, taken = len(self.depth), _Taken()
        for place, result in enumerate(results):
            if result.grad_fn is None:
                if (given or loose) and not result.requires_grad:
                    self.loose[result] = axes_after(func, args, kwargs, results, given or loose, self._is_weight)[place]
                continue
            self._walk(result.grad_fn, order, taken, bool(loose) and not given)
        fresh = [
            place
            for place, each in enumerate(results)
            if each.grad_fn is not None and self.order.get(each.grad_fn) == order
        ]
        if not fresh:
            return
        self._count(order, taken)
        axes = axes_after(func, args, kwargs, results, given or loose, self._is_weight)
        for place in fresh:
            self._keep(func, results[place], axes[place])

    def _walk(self, start: Node, order: int, taken: _Taken, loose: bool) -> None:
        """Put what is new in the graph below a tensor in order; note what it takes of what was there."""
        waiting, new, added = [(start, False)], [], []
        while waiting:
            node, seen = waiting.pop()
            if seen:
                below = [(child, at) for child, at in node.next_functions if child is not None]
                if any(child in self.order for child, _ in below):
                    self.order[node] = order
                    new.append((node, below))
                else:
                    self.fixed[node] = frozenset[str]().union(*(self.fixed[child] for child, _ in below))
                    added.append((node, below))
            elif node not in self.order and node not in self.fixed:
                waiting.append((node, True))
                waiting += [(child, False) for child, _ in node.next_functions if child is not None]
        if loose and start in self.fixed:  # tokens were looked up, or numbers without a graph multiplied
            del self.fixed[start]
            self.order[start], taken.oldest = order, 0
            new += added
        for node, below in new:
            names = frozenset[str]().union(*(self.fixed[child] for child, _ in below if child in self.fixed))
            taken.names |= names
            taken.layer |= bool(names) and _MULTIPLIES.search(node.name()) is not None
            for child, at in below:
                before = self.order.get(child, order)
                if before < order:
                    taken.edges.append((child, at))
                    taken.oldest = before if taken.oldest is None else min(before, taken.oldest)

    def _count(self, order: int, taken: _Taken) -> None:
        """Note an operation; what lies between it and the oldest that it takes is no cut."""
        order = len(self.depth)
        if order in self.dead:
            self.depth.append(self.depth[-1])
            self.layers.append(self.layers[-1])
            return
        deepest = max((self.depth[self.order[node]] for node, _ in taken.edges), default=0)
        self.depth.append(deepest + taken.layer)
        self.layers.append(self.layers[-1] + taken.layer)
        for name in taken.names:
            self.uses.setdefault(name, order)
        oldest = taken.oldest if taken.oldest is not None else order
        before = len(self.cuts)
        while self.cuts and self.cuts[-1].order > oldest:
            self.cuts.pop()
        at = {edge for edge in taken.edges if self.order[edge[0]] == oldest}
        self.cuts = [cut for cut in self.cuts if cut.order < oldest or at == {_key(cut.edge)}]
        if taken.layer or len(self.cuts) < before:
            self.marks.add(order)

    def _keep(self, func: Callable[..., Any], tensor: Tensor, axes: Axes) -> None:
        """Note a tensor that a function made."""
        edge = get_gradient_edge(tensor)
        self.axes[_key(edge)] = axes
        if len(self.depth) - 1 in self.dead:
            return
        layout = settled(tensor, axes, self.samples)
        if layout is not None and tensor.is_floating_point():
            self._see(func, tensor, edge, layout)

    def _see(self, func: Callable[..., Any], tensor: Tensor, edge: GradientEdge, layout: Layout) -> None:
        """Take a tensor for a cut until something shows that it is none."""
        order, arranged = len(self.depth) - 1, arranges(func) or name_of(func) == "stack"
        values = tensor.detach().clone() if self.careful else tensor
        version = 0 if tensor.is_inference() else tensor._version
        cut = Boundary(order, values, edge, layout, self.layers[order], self.depth[order], arranged, version)
        self.cuts.append(cut)
        if not arranged and math.prod(cut.grid) > 1 and cut.depth:
            known = self.deepest.setdefault(cut.grid, {})
            known[cut.depth] = cut
            if len(known) > 2:
                del known[min(known)]

    # --- what was found -----------------------------------------------------------------------------------------
    def unused(self, outputs: Tensor) -> frozenset[int]:
        """The operations that the outputs do not come of, if leaving them out can change the blocks."""
        waiting = [] if outputs.grad_fn is None else [outputs.grad_fn]
        seen = set(waiting)
        while waiting:
            below = {child for child, _ in waiting.pop().next_functions if child is not None} - seen
            seen |= below
            waiting += below
        live = {self.order[node] for node in seen if node in self.order}
        return frozenset(range(1, len(self.depth))) - live if self.marks - live else frozenset()

    def stream(self, outputs: Tensor, beside: Iterable[tuple[str, Tensor]] = ()) -> tuple[Stream, bool]:
        """The blocks of a network that has run, and whether a boundary was overwritten since it was made.

        Args:
            outputs: The network's.
            beside: Parameters that were left out of the graph because they change nothing yet, and what they act on.
        """
        if outputs.grad_fn is None:
            return Stream((), frozenset()), False
        if outputs.grad_fn not in self.order:
            self._made(torch.Tensor.add, (), {}, [], [], [outputs])
        end = self.order.get(outputs.grad_fn, len(self.layers) - 1)
        head = self.layers[end]
        cuts = [cut for cut in self.cuts if cut.order <= end and 0 < cut.layers < head]
        found = [
            _boundary([cut for cut in cuts if cut.layers == layers]) for layers in sorted({c.layers for c in cuts})
        ]
        uses = dict(self.uses)
        for name, tensor in beside:
            if tensor.grad_fn in self.order:
                uses.setdefault(name, self.order[tensor.grad_fn])
        body = {name for name, at in uses.items() if found and found[0].order < at <= found[-1].order}
        chosen = [cut for cut in found if math.prod(cut.grid) > 1]
        if len(chosen) < 2:
            depth = self.depth[end]
            inner = [[cut for cut in known.values() if cut.depth < depth] for known in self.deepest.values()]
            grids = sorted((max(each, key=_depth) for each in inner if each), key=_depth)
            kinds = [len(cut.grid) for cut in grids]
            usual = max(kinds, key=lambda kind: (kinds.count(kind), kind), default=0)
            grids = [cut for cut in grids if len(cut.grid) == usual]
            chosen = grids if len(grids) > 1 and _follow(grids) else found
        changed = not self.careful and any(cut.version != cut.tensor._version for cut in chosen)
        return Stream(tuple(chosen), frozenset(body)), changed


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among values, also within lists, tuples and dicts."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _layers(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> int:
    """How many recurrent layers a call stacks without dropout between them; 1 of packed sequences."""
    plain = len(args) == 9 and not kwargs and isinstance(args[3], bool) and (not args[5] or not args[6])
    return int(args[4]) if plain else 1


def _key(edge: GradientEdge) -> tuple[Node, int]:
    return edge.node, edge.output_nr


def _follow(cuts: list[Boundary]) -> bool:
    """Whether each of some tensors is made from the one before it."""
    for before, after in itertools.pairwise(cuts):
        waiting, seen = [after.edge.node], {after.edge.node}
        while waiting and before.edge.node not in seen:
            below = {child for child, _ in waiting.pop().next_functions if child is not None} - seen
            seen |= below
            waiting += below
        if before.edge.node not in seen:
            return False
    return True


def _depth(cut: Boundary) -> tuple[int, int]:
    return cut.depth, cut.order


def _boundary(cuts: list[Boundary]) -> Boundary:
    """Of the cuts between two layers: the last that has no fewer numbers than the first, arrangements aside."""
    made = [cut for cut in cuts if not cut.arranged] or cuts[:1]
    return [cut for cut in made if cut.tensor.numel() >= made[0].tensor.numel()][-1]
