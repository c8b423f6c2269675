"""Figures of README.md and docs/ are what the files say into which they were measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import docs_figures, render_results
from benchmarks.docs_figures import (
    FIGURE,
    KINDS,
    PAGES,
    PICTURES,
    ROOT,
    filled,
    pointed,
    rendered,
    unexplained,
    words_of,
    written,
)
from trainless.bench.papers import PAPERS
from trainless.bench.papers.states import items


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


@pytest.mark.slow
def test_every_picture_is_what_the_results_say(tmp_path: Path) -> None:
    """Byte by byte, where the same version of Matplotlib drew it."""
    pytest.importorskip("matplotlib")
    for draw in PICTURES:
        draw(tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    there = {name: (ROOT / "docs" / "figures" / name).read_text(encoding="utf-8") for name in made}
    drawn_by = [{re.search(r"Matplotlib v[\d.]+", text)[0] for text in each.values()} for each in (made, there)]  # type: ignore[index]
    if drawn_by[0] != drawn_by[1]:
        pytest.skip(f"drawn by {drawn_by[1]}, here is {drawn_by[0]}")
    assert [name for name in made if made[name] != there[name]] == [], "run: make docs-figures"


def test_no_mark_begins_a_line() -> None:
    """Markdown would take what follows for a paragraph of its own."""
    begun = re.compile(rf"^\s*<!-- (?:figure: [^>]*|{'|'.join(KINDS)}) -->[^\n]", re.MULTILINE)
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert not begun.search(path.read_text(encoding="utf-8")), path


def test_every_figure_that_looks_measured_says_where_it_comes_from() -> None:
    found = {name: figures for name, text in written() if (figures := unexplained(text))}
    assert found == {}, "benchmarks/docs_figures.py says how"


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("It has 0.812 [.80, .82].", ["0.812", ".80", ".82"]),
        ("−0.11 and +1.4 at 12 s, 3.5 GB, 80 %.", ["−0.11", "+1.4", "12 s", "3.5 GB", "80 %"]),
        ("<!-- setting -->0.2<!-- --> but 0.3", ["0.3"]),
        ("<!-- record -->\n0.1\n0.2\n<!-- end of record -->\n0.3", ["0.3"]),
        ("<!-- invented -->0.2<!-- -->", ["0.2"]),
        ("<!-- figure: a.json#/b .2f -->0.20<!-- -->", []),
        ("`0.2`, [x](https://a.b/0.2), table 5.2, Python 3.11, version 1.2.3, 95 % intervals, 5.8·10²²", []),
        ("```python\nx = 0.2\n```\n0.3", ["0.3"]),
        ("1.2.3 and 15,625 networks", []),
    ],
)
def test_what_looks_measured_is_found(text: str, figures: list[str]) -> None:
    assert unexplained(text) == figures


def test_the_words_of_a_program_are_its_strings() -> None:
    program = 'def page(x):\n    """Takes 9.9 s."""\n    return f"{x:.1f} of 0.5" + "took 3 ms"\n'
    assert unexplained(words_of(program)) == ["3 ms", "0.5"]


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


def test_a_figure_of_a_published_table_is_found_by_its_row_whatever_comes_before_it() -> None:
    columns = ["row", "task", "metric", "statistic", "published", "ours"]
    rows = [["a", "x", "test", "kendall", 0.1, 0.2], ["b", "x", "test", "kendall", 0.3, 0.4]]
    sheets = {"p:table1": {"columns": columns, "rows": rows}}
    pointer = "/p:table1/rows/b,x,kendall/ours"
    assert pointed(sheets, pointer) == 0.4
    rows.insert(0, ["c", "x", "test", "kendall", 0.5, 0.6])
    assert pointed(sheets, pointer) == 0.4
    rows.append(rows[2])
    with pytest.raises(KeyError, match="b,x,kendall"):  # it might be either
        pointed(sheets, pointer)
    with pytest.raises(ValueError, match="not enough values"):
        pointed([{"name": "snip"}], "/grasp")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_of_a_paper_stands_on_its_page_with_its_state(paper: str) -> None:
    page = render_results.pages()[f"results/{paper}.md"]
    head, *rows = re.findall(r"^\| .*$", page.partition("\nBelow are")[0], re.MULTILINE)
    stands = {cells[0]: cells[2] for cells in ([cell.strip() for cell in row.split("|")[1:]] for row in rows)}
    numbered = [item.label for item in items() if item.paper.partition("-")[0] == paper]
    assert head.startswith("| item | shows | state |")
    assert set(numbered) <= set(stands)
    assert all(stands[label] for label in numbered)


def test_where_the_scores_are_from_is_said_once_on_a_page() -> None:
    said = re.findall(r"^.*networks per second.*$", render_results.pages()["results/vkdnw.md"], re.MULTILINE)
    assert said
    assert len(set(said)) == len(said)
