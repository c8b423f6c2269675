from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge as SklearnRidge

from trainless.core.errors import InputError, UnknownName
from trainless.core.scores import Record, Scores
from trainless.proxies import registry as proxies
from trainless.rankings import (
    Consensus,
    Incremental,
    Lexicographic,
    LogSum,
    Ranking,
    RankProduct,
    RankSum,
    fit_forest,
    fit_ridge,
    ranking,
    registry,
    vkdnw_single,
)
from trainless.rankings.incremental import Sorted
from trainless.rankings.ranking import coverage, is_logarithm

DOWN = {"ntk_condition", "ntk_mse", "length"}


def table(columns: dict[str, list[float]]) -> Scores:
    records = []
    for proxy, values in columns.items():
        for index, value in enumerate(values):
            status = "ok" if not math.isnan(value) else "failed"
            records.append(Record(f"net{index}", proxy, value, proxy not in DOWN, status))
    return Scores(records)


def test_the_published_rankings_know_their_proxies() -> None:
    expected = {
        "az-nas": ("expressivity", "progressivity", "trainability", "flops"),
        "te-nas": ("ntk_condition", "linear_regions"),
        "teacup": ("length", "loss_ntk", "loss_synflow", "zico"),
        "teacup-published": (
            "length/batches=4",
            "loss_ntk/batches=4/coupling=joint",
            "loss_synflow/batches=4",
            "zico/batches=4/cumulative=true",
        ),
        "teg-nas": ("ntk_condition", "linear_regions", "ntk_mse"),
        "vkdnw-agg": ("layers", "vkdnw", "expressivity", "trainability", "flops", "jacov"),
        "vkdnw-single": ("layers", "vkdnw"),
    }
    assert {name: registry[name].proxies for name in expected} == expected
    assert all(isinstance(registry[name], Ranking) for name in registry.names())


def test_teacup_by_hand() -> None:
    flow = [math.log(1000), math.log(10)]  # the proxy is a natural logarithm
    scores = table({"length": [100, 1], "loss_ntk": [10, 10], "loss_synflow": flow, "zico": [-100, 1]})
    assert ranking("teacup")(scores).tolist() == pytest.approx([-0.5 * 2 - 1 - 3 + 2, 0 - 1 - 1 + 0])


def test_teacup_as_published_reads_its_own_logarithms() -> None:
    """Weights −½, −1, −1 and 1 of log₁₀; the flow of absolute weights is a natural logarithm already."""
    names = registry["teacup-published"].proxies
    scores = table(dict(zip(names, ([100.0], [1000.0], [math.log(10)], [-10.0]), strict=True)))
    assert ranking("teacup-published")(scores).tolist() == pytest.approx([-0.5 * 2 - 3 - 1 + 1])


def test_log_sum_puts_failures_last() -> None:
    scores = table({"zico": [10, math.nan, 0, math.inf, 100]})
    values = LogSum({"zico": 1.0})(scores)
    assert values.tolist() == [1, -math.inf, -math.inf, -math.inf, 2]
    assert coverage(LogSum({"zico": 1.0}), scores) == 0.8


def test_te_nas_is_the_sum_of_positions_in_sorted_lists() -> None:
    condition, regions = [30.0, 10.0, 20.0, 10.0], [5.0, 1.0, 9.0, 5.0]
    expected = [
        -(sorted(condition).index(k) + sorted(regions, reverse=True).index(r))
        for k, r in zip(condition, regions, strict=True)
    ]
    assert ranking("te-nas")(table({"ntk_condition": condition, "linear_regions": regions})).tolist() == expected


def test_rank_product_is_the_sum_of_logarithms_of_average_ranks() -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(6, size=20).astype(float).tolist() for name in ("expressivity", "trainability")}
    expected = sum(np.log(stats.rankdata(values) / 20) for values in columns.values())
    assert RankProduct(("expressivity", "trainability"))(table(columns)) == pytest.approx(expected)


def test_infinities_are_the_extreme_values_and_failures_below_them() -> None:
    values = RankProduct(("trainability",))(table({"trainability": [-math.inf, 1, 2, math.inf, math.nan]}))
    assert values.tolist() == pytest.approx(np.log(np.array([2.5, 2.5, 4.5, 4.5, 1]) / 5).tolist())


