"""The report and the page of runs in a real browser: contrast, narrow windows, paper, keyboard and addresses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.browser import Visit
from tests.report.made import run as designed
from tests.ui.made import Site, searched, site
from tests.ui.pages import cut_tables, poor_contrast
from trainless.report.page import STYLE
from trainless.report.result import confusion_figure
from trainless.runs.folder import REPORT

pytestmark = pytest.mark.slow
Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished design, a search, and a folder that only looks like a run."""
    place = tmp_path_factory.mktemp("pages")
    shutil.copytree(designed("volume"), place / "tumours")
    searched(place / "search", proxies=["params", "flops"])
    (place / "broken").mkdir()
    (place / "broken" / "run.json").write_text("{")
    return place


@pytest.fixture(scope="module")
def at(root: Path) -> Iterator[Site]:
    with site(root) as running:
        yield running


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_can_be_read_by_everybody(visit: Open, root: Path, dark: bool) -> None:
    seen = visit((root / "tumours" / REPORT).as_uri(), dark=dark)
    assert poor_contrast(seen, 200) == []
    for width in (390, 600, 800, 1400):
        assert cut_tables(seen, width) == [], width
        assert seen.overflow(width) <= 0, width
    assert poor_contrast(seen, 200) == []
    order = seen.page.locator("h2").all_inner_texts()
    assert order[:4] == ["The answer", "How sure it is", "Why it says so", "The data"]
    assert order[4] == "Appendix: the search"
    assert seen.faults == []


@pytest.mark.parametrize("dark", [False, True])
def test_every_count_of_a_confusion_matrix_can_be_read(visit: Open, tmp_path: Path, dark: bool) -> None:
    """Of class k so many cases of 20 are right and the others are taken for another: every strength of both colours."""
    y = np.repeat(np.arange(20), 20)
    label = np.where(np.tile(np.arange(20), 20) < y, y, (y + 1) % 20)
    drawn = confusion_figure(y, label, [str(number) for number in range(20)])
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><style>{STYLE}</style><main><figure>{drawn}</figure></main>", encoding="utf-8")
    seen = visit(page.as_uri(), dark=dark)
    assert poor_contrast(seen, 60) == []


def test_the_report_on_paper(visit: Open, root: Path, tmp_path: Path) -> None:
    """Every figure and every row is on one sheet, nothing is wider than the sheet, and what was folded is open."""
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext here: apt-get install poppler-utils")
    seen = visit((root / "tumours" / REPORT).as_uri(), dark=True)
    seen.page.pdf(path=tmp_path / "report.pdf", format="A4")
    text = subprocess.run(["pdftotext", tmp_path / "report.pdf", "-"], capture_output=True, check=True).stdout.decode()
    sheets = [re.sub(r"\s+", " ", sheet) for sheet in text.split("\f")[:-1]]
    assert len(sheets) <= 20
    whole = " ".join(sheets)
    for words in ("The answer", "Settings and versions", "environment.torch", "Against what is simpler"):
        assert words in whole
    captions = [re.sub(r"\s+", " ", text) for text in seen.page.locator("main section > figure").all_inner_texts()]
    for heading in ("Metrics", "Against what is simpler"):
        ending = next(text for text in captions if text.startswith(heading))[-20:]
        sheet = next(sheet for sheet in sheets if heading in sheet)
        assert ending in sheet, heading
    seen.page.emulate_media(media="print")
    seen.page.set_viewport_size({"width": 690, "height": 1000})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 690
    assert seen.page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 35, 48)"  # dark ink on white


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_runs_can_be_read_by_everybody(visit: Open, at: Site, dark: bool) -> None:
    seen = visit(at.url, offline=False, dark=dark)
    page = seen.page
    page.get_by_role("link", name="tumours").wait_for()
    page.get_by_text("1 folder looks like a run and cannot be read").click()
    page.get_by_text("run.json cannot be read").wait_for()
    assert poor_contrast(seen, 15) == []
    assert seen.overflow(390) <= 0
    for name in ("tumours", "search"):
        for tab in (
            "leaderboard",
            "plot",
            "progress",
            "failures",
            "settings",
            *(["answer"] if name == "tumours" else []),
        ):
            page.goto(f"{at.url}/#/run?{urlencode({'id': name, 'tab': tab})}")
            page.locator(f"[data-tab={tab}][aria-selected=true]").wait_for()
            page.wait_for_timeout(120)
            assert poor_contrast(seen, 15) == [], (name, tab)
            assert seen.overflow(390) <= 0, (name, tab)
    compared = urlencode({"id": ["search", "tumours/searches/genetic-00"]}, doseq=True)
    page.goto(f"{at.url}/#/compare?{compared}")
    page.get_by_text("Agreement").wait_for()
    assert poor_contrast(seen, 15) == []
    assert seen.overflow(390) <= 0
    assert seen.faults == []


def test_dark_or_light_is_chosen_and_kept(visit: Open, at: Site) -> None:
    seen = visit(at.url, offline=False)
    page, ground = seen.page, "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark colours").press("Enter")
    dark = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Light colours").click()
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == light  # what was chosen holds
    assert seen.console + seen.errors == []  # a page that is loaded again may leave a question behind


def test_the_address_and_the_dialog_agree(visit: Open, at: Site) -> None:
    seen = visit(f"{at.url}/#/run?id=search", offline=False)
    page, dialog = seen.page, seen.page.locator("dialog[open]")
    page.locator("td.arch button").first.press("Enter")
    dialog.wait_for()
    named = page.url
    assert "arch=" in named
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.wait_for_url(lambda url: "arch=" not in url)
    assert page.evaluate("document.activeElement.closest('td.arch') !== null")  # back where one was
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog.wait_for()
    assert page.url != named
    page.go_back()
    dialog.wait_for(state="detached")
    page.go_forward()
    dialog.wait_for()
    page.evaluate("location.hash = '#/'")  # another address while it is open
    dialog.wait_for(state="detached")
    page.get_by_role("link", name="tumours").wait_for()
    page.goto(named)  # an address that was sent to somebody
    dialog.wait_for()
    page.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")
    assert page.url.startswith(f"{at.url}/#/run?id=search")
    page.locator("[data-tab=leaderboard]").press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("[data-tab=plot][aria-selected=true]").wait_for()
    assert seen.faults == []


def test_a_design_says_its_answer_and_its_searches_unfold(visit: Open, at: Site, root: Path) -> None:
    summary = json.loads((root / "tumours" / "summary.json").read_text())
    seen = visit(at.url, offline=False)
    page = seen.page
    fold = page.get_by_role("button", name="Searches of tumours")
    fold.wait_for()
    count = len(summary["searches"])
    assert page.locator(".runs>li.child").count() == 0
    fold.press("Enter")
    page.locator(".runs>li.child").first.wait_for()
    assert page.locator(".runs>li.child").count() == count
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("Enter")
    page.locator(".runs>li.child").first.wait_for(state="detached")
    page.get_by_role("link", name="tumours", exact=True).press("Enter")
    page.get_by_text("Every class").wait_for()
    words = page.locator("main").inner_text()
    assert "of wall time" in words
    known, shown = summary["spent"]["seconds"], re.search(r"([\d.]+) (s|min)\nof wall time", words)
    assert shown is not None
    assert float(shown[1]) * {"s": 1, "min": 60}[shown[2]] == pytest.approx(known, rel=0.2)
    if not summary["test"]["sanity"]["ok"]:
        assert page.locator("[role=alert]").inner_text().startswith("⚠ ")
    assert seen.faults == []
