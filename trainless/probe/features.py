"""The blocks' outputs as channels and places, and the spread of the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from trainless.core.errors import Unscorable
from trainless.probe.axes import Layout
from trainless.probe.points import drawn
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import trace
from trainless.probe.spectra import eigenvalues, least_eigenvalues


@dataclass(frozen=True, eq=False)
class BlockOutput:
    """One block's output.

    Attributes:
        name: The block's.
        values: Its numbers, without a graph.
        edge: Its place in the graph.
        layout: Where its samples and channels lie.
        own: Whether the network named the block: random numbers are then drawn in the order of its axes.
    """

    name: str
    values: Tensor
    edge: GradientEdge | None
    layout: Layout
    own: bool

    def maps(self) -> Tensor:
        """``(N, C, *positions)``."""
        return self.layout.turned(self.values)

    def channels(self) -> Tensor:
        """``(C, N · positions)``."""
        return self.maps().transpose(0, 1).flatten(1)

    def signs(self, source: torch.Generator) -> Tensor:
        """Random ±1 in this layout: the same for every order of the axes, unless the network named the block."""
        if self.own:
            return drawn("signs", tuple(self.values.shape), source, self.values)
        maps = self.maps()
        return self.layout.back(drawn("signs", tuple(maps.shape), source, maps))

    def pulled(self, before: BlockOutput, cotangent: Tensor) -> Tensor:
        """The gradient at an earlier block's output of this one's product with a tensor; the graph is kept."""
        if self.edge is None or before.edge is None:
            return torch.zeros_like(before.values)
        (found,) = torch.autograd.grad([self.edge], [before.edge], [cotangent], retain_graph=True, allow_unused=True)
        return torch.zeros_like(before.values) if found is None else found.detach()


def paired(before: Tensor, after: Tensor, *grids: tuple[int, ...] | None) -> tuple[Tensor, Tensor]:
    """Two maps ``(N, C, *positions)`` as channels × places on the coarser of their grids, axis by axis.

    What the coarser grid merges becomes channels: all places, where it is a single one. Where neither size of an axis
    divides the other, the larger is cut or filled with zeros about its middle, to the nearest multiple.

    Args:
        before: The first.
        after: The second.
        grids: For each, the sizes of the axes that its positions were laid into one from, where they were: they are
            taken apart again where the other's still are.

    Example:
        >>> left, right = paired(torch.zeros(5, 2, 8), torch.zeros(5, 3, 4))
        >>> tuple(left.shape), tuple(right.shape)
        ((4, 20), (3, 20))
        >>> left, right = paired(torch.zeros(5, 2, 4, 4), torch.zeros(5, 3, 4), None, (2, 2))
        >>> tuple(left.shape), tuple(right.shape)
        ((8, 20), (3, 20))
    """
    if before.ndim != after.ndim:
        before, after = (_apart(maps, grid) for maps, grid in zip((before, after), grids or (None, None), strict=True))
    if before.ndim != after.ndim:
        if before[0, 0].numel() != after[0, 0].numel() and 1 not in (before[0, 0].numel(), after[0, 0].numel()):
            raise Unscorable(
                f"the grids {tuple(before.shape[2:])} and {tuple(after.shape[2:])} of two blocks are not of one kind"
            )
        before, after = (maps.reshape(*maps.shape[:2], -1) for maps in (before, after))
    for axis in range(2, before.ndim):
        grid = min(before.shape[axis], after.shape[axis])
        before, after = _folded(before, axis, grid), _folded(after, axis, grid)
    return before.transpose(0, 1).flatten(1), after.transpose(0, 1).flatten(1)


def _apart(maps: Tensor, grid: tuple[int, ...] | None) -> Tensor:
    return maps if grid is None or maps.ndim != 3 else maps.unflatten(2, grid)


def _folded(maps: Tensor, axis: int, grid: int) -> Tensor:
    size = maps.shape[axis]
    if size == grid:
        return maps
    factor = round(size / grid)
    more = grid * factor - size
    if more:
        maps = F.pad(maps.movedim(axis, -1), (more // 2, more - more // 2)).movedim(-1, axis)
    folded: Tensor = maps.unflatten(axis, (grid, factor)).movedim(axis + 1, 2).flatten(1, 2)
    return folded


@quantity
def blocks(p: Probe) -> tuple[BlockOutput, ...]:
    """The blocks whose output has channels, in forward order: those that the network names, or those of its flow."""
    t = trace(p)
    if t.stream is not None:
        found = tuple(
            BlockOutput(f"{place}", each.tensor.detach(), each.edge, each.layout, own=False)
            for place, each in enumerate(t.stream.boundaries)
        )
    else:
        named = tuple(_named(p.net, name, output) for name, output in t.blocks.items() if output.ndim >= 2)
        spatial = tuple(block for block in named if block.values.ndim >= 3)
        found = spatial if len(spatial) >= 2 else named
    if not found:
        raise Unscorable("the network has no blocks whose outputs could be looked at")
    return found


def _named(net: nn.Module, name: str, output: Tensor) -> BlockOutput:
    layout = Layout(0, output.ndim - 1 if _tokens(net, output) else 1)
    edge = get_gradient_edge(output) if output.requires_grad else None
    return BlockOutput(name, output.detach(), edge, layout, own=True)


def _tokens(net: nn.Module, output: Tensor) -> bool:
    """Whether channels are last: a layer norm or recurrent layer works on the last axis of such outputs."""
    if output.ndim != 3:
        return False
    width = output.shape[-1]
    return any(
        (isinstance(module, nn.LayerNorm) and module.normalized_shape == (width,))
        or (isinstance(module, nn.Linear) and module.in_features == width and not _convolutional(net))
        for module in net.modules()
    )


def _convolutional(net: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv1d) for module in net.modules())


@dataclass(frozen=True, eq=False)
class Scatter:
    """The covariance of a block's channels over all samples and positions.

    Attributes:
        products: The channels' covariance; where there are no more places than channels, the places' smaller matrix
            of inner products, which has the same eigenvalues but for zeros.
        singular: Whether it is the latter: the covariance then has no inverse, since centred places add up to zero.
    """

    products: Tensor
    singular: bool

    def correlation(self) -> Tensor:
        """That of the channels, in double precision; a constant channel correlates with nothing."""
        products = self.products.double()
        deviation = products.diagonal().clamp_min(0).sqrt()
        scale = torch.where(deviation > 0, 1 / deviation, 0)
        return products * scale[:, None] * scale[None]


@quantity
def block_scatters(p: Probe) -> tuple[Scatter, ...]:
    """The scatter of each block's channels."""
    found = tuple(scatter(block.channels()) for block in blocks(p))
    if not bool(torch.stack([torch.isfinite(each.products).all() for each in found]).all()):
        raise Unscorable("a block's output is not finite")
    return found


def scatter(rows: Tensor) -> Scatter:
    """The scatter of rows, one per channel, over their columns.

    Example:
        >>> scattered_eigenvalues([scatter(torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 4.0]]))])[0].tolist()
        [0.0, 5.0]
    """
    channels, places = rows.shape
    centred = rows - rows.mean(1, keepdim=True)
    singular = places <= channels
    products = centred.T @ centred if singular else centred @ centred.T
    return Scatter(products / places, singular)


def scattered_eigenvalues(scatters: Sequence[Scatter]) -> list[Tensor]:
    """The eigenvalues of covariances, ascending, zeros left out where they are known."""
    return [values.clamp_min(0) for values in eigenvalues([scatter.products for scatter in scatters])]


def least_correlations(scatters: Sequence[Scatter]) -> list[float]:
    """The least eigenvalue of the channels' correlation, without decomposing it: 0 where there are too few places."""
    found = iter(least_eigenvalues([scatter.correlation() for scatter in scatters if not scatter.singular]))
    return [0.0 if scatter.singular else next(found) for scatter in scatters]
