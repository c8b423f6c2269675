"""The sanity check: one class for everything, the majority, chance and yardsticks are always caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from trainless.core.files import strict
from trainless.core.target import Target
from trainless.learn.metrics import evaluate
from trainless.learn.sanity import SanityCheck, check_classes, check_values, yardstick_figures


def judged(y: np.ndarray, p: np.ndarray, **more: Any) -> dict[str, Any]:
    target = Target("binary" if p.shape[1] == 2 else "multiclass", p.shape[1])
    return dict(strict({"ensemble": evaluate(target, y, p, draws=300), **more}))


def checked(y: np.ndarray, p: np.ndarray, names: str = "NAO~", **more: Any) -> SanityCheck:
    return check_classes(judged(y, p, **more), y, p.argmax(1), names[: p.shape[1]])


def good(n: int = 200, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=n)
    logits = random.normal(size=(n, classes)) + 2.5 * np.eye(classes)[y]
    return y, np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_good_one_passes_and_says_what_it_beats(classes: int) -> None:
    found = checked(*good(classes=classes))
    assert found.ok
    assert any(words.startswith("always saying “") and "cases against" in words for words in found.passed)
    assert "chance" in found.passed


@given(st.integers(0, 3), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_one_class_for_everything_is_always_caught(said: int, seed: int) -> None:
    """However well its probabilities are ordered."""
    y, p = good(300, 4, seed)
    p[:, said] += 2
    found = check_classes(judged(y, p / p.sum(1, keepdims=True)), y, p.argmax(1), "NAO~", unit="recordings")
    assert not found.ok
    assert found.verdict == "Not good enough"
    assert "--time" in found.advice
    assert "--device" in found.advice
    assert found.problems[0] == f"It answers “{'NAO~'[said]}” for every one of 300 recordings"


def test_a_class_too_rare_to_be_the_most_probable_one_is_an_alarm_of_its_own() -> None:
    """It is told apart well, and yet as often right as always saying the other class: the words say where to look."""
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], [380, 20])
    sick = np.where(y == 1, random.uniform(0.1, 0.4, 400), random.uniform(0, 0.15, 400))
    p = np.stack([1 - sick, sick], 1)
    assert set(p.argmax(1)) == {0}
    alike, target, wrong = (sick > 0.05).astype(int), Target("binary", 2), np.stack([0.6 + sick, 0.4 - sick], 1)
    figures = [{"ensemble": evaluate(target, y, said, draws=200, prior=(0.95, 0.05))} for said in (p, wrong)]
    found = check_classes(strict(figures[0]), y, p.argmax(1), ["well", "sick"], alike=alike)
    assert (found.verdict, found.problems) == (
        "One class for everything",
        ("The most probable class is “well” for every one of 400 cases",),
    )
    assert "balanced_label" in found.advice
    assert "--sensitivity" in found.advice
    chance = check_classes(strict(figures[1]), y, p.argmax(1), ["well", "sick"], alike=1 - alike)
    assert chance.verdict == "Not good enough"
    assert "is worse than chance (0.5)" in chance.problems[1]
    assert check_classes(judged(y, p), y, p.argmax(1), "NA", alike=y * 0).problems[0].startswith("It answers “N”")


def test_too_few_cases_to_tell_is_no_blame() -> None:
    """Eight of eight right: balanced accuracy leaves chance out (0.5⁸), exact bounds of the AUC do not."""
    y = np.repeat([0, 1], 4)
    p = np.eye(2)[y] * 0.8 + 0.1
    found = checked(y, p)
    assert not found.ok
    assert found.verdict == "Too few test cases to tell"
    assert "cannot be told from chance (0.5)" in found.problems[0]
    assert "more cases" in found.advice
    wide = {"auc": {"value": 0.9, "low": 0.4, "high": 1.0}, "balanced_accuracy": {"value": 0.9, "low": 0.6, "high": 1}}
    worse = check_classes({"ensemble": wide, "yardsticks": [{"name": "trees", "auc": 0.95}]}, y, y, "NA")
    assert worse.verdict == "Not good enough"


def test_shuffled_labels_are_chance() -> None:
    """Of 40 shuffles about one in forty may look better by chance: each metric's interval misses by 2.5 % there."""
    caught = 0
    for seed in range(40):
        y, p = good(150, seed=seed)
        found = checked(np.random.default_rng(seed).permutation(y), p)
        caught += any("AUC" in problem and "chance (0.5)" in problem for problem in found.problems)
    assert caught >= 36


def test_no_better_than_the_majority() -> None:
    y = np.array([0] * 90 + [1] * 10)
    p = np.tile([0.9, 0.1], (100, 1))
    p[:12] = [0.2, 0.8]  # twelve false alarms
    p[90:97] = [0.1, 0.9]  # seven found
    found = checked(y, p)
    assert "It is right in 85 of 100 cases, always saying “N” in 90" in found.problems


