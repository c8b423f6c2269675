"""Products, counted where PyTorch's kernels are called."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Products(TorchDispatchMode):
    """Adds up multiply–accumulates: convolutions, matrix products and attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = func.overloadpacket
        if kind is aten.convolution:
            x, weight, transposed = args[0], args[1], args[6]
            self.total += (x if transposed else result).numel() * math.prod(weight.shape[1:])
        elif kind in (aten.mm, aten.bmm, aten.mv, aten.dot, aten.vdot):
            self.total += result.numel() * args[0].shape[-1]
        elif kind in (aten.addmm, aten.baddbmm, aten.addmv):
            self.total += result.numel() * args[1].shape[-1]
        elif kind is aten._trilinear:
            self.total += result.numel() * math.prod(args[1].shape[1:])
        elif "scaled_dot_product" in str(kind):
            query, key, value = args[:3]
            self.total += math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        return result
