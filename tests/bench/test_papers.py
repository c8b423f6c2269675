"""The published tables as definitions: they hold together, and they run on the scores of others."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from trainless.bench import papers
from trainless.bench.papers import compare, definitions, find
from trainless.bench.papers.sources import (
    TASKS,
    Absent,
    Against,
    Chance,
    Forest,
    Guided,
    OurRanking,
    Ours,
    RidgeWeight,
    TableColumn,
    Where,
    over_runs,
)
from trainless.bench.score_library import COUNTS, PRICES, Missing, ScoreLibrary
from trainless.bench.sheet import Interval, Share, joined
from trainless.bench.statistics import MEANINGS
from trainless.bench.tables import peer_scores, table
from trainless.core.errors import UnknownName
from trainless.core.task import Task
from trainless.proxies.proxy import registry
from trainless.runs.score_file import ScoreFile
from trainless.scoring.evaluate import score
from trainless.searchers import Told, make
from trainless.spaces.nb201 import NasBench201

EXTRA = {"mean", "std", "seconds", "weight", "held_out_cifar10", "held_out_ImageNet16-120"}
EXTRA |= {"ensemble", "accuracy_of_30%", "accuracy_of_100%", "lr", "momentum", "weight_decay", "epochs", "early_stop"}
EXTRA |= {"ndcg_5", "convolutions", "depth", "better κ", "better R", "better MSE", "better accuracy"}
EXTRA |= {"held_out", "held_out_std", "params", "error", "error_top5", "none", "skips", "pools", "separable", "dilated"}
EXTRA |= {"zero_loss", "convex", "bound", "population_bound", "within", "psi_and_gradsign"}


@pytest.fixture(scope="module")
def library(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> ScoreLibrary:
    """Suite-Zero's scores as if they were ours, and noisy accuracies for the other proxies."""
    nb201 = table("nb201")
    suite = peer_scores("suite-zero", "cifar10")
    rows = nb201.rows(suite.index)
    archs = tuple(nb201.archs[row] for row in rows)
    names = ("naswot", "synflow", "jacov", "length", "loss_ntk", "loss_synflow", "zico", "vkdnw")
    names += ("expressivity", "trainability", "progressivity", "ntk_condition", "linear_regions", "ntk_mse", "gradsign")
    accuracy, rng = nb201.column("cifar10", "test")[rows], np.random.default_rng(0)
    values = np.empty((len(archs), len(names), 1))
    for place, name in enumerate(names):
        noisy = accuracy / 10 + rng.normal(size=len(archs)) + 20
        noisy = noisy if registry[name].higher_is_better else 60 - noisy
        values[:, place, 0] = suite.get(name, noisy)
    about = {name: {"higher_is_better": registry[name].higher_is_better} for name in names}
    folder = tmp_path_factory.mktemp("results")
    codes = np.zeros(values.shape, np.uint16)
    file = ScoreFile(archs, names, (0,), values, codes, ms=np.ones(len(names)), settings={"proxies": about})
    file.write(folder / "nb201.npz")
    (folder / PRICES).write_text('{"ms": {"nb201": {"ntk_condition,linear_regions": 2.0}}}')
    return ScoreLibrary(folder)


def test_every_definition_is_well_formed() -> None:
    known = definitions()
    assert len(known) >= 31
    assert {path.stem for path in Path(papers.__file__).parent.glob("*.toml")} == set(papers.PAPERS)
    for name, each in known.items():
        assert each.rows, name
        for row in each.rows:
            for figures in row.published.values():
                assert set(figures) <= set(MEANINGS) | EXTRA, (name, row.label)
                most = 1e11 if row.label.startswith(("NTK, ", "cost: ")) else 1e5  # TEACUP prints 1.28×10¹⁰
                assert all(math.isnan(value) or abs(value) < most for value in figures.values())
            if isinstance(row.source, Ours):
                assert row.source.proxy in registry, (name, row.label)
    with pytest.raises(UnknownName, match=r"no published table is called 'vkdnw:table2'; there are: teacup:figure2"):
        find("vkdnw:table2")


