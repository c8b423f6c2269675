from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.searchers.toys import Parity, Toy
from trainless.core.arch import Decision
from trainless.core.errors import InputError
from trainless.spaces.moves import Parted, arch_at, cross, distance, enumerate_archs, mutate, neighbours, sample, size
from trainless.spaces.nb201 import NasBench201

EVERY = [arch for arch in itertools.product(range(2), range(3), range(4), range(1)) if not arch[0] == arch[1] == 1]
SMALL = [arch for arch in EVERY if sum(arch) <= 3]


def small(arch: tuple[int, ...]) -> bool:
    return sum(arch) <= 3


def uniform_p(draws: list[tuple[int, ...]], support: list[tuple[int, ...]]) -> float:
    counts = Counter(draws)
    assert set(counts) <= set(support)
    return float(stats.chisquare([counts[arch] for arch in support]).pvalue)


def test_enumeration_is_every_valid_arch_once() -> None:
    assert list(enumerate_archs(Toy())) == EVERY
    assert list(enumerate_archs(Toy(), feasible=small)) == SMALL
    assert size(Toy()) == 24
    assert [arch_at(Toy(), index) for index in range(24)] == list(
        itertools.product(range(2), range(3), range(4), range(1))
    )


def test_canonical_enumeration_keeps_one_of_each_class() -> None:
    kept = list(enumerate_archs(Toy(), canonical=True))
    assert sorted(kept) == sorted({Toy().canonical(arch) for arch in EVERY})


def test_nb201_canonical_enumeration_is_the_set_of_representatives() -> None:
    space = NasBench201()
    kept = set(enumerate_archs(space, canonical=True))
    assert kept == {space.canonical(arch) for arch in enumerate_archs(space)}


@pytest.mark.parametrize(
    ("canonical", "limit", "support"),
    [
        (False, None, EVERY),
        (False, small, SMALL),
        (True, None, sorted({Toy().canonical(arch) for arch in EVERY})),
    ],
)
def test_sampling_is_uniform(canonical, limit, support) -> None:
    rng = np.random.default_rng(0)
    draws = [sample(Toy(), rng, canonical=canonical, feasible=limit) for _ in range(4000)]
    assert uniform_p(draws, support) > 1e-3


def test_the_blocks_of_a_rejected_sample_are_uniform_too() -> None:
    rare = [arch for arch in enumerate_archs(NasBench201()) if arch.count(3) >= 5]
    rng = np.random.default_rng(0)
    draws = [sample(NasBench201(), rng, feasible=lambda arch: arch.count(3) >= 5) for _ in range(600)]
    assert len(rare) == 25
    assert uniform_p(draws, rare) > 1e-3


def test_sampling_says_what_to_do_when_nothing_is_feasible() -> None:
    with pytest.raises(InputError, match=r"toy: none of 50 random architectures was feasible: loosen the limits"):
        sample(Toy(), np.random.default_rng(0), feasible=lambda arch: False, tries=50)


class Never(Toy):
    def valid(self, arch: tuple[int, ...]) -> bool:
        return False


def test_a_space_without_valid_archs_is_told_from_limits_that_nothing_keeps() -> None:
    for limit in (None, lambda arch: True):
        with pytest.raises(InputError, match="none of 50 random architectures was valid: the space's `valid` is true"):
            sample(Never(), np.random.default_rng(0), feasible=limit, tries=50)


def test_a_limit_says_itself_what_it_refused() -> None:
    class Tight:
        def __call__(self, arch: tuple[int, ...]) -> bool:
            return False

        def refused(self) -> str:
            return "the least is 3"

    with pytest.raises(InputError, match="was feasible: the least is 3"):
        sample(Toy(), np.random.default_rng(0), feasible=Tight(), tries=50)


def test_sampling_from_a_region() -> None:
    region = (frozenset({1}), frozenset({0, 2}), frozenset({3}), frozenset({0}))
    rng = np.random.default_rng(0)
    assert {sample(Toy(), rng, region=region) for _ in range(100)} == {(1, 0, 3, 0), (1, 2, 3, 0)}


def test_neighbours_are_the_archs_at_distance_one() -> None:
    for arch in EVERY:
        assert sorted(neighbours(Toy(), arch)) == [other for other in EVERY if distance(arch, other) == 1]
    assert neighbours(Parity(), (0, 0, 0, 0)) == []


