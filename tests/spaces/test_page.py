"""docs/spaces.md: its notations and sizes are right. Its commands run in tests/test_pages.py."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT, page
from trainless.spaces import registry, space
from trainless.spaces.mobilenet import START, MobileNet
from trainless.spaces.moves import extent

PAGE = (ROOT / "docs" / "spaces.md").read_text()
MY_SPACE = page(ROOT / "docs" / "spaces.md").files["my_space.py"]


def test_it_takes_thirty_lines() -> None:
    assert len([line for line in MY_SPACE.splitlines() if line.strip()]) <= 30


def test_every_space_has_its_paragraph() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert {name for title in titles for name in title.split(", ")} - {"Yours"} == set(registry.names())


@pytest.mark.parametrize(
    "name",
    [
        *("nb201", "nb101", "transnas-micro", "recurrent", "nats-size", "transformer"),
        *("residual", "inception", "rocket", "mlp"),
    ],
)
def test_the_notation_on_the_page_is_read(name: str) -> None:
    paragraph = PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]
    texts = re.findall(r"`([^`]{13,})`", paragraph.replace("\n", " "))
    opened = space(name)
    assert opened.format(opened.parse(texts[0])) == texts[0]


def test_sizes_of_mobilenet_by_adding_up_layers() -> None:
    """One stage after the other for the small variant, written down as plain loops over its layers."""
    rows = [((8, 16, 24, 32), (8, 16, 24)), ((16, 24, 32, 48, 64), (8, 16, 24, 32, 48))]
    shapes = [3 * 4 * len(c) * len(b) for c, b in [*rows, ((32, 48, 64, 96, 128), (16, 24, 32, 48, 64))]]
    valid = different = 0
    for a in range(5**3):
        for b in range(4**3):
            firsts, seconds = [a // 5**i % 5 + 1 for i in range(3)], [b // 4**i % 4 for i in range(3)]
            if sum(firsts) + sum(seconds) <= 7:
                both, once = 4, 4
                for shape, second in zip(shapes, seconds, strict=True):
                    both *= shape * shape
                    once *= shape * (shape if second else 1)
                valid, different = valid + both, different + once
    found = extent(MobileNet(max_layers=7, small=True))
    assert (found.valid, found.different) == (valid, different)
    assert START.startswith("SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)")
