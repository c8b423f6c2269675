"""The truth in the terminal and the report: planted failures are the first thing that is said, classes have names."""

from __future__ import annotations

import atexit
import csv
import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import typer
from torch import Tensor, nn

from tests.cli.test_design import SMALL
from tests.designs.tiny import small
from tests.learn.test_records import recordings
from trainless.cli.app import run
from trainless.cli.design import lines_of
from trainless.designs import ensemble
from trainless.designs.pipeline import design
from trainless.learn.predictor import load_predictor
from trainless.learn.screening import at_prevalence
from trainless.report.report import write_report
from trainless.report.words import positive_in_words, sanity_in_words

NAMES = np.array(["benign", "malignant"])


def data(folder: Path, *, shuffled: bool = False, n: int = 400) -> Path:
    """Dark images are benign, two thirds of all; whether a label belongs to its image can be undone."""
    random = np.random.default_rng(0)
    y = (np.arange(n) % 3 == 0).astype(np.int64)
    x = (random.normal(size=(n, 8, 8)) + 0.25 * y[:, None, None]).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=random.permutation(y) if shuffled else y, class_names=NAMES)
    return folder / "data.npz"


class OneClass(nn.Module):
    """A network that learnt the most frequent class and nothing else."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.new_full((len(x),), 1.0), x.flatten(1).mean(1).sigmoid()], 1)


def plant(monkeypatch: pytest.MonkeyPatch, net: nn.Module | None = None) -> None:
    """Every member is this network, one that answers one class by default; all that comes after is as it is."""
    real = ensemble.load_member

    def planted(*arguments: Any) -> Any:
        member, trained, task = real(*arguments)
        return member, replace(trained, net=net or OneClass()), task

    monkeypatch.setattr(ensemble, "load_member", planted)


def coloured(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The styles of what is printed from now on in a colour or bold."""
    styles: list[dict[str, Any]] = []

    def secho(text: str, err: bool = False, **style: Any) -> None:
        if style:
            styles.append(style)
        typer.echo(text, err=err)

    monkeypatch.setattr("typer.secho", secho)
    return styles


@pytest.mark.slow
def test_one_class_for_everything_is_the_first_thing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch)
    styles = coloured(monkeypatch)
    assert run(("design", str(data(tmp_path)), "--out", str(tmp_path / "run"), *SMALL)) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    n = summary["test"]["samples"]
    told = f"It answers “benign” for every one of {n} cases"
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"NOT GOOD ENOUGH: {told}")
    for what in ("--time", "more data", "--device"):
        assert what in first
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page.index('class="verdict bad"') < page.index("<header>")
    assert page.index(told) < page.index("<header>")
    assert not summary["test"]["sanity"]["ok"]
    assert styles == [{"fg": "red", "bold": True}]


@pytest.mark.slow
def test_shuffled_labels_are_no_better_than_chance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("design", str(data(tmp_path, shuffled=True)), "--out", str(tmp_path / "run"), *SMALL)) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("NOT GOOD ENOUGH")
    assert "cannot be told from chance (0.5)" in first
    assert 'class="verdict bad"' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


class TwentyPixels(nn.Module):
    """The best that can be made of twenty of the pixels, where all of them tell the class."""

    def forward(self, x: Tensor) -> Tensor:
        odds = 5 * x.flatten(1)[:, :20].mean(1) - 0.9
        return torch.stack([torch.zeros_like(odds), odds], 1)


