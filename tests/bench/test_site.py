"""The leaderboard's page in a real browser: to read, to sort, to link to, with nothing asked of any other place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.bench.made import ARCHS, leaderboard, library
from tests.browser import Visit
from tests.cli.conftest import Answer
from tests.cli.conftest import trainless as trainless
from tests.ui.pages import poor_contrast
from trainless.bench.leaderboard import Leaderboard, with_entries, write
from trainless.bench.score_library import ScoreColumn
from trainless.bench.site import COMMAND, STORED, page, write_site

Open = Callable[..., Visit]
Run = Callable[..., Answer]
HOSTILE = "</script><b>mine</b>"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    folder = tmp_path_factory.mktemp("results")
    own = {HOSTILE: ScoreColumn(np.arange(len(ARCHS), dtype=float)[None], np.arange(len(ARCHS)) < 30)}
    return with_entries(leaderboard(folder), library(folder), "toy", own, draws=5, about=["mine: <i>"])


@pytest.fixture(scope="module")
def address(found: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_site(found, tmp_path_factory.mktemp("site")).as_uri()


def names(seen: Visit) -> list[str]:
    return list(seen.page.locator("#board tbody th").evaluate_all("all => all.map((each) => each.dataset.sort)"))


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_by_everybody(visit: Open, address: str, dark: bool) -> None:
    seen = visit(address, dark=dark)
    assert poor_contrast(seen, 60) == []
    assert seen.overflow(390) <= 0
    assert poor_contrast(seen, 60) == []
    seen.page.locator("td a").first.click()
    seen.page.locator("dialog[open] svg").wait_for()
    assert poor_contrast(seen, 80) == []
    assert seen.page.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('dialog'))") <= 0
    assert seen.overflow(390) <= 0
    assert seen.faults == []
    assert {each.partition("#")[0] for each in seen.requested} <= {address, "data:,"}


@pytest.mark.slow
def test_it_is_sorted_by_the_keyboard_and_found_by_name(visit: Open, address: str, found: Leaderboard) -> None:
    seen = visit(address)
    rho = {entry.name: entry.last["spearman"].value for entry in found.standings[1].entries}
    heads = seen.page.locator("#board thead button")
    heads.nth(2).press("Enter")
    assert [rho[name] for name in names(seen)] == sorted(rho.values(), reverse=True)
    heads.nth(2).press("Enter")
    assert [rho[name] for name in names(seen)] == sorted(rho.values())
    assert seen.page.locator("th[aria-sort=ascending]").count() == 1
    heads.nth(3).press("Enter")
    costs = [found.costs.get(name, float("nan")) for name in names(seen)]
    known = [cost for cost in costs if cost == cost]
    assert known == sorted(known)
    assert costs[: len(known)] == known  # what is not known is last
    seen.page.get_by_label("Find").fill("SNI")
    assert seen.page.locator("#board tbody tr:visible").count() == 1
    assert seen.faults == []


@pytest.mark.slow
def test_a_link_opens_its_cell_with_a_scatter_and_all_statistics(visit: Open, address: str, found: Leaderboard) -> None:
    standing = found.standings[1]
    entry = next(each for each in standing.entries if each.name == "snip")
    seen = visit(f"{address}#{standing.anchor(entry)}")
    page, dialog = seen.page, seen.page.locator("dialog[open]")
    dialog.wait_for()
    assert dialog.locator("circle").count() == len(ARCHS)
    assert dialog.locator("circle.failed").count() == 2
    assert "58 of 60 scores" in dialog.inner_text()
    out = entry.out["kendall"]
    assert f"{out.value:.3f} [{out.low:.3f}, {out.high:.3f}]" in dialog.inner_text()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.wait_for_url(lambda url: "#" not in url)
    assert page.evaluate("document.activeElement.closest('td').id") == standing.anchor(entry)
    page.go_back()
    dialog.wait_for()
    page.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")
    page.get_by_role("link", name=f"{entry.last['spearman'].value:.3f}").last.press("Enter")
    dialog.wait_for()
    assert seen.faults == []


def test_names_are_text_and_the_download_has_all_figures(found: Leaderboard, tmp_path: Path) -> None:
    text = page(found)
    assert HOSTILE not in text
    assert "<b>mine" not in text
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert embedded is not None
    place = write_site(found, tmp_path / "new" / "site")
    assert json.loads(embedded[1]) == json.loads((place.parent / "leaderboard.json").read_text())
    assert re.findall(r'(?:src|href)="([^"#]+)"', text) == ["data:,", "leaderboard.json"]
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_the_commands_on_the_page_add_a_row(trainless: Run, data_dir: Path, found: Leaderboard, tmp_path: Path) -> None:
    """With fewer and smaller networks, or they would take minutes."""
    Path("my_proxy.py").write_text(
        "import trainless as tl\n\n\n"
        "@tl.proxy(higher_is_better=True, paper='none')\n"
        "def name(p):\n"
        "    'Number of parameters.'\n"
        "    return sum(tensor.numel() for tensor in p.weights.values())\n"
    )
    results = tmp_path / "results"
    results.mkdir()
    write(found, results / "leaderboard.json")
    stored = (results / "leaderboard.json").read_text().replace('"table": "toy"', '"table": "nb201"')
    (results / "leaderboard.json").write_text(stored)
    small = ["--space-args", "channels=2,cells=1", "--batch", "4", "--task", "noise:3x8x8:10", "--workers", "1"]
    quick = ["--draws", "5", "--results", str(results)]
    first = COMMAND.split()[1:]
    first[first.index("--sample") + 1] = "12"
    answer = trainless(*first, *small, *quick)
    assert answer.code == 0, answer.err
    rows = [each for each in rows_of("site") if each["name"] == "name"]
    assert [(row["kind"], row["asked"]) for row in rows] == [("yours", 12), ("yours", 12)]
    Path("sweep").mkdir()
    (Path("site") / "sweep" / "scores.npz").rename("sweep/scores.npz")
    again = trainless(*STORED.replace("--out site", "--out again").split()[1:], *quick)
    assert again.code == 0, again.err
    assert [each for each in rows_of("again") if each["name"] == "name"] == rows
    assert "not both" in trainless(*STORED.split()[1:], "--proxy", "snip", *quick).err
    assert "there is no leaderboard" in trainless("bench", "site", "--results", "none").err


def rows_of(folder: str) -> list[dict[str, object]]:
    contests = json.loads((Path(folder) / "leaderboard.json").read_text())["contests"]
    return [entry for contest in contests for entry in contest["entries"]]
