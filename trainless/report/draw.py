"""Pictures of architectures: the graph of a cell, or the blocks of a network.

What is drawn comes from the space: one that has ``sketch`` (see :mod:`trainless.spaces.sketch`) says how its archs
look, and any other is drawn as the list of its decisions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.report.page import safe, text_width
from trainless.spaces import space as named_space
from trainless.spaces.protocol import Counted, Space, require_arch
from trainless.spaces.sketch import Block, Chain, Drawable, Edge, Graph, Node, Sketch

INK, LINE, PAPER = "#1f2430", "#6b7280", "#ffffff"
_FONT = "Helvetica, Arial, sans-serif"
_PLAIN = str.maketrans({"×": "x", "→": "->", "–": "-", "…": "..."})
_SWEEPS = 12
_MARGIN, _ROW, _HEIGHT, _GAP = 24.0, 58.0, 34.0, 46.0
_SMALL = 11.0
_COLOURS = {
    **{"input": ("#e3edfb", "#3b6db3"), "operation": ("#f6f3ea", "#a08b4f")},
    **{"state": ("#f3f4f6", "#6b7280"), "output": ("#e4f3e8", "#3a8355")},
}
Point: TypeAlias = tuple[float, float]


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


def to_svg(scene: Scene) -> str:
    """The scene as one SVG document."""
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


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {place} rx="6" fill="{shape.fill}" stroke="{shape.stroke}"/>'
    if isinstance(shape, Words):
        place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" fill="{shape.colour}"'
        return f'<text {place} text-anchor="{shape.anchor}" dominant-baseline="central">{safe(shape.text)}</text>'
    curves = [" C" + " ".join(map(_pair, curve[1:])) for curve in _curves(shape)]
    path, head = "".join([f"M{_pair(shape.points[0])}", *curves]), " ".join(map(_pair, _head(shape)))
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


@dataclass(frozen=True)
class GraphLayout:
    """Columns of keys from top to bottom, and the keys that each edge passes through.

    A key is a node's, or a place of its own where a long edge crosses a column.
    """

    columns: tuple[tuple[str, ...], ...]
    routes: tuple[tuple[Edge, tuple[str, ...]], ...]


def arrange(graph: Graph) -> GraphLayout:
    """Lay a graph out in columns: each node one after its latest source, long edges by way of every column.

    An only output stands in the last column, also where nodes that lead nowhere are further from the inputs. The order
    within the columns is by the mean place of the neighbours, swept to and fro (Sugiyama et al., 1981).

    Example:
        >>> from trainless.spaces.sketch import edge_cell
        >>> layout = arrange(edge_cell("cell", [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]))
        >>> [len(column) for column in layout.columns]
        [1, 2, 1]
    """
    depth = _depths(graph)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in graph.nodes:
        columns[depth[node.key]].append(node.key)
    routes = []
    for index, edge in enumerate(_merged(graph.edges)):
        passed = []
        for column in range(depth[edge.source] + 1, depth[edge.target]):
            passed.append(f"\0{index}.{column}")
            columns[column].append(passed[-1])
        routes.append((edge, (edge.source, *passed, edge.target)))
    _untangle(columns, [route for _, route in routes])
    return GraphLayout(tuple(map(tuple, columns)), tuple(routes))


def _merged(edges: Sequence[Edge]) -> list[Edge]:
    """Parallel edges as one with both labels."""
    labels: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        labels.setdefault((edge.source, edge.target), []).append(edge.label)
    return [Edge(*ends, " + ".join(filter(None, words))) for ends, words in labels.items()]


def _depths(graph: Graph) -> dict[str, int]:
    """The length of the longest way to each node."""
    known = {node.key for node in graph.nodes}
    for edge in graph.edges:
        if edge.source not in known or edge.target not in known:
            raise InputError(f"the sketch {graph.title!r} has an edge {edge.source} → {edge.target} without its node")
    depth = dict.fromkeys((node.key for node in graph.nodes), 0)
    for _ in graph.nodes:
        changed = False
        for edge in graph.edges:
            if depth[edge.target] < depth[edge.source] + 1:
                depth[edge.target], changed = depth[edge.source] + 1, True
        if not changed:
            ends = [node.key for node in graph.nodes if node.role == "output"]
            return {**depth, ends[0]: max(depth.values())} if len(ends) == 1 else depth
    raise InputError(f"the sketch {graph.title!r} has a circle: a cell has to be drawn without one")


def _untangle(columns: list[list[str]], routes: Sequence[tuple[str, ...]]) -> None:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for route in routes:
        for source, target in itertools.pairwise(route):
            before.setdefault(target, []).append(source)
            after.setdefault(source, []).append(target)
    for sweep in range(_SWEEPS):
        order = columns if sweep % 2 == 0 else columns[::-1]
        neighbours = before if sweep % 2 == 0 else after
        for fixed, column in itertools.pairwise(order):
            place = {key: index - len(fixed) / 2 for index, key in enumerate(fixed)}
            own = {key: index - len(column) / 2 for index, key in enumerate(column)}
            column[:] = sorted(column, key=functools.partial(_mean_place, neighbours, place, own))


def _mean_place(neighbours: dict[str, list[str]], place: dict[str, float], own: dict[str, float], key: str) -> float:
    found = [place[other] for other in neighbours.get(key, ()) if other in place]
    return sum(found) / len(found) if found else own[key]


@dataclass(frozen=True)
class Drawing:
    """An architecture as a picture; a notebook shows it as such.

    Args:
        notation: The architecture in its space's own notation.
        scene: What is drawn.
    """

    notation: str
    scene: Scene

    def __repr__(self) -> str:
        return f"Drawing({self.notation})"

    def _repr_svg_(self) -> str:
        return to_svg(self.scene)

    def save(self, path: str | Path) -> Path:
        """Write it as ``.svg`` or ``.png``."""
        file = Path(path)
        if file.suffix not in (".svg", ".png"):
            raise InputError(f"the picture {file} was asked for: give a file that ends in .svg or .png")
        try:
            if file.suffix == ".svg":
                file.write_text(to_svg(self.scene), "utf-8")
            else:
                to_png(self.scene, file)
        except OSError as error:
            raise InputError(f"the picture {file} cannot be written ({error.strerror}): give another place") from error
        return file


def draw(space: Space | str, arch: Arch | str, task: Task | None = None) -> Drawing:
    """Draw an architecture.

    Args:
        space: Its space, or the name of one.
        arch: The architecture, or its notation.
        task: Data that it is for, whose counts are written beside it.

    Example:
        >>> draw("nb201", (3, 0, 0, 1, 0, 0))
        Drawing(|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|)
    """
    home = named_space(space) if isinstance(space, str) else space
    chosen = home.parse(arch) if isinstance(arch, str) else arch
    return Drawing(home.format(chosen), scene(home, chosen, task))


def svg(space: Space, arch: Arch, task: Task | None = None, *, compact: bool = False) -> str:
    """A drawing of an arch as SVG; with a task, its parameters and FLOPs are written above.

    A compact one has no heading and shorter arrows, for a page that has many.

    Example:
        >>> from trainless.spaces.sizes import Sizes
        >>> picture = svg(Sizes(), (0, 1, 2, 3, 4))
        >>> picture.startswith("<svg"), "24 channels" in picture
        (True, True)
    """
    return to_svg(scene(space, arch, task, compact=compact))


def png(space: Space, arch: Arch, path: str | Path, task: Task | None = None, *, scale: float = 2) -> None:
    """The same drawing as a PNG file, at so many pixels per unit of the SVG."""
    to_png(scene(space, arch, task), Path(path), scale)


def scene(space: Space, arch: Arch, task: Task | None = None, *, compact: bool = False) -> Scene:
    """The drawing before it is written: a heading, then the space's sketches below each other."""
    require_arch(space, arch)
    sketch: Sketch = space.sketch(arch) if isinstance(space, Drawable) else (_plain(space, arch),)
    shapes: list[Shape] = [] if compact else [Words(_MARGIN, _MARGIN, space.name, 16, anchor="start")]
    top, width = (_MARGIN / 2, 0.0) if compact else (_MARGIN + 24, text_width(space.name, 16))
    if task is not None and isinstance(space, Counted):
        counts = space.counts(arch, task)
        line = f"{counts.params:,} parameters, {counts.flops / 1e6:,.2f} M multiply–accumulates on {task.name}"
        shapes.append(Words(_MARGIN, top, line, _SMALL, anchor="start"))
        top, width = top + 22, max(width, text_width(line, _SMALL))
    for part in sketch:
        if not compact or len(sketch) > 1:
            shapes.append(Words(_MARGIN, top, part.title, _SMALL, "#6b7280", "start"))
            top += 16
        drawn, size = _chain(part, top) if isinstance(part, Chain) else _graph(part, top, 36 if compact else 84)
        shapes += drawn
        top, width = size[1] + 24, max(width, size[0] - _MARGIN)
    return Scene(width + 2 * _MARGIN, top, tuple(shapes), f"{space.name}: {space.format(arch)}")