@pytest.mark.slow
def test_worse_than_trees_is_the_first_thing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Surely better than chance, and surely worse than what takes a second."""
    plant(monkeypatch, TwentyPixels())
    styles = coloured(monkeypatch)
    assert run(("design", str(data(tmp_path, n=1500)), "--out", str(tmp_path / "run"), *SMALL)) == 0
    test = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["test"]
    assert test["ensemble"]["auc"]["low"] > 0.5
    simpler = {one["name"]: one["auc"]["value"] for one in test["yardsticks"]}
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("NO BETTER THAN SOMETHING SIMPLER: It is worse than")
    own = test["ensemble"]["auc"]["value"]
    assert f"It is worse than trees (AUC {own:.3f} against {simpler['trees']:.3f}" in first
    assert styles == [{"fg": "red", "bold": True}]
    assert 'class="verdict bad"' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


ASKED = ("--positive", "benign", "--sensitivity", "0.8", "--prevalence", "0.9", "--epochs", "12")


@cache
def sound() -> tuple[Path, Path]:
    """A sound design whose class to find is the first one, and its data; made once per process."""
    folder = Path(mkdtemp(prefix="trainless-verdict-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with patch.object(ensemble, "CHEAP_ONES", ()):  # brightness is all there is: nothing beats a linear model
        assert run(("design", str(data(folder)), "--out", str(folder / "run"), *ASKED, *SMALL)) == 0
    return folder / "run", folder / "data.npz"


def test_recordings_are_counted_and_called_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    task = recordings()
    found = design(task, tmp_path / "run", settings=small())
    test = found.summary["test"]
    assert (test["unit"], test["samples"]) == ("recordings", task.part("test").cases)
    assert sanity_in_words(test)[1].startswith(
        f"NOT GOOD ENOUGH: It answers “0” for every one of {test['samples']} recordings"
    )
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<h3>Case r\d+</h3>", page)) == 9  # by their own names
    assert page.count("Where it looked") == 9


@pytest.fixture(scope="module")
def made() -> tuple[Path, Path]:
    return sound()


def test_a_sound_one_says_the_answer_first(made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    summary = json.loads((made[0] / "summary.json").read_text(encoding="utf-8"))
    assert summary["test"]["sanity"]["ok"]
    assert run(("design", str(made[1]), "--out", str(made[0]), *ASKED, *SMALL)) == 0
    said = capsys.readouterr().out
    auc = summary["test"]["ensemble"]["auc"]
    assert said.startswith(f"AUC {auc['value']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}], balanced accuracy 0.")
    assert "Better than chance; always saying “benign” (right in" in said.splitlines()[0]
    for words in ("sensitivity for “benign”", "as asked for", "threshold: calling “benign”", "precision", "macro F1"):
        assert words in said
    page = (made[0] / "report.html").read_text(encoding="utf-8")
    assert page.index('class="verdict good"') < page.index("<header>")
    for words in ("The class to find: benign", "ROC curve of benign", "sensitivity for benign"):
        assert words in page


def test_figures_of_the_named_class_are_those_of_the_predictions(made: tuple[Path, Path]) -> None:
    test = json.loads((made[0] / "summary.json").read_text(encoding="utf-8"))["test"]
    said = np.load(made[0] / "predictions.npz")
    own, ill = test["positive"], said["y"] == 0
    assert (own["name"], own["number"]) == ("benign", 0)
    assert own["sensitivity"]["value"] == pytest.approx((said["alike"][ill] == 0).mean())
    assert own["specificity"]["value"] == pytest.approx((said["alike"][~ill] != 0).mean())
    assert test["ensemble"]["sensitivity"] == own["sensitivity"]
    rule, p = own["screening"], said["mean"][:, 0]
    assert np.array_equal(said["screen"], p >= rule["threshold"])
    assert rule["sensitivity"]["value"] == pytest.approx((p[ill] >= rule["threshold"]).mean())
    held = load_predictor(made[0]).held
    assert held is not None
    assert rule["threshold"] in held.p[held.y == 0, 0]


def answers(made: tuple[Path, Path], out: Path, *options: str) -> list[dict[str, str]]:
    assert run(("predict", str(made[0]), str(made[1]), "--csv", str(out), *options)) == 0
    with out.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_answers_have_what_the_figures_of_the_class_are_of(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sensitivity is of ``balanced_label``, from a stated probability on; that of ``label`` stands beside it."""
    test = json.loads((made[0] / "summary.json").read_text(encoding="utf-8"))["test"]
    said, own = np.load(made[0] / "predictions.npz"), test["positive"]
    ill, prior = said["y"] == 0, own["prevalence"]
    assert np.array_equal(said["alike"] == 0, said["mean"][:, 0] > prior)
    assert own["label"]["sensitivity"]["value"] == pytest.approx((said["label"][ill] == 0).mean())
    capsys.readouterr()
    for row in answers(made, tmp_path / "a.csv"):
        assert row["label"] == max(NAMES, key=lambda name: float(row[f"p_{name}"]))
    lines = "\n".join(lines_of(test))
    assert f"called so from a probability of {prior:.1%} on (balanced_label)" in lines
    page = (made[0] / "report.html").read_text(encoding="utf-8")
    differ = bool((said["alike"] != said["label"]).any())
    assert ("Confusions of balanced_label" in page) == ("classes_by" in test) == differ


def test_two_kinds_of_answers_are_told_apart() -> None:
    share = {"value": 0.9, "low": 0.8, "high": 0.95}
    few = {"value": 0.5, "low": 0.4, "high": 0.6}
    own = {"name": "ill", "number": 1, "prevalence": 0.2, "sensitivity": share, "specificity": share}
    told = {"positive": {**own, "label": {"sensitivity": few, "specificity": share}}, "classes_by": "balanced_label"}
    two = {**told, "classes": [{}, {}]}
    first, second, *_ = positive_in_words(two)
    assert first.endswith("called so from a probability of 20.0% on (balanced_label)")
    figures = "0.500 [0.400, 0.600], specificity 0.900 [0.800, 0.950]"
    assert second == f"  of the most probable class alone: sensitivity {figures}"
    three = positive_in_words({**told, "classes": [{}, {}, {}]})[0]
    assert three.endswith("specificity 0.900 [0.800, 0.950], by balanced_label")
    assert positive_in_words({"positive": own})[0].endswith("specificity 0.900 [0.800, 0.950]")  # of an earlier version


