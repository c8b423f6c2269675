"""The leaderboard says what SciPy says, is read as it was written, and its links do not depend on any order."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.bench.made import ACCURACY, ARCHS, CONTESTS, ToyLibrary, leaderboard, library
from trainless import rankings
from trainless.bench.leaderboard import Contest, Entry, Standing, measured, prices, read, slug, with_entries, write
from trainless.bench.score_library import ScoreColumn, ScoreLibrary
from trainless.bench.sheet import Share
from trainless.core.errors import InputError
from trainless.rankings import RankSum
from trainless.runs.score_file import read_scores


def test_correlations_coverage_and_costs_are_those_of_the_scores(tmp_path: Path) -> None:
    found = leaderboard(tmp_path)
    scores = library(tmp_path).ours("toy", "snip").values[0]
    (standing, other) = found.standings
    entries = {entry.name: entry for entry in standing.entries}
    snip, known = entries["snip"], np.isfinite(scores)
    assert snip.out["spearman"].value == pytest.approx(stats.spearmanr(scores[known], ACCURACY[known])[0])
    last = np.where(known, scores, -1e9)
    assert snip.last["kendall"].value == pytest.approx(stats.kendalltau(last, ACCURACY)[0])
    assert (snip.coverage, standing.networks) == (Share(len(ARCHS) - 2, len(ARCHS)), len(ARCHS))
    assert entries["trainability"].last["spearman"].value > 0.9  # lower is better
    assert [entry.last["spearman"].value for entry in standing.entries] == sorted(
        (entry.last["spearman"].value for entry in standing.entries), reverse=True
    )
    assert found.costs["snip"] == 0.25
    assert found.costs["params"] == 0
    assert math.isnan(found.costs["trainability"])
    places, accuracy = np.array(snip.places), np.array(standing.accuracy)
    assert np.isnan(places).sum() == 2
    order = stats.spearmanr(places[np.isfinite(places)], accuracy[np.isfinite(places)])[0]
    assert order == pytest.approx(snip.out["spearman"].value, abs=0.01)  # all networks are drawn, places have 3 digits
    assert other.contest == CONTESTS[1]


def test_a_ranking_costs_what_its_proxies_cost() -> None:
    """All rankings alike by the sum, though some of their proxies share passes."""
    entries = tuple(Entry(name, "ranking", 1, Share(1, 1), {}, {}) for name in ("te-nas", "teg-nas"))
    standing = Standing(CONTESTS[0], 1, entries, (), ())
    known = {"ntk_condition": 1.0, "linear_regions": 0.25}
    found = prices(known, [standing])
    assert found["te-nas"] == 1.25
    assert math.isnan(found["teg-nas"])  # the price of one of its proxies is not known


def test_an_order_with_two_names_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = RankSum(("zico", "snip"))
    for name in ("toy", "toy-of-two"):
        monkeypatch.setitem(rankings.registry._entries, name, order)
    names = [entry.name for entry in leaderboard(tmp_path).standings[0].entries]
    assert "toy" in names
    assert "toy-of-two" not in names


def test_a_library_can_be_had_with_some_of_its_files(tmp_path: Path) -> None:
    whole = library(tmp_path)
    (tmp_path / "toy.npz").rename(tmp_path / "toy_thin.npz")
    few = read_scores(tmp_path / "toy_thin.npz")
    dataclasses.replace(few, values=few.values + 1).write(tmp_path / "toy.npz")
    first, thin = whole.ours("toy", "zico").values[0], whole.only({"toy": ["toy_thin"]}).ours("toy", "zico").values[0]
    np.testing.assert_allclose(first - thin, 1)


def test_a_contest_that_is_not_here_is_said(tmp_path: Path) -> None:
    contest = dataclasses.replace(CONTESTS[0], task="cifar10")
    library(tmp_path)
    (tmp_path / "toy.npz").rename(tmp_path / "another.npz")
    found = measured(ToyLibrary(tmp_path), {}, 0, contests=[contest])
    assert found.standings == ()
    assert any("no scores of toy are stored here" in line for line in found.about)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = leaderboard(tmp_path)
    write(found, tmp_path / "one.json")
    again = read(tmp_path / "one.json")
    write(again, tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert [each.sheet().markdown() for each in again.standings] == [
        each.sheet().markdown() for each in found.standings
    ]
    assert "| snip | out | 1 | 58 of 60 |" in again.standings[0].sheet().markdown()


@pytest.mark.parametrize(
    ("text", "message"), [(None, "there is no leaderboard"), ("{}", "is not a leaderboard"), ("[", "cannot be read")]
)
def test_what_is_no_leaderboard_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "some.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "some.json")


def test_links_are_made_of_names_alone(tmp_path: Path) -> None:
    (standing, _) = leaderboard(tmp_path, draws=0).standings
    turned = dataclasses.replace(standing, entries=standing.entries[::-1])
    links = [{entry.name: each.anchor(entry) for entry in each.entries} for each in (standing, turned)]
    assert links[0] == links[1]
    assert links[0]["zico"] == "toy-cifar10-test-all--zico"
    assert Contest("nb201", "ImageNet16-120", "test", "no-dead-edges").name == "nb201-imagenet16-120-test-no-dead-edges"


def test_no_two_entries_of_the_stored_leaderboard_share_a_link() -> None:
    standings = read(Path(__file__).resolve().parents[2] / "results" / "leaderboard.json").standings
    links = [standing.anchor(entry) for standing in standings for entry in standing.entries]
    assert len(links) == len(set(links)) > 200
    assert all(part == slug(part) for link in links for part in link.split("--"))


@pytest.mark.slow
def test_what_is_stored_of_a_contest_is_what_it_gives(data_dir: Path) -> None:
    folder = Path(__file__).resolve().parents[2] / "results"
    contest = Contest("darts", "cifar10", "valid", "all")
    (before,) = (each for each in read(folder / "leaderboard.json").standings if each.contest == contest)
    (after,) = measured(ScoreLibrary(folder), {}, 0, contests=[contest]).standings
    remedy = "python -m benchmarks.measure_results leaderboard"
    of_tests = {name for name in rankings.registry.names() if rankings.registry[name] == RankSum(("params",))}
    found = [entry for entry in after.entries if entry.name not in of_tests]
    assert {entry.name for entry in found} == {entry.name for entry in before.entries}, remedy
    known = {entry.name: entry for entry in before.entries}
    for entry in found:
        ours, stored = (each.out["spearman"] for each in (entry, known[entry.name]))
        assert ours.value == pytest.approx(stored.value, abs=1e-5, nan_ok=True), f"{entry.name}: {remedy}"
        assert entry.coverage == known[entry.name].coverage, f"{entry.name}: {remedy}"
        places = pytest.approx(list(known[entry.name].places), nan_ok=True)
        assert list(entry.places) == places, f"{entry.name}: {remedy}"


def test_a_proxy_of_ones_own_is_judged_on_the_networks_that_it_has(tmp_path: Path) -> None:
    found = leaderboard(tmp_path)
    asked = np.arange(len(ARCHS)) < 20
    values = np.where(asked, np.random.default_rng(3).normal(size=len(ARCHS)), np.nan)
    own = {"mine": ScoreColumn(values[None], asked)}
    entered = with_entries(found, library(tmp_path), "toy", own, draws=10, about=["mine: by hand."])
    for standing, before in zip(entered.standings, found.standings, strict=True):
        entry = next(each for each in standing.entries if each.kind == "yours")
        assert entry.last["spearman"].value == pytest.approx(stats.spearmanr(values[:20], ACCURACY[:20])[0])
        assert entry.coverage == Share(20, 20)
        assert sorted(entry.accuracy) == sorted(ACCURACY[:20].tolist())
        assert _without(standing, "mine") == before.entries
    assert entered.about[-1] == "mine: by hand."
    write(entered, tmp_path / "entered.json")
    contests = json.loads((tmp_path / "entered.json").read_text())["contests"]
    assert all("mine" in {entry["name"] for entry in contest["entries"]} for contest in contests)
    with pytest.raises(InputError, match="has toy-cifar10-test-all--zico already: give your proxy another name"):
        with_entries(found, library(tmp_path), "toy", {"zico": own["mine"]}, draws=0)
    with pytest.raises(InputError, match="--table other was given; the leaderboard has: toy"):
        with_entries(found, library(tmp_path), "other", own, draws=0)


def _without(standing: Standing, name: str) -> tuple[object, ...]:
    return tuple(each for each in standing.entries if each.name != name)
