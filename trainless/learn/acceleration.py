"""Faster training on a GPU: mixed precision, channels-last layout and recorded CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.task import Task


@dataclass(frozen=True)
class Precision:
    """The device, number type and memory layout that a network runs in."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format

    def autocast(self) -> AbstractContextManager[None]:
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype, cache_enabled=False)

    def place(self, net: nn.Module) -> nn.Module:
        return in_layout(net.to(self.device), self.layout)

    def arrange(self, x: Tensor) -> Tensor:
        return x if self.layout == torch.contiguous_format else x.contiguous(memory_format=self.layout)


def in_layout(net: nn.Module, layout: torch.memory_format) -> nn.Module:
    """The same network with its kernels in a memory layout."""
    net.to(memory_format=layout)  # type: ignore[call-overload]
    return net


def precision_for(device: torch.device, task: Task) -> Precision:
    """Images on CUDA are channels-last in bfloat16; everything else is plain float32."""
    if device.type != "cuda" or not torch.cuda.is_bf16_supported():
        return Precision(device)
    layouts = {2: torch.channels_last, 3: torch.channels_last_3d}
    return Precision(device, torch.bfloat16, layouts.get(task.dims, torch.contiguous_format))


Step = Callable[[Tensor, Tensor], Tensor]
WARM = 3  # steps before recording, so that optimiser state and workspaces are there


class GraphedStep:
    """Calls a step as it is a few times, records it, and from then on replays it for batches of the same shape.

    A step is forward, backward and optimiser step on a batch; it returns the loss without its graph and must not wait
    for the device.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.shape = torch.Size()
        self.calls = 0
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.x = self.y = self.loss = torch.empty(0)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a step on this batch; valid until the next call."""
        self.shape = self.shape or x.shape
        self.calls += x.shape == self.shape
        if x.shape != self.shape or self.calls <= WARM:
            return self._aside(x, y)
        if self.graph is None:
            self._record(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        if self.graph is not None:
            self.graph.replay()
        return self.loss

    def _aside(self, x: Tensor, y: Tensor) -> Tensor:
        """The step as it is, on the stream that records, where autograd's nodes then live."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.step(x, y)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(memory_format=torch.preserve_format), y.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.loss = self.step(self.x, self.y)
        self.graph = graph
