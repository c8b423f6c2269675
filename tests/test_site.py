"""The documentation site: it builds without a warning, and a browser finds no fault with any of its pages."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import trainless as tl
from docs.hooks import commands
from tests.browser import Visit
from tests.pages import ROOT

CONTRAST = (ROOT / "tests" / "contrast.js").read_text(encoding="utf-8").split("\n", 1)[1].strip().removesuffix(";")
WIDTHS = (1400, 390)


@dataclass(frozen=True)
class Site:
    """A built site and where it is served."""

    folder: Path
    url: str

    @property
    def pages(self) -> list[str]:
        return sorted(path.parent.relative_to(self.folder).as_posix() for path in self.folder.glob("*/**/index.html"))


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        return


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder / tl.__version__)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(folder, f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()


def faults_of(seen: Visit) -> list[str]:
    """What went wrong; a request that going to the next page has ended is no fault."""
    return [each for each in seen.faults if "ERR_ABORTED" not in each]


def test_words_are_shown_as_they_are_in_a_table() -> None:
    assert commands.text("none: a|b, 'ntk*' or ``x_1``") == r"none: a\|b, 'ntk\*' or `x_1`"


@pytest.mark.slow
def test_it_has_versions_a_search_and_every_name(site: Site) -> None:
    assert [each["version"] for each in json.loads((site.folder / "versions.json").read_text())] == [tl.__version__]
    assert f"url={tl.__version__}/" in (site.folder / "index.html").read_text()
    here = site.folder / tl.__version__
    found = json.loads((here / "search" / "search_index.json").read_text())["docs"]
    assert any(each["location"].startswith("how-to/patients/") for each in found)
    python = (here / "reference" / "python" / "index.html").read_text()
    for name in tl.__all__:
        assert f'id="trainless.{name}"' in python, f"docs/reference/python.md lacks ::: trainless.{name}"
    assert ":class:" not in python
    assert ":func:" not in python


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Site) -> None:
    """Styles, scripts, fonts and pictures of every page lie beside it."""
    for path in site.folder.glob("**/*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(?:link|script|img|iframe|source)\b[^>]*(?:href|src)=[\"']?(?:https?:)?//", text), path
    for path in site.folder.glob("**/*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_a_browser_finds_no_fault_with_any_page(site: Site, visit: Callable[..., Visit]) -> None:
    """No error, no request to elsewhere, no sideways scroll, enough contrast; one browser for all pages."""
    assert len(site.pages) > 40
    seen = visit(site.url + site.pages[0] + "/", offline=False)
    faults: list[str] = []
    index = json.loads((site.folder / tl.__version__ / "search" / "search_index.json").read_text())
    short = {**index, "docs": index["docs"][:1]}  # every page would read all of it anew
    seen.page.route("**/search_index.json", lambda route: route.fulfill(json=short))
    for name in site.pages:
        seen.page.set_viewport_size({"width": WIDTHS[0], "height": 900})  # first: what slides in is not half way then
        seen.page.goto(f"{site.url}{name}/", wait_until="networkidle")
        faults += [f"{name} is {over} px too wide at {width}" for width in WIDTHS if (over := seen.overflow(width)) > 0]
        faults += [f"{name}, contrast {text}" for text in seen.page.evaluate(CONTRAST)]
    assert faults_of(seen) == []
    assert faults == []
    assert [url for url in seen.requested if not url.startswith((site.url, "data:", "blob:"))] == []


@pytest.mark.slow
def test_dark_colours_have_contrast_and_the_search_finds(site: Site, visit: Callable[..., Visit]) -> None:
    home = f"{site.url}{tl.__version__}/"
    seen = visit(f"{home}reference/python/", offline=False, dark=True)
    for name in ("reference/python/", "spaces/", "reference/commands/", "start/install/"):
        seen.page.goto(home + name, wait_until="networkidle")
        assert seen.page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        assert seen.page.evaluate(CONTRAST) == [], name
    seen.page.goto(home, wait_until="networkidle")
    seen.page.get_by_role("textbox", name="Search").press_sequentially("patients that must not leak")  # it hears keys
    seen.page.locator(".md-search-result__link[href*='how-to/patients']").first.wait_for(timeout=60_000)
    assert faults_of(seen) == []
