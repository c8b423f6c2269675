from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.report import draw
from trainless.report.draw import Arrow, Box, Scene, Words, arrange, to_svg
from trainless.spaces.custom import space_from
from trainless.spaces.mobilenet import START, MobileNet
from trainless.spaces.nb201 import EDGES, OPERATIONS
from trainless.spaces.recurrent import Recurrent
from trainless.spaces.sizes import Sizes
from trainless.spaces.sketch import Drawable, Edge, Graph, Node, edge_cell
from trainless.spaces.transformer import Transformer

SVG = "{http://www.w3.org/2000/svg}"


def words(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314


def test_every_space_here_says_how_it_looks() -> None:
    assert all(isinstance(space, Drawable) for space in (MobileNet(), Recurrent(), Sizes(), Transformer()))


def test_a_chain_names_its_blocks_and_its_cost() -> None:
    space, task = MobileNet(), Task.noise((3, 224, 224), classes=1000)
    written = words(draw.svg(space, space.parse(START), task))
    assert sum("inverted residual 3×3, expansion 6" in line for line in written) == 4
    assert "96 → 96 → 128 channels, stride 2" in written
    assert any("159.33 M" in line for line in written)


def test_a_recurrent_cell_has_its_nodes_and_arrows() -> None:
    space = Recurrent()
    arch = space.generate(np.random.default_rng(0), hidden=2, intermediate=8)
    (graph,) = space.sketch(arch)
    root = ET.fromstring(draw.svg(space, arch))  # noqa: S314
    assert len(list(root.iter(f"{SVG}path"))) == len(graph.edges)
    assert {node.label for node in graph.nodes} <= set(words(draw.svg(space, arch)))


def test_a_space_without_a_sketch_is_drawn_by_its_decisions() -> None:
    space = space_from(lambda choices: nn.Identity(), {"depth": [1, 2], "kind": ["a", "b"]}, name="mine")
    written = words(draw.svg(space, (1, 0)))
    assert written == ["mine", "decisions", "depth", "2", "kind", "a"]


def test_everything_is_escaped() -> None:
    nasty = "<script>&'\"]]>\x00"
    space = space_from(lambda choices: nn.Identity(), {nasty: [nasty]}, name=nasty)
    picture = draw.svg(space, (0,))
    assert "<script>" not in picture
    assert words(picture)[0] == nasty.replace("\x00", "�")


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.text(max_size=20))
def test_any_text_makes_valid_xml(text: str) -> None:
    ET.fromstring(to_svg(Scene(10, 10, (Words(5, 5, text),), text)))  # noqa: S314


def test_edges_of_a_cell_are_labelled_and_none_is_left_out() -> None:
    labels = [OPERATIONS[option] for option in (3, 0, 1, 2, 4, 0)]
    graph = edge_cell("cell", EDGES, labels, hide="none")
    assert [(e.source, e.target, e.label) for e in graph.edges] == [
        ("0", "1", "nor_conv_3x3"),
        ("1", "2", "skip_connect"),
        ("0", "3", "nor_conv_1x1"),
        ("1", "3", "avg_pool_3x3"),
    ]
    assert [node.role for node in graph.nodes] == ["input", "state", "state", "output"]


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.data())
def test_arrows_go_right_and_boxes_do_not_overlap(nodes: int, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.sampled_from(list(combinations(range(nodes), 2))), unique=True, max_size=20))
    keys = tuple(Node(str(n), "x" * data.draw(st.integers(1, 12))) for n in range(nodes))
    graph = Graph("random", keys, tuple(Edge(str(a), str(b)) for a, b in pairs))
    layout = arrange(graph)
    column = {key: index for index, keys in enumerate(layout.columns) for key in keys}
    assert all(column[b] == column[a] + 1 for _, route in layout.routes for a, b in pairwise(route))
    shapes, corner = draw._graph(graph, 0)
    boxes = [shape for shape in shapes if isinstance(shape, Box)]
    assert len(boxes) == nodes
    for a, b in combinations(boxes, 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart
    assert all(box.x + box.width <= corner[0] + 1e-6 and box.y + box.height <= corner[1] for box in boxes)
    for arrow in (shape for shape in shapes if isinstance(shape, Arrow)):
        assert [x for x, _ in arrow.points] == sorted(x for x, _ in arrow.points)


def test_parallel_edges_become_one_with_both_labels() -> None:
    graph = Graph("two", (Node("a", "a"), Node("b", "b")), (Edge("a", "b", "conv"), Edge("a", "b", "pool")))
    ((edge, _),) = arrange(graph).routes
    assert edge.label == "conv + pool"


def test_what_cannot_be_drawn_is_said() -> None:
    circle = Graph("c", (Node("a", "a"), Node("b", "b")), (Edge("a", "b"), Edge("b", "a")))
    with pytest.raises(InputError, match="the sketch 'c' has a circle"):
        arrange(circle)
    with pytest.raises(InputError, match="edge a → z without its node"):
        arrange(Graph("c", (Node("a", "a"),), (Edge("a", "z"),)))
    with pytest.raises(InputError, match="5 decisions"):
        draw.svg(Sizes(), (0,))


def test_png_is_the_same_picture(tmp_path: Path) -> None:
    space, arch = Sizes(), (0, 1, 2, 3, 4)
    scene = draw.scene(space, arch)
    draw.png(space, arch, tmp_path / "a.png", scale=2)
    draw.png(space, arch, tmp_path / "b.png", scale=2)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (round(2 * scene.width), round(2 * scene.height))
        box = next(shape for shape in scene.shapes if isinstance(shape, Box))
        pixel = image.getpixel((round(2 * box.x + 12), round(2 * (box.y + box.height / 2))))
        assert pixel == tuple(int(box.fill[i : i + 2], 16) for i in (1, 3, 5))
        assert image.getpixel((1, 1)) == (255, 255, 255)