def test_published_figures_are_those_of_the_papers() -> None:
    rows = {row.label: row.published for row in definitions()["vkdnw:table1"].rows}
    assert rows["VKDNW_agg"]["cifar10"] == {"kendall": 0.750, "spearman": 0.919, "ndcg_1000": 0.785}
    assert rows["(VKDNW+ZCS+GRAF)_m"]["ImageNet16-120"] == {"kendall": 0.842, "spearman": 0.963, "ndcg_1000": 0.867}
    rows = {row.label: row.published for row in definitions()["gradsign:table5.2"].rows}
    assert [rows["GradSign"][task]["spearman"] for task in TASKS] == [0.765, 0.793, 0.783]
    searched = {row.label: row for row in definitions()["teg-nas:table2"].rows}["Evolution + TEG"]
    assert searched.published["cifar100"] == {"mean": 70.10, "std": 1.47}
    assert searched.source == Guided("teg_evolution", ("ntk_condition", "linear_regions", "ntk_mse"))
    first = definitions()["epsilon:table1"].rows[0]
    assert first.published["cifar10"]["top10%_in_top10%"] == pytest.approx(0.4575)
    assert first.published["cifar10"]["top64_in_top5%"] == 29
    assert definitions()["teacup:figure2"].rows[1].published == {"BreastMNIST": {"spearman": 0.298}}
    rows = {row.label: row.published for row in definitions()["teacup:table1"].rows}
    assert rows["Genetic, BreastMNIST"] == {"BreastMNIST": {"mean": 0.90, "std": 0.01, "ensemble": 0.93}}


def test_the_papers_are_run_on_the_scores_of_others(library: ScoreLibrary) -> None:
    sheet = compare(definitions()["epsilon:headline"], library, draws=10)
    rows = [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows]
    theirs = next(
        row for row in rows if row["row"] == "epsilon, the authors' scores" and row["statistic"] == "spearman"
    )
    assert theirs["ours"] == pytest.approx(0.87, abs=0.005)
    assert theirs["difference"] == pytest.approx(theirs["ours"] - 0.87)
    assert theirs["low"] < theirs["ours"] < theirs["high"]
    assert theirs["failures last"] < 0.1
    assert theirs["coverage"] == Share(9226, 15625)
    ours = next(row for row in rows if row["row"].startswith("epsilon, ours"))
    assert ours["ours"] is None
    assert ours["note"] == "no data here: epsilon is not among the stored scores of nb201"
    assert "8 of 16 figures have no data here" in sheet.notes[1]


def test_a_missing_table_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    sheets = [compare(each, ScoreLibrary(tmp_path), draws=0) for each in find("vkdnw")]
    assert sum(len(sheet.rows) for sheet in sheets) > 165
    nb201 = {row[-1] for sheet in sheets for row in sheet.rows if "nb201" in str(row[-1])}
    assert nb201 <= {"no data here: no table nb201", "no data here: no stored scores of nb201"}
    bring = "nb201_all.csv.gz is for the reader to bring into the data directory"
    assert sum(bring in note for note in sheets[2].notes) == 1
    assert joined(sheets).count(bring) == 1


def test_our_side_of_vkdnws_table_1_on_suite_zeros_scores(library: ScoreLibrary) -> None:
    where = Where(population="no-dead-edges", draws=0)
    found = {
        proxy: Ours(proxy).answer(library, where).out["spearman"].value for proxy in ("synflow", "naswot", "jacov")
    }
    assert found["synflow"] == pytest.approx(0.758, abs=0.06)
    assert found["naswot"] == pytest.approx(0.762, abs=0.06)
    assert found["jacov"] == pytest.approx(0.800, abs=0.06)
    flops = Ours("flops").answer(library, where)
    assert flops.networks == 9_445
    assert flops.out["spearman"].value == pytest.approx(0.799, abs=0.002)
    assert flops.out["kendall"].value == pytest.approx(0.623, abs=0.002)
    layers = Ours("layers").answer(library, where)
    assert layers.out["kendall"].value == pytest.approx(0.626, abs=0.002)
    assert layers.out["ndcg_1000"].value == pytest.approx(0.671, abs=0.01)


