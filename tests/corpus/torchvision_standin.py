"""The few names of torchvision that timm imports, so that its networks can be made without torchvision.

torchvision has no build for the torch that the tests use, and none of what it does is needed to build a network.
"""

from __future__ import annotations

import enum
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn


class FrozenBatchNorm2d(nn.Module):
    """Batch norm with fixed statistics and affine parameters, all buffers."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((num_features,), value))

    def forward(self, x: Tensor) -> Tensor:
        shape = (1, -1, 1, 1)
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale.reshape(shape) + (self.bias - self.running_mean * scale).reshape(shape)


class InterpolationMode(enum.Enum):
    """How an image is resized."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class _Anything(ModuleType):
    """A module whose missing names are classes that do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


def install() -> None:
    """Put the stand-in where ``import torchvision`` finds it, unless the real one is there."""
    if "torchvision" in sys.modules or importlib.machinery.PathFinder.find_spec("torchvision") is not None:
        return
    names = (
        *("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.datasets"),
        *("torchvision.models", "torchvision.models.feature_extraction", "torchvision.ops", "torchvision.ops.misc"),
        "torchvision.utils",
    )
    for name in names:
        module = _Anything(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    root: Any = sys.modules["torchvision"]
    root.__version__ = "0"
    root.transforms.InterpolationMode = InterpolationMode
    root.transforms.functional.InterpolationMode = InterpolationMode
    root.ops.misc.FrozenBatchNorm2d = FrozenBatchNorm2d
