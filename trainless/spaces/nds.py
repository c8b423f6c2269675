"""DARTS and the other cell spaces of the NDS study (Radosavovic et al., 2019), as one parametrised space."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from trainless.core.arch import Arch, Decision, Region, region_of
from trainless.core.errors import InputError, UnknownName
from trainless.core.task import Task
from trainless.spaces.genotype import CellPlan, Genotype, Nodes, OperationPair, canonical_nodes, parse_genotype, plan
from trainless.spaces.moves import Extent, has_options, size
from trainless.spaces.nds_net import CellsAlone, CellsNetwork, Frame, Skeleton, count
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid, require_least, require_region
from trainless.spaces.sketch import Edge, Graph, Node


@dataclass(frozen=True)
class Family:
    """What tells one cell space from another; ``loose`` ends, the nodes that no other reads, make its output."""

    operations: tuple[str, ...]
    nodes: int
    loose: bool


def _family(operations: str, nodes: int, loose: bool) -> Family:
    return Family(tuple(operations.split()), nodes, loose)


FAMILIES = {
    "darts": _family(
        "none max_pool_3x3 avg_pool_3x3 skip_connect sep_conv_3x3 sep_conv_5x5 dil_conv_3x3 dil_conv_5x5",
        nodes=4,
        loose=False,
    ),
    "enas": _family("skip_connect sep_conv_3x3 sep_conv_5x5 avg_pool_3x3 max_pool_3x3", nodes=5, loose=True),
    "pnas": _family(
        "sep_conv_3x3 sep_conv_5x5 sep_conv_7x7 conv_7x1_1x7 skip_connect avg_pool_3x3 max_pool_3x3 dil_conv_3x3",
        nodes=5,
        loose=False,
    ),
    "nasnet": _family(
        "skip_connect conv_3x1_1x3 conv_7x1_1x7 dil_conv_3x3 avg_pool_3x3 max_pool_3x3 max_pool_5x5 max_pool_7x7 "
        "conv_1x1 conv_3x3 sep_conv_3x3 sep_conv_5x5 sep_conv_7x7",
        nodes=5,
        loose=True,
    ),
    "amoeba": _family(
        "skip_connect sep_conv_3x3 sep_conv_5x5 sep_conv_7x7 avg_pool_3x3 max_pool_3x3 dil_sep_conv_3x3 conv_7x1_1x7",
        nodes=5,
        loose=True,
    ),
}


CELLS = ("normal", "reduce")
_SLOTS = ("first", "second")
PUBLISHED: dict[Skeleton, tuple[int, int]] = {"cifar": (36, 20), "imagenet": (48, 14)}
"""Channels and cells of the published networks by skeleton."""


@dataclass(frozen=True)
class NdsSpace(ShownSpace):
    """Normal and reduction cells whose nodes each add up two operations on earlier states.

    The network is the one of DARTS (Liu et al., 2019): a stem, ``cells`` cells of which those after one and two
    thirds halve the size and double the channels, global average and a linear classifier. The auxiliary head, which
    only training uses, is left out. A pair is two decisions, the operation and the state that it reads; both pairs of
    a node may read the same state.

    ``skeleton`` is ``cifar`` (3×3 stem of 3·channels at full size) or ``imagenet`` (two-part stem at an eighth of it).
    """

    family: str
    channels: int = 36
    cells: int = 20
    skeleton: Skeleton = "cifar"

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise UnknownName(f"no cell space is called {self.family!r}; expected one of {', '.join(FAMILIES)}")
        if self.skeleton not in PUBLISHED:
            raise InputError(f"{self.family}: skeleton={self.skeleton!r} was given; expected 'cifar' or 'imagenet'")
        require_least(self, channels=2 if self.skeleton == "imagenet" else 1, cells=1)

    @property
    def name(self) -> str:
        return self.family

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self.family)

    @property
    def parts(self) -> tuple[int, int]:
        half = len(self.decisions) // 2
        return half, half

    def check(self, task: Task) -> None:
        least = 4 if self.skeleton == "cifar" else 32
        require_grid(self, task, least, f" with the {self.skeleton} skeleton")

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        """The one arch of all that compute the same function, up to the order of channels within the network."""
        require_arch(self, arch)
        return self._arch(*(canonical_nodes(nodes) for nodes in self._nodes(arch)))

    def extent(self) -> Extent:
        return Extent(size(self), size(self))

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch)
        return self.build_region(region_of(arch), task)

    def build_region(self, region: Region, task: Task) -> nn.Module:
        """The supernet of a region: a pair adds up its open operations on each of its open inputs.

        Pruning ends with one operation on one input in each of a node's two pairs. In the published supernet both
        pairs share one set of operations; here each has its own, so that every open option of every decision has
        weights of its own, and all operations of a pair go with an input that is dropped from it. Loose ends are the
        nodes that are not yet sure to be read. Norms are affine, and poolings have none, as in the final network.
        """
        self.check(task)
        require_region(self, region)
        return CellsNetwork(self._frame(region), task)

    def build_cell(self, arch: Arch, dims: int) -> nn.Module:
        """The two cells alone: the normal one, whose two inputs are the sample, and then the reduction."""
        require_arch(self, arch)
        return self.build_cell_region(region_of(arch), dims)

    def build_cell_region(self, region: Region, dims: int) -> nn.Module:
        require_region(self, region)
        frame = self._frame(region)
        return CellsAlone(frame.normal, frame.reduction, dims)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        return count(self._frame(region_of(arch)), task)

    def scaled(self, channels: int, cells: int) -> NdsSpace:
        """The same space at another width, with this many normal cells before, between and after the reductions."""
        return replace(self, channels=channels, cells=3 * cells + 2)

    def parse(self, text: str) -> Arch:
        try:
            genotype = parse_genotype(text)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        normal = self._checked("normal", genotype.normal, genotype.normal_concat)
        reduce = self._checked("reduce", genotype.reduce, genotype.reduce_concat)
        return self._arch(normal, reduce)

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        normal, reduce = self._nodes(arch)
        return str(Genotype(sum(normal, ()), self._plan(normal).outputs, sum(reduce, ()), self._plan(reduce).outputs))

    def sketch(self, arch: Arch) -> tuple[Graph, Graph]:
        require_arch(self, arch)
        normal, reduce = self._nodes(arch)
        return _graph("normal", normal, self._plan(normal)), _graph("reduction", reduce, self._plan(reduce))

    def _nodes(self, arch: Arch) -> tuple[Nodes, Nodes]:
        names = FAMILIES[self.family].operations
        pairs = [(names[option], source) for option, source in zip(arch[::2], arch[1::2], strict=True)]
        nodes = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        half = len(nodes) // 2
        return nodes[:half], nodes[half:]

    def _arch(self, *cells: Nodes) -> Arch:
        names = FAMILIES[self.family].operations
        pairs = (pair for nodes in cells for node in nodes for pair in node)
        return tuple(number for name, source in pairs for number in (names.index(name), source))

    def _plan(self, nodes: Nodes) -> CellPlan:
        return plan(tuple(((first,), (second,)) for first, second in nodes), FAMILIES[self.family].loose)

    def _frame(self, region: Region) -> Frame:
        family = FAMILIES[self.family]
        slots = [
            tuple((family.operations[option], source) for source in sorted(sources) for option in sorted(options))
            for options, sources in zip(region[::2], region[1::2], strict=True)
        ]
        nodes = tuple(zip(slots[::2], slots[1::2], strict=True))
        normal, reduction = (plan(half, family.loose) for half in (nodes[: family.nodes], nodes[family.nodes :]))
        return Frame(normal, reduction, self.channels, self.cells, self.skeleton)

    def _checked(self, cell: str, pairs: tuple[OperationPair, ...], outputs: tuple[int, ...]) -> Nodes:
        family = FAMILIES[self.family]
        if len(pairs) != 2 * family.nodes:
            raise InputError(
                f"{self.name}: {cell!r} has {len(pairs)} pairs; expected {2 * family.nodes}, two for each of"
                f" {family.nodes} nodes"
            )
        for index, (operation, source) in enumerate(pairs):
            node = 2 + index // 2
            where = f"the {_SLOTS[index % 2]} pair of node {node} in {cell!r}"
            if operation not in family.operations:
                raise InputError(
                    f"{self.name}: {operation!r} in {where} is not an operation: {', '.join(family.operations)}"
                )
            if not 0 <= source < node:
                raise InputError(f"{self.name}: {where} reads state {source}; expected 0 to {node - 1}")
        nodes = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        expected = self._plan(nodes).outputs
        if tuple(sorted(outputs)) != expected:
            rule = "the nodes that no other node reads" if family.loose else "all nodes"
            raise InputError(f"{self.name}: '{cell}_concat' is {list(outputs)}; expected {list(expected)}, {rule}")
        return nodes


@functools.cache
def _decisions(name: str) -> tuple[Decision, ...]:
    family = FAMILIES[name]
    decisions = []
    for cell in CELLS:
        for node in range(2, family.nodes + 2):
            for slot in _SLOTS:
                decisions.append(Decision(f"{cell}.{node}.{slot}.operation", family.operations))
                decisions.append(Decision(f"{cell}.{node}.{slot}.input", tuple(map(str, range(node)))))
    return tuple(decisions)


def _graph(title: str, nodes: Nodes, cell: CellPlan) -> Graph:
    states = (Node(str(state), str(state), "state") for state in range(2, len(nodes) + 2))
    pairs = (
        Edge(str(source), str(state), operation)
        for state, node in enumerate(nodes, start=2)
        for operation, source in node
        if operation != "none"
    )
    ends = (Edge(str(state), "output", "") for state in cell.outputs)
    inputs = (Node("0", "cell before last", "input"), Node("1", "cell before", "input"))
    return Graph(title, (*inputs, *states, Node("output", "output", "output")), (*pairs, *ends))


def _published(family: str, summary: str) -> Callable[..., NdsSpace]:
    def made(skeleton: Skeleton = "cifar", channels: int | None = None, cells: int | None = None) -> NdsSpace:
        wide, deep = PUBLISHED.get(skeleton, (1, 1))
        return NdsSpace(family, wide if channels is None else channels, deep if cells is None else cells, skeleton)

    made.__name__, made.__doc__ = family, summary
    return made


_STUDY = "as in the NDS study"
darts = _published("darts", "Cells of DARTS (Liu et al., 2019): 4 nodes, 8 operations, all nodes concatenated.")
enas = _published("enas", f"Cells of ENAS {_STUDY}: 5 nodes, 5 operations, loose ends concatenated.")
pnas = _published("pnas", f"Cells of PNAS {_STUDY}: 5 nodes, 8 operations, all nodes concatenated.")
nasnet = _published("nasnet", f"Cells of NASNet {_STUDY}: 5 nodes, 13 operations, loose ends concatenated.")
amoeba = _published("amoeba", f"Cells of AmoebaNet {_STUDY}: 5 nodes, 8 operations, loose ends concatenated.")