def test_counts_are_what_the_proxies_count(library: ScoreLibrary) -> None:
    space, rows = NasBench201(), [0, 77, 4242, 15624]
    archs = [space.parse(library.table("nb201").archs[row]) for row in rows]
    scores = score((space, archs), 2, task=Task.noise((3, 32, 32), 10), proxies=COUNTS)
    for name in COUNTS:
        np.testing.assert_array_equal(library.ours("nb201", name).values[0, rows], scores.column(name))


def test_chance_and_truth_are_the_population_and_its_best(library: ScoreLibrary) -> None:
    where = Where(draws=0)
    accuracy = library.table("nb201").column("cifar10", "test")
    chance = Chance().answer(library, where).out
    assert chance["best_of_100"].value == pytest.approx(accuracy.mean())
    assert chance["best_of_100_std"].value == pytest.approx(accuracy.std())
    known = TableColumn().answer(library, where).out
    assert known["spearman"].value == pytest.approx(1)
    assert known["best_of_100"].value == pytest.approx(93.84, abs=0.05)  # GradSign, table 5.4: Optimal (N=100)
    with pytest.raises(Missing, match="nothing at all"):
        Absent("nothing at all").answer(library, where)


def test_rankings_and_correlations_between_proxies(library: ScoreLibrary) -> None:
    where = Where(population="no-dead-edges", draws=0)
    single = Ours("naswot").answer(library, where).out["spearman"].value
    ranked = OurRanking("az-nas").answer(library, where)
    assert ranked.networks == 9_445
    assert ranked.out["spearman"].value > 0.5
    assert Against("naswot", "naswot").answer(library, where).out["spearman"].value == pytest.approx(1)
    kernel, length = (library.ours("nb201", name).values[0] for name in ("loss_ntk", "length"))
    known = np.isfinite(kernel) & library.population("nb201", "no-dead-edges")
    expected = scipy.stats.spearmanr(-kernel[known], length[known]).statistic  # a lower condition number is better
    assert expected > 0
    assert Against("loss_ntk", "length").answer(library, where).out["spearman"].value == pytest.approx(expected)
    three = Ours("naswot").answer(library, dataclasses.replace(where, task="mean")).out["spearman"].value
    places = [dataclasses.replace(where, task=task) for task in TASKS]
    tasks = [Ours("naswot").answer(library, place).out["spearman"].value for place in places]
    assert three == pytest.approx(np.mean(tasks))
    assert tasks[0] == pytest.approx(single)


@pytest.mark.slow
def test_a_forest_of_structure_reaches_grafs_row(library: ScoreLibrary) -> None:
    found = Forest(structure=True, repeats=1).answer(library, Where(population="no-dead-edges"))
    assert found.networks == 9_445 - 1_024
    assert found.out["spearman"].value > 0.953 - 0.01
    assert found.out["kendall"].value > 0.820 - 0.01


@pytest.mark.parametrize(("searcher", "count"), [("teg_reinforce", 500), ("teg_evolution", 256 + 1000)])
def test_a_guided_search_finds_better_than_chance(library: ScoreLibrary, searcher: str, count: int) -> None:
    found = Guided(searcher, ("ntk_condition", "linear_regions")).answer(library, Where(runs=3))
    assert found.out["mean"].value > library.table("nb201").column("cifar10", "test").mean()
    assert found.out["seconds"].value == pytest.approx(2e-3 * count)
    assert found.seeds == 3


def test_a_fast_probabilistic_search_draws_a_quarter_of_its_policys_entropy(library: ScoreLibrary) -> None:
    found = Guided("fpnas", ("ntk_condition", "linear_regions")).answer(library, Where(runs=2))
    least, most = 100, 100 * math.ceil(0.25 * 6 * math.log(5))  # 100 steps; six decisions of five options
    assert 2e-3 * least <= found.out["seconds"].value <= 2e-3 * most


def test_a_price_that_was_not_measured_is_told(library: ScoreLibrary) -> None:
    sheet = compare(definitions()["teg-nas:table5"], library, draws=0, runs=1)
    rows = [row for row in sheet.rows if row[0] == "κ" and row[3] == "seconds"]
    assert rows[0][5] is None
    assert str(rows[0][-1]).startswith("no data here: what ntk_condition costs alone was not measured on nb201")
    assert "Runs of each search: 1." in sheet.notes


