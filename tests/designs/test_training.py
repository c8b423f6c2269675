"""What training sees, and members that diverge."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.designs.tiny import THIN, blobs, small, values
from trainless.core.arch import Proposal
from trainless.core.task import Part
from trainless.designs import training
from trainless.designs.holdout import hold_back, in_own_unit, scale_of, standardised
from trainless.designs.training import by_training, train_members
from trainless.learn.members import Member, history_of, load_member, member_folder, member_of
from trainless.learn.recipe import recipe
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.spaces import space
from trainless.tasks import task as load

SPACE = space("nb201", **THIN)
ARCHS = [(3, 1, 0, 1, 3, 2), (1, 3, 2, 0, 1, 3), (3, 3, 3, 3, 3, 3)]
QUICK = recipe("default", optimiser="sgd", epochs=2, batch=16)
BEST = recipe("default", keep="best")
HELD = hold_back(blobs(), QUICK, 0)


def members(number: int, **changes: float) -> dict[str, Member]:
    made = [member_of(SPACE, ARCHS[place], replace(QUICK, **changes), place) for place in range(number)]  # type: ignore[arg-type]
    return {f"{place:02d}": member for place, member in enumerate(made)}


def test_calibration_samples_never_stop_training() -> None:
    task = blobs(200)
    held = hold_back(task, BEST, 0)
    stopping = np.asarray(held.fold(0).part("valid").x)
    calibration = np.asarray(task.part("valid").x)[held.held[0]]
    assert len(stopping) + len(calibration) == len(task.part("valid"))
    assert not {row.tobytes() for row in stopping} & {row.tobytes() for row in calibration}
    assert held.fold(0).fingerprint != task.fingerprint
    again = hold_back(task, BEST, 0)
    assert again.held[0].tolist() == held.held[0].tolist()


def test_everything_calibrates_where_nothing_was_chosen() -> None:
    task = blobs(200)
    held = hold_back(task, recipe("nb201"), 0)
    assert held.fold(0) is task
    assert sorted(held.held[0].tolist()) == list(range(len(task.part("valid"))))


def test_folds_hold_every_case_out_once_and_train_on_all_others() -> None:
    task = blobs(200)
    held = hold_back(task, recipe("default"), 0, 5)
    pool = len(task.part("train")) + len(task.part("valid"))
    assert sorted(np.concatenate(held.held).tolist()) == list(range(pool))
    for number in range(5):
        fold = held.fold(number)
        assert len(fold.part("train")) + len(fold.part("valid")) == pool
        seen = {row.tobytes() for row in np.asarray(fold.part("train").x)}
        assert not seen & {row.tobytes() for row in np.asarray(fold.part("valid").x)}
        assert np.abs(np.bincount(np.asarray(fold.part("valid").y)) - pool / 10).max() <= 1
    assert len({held.fold(number).fingerprint for number in range(5)}) == 5


def test_windows_and_groups_are_never_in_two_folds() -> None:
    task = blobs(200)
    parts = [task.part("train"), task.part("valid")]
    made = [Part(part.x, part.y * 0 + 1, records=np.arange(len(part)) // 3) for part in parts]
    held = hold_back(replace(task, train=made[0], valid=made[1]), recipe("default"), 0, 4)
    assert held.pool.cases == sum(-(-len(part) // 3) for part in parts)
    owners = [set(np.asarray(held.pool.records)[rows].tolist()) for rows in held.held]
    assert sum(map(len, owners)) == held.pool.cases
    groups = [Part(part.x, part.y, np.arange(len(part)) // 7) for part in parts]
    held = hold_back(replace(task, train=groups[0], valid=groups[1]), recipe("default"), 0, 4)
    owners = [set(np.asarray(held.pool.groups)[rows].tolist()) for rows in held.held]
    assert sum(map(len, owners)) == len(set().union(*owners))


def test_a_network_speaks_only_of_what_it_did_not_learn_from() -> None:
    task = blobs(60)
    held = hold_back(task, recipe("default"), 0, 3)
    said = held.answers(SPACE.build(ARCHS[0], task), 1, "cpu")
    assert np.flatnonzero(np.isfinite(said[:, 0])).tolist() == sorted(held.held[1].tolist())
    assert np.allclose(said[held.held[1]].sum(1), 1)


def test_groups_stay_together() -> None:
    task = blobs(200)
    valid = task.part("valid")
    groups = np.arange(len(valid)) // 3
    held = hold_back(replace(task, valid=Part(valid.x, valid.y, groups)), BEST, 0)
    kept = held.fold(0).part("valid").groups
    assert kept is not None
    assert not set(kept.tolist()) & set(groups[held.held[0]].tolist())


def test_two_samples_are_enough_to_divide() -> None:
    task = blobs(80)
    few = replace(task, valid=Part(task.part("valid").x[:2], task.part("valid").y[:2]))
    held = hold_back(few, BEST, 0)
    assert (len(held.fold(0).part("valid")), len(held.held[0])) == (1, 1)


def test_values_are_learnt_in_deviations_and_answered_in_their_unit() -> None:
    task = values()
    scale = scale_of(task)
    assert scale is not None
    y = standardised(task, scale).part("train").y.astype(np.float64)
    assert y.mean() == pytest.approx(0, abs=1e-5)
    assert y.std() == pytest.approx(1, abs=1e-5)
    net = SPACE.build(ARCHS[0], task).eval()
    x, _ = task.batch(8, 0)
    with torch.no_grad():
        plain, own = net(x).double(), in_own_unit(net, scale, task)(x).double()
    wanted = plain * torch.from_numpy(scale.deviation) + torch.from_numpy(scale.mean)
    assert torch.allclose(own, wanted, rtol=1e-4)
    assert scale_of(blobs()) is None


@pytest.mark.slow
def test_workers_give_the_same_bits(tmp_path: Path) -> None:
    one = train_members(tmp_path / "one", HELD, members(2), small())
    two = train_members(tmp_path / "two", HELD, members(2), small(workers=2))
    assert one == two
    for name in one.folders.values():
        first, second = (load_member(member_folder(tmp_path / place, name))[1].net for place in ("one", "two"))
        for key, tensor in first.state_dict().items():
            assert torch.equal(tensor, second.state_dict()[key])


def test_a_diverged_member_is_reported_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "GENTLER", 1e-32)
    mixed = {"00": members(1)["00"], "01": members(2, lr=1e30, clip=0.0)["01"]}
    seen: list[tuple[str, str]] = []
    done = lambda name, status: seen.append((name, status[:8]))  # noqa: E731
    trained = train_members(tmp_path, HELD, mixed, small(), done=done)
    assert trained.folders == {"00": "00", "01": "01-1"}
    assert "diverged" in trained.replaced["01"]
    assert seen == [("00", "ok"), ("01", "diverged"), ("01-1", "ok")]
    assert train_members(tmp_path, HELD, mixed, small()) == trained


def test_a_member_that_always_diverges_is_left_out(tmp_path: Path) -> None:
    trained = train_members(tmp_path, HELD, members(1, lr=1e30, clip=0.0), small())
    assert trained.folders == {}
    assert len(trained.replaced) == training.ATTEMPTS
    assert "diverged" in trained.left_out["00"]


def test_no_member_is_begun_too_late(tmp_path: Path) -> None:
    done: list[str] = []
    trained = train_members(
        tmp_path, HELD, members(2), small(), late=lambda: len(done) == 1, done=lambda name, _: done.append(name)
    )
    assert list(trained.folders) == ["00"]
    assert "time budget" in trained.left_out["01"]


@pytest.mark.parametrize(("least", "finished"), [(0.0, False), (600.0, True)])
def test_a_member_whose_worker_started_late_is_still_trained(tmp_path: Path, least: float, finished: bool) -> None:
    """Its round is over before it begins: without seconds of its own it has one step, with them all of its epochs."""
    over = time.time() - 60
    trained = train_members(tmp_path, HELD, members(1), small(), deadline=lambda name: over, least=least)
    history = history_of(member_folder(tmp_path, trained.folders["00"]))
    assert (len(history) == QUICK.epochs) == finished


@pytest.mark.slow
def test_real_training_tells_a_dead_network_from_a_live_one_and_drives_a_search(tmp_path: Path) -> None:
    """A cell without any path from input to output cannot beat chance."""
    digits, thin = load("digits"), space("nb201", channels=4, cells=1)
    measure = by_training(thin, digits, recipe("default", epochs=2), store=str(tmp_path / "store.sqlite"))
    dead, live = (measure(Proposal(arch)).values["trained"] for arch in ((0,) * 6, (3, 0, 0, 1, 0, 3)))
    assert dead < 0.2 < live
    search(
        digits, thin, "random", evaluations=2, seed=3, out=tmp_path / "run", settings=SearchSettings(measure=measure)
    )
    assert (tmp_path / "run" / "leaderboard.csv").read_text().count("\n") == 3
