"""Figures of README.md and docs/ are what the files say into which they were measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import docs_figures
from benchmarks.docs_figures import FIGURE, PAGES, ROOT, filled, pointed, rendered


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(rendered())


def test_every_page_is_what_the_results_say(pages: dict[str, str]) -> None:
    stale = [path for path, text in pages.items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run: make docs-figures"
    assert set(PAGES) < set(pages)
    assert "docs/results.md" in pages


def test_every_picture_of_these_pages_is_there(pages: dict[str, str]) -> None:
    for path, text in pages.items():
        for picture in re.findall(r"!\[[^\]]*\]\((.*?)\)", text):
            assert (ROOT / path).parent.joinpath(picture).resolve().stat().st_size > 1000


def test_no_figure_begins_a_line() -> None:
    """Markdown would take it for a paragraph of its own."""
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"^<!-- figure: ", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_a_figure_is_filled_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_figures, "ROOT", tmp_path)
    (tmp_path / "made.json").write_text('{"a/b": {"ImageNet16-120": [1, 0.12345]}, "yes": true}')
    text = "ρ is <!-- figure: made.json#/a~1b/ImageNet16-120/1 +.3f -->stale<!-- -->, or so"
    assert filled(text) == text.replace("stale", "+0.123")
    assert filled(filled(text)) == filled(text)
    (found,) = FIGURE.finditer(text)
    assert found["value"] == "stale"
    with pytest.raises(KeyError):
        filled("<!-- figure: made.json#/nothing .3f --><!-- -->")
    with pytest.raises(TypeError, match="/yes is no number"):
        pointed({"yes": True}, "/yes")