def _plain(space: Space, arch: Arch) -> Chain:
    blocks = (Block(d.name, d.options[option]) for d, option in zip(space.decisions, arch, strict=True))
    return Chain("decisions", tuple(blocks))


def _chain(chain: Chain, top: float) -> tuple[list[Shape], Point]:
    """Boxes below each other; returns the shapes and the lower right corner."""
    lengths = [text_width(block.label) for block in chain.blocks]
    lengths += [text_width(block.detail, _SMALL) for block in chain.blocks]
    width = max(lengths, default=0) + 28
    middle = _MARGIN + width / 2
    shapes: list[Shape] = []
    for index, block in enumerate(chain.blocks):
        if index:
            shapes.append(Arrow(((middle, top), (middle, top + 20)), down=True))
            top += 20
        height = 44.0 if block.detail else 30.0
        ends = {0: "input", len(chain.blocks) - 1: "output"}
        fill, stroke = _COLOURS[ends.get(index, "operation")]
        shapes.append(Box(_MARGIN, top, width, height, fill, stroke))
        shapes.append(Words(middle, top + 15, block.label))
        if block.detail:
            shapes.append(Words(middle, top + 32, block.detail, _SMALL, "#4b5563"))
        top += height
    return shapes, (_MARGIN + width, top)


def _graph(graph: Graph, top: float, slack: float = 84) -> tuple[list[Shape], Point]:
    """Columns from left to right; returns the shapes and the lower right corner."""
    layout = arrange(graph)
    nodes = {node.key: node for node in graph.nodes}
    labels = {route[(len(route) - 1) // 2]: edge.label for edge, route in layout.routes if len(route) > 2}
    widths = [max(_width(key, nodes, labels) for key in column) for column in layout.columns]
    gaps = [_GAP] * len(layout.columns)
    column_of = {key: index for index, column in enumerate(layout.columns) for key in column}
    for edge, route in layout.routes:
        if edge.label and len(route) == 2:
            column = column_of[edge.source]
            gaps[column] = max(gaps[column], text_width(edge.label, _SMALL) + slack)
    rows = max(map(len, layout.columns))
    places: dict[str, Point] = {}
    half: dict[str, float] = {}
    x = _MARGIN
    for keys, width, gap in zip(layout.columns, widths, gaps, strict=True):
        for index, key in enumerate(keys):
            places[key] = (x + width / 2, top + _ROW * (rows / 2 + index - (len(keys) - 1) / 2))
            half[key] = (_width(key, nodes, labels) if key in nodes else width) / 2
        x += width + gap
    shapes = _arrows(layout, places, half)
    for key, node in nodes.items():
        shapes += _box(node, places[key])
    return shapes, (x - gaps[-1], top + rows * _ROW)


def _width(key: str, nodes: dict[str, Node], labels: dict[str, str]) -> float:
    if key in nodes:
        return max(text_width(nodes[key].label) + 22, 36)
    return text_width(labels.get(key, ""), _SMALL) + 16


def _box(node: Node, place: Point) -> list[Shape]:
    width = max(text_width(node.label) + 22, 36)
    fill, stroke = _COLOURS[node.role]
    box = Box(place[0] - width / 2, place[1] - _HEIGHT / 2, width, _HEIGHT, fill, stroke)
    return [box, Words(*place, node.label)]


def _arrows(layout: GraphLayout, places: dict[str, Point], half: dict[str, float]) -> list[Shape]:
    """Lines from the right of a source to the left of a target, level across the columns between; labels on top."""
    arrows: list[Shape] = []
    words: list[Shape] = []
    for edge, route in layout.routes:
        sides = [(places[key][0] + side * half[key], places[key][1]) for key in route for side in (-1, 1)]
        points = tuple(sides[1:-1])
        arrows.append(Arrow(points))
        if edge.label:
            middle = ((points[0][0] + points[-1][0]) / 2, (points[0][1] + points[-1][1]) / 2)
            words += _label(edge.label, places[route[(len(route) - 1) // 2]] if len(route) > 2 else middle)
    return arrows + words


def _label(text: str, place: Point) -> list[Shape]:
    width = text_width(text, _SMALL) + 8
    box = Box(place[0] - width / 2, place[1] - 9, width, 18, "#ffffff", "#d1d5db")
    return [box, Words(*place, text, _SMALL)]
