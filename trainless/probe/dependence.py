"""Which parameters a network's outputs depend on, and which of their uses were recorded: read off the graph."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from trainless.probe.layers import EmbeddingLookup, Layer, Spread, Standardised
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import ForwardPass, leaves, trace

_ARRANGE = ("TBackward", "Transpose", "Permute", "View", "Alias", "Unsqueeze", "Squeeze", "UnsafeView", "ReshapeAlias")


@dataclass(frozen=True, eq=False)
class Reach:
    """The dependence of a probe's outputs on its parameters; those without any use have gradient zero.

    Attributes:
        uses: How often each parameter enters what the outputs were computed from, be it transposed or reshaped first.
            The first are the nearest to the outputs.
        recorded: How many of a parameter's uses are by a layer, norm or lookup that was recorded with samples along the
            first axis: there its gradient can be read for every sample.
        ends: What to differentiate by so that gradients pass all that was recorded, the network's leaves first.
    """

    uses: Counter[str]
    recorded: Counter[str]
    ends: list[Tensor]

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the outputs depend on; a norm's scale and bias too where they change nothing yet."""
        return frozenset(self.uses) | frozenset(self.recorded)

    @property
    def unread(self) -> frozenset[str]:
        """The parameters that are used otherwise too: their gradients per sample cannot be read off a layer."""
        return frozenset(name for name, times in self.uses.items() if times > self.recorded[name])


@quantity
def reach(p: Probe) -> Reach:
    """Walk the graph of a probe's forward pass once, from the outputs to the leaves and back.

    Example:
        >>> import torch
        >>> from trainless.core.target import Target
        >>> class Twice(torch.nn.Linear):
        ...     def forward(self, x):
        ...         return super().forward(x) @ self.weight
        >>> p = Probe.of(Twice(3, 2), (torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)), Target("multiclass", 3))
        >>> sorted(reach(p).names), sorted(reach(p).unread)
        (['bias', 'weight'], ['weight'])
    """
    t = trace(p)
    parameters = {get_gradient_edge(tensor).node: name for name, tensor in t.weights.items()}
    uses: Counter[str] = Counter()
    before: defaultdict[Node, list[Node]] = defaultdict(list)
    start = t.outputs.grad_fn
    waiting, seen = (deque([start]), {start}) if start is not None else (deque(), set())
    arranged: dict[Node, str | None] = {}  # the parameter that a node arranges, if that is all it does

    def parameter(node: Node) -> str | None:
        if node not in arranged:
            inner = node.next_functions[0][0] if len(node.next_functions) == 1 else None
            arranges = inner is not None and node.name().startswith(_ARRANGE)
            arranged[node] = parameters.get(node) or (parameter(inner) if arranges and inner is not None else None)
        return arranged[node]

    while waiting:
        node = waiting.popleft()
        for after, _ in node.next_functions:
            if after is None:
                continue
            before[after].append(node)
            name = parameter(after)
            if name is not None and parameter(node) is None:  # one of several that take the same arrangement
                uses[name] += 1
            if after not in parameters and after not in seen:
                seen.add(after)
                waiting.append(after)
    found = [at for at in _recorded(t, len(p.x)) if at.output.grad_fn in seen]
    passed = _up(before, (get_gradient_edge(tensor).node for tensor in leaves(t) if tensor.requires_grad))
    beside = [at.output for at in found if at.output.grad_fn not in passed]
    return Reach(uses, Counter(name for at in found for name in _names(at)), [*leaves(t), *beside])


def _recorded(t: ForwardPass, samples: int) -> list[Layer | Standardised | EmbeddingLookup | Spread]:
    found: list[Layer | Standardised | EmbeddingLookup | Spread] = [*t.layers, *t.norms, *t.lookups, *t.spread]
    return [at for at in found if at.samples == samples and at.output.requires_grad]


def _up(before: dict[Node, list[Node]], ends: Iterable[Node]) -> set[Node]:
    """Every node from which one of the ends is reached."""
    waiting = list(ends)
    passed = set(waiting)
    while waiting:
        for node in before.get(waiting.pop(), ()):
            if node not in passed:
                passed.add(node)
                waiting.append(node)
    return passed


def _names(at: Layer | Standardised | EmbeddingLookup | Spread) -> tuple[str, ...]:
    return (at.weight,) if isinstance(at, EmbeddingLookup) or at.bias is None else (at.weight, at.bias)