def test_evolution_by_several_measures_takes_the_best_of_its_last_population(library: ScoreLibrary) -> None:
    """TEG-NAS: parents by the sum of ranks within a tournament, and at the end the best of the population."""
    proxies = ("ntk_condition", "linear_regions")
    signals = {name: library.ours("nb201", name).upward() for name in proxies}
    rules = NasBench201()
    rows = {rules.parse(text): row for row, text in enumerate(library.table("nb201").archs)}
    searcher = make("teg_evolution", rules, seed=0)
    told: list[int] = []
    while proposals := searcher.ask():
        told += (places := [rows[each.arch] for each in proposals])
        searcher.tell(Told(tuple(proposals), {name: values[places] for name, values in signals.items()}))
    last = told[-256:]
    ranks = sum(np.unique(-signals[name][last], return_inverse=True)[1] for name in proxies)
    worth = library.table("nb201").column("cifar10", "test")
    best = {worth[row] for row, rank in zip(last, ranks, strict=True) if rank == ranks.min()}
    assert Guided("teg_evolution", proxies).answer(library, Where(runs=1)).out["mean"].value in best


@pytest.mark.slow
def test_ridge_weights_are_scaled_by_the_smallest(library: ScoreLibrary) -> None:
    proxies = ("length", "loss_ntk", "loss_synflow", "zico")
    weights = [RidgeWeight(proxies, name).answer(library, Where()).out["weight"].value for name in proxies]
    assert min(map(abs, weights)) == pytest.approx(1)
    assert all(np.isfinite(weights))


def test_runs_are_joined_by_their_mean() -> None:
    runs = [{"mean": Interval(value, 0, 0)} for value in (1.0, 3.0)]
    assert over_runs(runs)["mean"].value == 2.0
    assert over_runs(runs)["mean"].seed_std == 1.0


@pytest.mark.slow
def test_rows_with_options_read_a_sample_of_their_own_or_say_what_to_run(library: ScoreLibrary, tmp_path: Path) -> None:
    nb201 = table("nb201")
    for path in library.folder.glob("*.npz"):
        if not path.name.startswith("nb201_vkdnw"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    alive = np.flatnonzero(ScoreLibrary(tmp_path).population("nb201", "no-dead-edges"))
    rows = np.random.default_rng(0).permutation(alive)[:40]
    accuracy = nb201.column("ImageNet16-120", "test")[rows]
    name = "vkdnw/samples=64/tensors=8"
    codes = np.zeros((40, 1, 1), np.uint16)
    archs = tuple(nb201.archs[row] for row in rows)
    ScoreFile(archs, (name,), (0,), accuracy[:, None, None], codes, ms=np.ones(1)).write(tmp_path / "nb201_vkdnw.npz")
    held = ScoreLibrary(tmp_path)
    assert name not in held.proxies("nb201")  # of a small sample: it does not narrow what is made of all proxies
    assert held.ours("nb201", name).asked.sum() == 40  # each class once
    found = {row.label: row.source for row in find("vkdnw:table7")[0].rows}
    where = Where(population="no-dead-edges", task="ImageNet16-120", draws=0)
    layers = held.ours("nb201", "layers").values[0]
    asked = held.ours("nb201", name).asked & held.population("nb201", "no-dead-edges")
    order = np.lexsort((nb201.column("ImageNet16-120", "test")[asked], layers[asked]))
    ranks = np.empty(asked.sum())
    ranks[order] = np.arange(asked.sum())
    exact = np.corrcoef(ranks, nb201.column("ImageNet16-120", "test")[asked].argsort().argsort())[0, 1]
    answer = found["8"].answer(held, where)
    assert answer.networks == asked.sum()
    assert answer.out["spearman"].value == pytest.approx(exact, abs=0.02)  # twins of one accuracy share a rank
    with pytest.raises(
        Missing, match=r"tensors=16 is not among .*nb201_vkdnw.npz: python -m benchmarks.vkdnw_tables noise --out"
    ):
        found["16"].answer(held, where)
    real = {row.label: row.source for row in find("vkdnw:table5")[0].rows}
    with pytest.raises(Missing, match=r"no scores are stored .*: python -m benchmarks.vkdnw_tables real --out FOLDER"):
        real["128, real"].answer(held, where)