def test_vkdnw_single_orders_by_size_then_by_entropy() -> None:
    scores = table({"layers": [21, 66, 66, 21, math.nan, 66], "vkdnw": [1.9, 0.3, 0.8, 2.1, 1.0, 0.3]})
    assert vkdnw_single(scores).tolist() == [1, 3, 4, 2, 0, 3]


def test_vkdnw_agg_ranks_the_single_ranking_with_the_rest() -> None:
    rng = np.random.default_rng(1)
    columns = {
        name: rng.normal(size=15).tolist() for name in ("vkdnw", "expressivity", "trainability", "flops", "jacov")
    }
    columns["layers"] = rng.choice([21.0, 66.0, 111.0], 15).tolist()
    single = [1000 * size + entropy for size, entropy in zip(columns["layers"], columns["vkdnw"], strict=True)]
    parts = [single, *(columns[name] for name in ("expressivity", "trainability", "flops", "jacov"))]
    expected = sum(np.log(stats.rankdata(part) / 15) for part in parts)
    assert ranking("vkdnw-agg")(table(columns)) == pytest.approx(expected)


@pytest.mark.parametrize("name", registry.names())
def test_failures_never_win_and_nothing_is_nan(name: str) -> None:
    rng = np.random.default_rng(2)
    columns = {proxy: rng.uniform(1, 2, 12) for proxy in registry[name].proxies}
    for values in columns.values():
        values[5] = math.nan
    values = registry[name](table({proxy: values.tolist() for proxy, values in columns.items()}))
    assert not np.isnan(values).any()
    assert values[5] < np.delete(values, 5).min()


SPECIAL = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf, -math.inf, math.nan])
ROWS = st.lists(st.tuples(SPECIAL, SPECIAL, SPECIAL, SPECIAL), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([RankSum, RankProduct]))
def test_one_at_a_time_gives_what_all_at_once_gives(rows, kind) -> None:
    names = ("layers", "vkdnw", "ntk_mse", "flops")
    ranked = kind((Lexicographic("layers", "vkdnw"), "ntk_mse", "flops"))
    seen = Incremental(ranked, {name: name not in DOWN for name in names})
    for count, row in enumerate(rows, start=1):
        value = seen.add(dict(zip(names, row, strict=True)))
        columns = {name: [r[index] for r in rows[:count]] for index, name in enumerate(names)}
        whole = ranked(table(columns))
        assert value == pytest.approx(whole[-1])
    assert seen.values() == pytest.approx(whole)
    assert [seen.value(index) for index in range(len(rows))] == pytest.approx(whole.tolist())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_sorted_blocks_count_like_a_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(500, size=6000).astype(float)
    seen = Sorted()
    for value in values:
        seen.add(float(value))
    for probe in rng.uniform(-10, 510, 20).round():
        assert seen.below(float(probe)) == (values < probe).sum()
        assert seen.upto(float(probe)) == (values <= probe).sum()


@pytest.mark.slow
def test_a_search_of_100_000_candidates_spends_seconds_in_ranking() -> None:
    rng = np.random.default_rng(3)
    ranked = RankProduct(("expressivity", "progressivity", "trainability", "flops"))
    seen = Incremental(ranked, dict.fromkeys(ranked.proxies, True))
    rows = rng.normal(size=(100_000, 4)).tolist()
    began = time.process_time()
    for row in rows:
        seen.add(dict(zip(ranked.proxies, row, strict=True)))
    seen.values()
    assert time.process_time() - began < 30


def test_ridge_draws_are_scikit_learns_regressions() -> None:
    rng = np.random.default_rng(4)
    logs = rng.normal(size=(40, 2))
    truth = logs @ [2.0, -1.0] + rng.normal(0, 0.1, 40)
    scores = table({"zico": (10 ** logs[:, 0]).tolist(), "length": (10 ** logs[:, 1]).tolist()})
    fit = fit_ridge([(scores, truth)], ["zico", "length"], draws=1, train=1.0)
    expected = SklearnRidge(alpha=1.0).fit(logs, (truth - truth.mean()) / truth.std())
    assert fit.coefficients[0] == pytest.approx(expected.coef_, rel=1e-9)
    assert fit.ranking(scores) == pytest.approx(expected.predict(logs), rel=1e-9)


