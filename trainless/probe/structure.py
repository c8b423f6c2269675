"""The modules of a private network, listed once since walking the tree for every pass is slow, and its blocks."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

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
