"""Reports of whole runs, in the text and in a browser."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.browser import Visit
from tests.commands import said_by
from tests.designs.tiny import small
from tests.report import made
from trainless.cli.app import run as command
from trainless.core.errors import InputError
from trainless.designs.pipeline import design
from trainless.report.report import REPORT, SHOWN, write_report
from trainless.runs.reader import space_of
from trainless.runs.search import search
from trainless.spaces.nb201 import NasBench201

MARKS = "path, rect, circle, polygon, polyline, line"
DRAWN = f"""() => [...document.querySelectorAll('main svg[role=img]')].map(svg => ({{
    title: svg.querySelector('title').textContent,
    size: [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height],
    marks: [...svg.querySelectorAll('{MARKS}')].filter(mark => {{
        const box = mark.getBoundingClientRect(); return box.width > 0 || box.height > 0 }}).length,
}}))"""
FIGURES = {
    "signal": {
        "ROC curves, each class against the rest",
        "Confusion matrix",
        "Calibration",
        "Accuracy against confidence",
    },
    "image": {"Confusion matrix", "Cases of each class in each part", "Accuracy against referral"},
    "volume": {"ROC curve of 1", "Metrics with their intervals", "Sizes of prediction sets"},
    "value": {"Predicted against true values", "Mean error against confidence", "Values in each part"},
}
EVERYWHERE = {
    "Losses of the members while they were trained",
    "Landscape of isometry",
    "Shares of operations in each group",
    "Time spent, and what training every candidate would have taken",
}


class Tags(HTMLParser):
    """Which elements a page has, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def text_of(kind: str) -> str:
    return (made.run(kind) / REPORT).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", made.KINDS)
def test_in_a_browser(kind: str, visit: Callable[..., Visit]) -> None:
    seen = visit((made.run(kind) / REPORT).as_uri())
    assert seen.faults == []
    assert [url for url in seen.requested if not url.startswith(("file:", "data:"))] == []
    figures = seen.page.evaluate(DRAWN)
    assert {figure["title"] for figure in figures} >= FIGURES[kind] | EVERYWHERE
    for figure in figures:
        assert figure["marks"] > 0, figure["title"]
        assert min(figure["size"]) > 20, figure["title"]
    assert seen.page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    for width in (1280, 400):
        assert seen.overflow(width) <= 0, width
    seen.page.locator("circle.dot[data-tip]").first.hover(force=True)
    assert seen.page.locator("#tip").inner_text() != ""
    assert seen.faults == []


@pytest.mark.slow
def test_names_from_data_do_no_harm(visit: Callable[..., Visit]) -> None:
    text = text_of("image")
    tags = Tags()
    tags.feed(text)
    assert sum(tag == "script" for tag, _ in tags.found) == 1
    assert [attributes for _, attributes in tags.found if "onerror" in attributes] == []
    sources = [attributes["src"] or "" for _, attributes in tags.found if "src" in attributes]
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "\u202e" not in text
    seen = visit((made.run("image") / REPORT).as_uri())
    assert made.HOSTILE[0] in seen.page.locator("#summary").inner_text()
    assert seen.page.locator("main script, main img[onerror]").count() == 0


@pytest.mark.slow
def test_the_words_are_the_numbers() -> None:
    folder, text = made.run("signal"), text_of("signal")
    summary = json.loads((folder / "summary.json").read_text())
    with np.load(folder / "predictions.npz") as said:
        right = int((said["label"] == said["y"]).sum())
    n = summary["test"]["samples"]
    assert f"On {n} cases that it had never seen it was right in {right} " in text
    assert f"{right} of {n} test cases" in text
    assert f"They learnt from {summary['task']['samples']['train']} cases." in text
    for member in summary["members"]:
        assert f'<th scope="row">{member["name"]}</th>' in text
    histories = [json.loads((folder / "members" / m["folder"] / "member.json").read_text()) for m in summary["members"]]
    drawn = re.search(r"<title>Losses of the members.*?</svg>", text, re.DOTALL)
    assert drawn is not None
    lines = re.findall(r'd="([^"]+)" class="line c[n\d]"', drawn[0])
    assert sorted(line.count("L") + line.count("M") for line in lines) == sorted(len(h["history"]) for h in histories)