def test_ridge_finds_the_weights_of_two_tasks_with_different_scales() -> None:
    rng = np.random.default_rng(5)
    tasks = []
    for scale in (1.0, 50.0):
        logs = rng.normal(size=(150, 2))
        truth = scale * (logs @ [-0.5, 1.0] + rng.normal(0, 0.05, 150)) + scale
        tasks.append((table({"length": (10 ** logs[:, 0]).tolist(), "zico": (10 ** logs[:, 1]).tolist()}), truth))
    fit = fit_ridge(tasks, ["length", "zico"], draws=100)
    assert fit.weights == pytest.approx({"length": -1.0, "zico": 2.0}, rel=0.05)
    assert fit.coefficients.shape == (100, 2)
    assert fit.held_out.shape == (100, 2)
    assert fit.held_out.mean() > 0.95
    again = fit_ridge(tasks, ["length", "zico"], draws=100)
    assert again.coefficients.tolist() == fit.coefficients.tolist()


def test_forest_ranks_unseen_networks_and_survives_holes() -> None:
    rng = np.random.default_rng(6)
    features = rng.uniform(size=(300, 3))
    accuracy = 60 + 30 * features[:, 0] + 5 * features[:, 1]
    features[0, 2], features[1, 2] = math.inf, -math.inf
    model = fit_forest(["flops", "jacov", "zen"], features[:200], accuracy[:200], trees=30)
    assert stats.spearmanr(model.predict(features[200:]), accuracy[200:]).statistic > 0.95
    holes = features[200:].copy()
    holes[:, 2] = math.nan
    assert np.isfinite(model.predict(holes)).all()
    columns = {name: features[200:, index].tolist() for index, name in enumerate(model.proxies)}
    assert model(table(columns)) == pytest.approx(model.predict(features[200:]))


def test_fitted_rankings_put_failures_last() -> None:
    scores = table({"zico": [1.0, 10.0, 100.0, 1000.0, math.nan]})
    fit = fit_ridge([(scores, [1.0, 2.0, 3.0, 4.0, 5.0])], ["zico"], draws=5)
    assert fit.ranking(scores)[-1] == -math.inf


def test_mistakes_are_named() -> None:
    scores = table({"zico": [1.0, 2.0]})
    with pytest.raises(InputError, match="the ranking needs 'length', but only zico was scored: score 'length' too"):
        ranking("teacup")(scores)
    with pytest.raises(UnknownName, match="no ranking is called 'teacups'; did you mean 'teacup'"):
        ranking("teacups")
    with pytest.raises(InputError, match="the direction of 'flops' is not known"):
        Incremental(RankSum(("flops",)), {})
    with pytest.raises(InputError, match=r"true values were given for 2 candidates; expected one for each"):
        fit_ridge([(scores, [1.0])], ["zico"])
    with pytest.raises(InputError, match="2 candidates have all of zico and a true value; at least 3"):
        fit_ridge([(scores, [1.0, 2.0])], ["zico"])
    with pytest.raises(InputError, match=r"features of shape \(1, 2\) were given for 1 networks and 1 names"):
        fit_forest(["flops"], [[1.0, 2.0]], [1.0])
    with pytest.raises(InputError, match="the feature 'flops' is finite on none"):
        fit_forest(["flops"], [[math.nan], [math.inf]], [1.0, 2.0])


@pytest.mark.slow
def test_ranking_and_bench_do_not_import_torch() -> None:
    modules = ("rankings", "bench.statistics", "bench.tables.nb101", "bench.tables.nb201")
    imports = "; ".join(f"import trainless.{name}" for name in modules)
    program = f"import sys; {imports}; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def heard_by_definition(rows: list[list[float]], agreement: float) -> list[int]:
    """Remove the part with the lowest mean Spearman correlation with the others while it is too low."""
    heard = list(range(len(rows)))
    while len(heard) > 2:
        means = []
        for part in heard:
            others = [stats.spearmanr(rows[part], rows[other])[0] for other in heard if other != part]
            means.append(float(np.mean(others)))
        if min(means) >= agreement:
            break
        del heard[means.index(min(means))]
    return heard


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(16, 60), st.sampled_from([-1.0, 0.0, 0.15, 0.5]))
def test_consensus_hears_the_parts_that_agree(seed: int, count: int, agreement: float) -> None:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=count)
    rows = [(sign * common + rng.normal(size=count)).tolist() for sign in (1, 1, -1, 0, 1)]
    ranked = Consensus(("a", "b", "c", "d", "e"), (), agreement)
    scores = table(dict(zip("abcde", rows, strict=True)))
    heard = heard_by_definition(rows, agreement)
    assert ranked.heard(scores) == tuple("abcde"[part] for part in heard)
    expected = 5 * np.mean([np.log(stats.rankdata(rows[part]) / count) for part in heard], axis=0)
    assert ranked(scores) == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(16, 60), st.sampled_from([-1.0, 0.0, 0.2, 0.5]))
