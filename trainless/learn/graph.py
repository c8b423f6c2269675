"""A training step recorded once as a CUDA graph: small networks wait for kernel launches, a graph has one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]
WARM = 3  # steps before recording, so that optimiser state and workspaces are there


class GraphedStep:
    """Calls a step as it is a few times, records it, and from then on replays it for batches of the same shape.

    Args:
        step: Forward, backward and optimiser step on a batch; returns the loss without its graph. It
            must not wait for the device.
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
