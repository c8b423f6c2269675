"""Copies of a network's structure, as ``copy.deepcopy`` makes them but several times as fast.

On a GPU a small network's forward pass is done before Python has copied its modules one dictionary after the other.
Modules that are copied as PyTorch's are, by their attributes, get theirs here directly; whatever has a way of its own
to be copied, and whatever is no module, goes through ``copy.deepcopy``.
"""

from __future__ import annotations

import copy
import copyreg
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

_NEW = vars(nn.Module())  # what every module has: settings, and dictionaries of hooks
_OWN = frozenset(("_parameters", "_buffers", "_modules"))  # dictionaries that nobody but the module holds
_SIMPLE = frozenset((bool, int, float, complex, str, bytes, type(None)))
_RESTORES = (nn.Module.__setstate__, _ConvNd.__setstate__)  # the latter knows of older files only


def copied(net: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """The network, deeply copied, but for what the memo holds.

    Args:
        net: The network.
        memo: By identity, what to take for a tensor or another object; it is filled as ``copy.deepcopy`` fills it.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> twin = copied(net, {id(tensor): tensor for tensor in net.parameters()})
        >>> twin[0] is net[0], twin[0].weight is net[0].weight
        (False, True)
    """
    memo |= together([buffer for buffer in net.buffers() if buffer.is_cuda and id(buffer) not in memo])
    usual = [module for module in net.modules() if id(module) not in memo and _is_usual(module)]
    for module in usual:
        memo[id(module)] = type(module).__new__(type(module))
    for module in usual:
        held = vars(memo[id(module)])
        for name, value in vars(module).items():
            if type(value) in _SIMPLE:
                held[name] = value
            elif name in _OWN and type(value) is dict:
                held[name] = {key: each if each is None else _one(each, memo) for key, each in value.items()}
            elif name in _NEW and not value and type(value) is type(_NEW[name]):
                held[name] = type(value)()
            elif name != "_compiled_call_impl":
                held[name] = copy.deepcopy(value, memo)
    return copy.deepcopy(net, memo)


def _one(value: nn.Module | Tensor, memo: dict[int, Any]) -> Any:
    return memo[id(value)] if id(value) in memo else copy.deepcopy(value, memo)


def together(buffers: list[Tensor]) -> dict[int, Tensor]:
    """Copies of plain tensors by identity, those of one kind in one operation: a GPU takes as long for one."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for buffer in buffers:
        if type(buffer) is Tensor and buffer.is_contiguous() and not buffer.requires_grad:
            kinds.setdefault((buffer.dtype, buffer.device), []).append(buffer)
    found: dict[int, Tensor] = {}
    for alike in kinds.values():
        parts = torch.cat([buffer.flatten() for buffer in alike]).split([buffer.numel() for buffer in alike])
        found |= {id(buffer): part.view(buffer.shape) for buffer, part in zip(alike, parts, strict=True)}
    return found


def _is_usual(module: nn.Module) -> bool:
    """Whether a module is copied as PyTorch's own are: a new object with copies of its attributes."""
    kind = type(module)
    return (
        not hasattr(module, "__deepcopy__")
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ is nn.Module.__getstate__
        and kind.__setstate__ in _RESTORES
        and kind not in copyreg.dispatch_table
        and not any(vars(each).get("__slots__") for each in kind.__mro__)
    )