def test_mutation_reaches_every_neighbour_and_weighs_decisions_alike() -> None:
    rng = np.random.default_rng(0)
    draws = Counter(mutate(NasBench201(), (0, 1, 2, 3, 4, 0), rng) for _ in range(4800))
    near = neighbours(NasBench201(), (0, 1, 2, 3, 4, 0))
    assert set(draws) == set(near)
    assert stats.chisquare([draws[arch] for arch in near]).pvalue > 1e-3
    start = (0, 0, 0, 0)
    changed = Counter(
        next(place for place in range(4) if start[place] != mutant[place])
        for mutant in (mutate(Toy(), start, rng) for _ in range(3000))
    )
    assert stats.chisquare([changed[place] for place in range(3)]).pvalue > 1e-3


def test_mutation_changes_more_where_one_change_is_never_valid() -> None:
    rng = np.random.default_rng(0)
    draws = {mutate(Parity(), (0, 0, 0, 0), rng) for _ in range(200)}
    assert draws == {arch for arch in enumerate_archs(Parity()) if sum(arch) == 2}


def test_mutation_finds_the_only_feasible_neighbour() -> None:
    only = (3, 3, 3, 3, 3, 2)
    assert mutate(NasBench201(), (3,) * 6, np.random.default_rng(0), feasible=lambda arch: arch == only) == only


def test_mutation_says_when_there_is_no_other_arch() -> None:
    with pytest.raises(InputError, match=r"toy: no other feasible architecture was found around \(0, 0, 0, 0\)"):
        mutate(Toy(), (0, 0, 0, 0), np.random.default_rng(0), feasible=lambda arch: False)


@given(st.integers(0, 2**32 - 1), st.sampled_from(EVERY), st.sampled_from(EVERY), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_moves_stay_valid(seed, first, second, edits) -> None:
    rng = np.random.default_rng(seed)
    child = cross(Toy(), first, second, rng)
    assert child in EVERY
    assert all(option in pair for option, *pair in zip(child, first, second, strict=True))
    mutant = mutate(Toy(), first, rng, edits=edits)
    assert mutant in EVERY
    assert distance(first, mutant) >= min(edits, 2)


def test_crossover_falls_back_to_the_first_parent() -> None:
    limit = {(0, 0, 0, 0), (1, 2, 3, 0)}
    rng = np.random.default_rng(0)
    drawn = {cross(Toy(), (0, 0, 0, 0), (1, 2, 3, 0), rng, feasible=lambda arch: arch in limit) for _ in range(40)}
    assert drawn == limit
    assert cross(Toy(), (0, 0, 0, 0), (1, 2, 3, 0), rng, feasible=lambda arch: False) == (0, 0, 0, 0)


@given(*[st.tuples(*[st.integers(0, 3)] * 5) for _ in range(3)])
@settings(max_examples=50, deadline=None)
def test_distance_is_a_metric(a, b, c) -> None:
    assert distance(a, b) == distance(b, a) == sum(x != y for x, y in zip(a, b, strict=True))
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_moves_and_search_never_import_torch() -> None:
    code = (
        "import sys, pkgutil, importlib, trainless.spaces.moves, trainless.searchers\n"
        "for module in pkgutil.iter_modules(trainless.searchers.__path__):\n"
        "    importlib.import_module('trainless.searchers.' + module.name)\n"
        "assert 'torch' not in sys.modules and 'optuna' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Halves:
    """Two pairs of which each is the same function in either order."""

    name = "halves"
    decisions = tuple(Decision(name, ("0", "1", "2")) for name in "abcd")
    parts = (2, 2)

    def valid(self, arch: tuple[int, ...]) -> bool:
        return len(arch) == 4 and all(0 <= option < 3 for option in arch)

    def canonical(self, arch: tuple[int, ...]) -> tuple[int, ...]:
        return (*sorted(arch[:2]), *sorted(arch[2:]))


@pytest.mark.parametrize("limit", [None, lambda arch: sum(arch) <= 4])
def test_drawing_part_by_part_is_uniform_over_canonical_archs(limit) -> None:
    assert isinstance(Halves(), Parted)
    support = [arch for arch in enumerate_archs(Halves(), canonical=True) if limit is None or limit(arch)]
    rng = np.random.default_rng(0)
    draws = [sample(Halves(), rng, canonical=True, feasible=limit) for _ in range(4000)]
    assert uniform_p(draws, support) > 1e-3
