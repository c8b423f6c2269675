"""What only training uses of a network: paths that are dropped at random, and a second head on its way."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.learn.recipe import Recipe
from trainless.spaces.ops import CONV, NORM
from trainless.spaces.protocol import Network

POOLED, NARROW, WIDE = 5, 128, 768  # of DARTS' auxiliary head: its window and its channels
POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class AuxiliaryHead(nn.Module):
    """DARTS' second classifier: ReLU, average, a 1×1 and a 2×2 convolution with norms, a linear layer.

    The average has windows of 5 that lie so far apart that two of them, or one, fit into the map: 3 positions on
    CIFAR-10's 8 × 8 and 2 on ImageNet's 7 × 7, as in the published program.
    """

    def __init__(self, features: Tensor, outputs: int) -> None:
        super().__init__()
        dims, sizes = features.ndim - 2, features.shape[2:]
        self.window = [min(POOLED, size) for size in sizes]
        self.stride = [max(1, size - window) for size, window in zip(sizes, self.window, strict=True)]
        kernel: Any = tuple(1 + (size > window) for size, window in zip(sizes, self.window, strict=True))
        self.narrow = CONV[dims](features.shape[1], NARROW, 1, bias=False)
        self.wide = CONV[dims](NARROW, WIDE, kernel, bias=False)
        self.norms = nn.ModuleList([NORM[dims](NARROW), NORM[dims](WIDE)])
        self.classifier = nn.Linear(WIDE, outputs)

    def forward(self, features: Tensor) -> Tensor:
        x = POOL[features.ndim - 2](features.relu(), self.window, self.stride)
        x = self.norms[0](self.narrow(x)).relu()
        x = self.norms[1](self.wide(x)).relu()
        answers: Tensor = self.classifier(x.flatten(1))
        return answers


class TrainingParts(nn.Module):
    """A network in training, with the parts of a recipe that it does not keep.

    Args:
        net: The network.
        recipe: ``drop_path`` and ``auxiliary`` of it.
        task: What the second head answers.

    Raises:
        InputError: The network has no such paths, or no place for a second head.
    """

    rate: Tensor

    def __init__(self, net: nn.Module, recipe: Recipe, task: Task) -> None:
        super().__init__()
        paths, at = (net.path_names, net.auxiliary_at) if isinstance(net, Network) else ((), "")
        for option, there in (("drop_path", paths), ("auxiliary", at)):
            if getattr(recipe, option) and not there:
                raise InputError(
                    f"recipe {recipe.name}: {option}={getattr(recipe, option)} was given for a network that has no such"
                    f" part; expected a network of cells, such as of the space darts, or {option}=0"
                )
        self.net = net
        self.most, self.weight = recipe.drop_path, recipe.auxiliary
        self.register_buffer("rate", torch.zeros(()), persistent=False)
        self.head: AuxiliaryHead | None = None
        self.heard: Tensor | None = None
        if self.weight:
            self.head = AuxiliaryHead(_features(net, at, task), task.target.outputs)
            self._hooks = [net.get_submodule(at).register_forward_hook(self._hear)]
        else:
            self._hooks = []
        if self.most:
            self._hooks += [net.get_submodule(path).register_forward_hook(self._drop) for path in paths]

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.net(x)
        return answers

    def begin(self, done: float) -> None:
        """Before a step: the probability of dropping rises with the share of the training that is behind."""
        self.rate.fill_(self.most * done)

    def left(self) -> nn.Module:
        """The network without them."""
        for hook in self._hooks:
            hook.remove()
        return self.net

    def _hear(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        if self.training and self.head is not None:
            self.heard = self.head(output)

    def _drop(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        """Zero the outputs of some samples, and make up for it in the others."""
        if not self.training:
            return output
        kept = torch.rand((len(output), *[1] * (output.ndim - 1)), device=output.device) >= self.rate
        return output * (kept / (1 - self.rate)).to(output.dtype)


def _features(net: nn.Module, at: str, task: Task) -> Tensor:
    """A map of zeros in the shape of what a module puts out."""
    found: list[Tensor] = []
    hook = net.get_submodule(at).register_forward_hook(partial(_keep, found))
    was, x = net.training, task.tensors("train", slice(0, 1))[0]
    with torch.no_grad():
        net.eval()(x)
    net.train(was)
    hook.remove()
    return torch.zeros_like(found[0])


def _keep(found: list[Tensor], module: nn.Module, inputs: object, output: Tensor) -> None:
    found.append(output)
