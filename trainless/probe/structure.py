"""The modules of a private network, listed once: walking the tree again for every pass costs more than it seems."""

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