@example(3572612240, 23, 0.0)  # equal products of ranks, at the threshold
def test_consensus_hears_or_silences_what_belongs_together_as_one(seed: int, count: int, agreement: float) -> None:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=count)
    rows = [(sign * common + rng.normal(size=count)).tolist() for sign in (1, 1, -1, 0, 1)]
    ranked = Consensus(("a", "b", "c", "d", "e"), (("b", "d"), ("c", "e")), agreement)
    aspects = [[0], [1, 3], [2, 4]]
    products = [np.prod([stats.rankdata(rows[part]) for part in aspect], axis=0).tolist() for aspect in aspects]
    heard = sorted(part for place in heard_by_definition(products, agreement) for part in aspects[place])
    scores = table(dict(zip("abcde", rows, strict=True)))
    assert ranked.heard(scores) == tuple("abcde"[part] for part in heard)
    expected = 5 * np.mean([np.log(stats.rankdata(rows[part]) / count) for part in heard], axis=0)
    assert ranked(scores) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("parts", "together"), [((), ()), (("a", "b"), (("a", "c"),)), (("a", "b", "c"), (("a", "b"), ("b", "c")))]
)
def test_aspects_that_make_no_sense(parts: tuple[str, ...], together: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(InputError, match="aspects that are made of parts"):
        Consensus(parts, together)


def test_a_measure_that_contradicts_is_heard_with_its_aspect() -> None:
    up = [*map(float, range(40))]
    half = [value if place % 2 else -value for place, value in enumerate(up)]
    scores = table({"a": up, "b": up, "c": up, "d": half})
    assert Consensus(("a", "b", "c", "d")).heard(scores) == ("a", "b", "c")
    assert Consensus(("a", "b", "c", "d"), (("c", "d"),)).heard(scores) == ("a", "b", "c", "d")


def test_consensus_of_few_candidates_is_the_product_and_a_constant_part_has_no_voice() -> None:
    few = table({"a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0], "c": [1.0, 3.0, 2.0]})
    assert Consensus(("a", "b", "c"))(few) == pytest.approx(RankProduct(("a", "b", "c"))(few))
    many = table({"a": [*map(float, range(20))], "b": [*map(float, range(20))], "c": [1.0] * 20})
    assert Consensus(("a", "b", "c")).heard(many) == ("a", "b")


def test_consensus_one_at_a_time_ends_where_all_at_once_does() -> None:
    rng = np.random.default_rng(5)
    common = rng.normal(size=300)
    rows = np.stack([common + rng.normal(size=300), common, -common + rng.normal(size=300), rng.normal(size=300)], 1)
    ranked = Consensus(("a", "b", "c", "d"))
    seen = Incremental(ranked, dict.fromkeys(ranked.parts, True))
    for row in rows.tolist():
        told = seen.add(dict(zip("abcd", row, strict=True)))
        assert math.isfinite(told)
    whole = ranked(table({name: rows[:, place].tolist() for place, name in enumerate("abcd")}))
    assert seen.values() == pytest.approx(whole)
    assert [seen.value(index) for index in range(300)] == pytest.approx(whole.tolist())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(16, 60), st.sampled_from([-1.0, 0.0, 0.2, 0.5]))
def test_with_a_core_an_aspect_is_heard_where_it_agrees_with_it(seed: int, count: int, agreement: float) -> None:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=count)
    rows = [(sign * common + rng.normal(size=count)).tolist() for sign in (1, 1, -1, 0, 1)]
    ranked = Consensus(("a", "a", "b", "c", "d", "e"), (("c", "e"),), agreement, core=("a", "b"))
    ranks = [stats.rankdata(row) for row in rows]
    core = ranks[0] * ranks[1]
    agreements = {("c", "e"): stats.spearmanr(core, ranks[2] * ranks[4])[0], ("d",): stats.spearmanr(core, rows[3])[0]}
    heard = ["a", "b", *(name for names, found in agreements.items() if found >= agreement for name in names)]
    scores = table(dict(zip("abcde", rows, strict=True)))
    assert set(ranked.heard(scores)) == set(heard)
    assert ranked.agreements(scores) == pytest.approx(agreements)
    logs = np.log(np.array(ranks) / count)
    expected = 6 * np.mean([logs["abcde".index(name)] for name in ["a", *heard]], axis=0)
    assert ranked(scores) == pytest.approx(expected)


def test_what_lacks_a_part_beside_the_core_has_the_mean_of_its_core_in_its_place() -> None:
    up = [*map(float, range(20))]
    ranked = Consensus(("a", "a", "b", "c"), (), core=("a", "b"))
    scores = table({"a": up, "b": up, "c": [*up[:10], math.nan, *up[11:]]})
    assert ranked.heard(scores) == ("a", "b", "c")
    assert ranked(scores)[10] == pytest.approx(4 * math.log(11 / 20))
    lost = table({"a": [*up[:10], math.nan, *up[11:]], "b": up, "c": up})
    assert ranked(lost)[10] == pytest.approx(2 * math.log(1 / 20) + 2 * math.log(11 / 20))


def test_a_core_one_at_a_time_ends_where_all_at_once_does() -> None:
    rng = np.random.default_rng(6)
    common = rng.normal(size=200)
    rows = np.stack([common + rng.normal(size=200), common, -common + rng.normal(size=200), common * 2], 1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    ranked = Consensus(("a", "a", "b", "c", "d"), core=("a", "b"))
    seen = Incremental(ranked, dict.fromkeys(ranked.parts, True))
    for row in rows.tolist():
        seen.add(dict(zip("abcd", row, strict=True)))
    whole = ranked(table({name: rows[:, place].tolist() for place, name in enumerate("abcd")}))
    assert seen.values() == pytest.approx(whole)
    assert [seen.value(index) for index in range(200)] == pytest.approx(whole.tolist())


def test_candidates_of_several_families_are_ranked_by_the_mixed_parts_alone() -> None:
    up = [*map(float, range(20))]
    ranked = Consensus(("a", "b", "c", "d", "e"), (), core=("a", "b"), size="e", mixed=("d",))
    kin = table({"a": up, "b": up, "c": up[::-1], "d": up[::-1], "e": up})
    assert (ranked.heard(kin), ranked.silenced(kin)) == (("a", "b"), ("c",))
    assert ranked.likeness(kin) == pytest.approx(1)
    strangers = table({"a": up, "b": up, "c": up, "d": up[::-1], "e": up[::-1]})
    assert (ranked.heard(strangers), ranked.silenced(strangers)) == (("d",), ())
    assert ranked(strangers) == pytest.approx(5 * np.log(np.arange(20, 0, -1) / 20))


def test_our_ranking_has_versions() -> None:
    assert ranking("trainless") is ranking("trainless-2")
    assert ranking("trainless-1").proxies == (
        *("flops", "synflow", "meco", "expressivity", "swap", "isolated_jacov", "layer_entropy", "isometry"),
    )


def test_aspects_and_scales_are_the_proxies_own() -> None:
    first, now = ranking("trainless-1"), ranking("trainless")
    assert isinstance(first, Consensus)
    assert isinstance(now, Consensus)
    for ours, expected in (
        (first, [{"meco", "expressivity", "swap"}, {"layer_entropy", "isometry"}]),
        (
            now,
            [{"paths", "expressivity"}, {"layer_entropy", "isometry"}, {"meco", "swap", "naswot"}, {"params", "flops"}],
        ),
    ):
        aspects = dict(zip(map(str, ours.parts), ours._aspects, strict=True))
        every = dict.fromkeys(aspects.values())
        together = [{name for name, own in aspects.items() if own == aspect} for aspect in every]
        assert [names for names in together if len(names) > 1] == expected
    assert [name for name in proxies.names() if is_logarithm(name)] == ["loss_synflow", "synflow"]
    assert is_logarithm("synflow/norm=batch")
    assert not is_logarithm("nobody's")
