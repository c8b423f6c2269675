"""A picture as shapes and words, written as SVG or painted as PNG."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape

Point: TypeAlias = tuple[float, float]
INK, LINE, PAPER = "#1f2430", "#6b7280", "#ffffff"
_FONT = "Helvetica, Arial, sans-serif"
_PLAIN = str.maketrans({"×": "x", "→": "->", "–": "-", "…": "..."})
_BIDI = "\u202a-\u202e\u2066-\u2069"  # would turn the text after it around
_FORBIDDEN = re.compile(f"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{_BIDI}]")


@dataclass(frozen=True)
class Box:
    """A rounded rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str = PAPER
    stroke: str = LINE


@dataclass(frozen=True)
class Words:
    """One line of text, its middle at ``y``."""

    x: float
    y: float
    text: str
    size: float = 13
    colour: str = INK
    anchor: Literal["start", "middle"] = "middle"


@dataclass(frozen=True)
class Arrow:
    """A smooth line through points from left to right, or straight down, with a head at its end."""

    points: tuple[Point, ...]
    down: bool = False


Shape: TypeAlias = Box | Words | Arrow


@dataclass(frozen=True)
class Scene:
    """Shapes on paper of a size, painted in their order; the title is for those who cannot see it."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str = ""


def text_width(text: str, size: float = 13) -> float:
    """A safe estimate of how wide a line of text is.

    Example:
        >>> text_width("ab", 10)
        12.0
    """
    return 0.6 * size * len(text)


def to_svg(scene: Scene) -> str:
    """The scene as one SVG document.

    Example:
        >>> to_svg(Scene(10, 10, (Words(5, 5, "a < b"),))).count("a &lt; b")
        1
    """
    size = f'width="{_n(scene.width)}" height="{_n(scene.height)}" viewBox="0 0 {_n(scene.width)} {_n(scene.height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONT}" role="img">',
        f"<title>{safe(scene.title)}</title>",
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        *(_element(shape) for shape in scene.shapes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def safe(text: str) -> str:
    """Text that stands as itself in SVG and HTML, also within quotes.

    Example:
        >>> safe("<b>")
        '&lt;b&gt;'
    """
    return escape(_FORBIDDEN.sub("�", text), {'"': "&quot;", "'": "&#39;"})


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {place} rx="6" fill="{shape.fill}" stroke="{shape.stroke}"/>'
    if isinstance(shape, Words):
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" fill="{shape.colour}"'
        return f'<text {place} text-anchor="{shape.anchor}" dominant-baseline="central">{safe(shape.text)}</text>'
    path = f"M{_pair(shape.points[0])}" + "".join(
        f" C{' '.join(_pair(point) for point in curve[1:])}" for curve in _curves(shape)
    )
    head = " ".join(_pair(point) for point in _head(shape))
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"/><polygon points="{head}" fill="{LINE}"/>'


def _pair(point: Point) -> str:
    return f"{_n(point[0])},{_n(point[1])}"


def _curves(arrow: Arrow) -> Iterator[tuple[Point, Point, Point, Point]]:
    """Cubic curves between neighbouring points, level at both ends (upright for arrows that go down)."""
    for (x0, y0), (x1, y1) in itertools.pairwise(arrow.points):
        bend_x, bend_y = (0.0, (y1 - y0) / 2) if arrow.down else ((x1 - x0) / 2, 0.0)
        yield (x0, y0), (x0 + bend_x, y0 + bend_y), (x1 - bend_x, y1 - bend_y), (x1, y1)


def _head(arrow: Arrow) -> tuple[Point, Point, Point]:
    x, y = arrow.points[-1]
    return ((x, y), (x - 4, y - 7), (x + 4, y - 7)) if arrow.down else ((x, y), (x - 7, y - 4), (x - 7, y + 4))


def to_png(scene: Scene, path: Path, scale: float = 2) -> None:
    """Paint the scene into a PNG file, at so many pixels per unit.

    Pillow's own font has no × and →, so x and -> stand in for them.
    """
    from PIL import Image, ImageDraw, ImageFont

    fine = 2 * scale
    image = Image.new("RGB", (round(scene.width * fine), round(scene.height * fine)), PAPER)
    brush = ImageDraw.Draw(image)
    for shape in scene.shapes:
        if isinstance(shape, Box):
            corners = [shape.x, shape.y, shape.x + shape.width, shape.y + shape.height]
            brush.rounded_rectangle([c * fine for c in corners], 6 * fine, shape.fill, shape.stroke, round(fine))
        elif isinstance(shape, Words):
            font = ImageFont.load_default(shape.size * fine)
            anchor = "lm" if shape.anchor == "start" else "mm"
            brush.text((shape.x * fine, shape.y * fine), shape.text.translate(_PLAIN), shape.colour, font, anchor)
        else:
            line = [(x * fine, y * fine) for curve in _curves(shape) for x, y in _sampled(curve)]
            brush.line(line, LINE, round(1.5 * fine), joint="curve")
            brush.polygon([(x * fine, y * fine) for x, y in _head(shape)], LINE)
    image.resize((round(scene.width * scale), round(scene.height * scale)), Image.Resampling.LANCZOS).save(path, "PNG")


def _sampled(curve: Sequence[Point], steps: int = 24) -> Iterator[Point]:
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve
    steps = 1 if x0 == x3 or y0 == y3 else steps
    for step in range(steps + 1):
        t = step / steps
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        yield a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3