@pytest.mark.slow
def test_cases_in_doubt_are_shown_with_votes() -> None:
    folder, text = made.run("volume"), text_of("volume")
    with np.load(folder / "predictions.npz") as said:
        least = int(said["mean"].max(1).argmin())
        votes = said["members"][:, least]
    cards = re.findall(r'<figure class="case">.*?</figure>', text, re.DOTALL)
    card = next(card for card in cards if f"<h3>Case {least}</h3>" in card)
    assert card.count("<img ") == 5 + 5 + 3  # its slices, where it looked in them, three similar cases
    assert card.count("<tbody>") == 1
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', card)
    assert [name for name, _ in rows] == ["00", "01"]
    for (_, cells), vote in zip(rows, votes, strict=True):
        bold = re.search(r"<b>(\d+)", cells)
        assert bold is not None
        assert int(bold[1]) == round(100 * vote.max())


@pytest.mark.slow
def test_made_again_it_is_the_same(tmp_path: Path) -> None:
    shutil.copytree(made.run("value"), tmp_path / "run")
    before = (tmp_path / "run" / REPORT).read_bytes()
    (tmp_path / "run" / REPORT).unlink()
    assert command(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / REPORT).read_bytes() == before
    for name in (REPORT, SHOWN):
        (tmp_path / "run" / name).unlink()
    design(made.KINDS["value"](), tmp_path / "run", settings=small(baseline=2))
    assert (tmp_path / "run" / REPORT).read_bytes() == before
    (tmp_path / "run" / SHOWN).unlink()
    assert "<h3>Case" in write_report(tmp_path / "run").read_text(encoding="utf-8")


KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from tests.report import made
from tests.designs.tiny import small
import trainless.report.report as reporting
from trainless.designs.pipeline import design

def fatal(path, text):
    path.with_name(".report.html.part").write_text(text[: len(text) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

reporting.write_atomic = fatal
design(made.KINDS["value"](), sys.argv[1], settings=small(baseline=2))
"""


@pytest.mark.slow
def test_killed_in_the_report_it_ends_with_the_same(tmp_path: Path) -> None:
    shutil.copytree(made.run("value"), tmp_path / "run")
    before = (tmp_path / "run" / REPORT).read_bytes()
    for name in (REPORT, SHOWN):
        (tmp_path / "run" / name).unlink()
    said_by(KILLED, tmp_path, str(tmp_path / "run"), ends=-signal.SIGKILL)
    assert not (tmp_path / "run" / REPORT).exists()
    design(made.KINDS["value"](), tmp_path / "run", settings=small(baseline=2))
    assert (tmp_path / "run" / REPORT).read_bytes() == before


@pytest.mark.slow
def test_without_a_test_part(tmp_path: Path) -> None:
    task = dataclasses.replace(made.classes((1, 8, 8)), test=None, fingerprint="")
    design(task, tmp_path / "run", settings=small(members=1))
    text = (tmp_path / "run" / REPORT).read_text(encoding="utf-8")
    assert "There was no test part" in text
    assert 'id="doubt"' not in text
    assert "Landscape of isometry" in text


@pytest.mark.parametrize(("proxies", "searcher"), [("params", "random"), (["params", "flops"], "evolution")])
def test_a_search_alone(proxies: str | list[str], searcher: str, tmp_path: Path, visit: Callable[..., Visit]) -> None:
    found = search("digits", NasBench201(2, 1), searcher, proxies=proxies, evaluations=12, out=tmp_path / "run")
    seen = visit(write_report(tmp_path / "run").as_uri())
    assert seen.faults == []
    best = NasBench201(2, 1).format(found.places[0].arch)
    assert best in seen.page.locator("#exact").inner_text()
    assert all(figure["marks"] for figure in seen.page.evaluate(DRAWN))
    assert seen.overflow(400) <= 0


def test_folders_without_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", str(tmp_path)]) == 2
    assert "is no run: it has no run.json" in capsys.readouterr().err
    (tmp_path / "run.json").write_text('{"format": 1, "verb": "design"}')
    with pytest.raises(InputError, match="is not finished: run the same trainless design again"):
        write_report(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="is no folder of trainless search, design"):
        write_report(tmp_path)


@pytest.mark.slow
def test_a_report_reads_nothing_outside_its_folder(tmp_path: Path) -> None:
    run = Path(shutil.copytree(made.run("value"), tmp_path / "runs" / "run"))
    summary = json.loads((run / "summary.json").read_text())
    shutil.copytree(run / "searches" / summary["plan"]["searches"][0]["name"], tmp_path / "other")
    summary["plan"]["searches"][0]["name"] = "../../../other"
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match="is damaged"):
        write_report(run)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(InputError, match=r"is no run: it has no run\.json"):
        write_report(tmp_path)


def test_a_space_is_read_and_never_run() -> None:
    found = space_of({}, "nb201(channels=8, cells=1)")
    assert found == NasBench201(8, 1)
    assert space_of({}, "nb201(channels=__import__('os').getpid(), cells=1)") is None
    assert space_of({}, "unheard(of=1)") is None
