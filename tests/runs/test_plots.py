"""Plots hold the numbers that they are made of."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainless import Task, open_run, search
from trainless.core.errors import InputError
from trainless.core.scores import Record, Scores
from trainless.runs.plots import DesignPlots
from trainless.runs.search import Found
from trainless.spaces import space


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Found:
    out = tmp_path_factory.mktemp("plots") / "run"
    task = Task.noise((3, 8, 8))
    return search(task, space("nb201", channels=2, cells=1), "random", proxies="params", evaluations=12, out=out)


def dots(ax: Any) -> list[tuple[float, float]]:
    """The points of a scatter, or of lines of one point."""
    if ax.collections:
        return [tuple(map(float, point)) for point in ax.collections[0].get_offsets()]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines if len(line.get_xdata()) == 1]


def test_a_search_and_its_folder_draw_the_same(searched: Found) -> None:
    run = open_run(str(searched.folder))
    told = [values.get_ydata().tolist() for values in run.plot_history().lines]
    assert told[0] == searched.history["params"] == run.told("params")[0]
    assert told[1] == np.maximum.accumulate(told[0]).tolist()
    assert [line.get_ydata().tolist() for line in searched.plot_history("params").lines] == told
    first = [place.scores["params"] for place in searched.places][:5]
    assert [x for x, _ in dots(searched.plot_leaderboard(most=5))] == first == sorted(first, reverse=True)
    pairs = dots(run.plot_scatter("params", "flops"))
    assert pairs == [(place.scores["params"], place.costs["flops"]) for place in searched.places]
    assert pairs == dots(searched.plot_scatter("params", "flops"))


@pytest.mark.slow
def test_what_decides_the_order_has_a_history_of_its_own(tmp_path: Path) -> None:
    found = search(
        Task.noise((3, 8, 8)),
        space("nb201", channels=2, cells=1),
        "random",
        ranking="az-nas",
        evaluations=8,
        out=tmp_path / "run",
    )
    run = open_run(tmp_path / "run")
    values, up = run.told("az-nas")
    assert up
    np.testing.assert_allclose(found.told("az-nas")[0], values, rtol=1e-9)
    standing = {place.text: place.standing for place in found.places}
    assert sorted(v for v in values if not math.isnan(v)) == pytest.approx(
        sorted(v for v in standing.values() if not math.isnan(v))
    )
    drawn = np.asarray(run.plot_history().lines[1].get_ydata())
    assert drawn[-1] == pytest.approx(np.nanmax(values))


def test_a_search_shows_itself(searched: Found) -> None:
    said = repr(searched)
    assert said.startswith("Found(12 candidates in ")
    assert searched.places[0].text in said
    assert searched.places[0].text[:20] in searched._repr_html_()
    run = open_run(str(searched.folder))
    assert repr(run).startswith("Run(search, finished; 12 of 12 evaluations")
    assert "search, finished" in run._repr_html_()


def test_what_is_not_there_is_named(searched: Found, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'nothing' was asked for; expected one of params"):
        searched.plot_scatter("params", "nothing")
    with pytest.raises(InputError, match="'flops' has no history"):
        searched.plot_history("flops")
    with pytest.raises(InputError, match="nothing was scored"):
        Scores().plot()
    with pytest.raises(InputError):
        open_run(tmp_path)


def test_without_matplotlib_the_extra_is_named(searched: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'trainless\[figures\]'"):
        searched.plot_history()


def test_scores_are_drawn_as_they_are() -> None:
    values = {"a": (1.0, 3.0), "b": (5.0, 7.0), "c": (2.0, 2.0)}
    records = [Record(name, "snip", pair[seed], True, seed=seed) for name, pair in values.items() for seed in (0, 1)]
    one = Scores(records).plot()
    assert [x for x, _ in dots(one)] == [6.0, 2.0, 2.0]
    assert [label.get_text() for label in one.get_yticklabels()] == ["b", "a", "c"]
    ends = [line.get_xdata() for line in one.lines if len(line.get_xdata()) == 2]
    assert [tuple(map(float, end)) for end in ends] == [(5.0, 7.0), (1.0, 3.0), (2.0, 2.0)]
    more = [Record(name, "loss", at, False) for at, name in enumerate(values)]
    assert dots(Scores([*records, *more]).plot()) == [(2.0, 0.0), (6.0, 1.0), (2.0, 2.0)]
    third = Scores([*records, *more, *(Record(name, "size", at, True) for at, name in enumerate(values))])
    np.testing.assert_allclose(third.plot().images[0].get_array(), third.correlations())
    lost = Scores([*records, Record("d", "snip", math.nan, True, "dead"), *more, Record("d", "loss", 3.0, False)])
    assert lost.plot("snip", "loss").get_title() == "1 of 4 have no score"
    given = one
    assert Scores(records).plot(ax=given) is given


class Design(DesignPlots):
    def __init__(self, folder: Path) -> None:
        self.folder = folder


def folder_of(tmp_path: Path, **test: Any) -> Design:
    """A finished design of four cases, of which one is answered wrongly."""
    mean = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.55, 0.45]])
    np.savez(
        tmp_path / "predictions.npz", y=[0, 1, 0, 0], mean=mean, label=mean.argmax(1), refer=[False, False, True, False]
    )
    auc = {"value": 0.75, "low": 0.5, "high": 1.0}
    found = {
        "main": "auc",
        "ensemble": {"auc": auc},
        "yardsticks": [{"name": "trees", "auc": {**auc, "value": 0.7}}],
        **test,
    }
    (tmp_path / "summary.json").write_text(json.dumps({"version": 1, "test": found, "members": []}))
    return Design(tmp_path)


def test_reliability_and_deferral_are_of_the_test_part(tmp_path: Path) -> None:
    rule = {"asked": 0.95, "promised": True}
    made = folder_of(tmp_path, deferral=rule)
    assert dots(made.plot_reliability()) == [(0.55, 1.0), (0.6, 0.0), (0.8, 1.0), (0.9, 1.0)]
    ax = made.plot_deferral()
    steps = ax.lines[0]
    np.testing.assert_allclose(steps.get_xdata(), [0.75, 0.5, 0.25, 0.0])
    np.testing.assert_allclose(steps.get_ydata(), [1.0, 1.0, 2 / 3, 3 / 4])
    assert (ax.lines[2].get_xdata()[0], ax.lines[2].get_ydata()[0]) == (0.25, 1.0)
    refused = folder_of(tmp_path, deferral={**rule, "promised": False})
    assert "everything is referred" in refused.plot_deferral().get_title()


def test_yardsticks_stand_beside_the_ensemble(tmp_path: Path) -> None:
    ax = folder_of(tmp_path).plot_yardsticks()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["this ensemble", "trees"]
    assert dots(ax) == [(0.75, 0.0), (0.7, 1.0)]
    assert [tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2] == [(0.5, 1.0)] * 2


def test_what_a_design_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not finished yet"):
        Design(tmp_path).plot_training()
    (tmp_path / "summary.json").write_text(json.dumps({"version": 1, "test": None, "members": []}))
    with pytest.raises(InputError, match="no test part"):
        Design(tmp_path).plot_reliability()
    made = folder_of(tmp_path)
    np.savez(tmp_path / "predictions.npz", y=[0.5], mean=[[0.4]])
    with pytest.raises(InputError, match="predicts values"):
        made.plot_deferral()