def test_predictions_at_a_prevalence(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers(made, tmp_path / "a.csv")
    told = capsys.readouterr().out
    assert "Probabilities are for a share of 90.0% of “benign”" in told
    assert "sets and referrals promise nothing there" in told
    assert "refer" not in asked[0]
    assert "set" not in asked[0]
    there = answers(made, tmp_path / "b.csv", "--positive", "malignant", "--sensitivity", "0.7")
    prior = np.array(load_predictor(made[0]).prior)
    assert f"Probabilities are for a share of {prior[1]:.1%} of “malignant”" in capsys.readouterr().out
    assert {row["screen_malignant"] for row in there} == {"yes", "no"}
    assert there[0]["refer"] in ("yes", "no")
    own = np.array([[float(row["p_benign"]), float(row["p_malignant"])] for row in there])
    wanted = at_prevalence(own, prior, 0, 0.9)
    assert np.array([float(row["p_benign"]) for row in asked]) == pytest.approx(wanted[:, 0], abs=1e-9)
    assert [row["screen_benign"] for row in asked].count("yes") > 0


def test_yardsticks_are_shown_where_there_are_some(made: tuple[Path, Path]) -> None:
    path = made[0] / "summary.json"
    text = path.read_text(encoding="utf-8")
    summary = json.loads(text)
    assert "trees" not in "\n".join(lines_of(summary["test"]))
    summary["test"]["yardsticks"] = [
        {"name": "trees", "auc": 0.7, "balanced_accuracy": {"value": 0.6, "low": 0.5, "high": 0.7}, "seconds": 1.0}
    ]
    said = "\n".join(lines_of(summary["test"]))
    assert "trees          0.700" in said
    try:
        path.write_text(json.dumps(summary), encoding="utf-8")
        page = write_report(made[0]).read_text(encoding="utf-8")
    finally:
        path.write_text(text, encoding="utf-8")
    assert "Beside yardsticks" in page
    assert "0.600 [0.500, 0.700]" in page


def test_mistakes_are_said_before_anything_is_done(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "new")
    for options, words in (
        (("--positive", "malign"), "there is no class 'malign'; expected one of: benign, malignant"),
        (("--sensitivity", "95"), "--sensitivity 95.0 was given; expected a number between 0 and 1"),
        (("--prevalence", "1.5"), "--prevalence 1.5 was given; expected a number between 0 and 1"),
    ):
        assert run(("design", str(made[1]), "--out", out, *options, *SMALL)) == 2
        assert words in capsys.readouterr().err
        assert run(("predict", str(made[0]), str(made[1]), "--csv", str(tmp_path / "o.csv"), *options)) == 2
        assert words in capsys.readouterr().err
    assert run(("design", "digits", "--out", out, "--sensitivity", "0.9", *SMALL)) == 2
    assert "name it with --positive" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_explanations_of_new_cases(made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "why"
    assert run(("predict", str(made[0]), str(made[1]), "--csv", str(tmp_path / "o.csv"), "--explain", str(place))) == 0
    assert f"of the 20 least sure: {place / 'explanations.html'}" in capsys.readouterr().out
    told = json.loads((place / "explanations.json").read_text(encoding="utf-8"))
    rows = answers(made, tmp_path / "o.csv")
    sure = [max(float(row["p_benign"]), float(row["p_malignant"])) for row in rows]
    assert [one["case"] for one in told] == np.argsort(sure, kind="stable")[:20].tolist()
    for one in told:
        row = rows[one["case"]]
        assert one["answer"] == row["label"]
        assert one["probability"] == pytest.approx(float(row[f"p_{row['label']}"]))
        assert sum(one["votes"].values()) == 2  # a vote of each member
        assert np.shape(one["heat"]) == (8, 8)
        assert len(one["similar"]) == 3
        assert all(0 <= near["training_case"] < 280 and near["class"] in NAMES for near in one["similar"])
        assert one["similar"][0]["similarity"] > 0.9
        assert (place / one["picture"]).read_bytes().startswith(b"\x89PNG")
    page = (place / "explanations.html").read_text(encoding="utf-8")
    assert page.count('class="case"') == 20
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_report_explains_the_cases_in_doubt(made: tuple[Path, Path]) -> None:
    page = (made[0] / "report.html").read_text(encoding="utf-8")
    assert page.count("The most similar training cases") == 9
    assert page.count("Where it looked") == 9
    shown = np.load(made[0] / "shown.npz")
    assert shown["cases_heat"].shape == (9, 1, 8, 8)
    assert np.isfinite(shown["cases_heat"]).all()
