"""Where mixed precision and channels-last help."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.task import Task


@dataclass(frozen=True)
class Precision:
    """How a network is run: in which number type and memory layout."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format

    def autocast(self) -> AbstractContextManager[None]:
        """The context of a forward pass."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype, cache_enabled=False)

    def place(self, net: nn.Module) -> nn.Module:
        """The network on its device and in its layout."""
        return in_layout(net.to(self.device), self.layout)

    def arrange(self, x: Tensor) -> Tensor:
        """A batch in its layout."""
        return x if self.layout == torch.contiguous_format else x.contiguous(memory_format=self.layout)


def in_layout(net: nn.Module, layout: torch.memory_format) -> nn.Module:
    """The same network with its kernels in a memory layout."""
    net.to(memory_format=layout)  # type: ignore[call-overload]
    return net


def precision_for(device: torch.device, task: Task) -> Precision:
    """Images on CUDA are channels-last in bfloat16; everything else is plain float32.

    Example:
        >>> precision_for(torch.device("cpu"), Task.noise((3, 32, 32))).dtype
        torch.float32
    """
    if device.type != "cuda" or not torch.cuda.is_bf16_supported():
        return Precision(device)
    layouts = {2: torch.channels_last, 3: torch.channels_last_3d}
    return Precision(device, torch.bfloat16, layouts.get(task.dims, torch.contiguous_format))
