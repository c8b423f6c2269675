"""Explanations as they are drawn: what is red, what is blue, and what a page of new cases holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.report.made import KINDS, run, tips
from trainless.learn.predictor import load_predictor
from trainless.report.explained import bands, coloured, kept_heat, overlay, why
from trainless.report.explanations import write_explanations
from trainless.report.training import cuts_of, tiles


def test_red_speaks_for_the_answer_and_blue_against_it() -> None:
    heat = np.zeros((1, 2, 3))
    heat[0, 0, 0], heat[0, 1, 2] = 1.0, -1.0
    found = coloured(np.full((1, 2, 3, 1), 100, np.uint8), heat)
    red, blue, plain = found[0, 0, 0].astype(int), found[0, 1, 2].astype(int), found[0, 0, 1]
    assert red[0] > 150 > red[2]
    assert blue[2] > 130 > blue[0]
    assert plain.tolist() == [100, 100, 100]


def test_heat_is_drawn_where_the_sample_is() -> None:
    """A volume's heat is cut at the slices that are shown; a large image's is thinned alike."""
    volume = np.random.default_rng(0).normal(size=(1, 16, 8, 8))
    heat = np.arange(16.0)[:, None, None] * np.ones((16, 8, 8))
    assert kept_heat(heat)[:, 0, 0].tolist() == cuts_of(16).tolist()
    assert tiles(volume).shape[:3] == kept_heat(heat).shape
    large = np.zeros((400, 330))
    large[200:, :] = 1
    kept = kept_heat(large)
    assert kept.shape == tiles(large[None]).shape[:3]
    assert (kept[0, :60].max(), kept[0, -60:].min()) == (0, 1)


def test_bands_lie_behind_the_signal() -> None:
    heat = np.zeros(96)
    heat[48] = 2.0
    drawn = overlay(np.zeros((2, 800)), heat, "here")
    assert drawn.count("<rect") == 1
    assert drawn.index("<rect") < drawn.index("<polyline")
    assert 'x="160"' in bands(heat, 120.0)


def test_similar_cases_have_their_names() -> None:
    shown = {
        "cases_x": np.zeros((1, 1, 30)),
        "cases_heat": np.ones((1, 30)),
        "cases_top": np.array([0.2]),
        "similar_rows": np.array([[4, 9]]),
        "similar_y": np.array([[1, 0]]),
        "similar_cosines": np.array([[0.987, 0.5]]),
        "similar_x": np.zeros((2, 1, 30)),
    }
    text = "".join(str(part) for part in why(shown, 0, ["well", "ill"], 1))
    assert "ill, training case 4, similarity 0.99" in text
    assert "well, training case 9, similarity 0.50" in text
    text = "".join(
        str(part) for part in why({**shown, "similar_names": np.array([["r4", "r9"]])}, 0, ["well", "ill"], 1)
    )
    assert "ill, training case r4, similarity 0.99" in text
    assert why({**shown, "cases_heat": np.full((1, 30), np.nan)}, 0, ["well", "ill"], 1) == []  # there was no time


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["signal", "volume", "value"])
def test_every_kind_of_data_is_explained(kind: str, tmp_path: Path) -> None:
    task, predictor = KINDS[kind](), load_predictor(run(kind))
    x = np.asarray(task.part("test").x[np.arange(4)])
    said = predictor.predict(x)
    assert write_explanations(tmp_path, predictor, said, x, range(4)) == 4
    told = json.loads((tmp_path / "explanations.json").read_text(encoding="utf-8"))
    assert all(np.shape(one["heat"]) == task.input_shape[1:] for one in told)
    assert {Path(one["picture"]).suffix for one in told} == {".png" if kind == "volume" else ".svg"}
    assert {one["case"] for one in told} == {0, 1, 2, 3}
    if kind == "value":
        assert all(len(one["members"]) == 2 for one in told)
    assert "Where it looked" in (run(kind) / "report.html").read_text(encoding="utf-8")
    assert not tips((tmp_path / "explanations.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_names_in_explanations_do_no_harm(tmp_path: Path) -> None:
    task, predictor = KINDS["image"](), load_predictor(run("image"))
    x = np.asarray(task.part("test").x[np.arange(3)])
    write_explanations(tmp_path, predictor, predictor.predict(x), x, ["<script>", "'\"", "c"])
    page = (tmp_path / "explanations.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<script>&" not in page
    assert "&lt;script&gt;" in page
