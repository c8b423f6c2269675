"""What is fixed in the MobileNetV2 spaces: strides, and the lists of widths to choose from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Skeleton:
    """Strides and the lists to choose from, one per stage."""

    stem_stride: int
    stem: tuple[int, ...]
    strides: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    bottlenecks: tuple[tuple[int, ...], ...]
    last: int

    @property
    def halvings(self) -> int:
        """How often the input is halved."""
        return (self.stem_stride, *self.strides).count(2)


IMAGENET = Skeleton(
    stem_stride=2,
    stem=(8, 16, 24, 32, 48),
    strides=(2, 2, 2, 2),
    channels=(
        (16, 24, 32, 40, 48, 64),
        (24, 32, 48, 64, 80, 96),
        (48, 64, 80, 96, 128, 160),
        (96, 128, 160, 192, 224, 256),
    ),
    bottlenecks=(
        (8, 16, 24, 32, 40, 64),
        (16, 24, 32, 48, 64, 80),
        (32, 48, 64, 80, 96, 128),
        (64, 96, 128, 160, 192, 224),
    ),
    last=2048,
)
SMALL = Skeleton(
    stem_stride=1,
    stem=(8, 16, 24, 32),
    strides=(1, 2, 2),
    channels=((8, 16, 24, 32), (16, 24, 32, 48, 64), (32, 48, 64, 96, 128)),
    bottlenecks=((8, 16, 24), (8, 16, 24, 32, 48), (16, 24, 32, 48, 64)),
    last=512,
)
