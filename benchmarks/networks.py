"""Well-known networks in plain PyTorch, so that a benchmark needs nothing else: as their papers say, for 10 classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A branch, a shortcut, and what follows their sum."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None, last: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut, self.last = branch, shortcut or nn.Identity(), last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.branch(x) + self.shortcut(x))
        return result


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


def _head(width: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def resnet50(classes: int = 10) -> nn.Module:
    """He et al.'s 50 layers; the last blocks have 2,048 channels."""
    parts = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, repeats in enumerate((3, 4, 6, 3)):
        for index in range(repeats):
            width, stride = 64 << stage, 2 if stage and not index else 1
            branch = [*_conv(inputs, width, 1), nn.ReLU(), *_conv(width, width, 3, stride), nn.ReLU()]
            shortcut = None if index else nn.Sequential(*_conv(inputs, 4 * width, 1, stride))
            parts.append(Residual(nn.Sequential(*branch, *_conv(width, 4 * width, 1)), shortcut, nn.ReLU()))
            inputs = 4 * width
    return nn.Sequential(*parts, *_head(inputs, classes))


def mobilenet(classes: int = 10, *, small: bool = False) -> nn.Module:
    """Sandler et al.'s MobileNetV2; ``small`` is as NAS-Bench-Macro has them, for images of 32 × 32."""
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    stages = ((6, 64, 2, 2), (6, 128, 3, 2), (6, 256, 3, 2)) if small else stages
    parts = [*_conv(3, 32, 3, 1 if small else 2), nn.ReLU6()]
    inputs = 32
    for expansion, outputs, repeats, first in stages:
        for index in range(repeats):
            width, stride = inputs * expansion, 1 if index else first
            wide = [*_conv(inputs, width, 1), nn.ReLU6()] if expansion > 1 else []
            body = nn.Sequential(*wide, *_conv(width, width, 3, stride, width), nn.ReLU6(), *_conv(width, outputs, 1))
            parts.append(Residual(body) if stride == 1 and inputs == outputs else body)
            inputs = outputs
    return nn.Sequential(*parts, *_conv(inputs, 1280, 1), nn.ReLU6(), *_head(1280, classes))


class ChannelsLast(nn.Module):
    """Layers on the last axis in the middle of images with channels first."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return result


def convnext(classes: int = 10) -> nn.Module:
    """Liu et al.'s ConvNeXt-T."""
    widths = (96, 192, 384, 768)
    parts: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelsLast(nn.LayerNorm(96))]
    for stage, (width, repeats) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
        if stage:
            parts += [ChannelsLast(nn.LayerNorm(widths[stage - 1])), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        for _ in range(repeats):
            mix = [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            parts.append(Residual(nn.Sequential(nn.Conv2d(width, width, 7, 1, 3, groups=width), ChannelsLast(*mix))))
    return nn.Sequential(*parts, *_head(768, classes))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        result: Tensor = self.out(mixed)
        return result


class ViT(nn.Module):
    """Dosovitskiy et al.'s vision transformer; by default ViT-S/16."""

    def __init__(self, size: int, classes: int = 10, width: int = 384, heads: int = 6, depth: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        blocks: list[nn.Module] = []
        for _ in range(depth):
            wide = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            blocks += [Residual(nn.Sequential(nn.LayerNorm(width), _Attention(width, heads)))]
            blocks += [Residual(nn.Sequential(nn.LayerNorm(width), *wide))]
        self.body, self.head = nn.Sequential(*blocks, nn.LayerNorm(width)), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).mT
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.places
        logits: Tensor = self.head(self.body(tokens)[:, 0])
        return logits


def plain(width: int, classes: int = 10) -> nn.Module:
    """Four residual blocks of one width after a stem, all of 3 × 3 convolutions: what a width costs."""
    blocks = [Residual(nn.Sequential(*_conv(width, width, 3)), None, nn.ReLU()) for _ in range(4)]
    return nn.Sequential(*_conv(3, width, 3), nn.ReLU(), *blocks, *_head(width, classes))