def test_a_test_part_of_one_class_tells_nothing() -> None:
    y, p = good()
    assert "cannot be known" in check_classes({"ensemble": {}}, y * 0, p.argmax(1), "NA").problems[0]


@pytest.mark.parametrize(
    ("value", "caught"),
    [(0.99999, "worse than trees"), (0.2, ""), ({"value": 0.99999, "low": 0.9, "high": 1}, "worse")],
)
def test_yardsticks(value: Any, caught: str) -> None:
    y, p = good()
    found = checked(y, p, yardsticks=[{"name": "trees", "auc": value, "seconds": 0.9}])
    assert found.ok == (not caught)
    assert caught in " ".join(found.problems)
    assert any("trees" in words for words in found.problems + found.passed)
    assert not found.level


@pytest.mark.parametrize(
    ("own", "ends", "words", "of"),
    [
        (0.9, (0.01, 0.3), "trees", "passed"),
        (0.9, (-0.01, 0.3), "trees", "level"),  # the better one, but no better than chance explains
        (0.7, (-0.3, -0.01), "It is worse than trees", "problems"),
        (0.7, (-0.3, 0.01), "It is no better than trees", "problems"),
    ],
)
def test_a_difference_is_called_one_where_its_interval_is_on_one_side(
    own: float, ends: tuple[float, float], words: str, of: str
) -> None:
    y, p = good()
    figures = judged(y, p)
    figures["ensemble"]["auc"] |= {"value": own}
    trees = {"name": "trees", "auc": {"value": 0.8, "low": 0.7, "high": 0.9}}
    trees["gap"] = {"value": own - 0.8, "low": ends[0], "high": ends[1]}
    found = check_classes({**figures, "yardsticks": [trees]}, y, p.argmax(1), "NA")
    assert any(said.startswith(words) for said in getattr(found, of))
    assert found.ok == (of != "problems")


def test_level_with_a_yardstick_is_told_unless_nothing_could_be_better() -> None:
    y, p = good()
    level = judged(y, p)["ensemble"]["auc"]["value"]
    found = checked(y, p, yardsticks=[{"name": "trees", "auc": level}])
    assert "level with trees" in found.problems[0]
    assert found.verdict == "No better than something simpler"
    assert checked(y, p).verdict == ""
    perfect = np.eye(2)[y] * 0.8 + 0.1
    best = checked(y, perfect, yardsticks=[{"name": "trees", "auc": 1.0}])
    assert best.ok
    assert best.level == ("trees (AUC 1.000 against 1.000)",)
    assert not any("trees" in words for words in best.passed)  # nothing is better than what is as good
    peer = checked(y, p, yardsticks=[{"name": "a plain network", "auc": level, "peer": True}])
    assert peer.ok
    assert peer.level == (f"a plain network (AUC {level:.3f} against {level:.3f})",)


def test_yardsticks_are_compared_case_by_case() -> None:
    """Beside scikit-learn, and the paired interval is narrower than the two alone would make it."""
    y, p = good(150)
    noisy = p + np.random.default_rng(3).normal(scale=0.05, size=p.shape)
    other = np.clip(noisy, 1e-3, 1)
    other /= other.sum(1, keepdims=True)
    found = yardstick_figures(Target("binary", 2), y, p, other, name="trees", draws=400)
    ours, theirs = oracle.roc_auc_score(y, p[:, 1]), oracle.roc_auc_score(y, other[:, 1])
    assert found["auc"]["value"] == pytest.approx(theirs)
    assert found["gap"]["value"] == pytest.approx(ours - theirs)
    assert found["gap"]["high"] - found["gap"]["low"] < 0.5 * (found["auc"]["high"] - found["auc"]["low"])
    checked_beside = checked(y, p, yardsticks=[found])
    assert f"against {theirs:.3f}; difference {ours - theirs:.3f} [" in " ".join(
        checked_beside.problems + checked_beside.passed
    )
    values = np.arange(10.0)[:, None]
    off = yardstick_figures(Target("regression", 1), values, values + 1, values + 3, name="the mean", draws=20)
    assert off["gap"]["value"] == pytest.approx(2)  # errors of 1 and of 3: better by 2


def test_a_yardstick_without_a_shared_metric_says_nothing() -> None:
    y, p = good()
    assert checked(y, p, yardsticks=[{"name": "trees", "log_loss": 0.1}, {"name": "none", "auc": None}]).ok


def test_values_are_held_against_the_mean() -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=(100, 1))

    def figures(v: np.ndarray, **more: Any) -> dict[str, Any]:
        return dict(strict({"ensemble": evaluate(Target("regression", 1), y, v, draws=200), **more}))

    assert check_values(figures(y + 0.1 * random.normal(size=y.shape))).ok
    assert "always saying the mean" in check_values(figures(np.full_like(y, y.mean()))).problems[0]
    trees = figures(y + 0.1, yardsticks=[{"name": "trees", "mae": 0.05}])
    assert "worse than trees (mean error 0.100 against 0.050)" in check_values(trees).problems[0]
