"""The outputs of a network's blocks, as channels × positions whatever their layout."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import trace


@dataclass(frozen=True, eq=False)
class Block:
    """One block's output and where its channels are: axis 1, or the last for tokens."""

    name: str
    output: Tensor
    tokens: bool

    def like(self, tensor: Tensor) -> Block:
        """Another tensor in the same layout."""
        return replace(self, output=tensor)

    def maps(self) -> Tensor:
        """``(N, C, *positions)``."""
        return self.output.detach().movedim(-1, 1) if self.tokens else self.output.detach()

    def channels(self) -> Tensor:
        """``(C, N · positions)``."""
        return self.maps().transpose(0, 1).flatten(1)

    def folded(self, smaller: Block) -> Tensor:
        """Channels × positions on the grid of a block that comes after: what it merged becomes channels."""
        maps, grid = self.maps(), smaller.maps().shape[2:]
        if maps.shape[2:] == grid:
            return maps.transpose(0, 1).flatten(1)
        if len(maps.shape) - 2 != len(grid) or any(
            size % wanted for size, wanted in zip(maps.shape[2:], grid, strict=True)
        ):
            raise Unscorable(
                f"the grids {tuple(maps.shape[2:])} and {tuple(grid)} of two blocks do not divide one another"
            )
        for axis, wanted in enumerate(grid, start=2):
            factor = maps.shape[axis] // wanted
            maps = maps.unflatten(axis, (wanted, factor)).movedim(axis + 1, 2).flatten(1, 2)
        return maps.transpose(0, 1).flatten(1)


@quantity
def blocks(p: Probe) -> tuple[Block, ...]:
    """The blocks whose output has channels, in forward order."""
    found = tuple(
        Block(name, output, _tokens(p.net, output)) for name, output in trace(p).blocks.items() if output.ndim >= 2
    )
    spatial = tuple(block for block in found if block.output.ndim >= 3)
    if not found:
        raise Unscorable("the network has no blocks whose outputs could be looked at")
    return spatial if len(spatial) >= 2 else found


@dataclass(frozen=True, eq=False)
class Scatter:
    """How a block's channels vary over all samples and positions, in double precision on the CPU.

    Attributes:
        products: The channels' covariance; where there are no more places than channels, the places' smaller matrix
            of inner products, which has the same eigenvalues but for zeros.
        singular: Whether it is the latter: the covariance then has no inverse, since centred places add up to zero.
    """

    products: Tensor
    singular: bool

    def eigenvalues(self) -> Tensor:
        """Those of the covariance, ascending, zeros left out where they are known."""
        values: Tensor = torch.linalg.eigvalsh(self.products).clamp_min(0)
        return values

    def least_correlation(self) -> float:
        """The smallest eigenvalue of the channels' correlation; a constant channel correlates with nothing."""
        if self.singular:
            return 0.0
        deviation = self.products.diagonal().clamp_min(0).sqrt()
        scale = torch.where(deviation > 0, 1 / deviation, 0)
        return float(torch.linalg.eigvalsh(self.products * scale[:, None] * scale[None])[0].clamp_min(0))


@quantity
def block_scatters(p: Probe) -> tuple[Scatter, ...]:
    """The scatter of each block's channels."""
    return tuple(scatter(block.channels()) for block in blocks(p))


def scatter(rows: Tensor) -> Scatter:
    """The scatter of rows, one per channel, over their columns.

    Example:
        >>> scatter(torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 4.0]])).eigenvalues().tolist()
        [0.0, 5.0]
    """
    channels, places = rows.shape
    centred = rows - rows.mean(1, keepdim=True)
    singular = places <= channels
    products = centred.T @ centred if singular else centred @ centred.T
    return Scatter(products.double().cpu() / places, singular)


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
