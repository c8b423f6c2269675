"""Entries of a report: where they stand, and which runs they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui.made import searched
from trainless.report import report
from trainless.report.contents import Contents, Need, report_part
from trainless.report.page import Content, drawn, tag


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("runs") / "one")


@pytest.mark.parametrize(("needs", "shown"), [((), True), (("search",), True), (("design", "tested"), False)])
def test_a_figure_is_one_entry(
    run: Path, monkeypatch: pytest.MonkeyPatch, needs: tuple[Need, ...], shown: bool
) -> None:
    @report_part(*needs, beside=True)
    def mine(contents: Contents) -> Content:
        return drawn("Mine", tag("svg", viewBox="0 0 1 1"), f"{len(contents.searches)} search")

    monkeypatch.setattr(report, "SECTIONS", (*report.SECTIONS, ("mine", "My own", (mine,))))
    text = report.write_report(run).read_text(encoding="utf-8")
    assert ('<section id="mine">' in text) is shown
    assert ("<figcaption>1 search</figcaption>" in text) is shown


def test_every_part_stands_in_one_place() -> None:
    parts = [part for _, _, parts in report.SECTIONS for part in parts]
    assert len(set(parts)) == len(parts)
