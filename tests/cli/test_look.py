"""``trainless look`` says what was understood and draws examples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainless.cli.app import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["a,b,c,d,outcome,who"]
    for place in range(60):
        values = random.normal(size=4) + 3 * (place // 2 % 2)
        lines.append(",".join(f"{value:.3f}" for value in values) + f",{place // 2 % 2},{place // 2}")
    (tmp_path / "own.csv").write_text("\n".join(lines))
    return tmp_path / "own.csv"


def test_columns_and_names_are_given_on_the_command_line(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["look", str(table), "--label", "outcome", "--group", "who", "--classes", "well,sick"]) == 0
    said = capsys.readouterr().out
    assert "own: binary, 60 cases; signals of 1×4" in said
    assert "well " in said
    assert "Groups: train 2" in said
    assert "None is in two parts." in said
    assert "Leaks: no case is in two parts." in said
    assert "balanced accuracy" in said


def test_a_missing_label_says_which_option_names_it(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["look", str(table)]) == 2
    assert "expected one called label, target, class, y: name it with --label" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["png", "html"])
def test_examples_are_drawn(ending: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = table.parent / f"<b>.{ending}"
    assert run(["look", str(table), "--label", "outcome", f"--{ending}", str(out)]) == 0
    if ending == "png":
        with Image.open(out) as image:
            assert np.asarray(image).std() > 5
    else:
        page = out.read_text()
        assert "data:image/png;base64," in page
        assert "own: binary" in page
    assert f"Examples are in {out}." in capsys.readouterr().out


def test_json_and_refusals(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["look", str(table), "--label", "outcome", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (sum(found["cases"].values()), found["kind"]) == (60, "binary")
    assert run(["look", str(table), "--label", "outcome", "--size", "3x3"]) == 2
    assert "--size '3x3' was given; expected a whole number above 0, such as 64" in capsys.readouterr().err
    assert run(["look", "noise:3x8x8:2"]) == 2
    assert "has no data to look at" in capsys.readouterr().err


def test_names_of_classes_move_no_cursor_and_begin_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder's name is anybody's: it may hold what changes a terminal, or a line that looks like one of ours."""
    for label in ("sick\x1b]0;owned\x07\x1b[2J\u202e\nProblems: none", "well"):
        (tmp_path / "data" / label).mkdir(parents=True)
        for number in range(6):
            pixels = np.random.default_rng(number).integers(0, 255, (8, 8), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / label / f"{number}.png")
    assert run(["look", str(tmp_path / "data")]) == 0
    said = capsys.readouterr().out
    assert "sick\N{REPLACEMENT CHARACTER}]0;owned" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert not [line for line in said.splitlines() if line.startswith("Problems")]
