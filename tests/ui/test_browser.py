"""A live run in a real browser, from its start to its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser import Visit
from tests.commands import Command
from tests.ui.made import HOSTILE, hostile, leaderboard, searched, site

EVALUATIONS = 40
SLOW = """
import time
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def slow(p):
    "Waits."
    time.sleep(0.25)
    return 1.0
"""


def started(out: Path, seed: int) -> Command:
    """A real search in another process, on real data, slow enough to be watched on any machine."""
    slow = out.with_name("slow.py")
    slow.write_text(SLOW, encoding="utf-8")
    command = ["search", "digits", "--space", "nb201"]
    command += ["--space-args", "channels=4,cells=1", "--searcher", "evolution", "--searcher-args", "population=6"]
    command += ["--proxies", f"snip,synflow,{slow}:slow", "--evaluations", str(EVALUATIONS), "--batch", "16"]
    command += ["--seed", str(seed), "--out", str(out)]
    return Command(command, out.parent)


@pytest.mark.slow
def test_a_live_run_from_start_to_end(visit: Callable[..., Visit], tmp_path: Path) -> None:
    searched(tmp_path / "earlier", seed=3, proxies=["snip", "synflow"], batch=16)
    with site(tmp_path) as at:
        seen = visit(at.url, offline=False)
        page = seen.page
        page.get_by_role("link", name="earlier").wait_for()
        process = started(tmp_path / "live", seed=1)
        try:
            page.get_by_role("link", name="live").click(timeout=120_000)  # it appears by itself
            page.locator(".state.running").wait_for(timeout=120_000)
            counted = page.locator(".fact b").first
            first = counted.inner_text()
            assert re.fullmatch(rf"\d+ of {EVALUATIONS}", first)
            page.locator("tbody tr td.arch").first.wait_for(timeout=120_000)  # candidates while it runs
            until(seen, lambda: counted.inner_text() != first)
            page.locator(".state.finished").wait_for(timeout=120_000)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
        assert counted.inner_text() == f"{EVALUATIONS} of {EVALUATIONS}"
        rows = leaderboard(tmp_path / "live")
        page.locator("th", has_text="params").wait_for()  # the final table has the costs too
        until(seen, lambda: archs(seen) == [row["arch"] for row in rows])

        page.get_by_role("button", name="synflow").click()
        page.locator("th[aria-sort=descending]", has_text="synflow").wait_for()
        wanted = sorted(rows, key=lambda row: -float(row["synflow"]))
        until(seen, lambda: archs(seen) == [row["arch"] for row in wanted])

        page.get_by_placeholder("Words in the architecture").fill("skip_connect~0 none")
        left = [row["arch"] for row in wanted if "skip_connect~0" in row["arch"] and "none" in row["arch"]]
        until(seen, lambda: archs(seen) == left)

        page.get_by_placeholder("Words in the architecture").fill("")
        until(seen, lambda: len(archs(seen)) == len(rows))
        page.locator("td.arch button").first.click()
        picture = page.locator("dialog img")
        picture.wait_for()
        until(seen, lambda: picture.evaluate("image => image.naturalWidth") > 100)
        assert wanted[0]["arch"] in page.locator("dialog code").inner_text()
        page.get_by_role("button", name="Close").click()

        page.get_by_role("tab", name="Scatter").click()
        until(seen, lambda: page.locator("circle.hit").count() == len(rows))
        page.locator("circle.hit").last.click(force=True)
        page.locator("dialog[open] img").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Best so far").click()
        page.locator("path.line").wait_for()

        page.get_by_role("link", name="trainless").click()
        for name in ("earlier", "live"):
            page.get_by_label(f"Compare {name}").check()
        page.get_by_role("button", name="Compare 2").click()
        until(seen, lambda: page.locator("path.line").count() == 2)
        assert page.locator("td.differs").count() > 0
        for width in (1280, 400):
            assert seen.overflow(width) <= 0, width
        assert seen.faults == []
        assert all(url.startswith((at.url, "data:")) for url in seen.requested)


def until(seen: Visit, true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something; the page's policy forbids that the browser evaluates text."""
    for _ in range(round(seconds / 0.05)):
        if true():
            return
        seen.page.wait_for_timeout(50)
    raise AssertionError("it did not come to be")


def archs(seen: Visit) -> list[str]:
    return seen.page.locator("td.arch").all_inner_texts()


@pytest.mark.slow
def test_words_from_data_do_no_harm(visit: Callable[..., Visit], tmp_path: Path) -> None:
    hostile(tmp_path / "theirs <u>")
    (tmp_path / "link <u>").symlink_to(tmp_path)
    with site(tmp_path) as at:
        seen = visit(at.url, offline=False, dark=True)
        page = seen.page
        page.get_by_text("because it is a link to another folder: link <u>.").wait_for()
        assert page.locator("main u").count() == 0
        page.get_by_role("link", name="theirs <u>").click()
        page.locator("td.arch").first.wait_for()
        assert HOSTILE.replace("\u202e", "�") in page.locator("td.arch").first.inner_text()
        for tab in ("Scatter", "Best so far", "Without a score", "Settings"):
            page.get_by_role("tab", name=tab).click()
            page.wait_for_timeout(150)
        assert "owned" not in page.title()
        assert page.locator("img[onerror], main script, main u").count() == 0
        assert seen.overflow(400) <= 0
        assert seen.faults == []
        page.goto(f"{at.url}/report?id=theirs+%3Cu%3E")
        assert page.title() != "owned"
        assert page.evaluate("self.origin") == "null"  # a place of its own, from which nothing of ours can be read
