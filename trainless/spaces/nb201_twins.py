"""Which NAS-Bench-201 cells compute the same function.

A node's value is a sum: how often each term occurs. The terms are the input, a convolution (kernel, which one it is,
the value that it reads) and an average pooling of a term, because pooling is linear. Each convolution keeps a label, so
that one convolution used twice is never mistaken for two; labels of alike convolutions may be exchanged.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator

from trainless.core.arch import Arch

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
NONE, SKIP, CONV1, CONV3, POOL = range(5)

_Term = tuple[object, ...]
_Value = Counter[_Term]


def canonical(arch: Arch) -> Arch:
    """The first arch, in the order of options, that computes the same function."""
    return _representatives()[arch]


@functools.cache
def _representatives() -> dict[Arch, Arch]:
    first: dict[str, Arch] = {}
    chosen: dict[Arch, Arch] = {}
    for arch in itertools.product((NONE, SKIP, CONV1, CONV3, POOL), repeat=len(EDGES)):
        signature = min(repr(_walk(arch, labels)[0]) for labels in _relabellings(arch))
        chosen[arch] = first.setdefault(signature, arch)
    return chosen


def _walk(arch: Arch, labels: dict[int, int]) -> tuple[_Term, dict[_Term, list[int]]]:
    """The output node's value with convolutions labelled as told, and which edges have alike convolutions."""
    values: list[_Value] = [Counter({("x",): 1}), Counter(), Counter(), Counter()]
    alike: dict[_Term, list[int]] = {}
    for edge, ((source, target), option) in enumerate(zip(EDGES, arch, strict=True)):
        if option == SKIP:
            values[target] += values[source]
        elif option == POOL:
            values[target] += Counter({("pool", term): times for term, times in values[source].items()})
        elif option != NONE:
            term = ("conv", option, labels.get(edge, 0), _frozen(values[source]))
            alike.setdefault(term, []).append(edge)
            values[target][term] += 1
    return _frozen(values[3]), alike


def _frozen(value: _Value) -> _Term:
    return tuple(sorted(value.items(), key=repr))


def _relabellings(arch: Arch) -> Iterator[dict[int, int]]:
    """Every way to number convolutions of the same kernel that read alike: their order means nothing."""
    _, alike = _walk(arch, {})
    groups = list(alike.values())
    for orders in itertools.product(*(itertools.permutations(range(len(group))) for group in groups)):
        yield {
            edge: label
            for group, order in zip(groups, orders, strict=True)
            for edge, label in zip(group, order, strict=True)
        }
