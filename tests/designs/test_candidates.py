"""Later members of a design that are chosen by what the first ones taught."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.designs.tiny import blobs, small
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import strict, write_json
from trainless.core.scores import Record, Scores
from trainless.designs.candidates import Winner, _winner, first_members, later_members, promising, values_of
from trainless.designs.holdout import hold_back
from trainless.designs.pipeline import design
from trainless.designs.planning import Trial
from trainless.designs.run import CHOICE, LATE
from trainless.designs.training import TOO_LATE, TrainedMembers
from trainless.learn.checkpoint import Epoch
from trainless.learn.members import VERSION, Member, member_folder, member_of
from trainless.learn.recipe import recipe
from trainless.rankings import RankProduct, learn
from trainless.report.report import write_report
from trainless.runs.leaderboard import Place
from trainless.runs.search import Found
from trainless.searchers.stopping import Spent
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.structure import features
from trainless.tasks import task

SPACE = NasBench201()
RANKING = RankProduct(("synflow", "ntk_condition"))  # higher is better, and lower is better
LEARNING = small(members=4, learn=True, evaluations=12)


def drawn(seed: int, count: int) -> list[Arch]:
    rng = np.random.default_rng(seed)
    archs = {SPACE.canonical(arch): arch for arch in map(tuple, rng.integers(0, 5, size=(4 * count, 6)).tolist())}
    return list(archs.values())[:count]


def searched(name: str, archs: list[Arch], seed: int) -> Winner:
    rng = np.random.default_rng(seed)
    values = tuple(dict(zip(RANKING.proxies, row, strict=True)) for row in rng.normal(size=(len(archs), 2)).tolist())
    return Winner(name, tuple(archs), (), values, len(archs), 1.0, archs[0])


@pytest.mark.parametrize("seed", range(3))
def test_later_members_are_what_learning_by_hand_promises(seed: int) -> None:
    archs = drawn(seed, 20)
    winners = [searched("rl-00", archs[:14], seed), searched("genetic-00", archs[8:], seed + 9)]
    losses = dict(zip(archs[:6], np.random.default_rng(seed + 1).uniform(0.1, 2, 6).tolist(), strict=True))
    trained = [*((arch, -loss) for arch, loss in losses.items()), (archs[6], math.nan)]

    said: dict[tuple[Arch, str], list[float]] = {}
    for winner in winners:
        for arch, values in zip(winner.archs, winner.values, strict=True):
            for proxy, value in values.items():
                said.setdefault((arch, proxy), []).append(value)
    records = [
        Record(str(arch), proxy, sum(values) / len(values), proxy == "synflow")
        for (arch, proxy), values in said.items()
    ]
    structure = [list(features(SPACE, arch).values()) for arch in archs]
    known = {str(arch): value for arch, value in trained}
    expected = learn(RANKING, Scores(records), known, structure=structure).next(5)
    assert [str(arch) for arch in promising(winners, SPACE, RANKING, trained, 5)] == expected
    assert not set(expected) & set(known)


def test_twins_are_one_candidate_and_one_value() -> None:
    arch, twin, other = (3, 0, 0, 1, 0, 0), (2, 0, 0, 1, 0, 0), (2, 2, 2, 2, 2, 2)
    assert SPACE.canonical(arch) == SPACE.canonical(twin) != SPACE.canonical(other)
    winners = [searched("rl-00", [arch, other, twin], 0), searched("rl-01", [twin], 1)]
    assert promising(winners, SPACE, RANKING, [(twin, math.nan)], 5) == [other]
    assert set(promising(winners, SPACE, RANKING, [], 5)) == {arch, other}
    assert promising(winners, SPACE, RANKING, [(arch, 1.0), (twin, math.nan), (other, 2.0)], 5) == []


def test_values_are_losses_of_the_kept_weights(tmp_path: Path) -> None:
    best, last = member_of(SPACE, (1,) * 6, recipe("default", keep="best")), member_of(SPACE, (1,) * 6, recipe("nb201"))
    history = [strict(Epoch(number, 0.1, 1.0, loss, 0.5, 1.0)) for number, loss in enumerate([0.9, 0.4, 0.7])]
    for place in ("00-1", "01"):
        write_json(member_folder(tmp_path, place) / "member.json", {"version": VERSION, "history": history})

    def values(**members: Member) -> list[float]:
        named = {name.removeprefix("m"): member for name, member in members.items()}
        replaced = {"00": "diverged", "02": "diverged"}
        trained = TrainedMembers(named, {}, {"00": "00-1", "01": "01"}, replaced, {"02": "diverged"})
        return [value for _, value in values_of(tmp_path, trained)]

    assert values(m00=best, m01=last) == [-0.4, -0.7]
    assert math.isnan(values(m02=best)[0])
    assert values(m03=best) == []  # it was never begun


def test_a_choice_is_made_once(tmp_path: Path) -> None:
    archs = drawn(0, 8)
    winners = [searched("rl-00", archs, 0)]
    made = later_members(tmp_path, SPACE, winners, RANKING, [(archs[0], 1.0), (archs[1], 2.0)], 3)
    assert later_members(tmp_path, SPACE, winners, RANKING, [(arch, 0.0) for arch in made], 3) == made
    write_json(tmp_path / CHOICE, {"version": VERSION, "archs": 3})
    with pytest.raises(InputError, match=r"learned\.json .*give another folder with --out"):
        later_members(tmp_path, SPACE, winners, RANKING, [], 3)


def test_where_losses_choose_members_promises_are_made_on_the_other_half() -> None:
    data = task("digits")
    held = hold_back(data, recipe("nb201"), 0, choosing=True)
    again = hold_back(data, recipe("default", keep="best"), 0)
    assert recipe("nb201").keep == "last"
    assert len(held.fold(0).part("valid")) + len(held.held[0]) == len(data.part("valid"))
    assert np.array_equal(held.held[0], again.held[0])


def predictions(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions.npz") as file:
        return {name: file[name] for name in file.files}


def cut(out: Path, after: str) -> list[str]:
    """Design until a detail of its progress; the members that were trained."""
    trained: list[str] = []

    def progress(stage: str, done: float, total: float, detail: str) -> None:
        if detail.endswith("is trained"):
            trained.append(detail.split()[1])
        if after and detail.startswith(after):
            raise KeyboardInterrupt

    try:
        design(blobs(200), out, progress=progress, settings=LEARNING, report=not after)
    except KeyboardInterrupt:
        assert after
    return trained


@pytest.mark.slow
def test_a_design_learns_and_goes_on_to_the_same(tmp_path: Path) -> None:
    whole, half, later = tmp_path / "whole", tmp_path / "half", tmp_path / "later"
    assert cut(whole, "") == ["00", "01", "02", "03"]
    assert cut(half, "member 01 is trained") == ["00", "01"]
    assert not (half / CHOICE).exists()
    assert cut(later, "member 02: validation loss") == ["00", "01"]
    assert (later / CHOICE).exists()
    for folder in (half, later):
        cut(folder, "")
        for name, array in predictions(whole).items():
            assert np.array_equal(array, predictions(folder)[name]), name
        assert (folder / CHOICE).read_text() == (whole / CHOICE).read_text()

    summary = json.loads((whole / "summary.json").read_text())
    assert [member["search"] for member in summary["members"]] == ["genetic-00", "genetic-00", "learned", "learned"]
    archs = [member["arch"] for member in summary["members"]]
    assert len(set(archs)) == 4
    assert archs[2:] == json.loads((whole / CHOICE).read_text())["texts"]
    assert summary["test"]["by_searcher"]["learned"]["size"] == 2
    assert "learning from the first members" in (whole / "report.html").read_text()
    with pytest.raises(InputError, match="holds a run with learn True, and learn False was asked for"):
        design(blobs(200), whole, settings=replace(LEARNING, learn=False))


@pytest.mark.slow
def test_what_would_end_too_late_is_left_out(tmp_path: Path) -> None:
    """The mark that the time is used up, set between the halves."""

    def progress(stage: str, done: float, total: float, detail: str) -> None:
        if detail == "member 01 is trained":
            (tmp_path / "run" / LATE).touch()

    found = design(blobs(), tmp_path / "run", time=30.0, settings=LEARNING, report=False, progress=progress)
    names = [member["name"] for member in found.summary["members"]]
    assert len(names) > 2
    assert list(found.summary["left_out"]) == names[2:]
    assert len(found.predictor.nets) == 2
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert page.count(TOO_LATE) == 1  # one line for all of them, who stand nowhere among the trained ones
    rows = page.partition("Trained members")[2].partition("</table>")[0]
    assert [f">{name}</th>" in rows for name in names] == [True, True] + [False] * len(names[2:])
    assert f"member {names[2]}" not in page


@pytest.mark.slow
def test_a_choice_travels_and_two_members_need_none(tmp_path: Path) -> None:
    own = small(members=4, learn=True, store=str(tmp_path / "shared.sqlite"))
    first, second = tmp_path / "first" / "run", tmp_path / "second" / "run"
    one = design(blobs(), first, settings=own, report=False)
    (second.parent).mkdir()
    two = design(blobs(), second, settings=own, report=False)
    assert (second / CHOICE).read_bytes() == (first / CHOICE).read_bytes()
    assert two.summary["members"] == one.summary["members"]
    few = design(blobs(), tmp_path / "few", report=False, settings=small(learn=True))
    assert {member["search"] for member in few.summary["members"]} == {"genetic-00"}
    assert not (tmp_path / "few" / CHOICE).exists()


def test_first_members_are_half_and_at_least_two() -> None:
    assert [first_members(size) for size in (1, 2, 3, 4, 5, 30)] == [1, 2, 2, 2, 3, 15]


def test_a_searchs_winner_is_its_own_choice_or_the_first_of_its_leaderboard() -> None:
    """TEACUP's paper trains the most probable architecture of a policy, its program the best that was scored."""
    archs = drawn(0, 4)
    failed = {"zico": "no gradient"}
    places = [Place(n + 1, arch, SPACE.format(arch), 1.0, {"zico": 9.0 - n}, {}, {}) for n, arch in enumerate(archs)]
    places[3] = replace(places[3], failures=failed)
    trial = Trial("rl-00", "teacup_reinforce", 0, 10, {})

    def winner(own: Arch, kind: str) -> Winner:
        return _winner(trial, Found(own, list(places), "budget", Spent(10, 1.0), 1, None), kind)

    assert winner(archs[2], "best").archs == (archs[0], archs[1], archs[2])
    chosen = winner(archs[2], "own")
    assert chosen.archs == (archs[2], archs[0], archs[1])
    assert chosen.values[0] == {"zico": 7.0}
    assert winner(archs[3], "own").archs[0] == archs[0]  # its own choice failed
    with pytest.raises(InputError, match="winner='first' was given; expected 'best' or 'own'"):
        replace(small(), winner="first").resolved()
