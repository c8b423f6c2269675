"""The modules of a private network, listed once since walking the tree for every pass is slow, and its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from torch import Tensor, nn

_LISTED: WeakKeyDictionary[nn.Module, tuple[tuple[str, nn.Module], ...]] = WeakKeyDictionary()


def modules(net: nn.Module) -> tuple[tuple[str, nn.Module], ...]:
    """Names and modules as of ``named_modules``; the network's structure must not change any more.

    Example:
        >>> [name for name, _ in modules(nn.Sequential(nn.Flatten()))]
        ['', '0']
    """
    if net not in _LISTED:
        _LISTED[net] = tuple((name, module) for name, module in net.named_modules() if name)
    return (("", net), *_LISTED[net])


def tied(net: nn.Module) -> bool:
    """Whether two modules share a parameter or buffer: looking for which takes longer than a small network's pass.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> net[1].weight = net[0].weight
        >>> tied(net)
        True
    """
    held = [id(tensor) for _, module in modules(net) for tensor in (*_own(module._parameters), *_own(module._buffers))]
    return len(held) > len(set(held))


def _own(tensors: Mapping[str, Tensor | None]) -> Iterator[Tensor]:
    return (tensor for tensor in tensors.values() if tensor is not None)


def block_names(net: nn.Module) -> tuple[str, ...]:
    """The modules between which information flows block by block.

    A network of ours names them; of any other network they are its children, a list or sequence of modules
    standing for its members.
    """
    named = getattr(net, "block_names", ())
    if named:
        return tuple(named)
    names: list[str] = []
    for name, child in net.named_children():
        if isinstance(child, nn.ModuleList | nn.Sequential):
            names += [f"{name}.{inner}" for inner, _ in child.named_children()]
        else:
            names.append(name)
    return tuple(names)
