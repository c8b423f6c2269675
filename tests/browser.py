"""Pages in a real browser: Debian's headless Chromium, driven by Playwright, which brings no browser of its own here.

A test takes the fixture ``visit`` and opens a page with it::

    def test_page(visit, tmp_path):
        seen = visit((tmp_path / "page.html").as_uri())
        assert seen.faults == []
        assert seen.page.locator("svg").count() > 0
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Visit:
    """An open page, and what went wrong while it was loaded and used."""

    page: Page
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Errors and warnings on the console, requests that failed or were refused, exceptions of the page."""
        return [*self.console, *self.failed, *self.errors]

    def overflow(self, width: int) -> int:
        """Pixels by which the page is wider than a window of this width."""
        self.page.set_viewport_size({"width": width, "height": 900})
        return int(self.page.evaluate(OVERFLOW))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    place = shutil.which("chromium")
    if place is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=place, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """A function that opens an address in a fresh context: ``visit(url, offline=True, width=1280, dark=False)``."""
    contexts = []

    def open_page(url: str, *, offline: bool = True, width: int = 1280, dark: bool = False) -> Visit:
        context = browser.new_context(
            offline=offline, viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda m: seen.console.append(m.text) if m.type in ("error", "warning") else None)
        seen.page.on("requestfailed", lambda r: seen.failed.append(f"{r.url}: {r.failure}"))
        seen.page.on("response", lambda r: seen.failed.append(f"{r.url}: {r.status}") if r.status >= 400 else None)
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("request", lambda r: seen.requested.append(r.url))
        seen.page.goto(url, wait_until="load")
        return seen

    yield open_page
    for context in contexts:
        context.close()
