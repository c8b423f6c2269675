"""Deferral: answer where it is sure enough, refer the rest to a person, with a promise on what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from trainless.core.errors import InputError
from trainless.core.types import Floats, Mask
from trainless.learn.metrics import MetricValue, clopper_pearson

CHOOSING = 1 / 3  # of the data proposes thresholds; the rest tests them
POINTS = 100  # thresholds that are tried
LEAST = 3  # samples, of which one proposes


@dataclass(frozen=True)
class Deferral:
    """Answer where the uncertainty is at most ``threshold``; minus infinity refers everything.

    The accuracy is promised on the answers with a confidence, the probability, over the data it was chosen on, that it
    holds. Where the data did not allow that, a reason says why, and everything is referred. ``referred`` is the share
    of the data it was tested on.
    """

    accuracy: float
    confidence: float
    threshold: float
    promised: bool
    referred: float
    reason: str = ""

    def refer(self, uncertainty: Floats) -> Mask:
        """Which samples go to a person; an uncertainty that is NaN does."""
        return np.asarray(~(uncertainty <= self.threshold))

    def __str__(self) -> str:
        if not self.promised:
            return self.reason
        return (
            f"at {self.accuracy:.0%} accuracy on what it answers, it refers {self.referred:.0%} to a person"
            f" (promised with {self.confidence:.0%} confidence)"
        )


def fit_deferral(
    uncertainty: Floats, correct: Mask, accuracy: float = 0.95, *, confidence: float = 0.9, seed: int = 0
) -> Deferral:
    """Choose the largest threshold whose answers are promised to be right often enough.

    Learn-then-test (Angelopoulos et al., 2021) with a split fixed sequence: a third of the data proposes a starting
    threshold and looser ones after it; on the rest, "the answers' accuracy is below the promise" is tested for each in
    turn by the exact binomial test (Clopper & Pearson) at level 1 − confidence, until it cannot be rejected. The order
    does not depend on the data that test, so no correction is needed: the chance that the returned threshold breaks
    the promise is at most 1 − confidence, whatever the uncertainty is worth. Only new data like these are assumed.

    Fewer samples than could prove the promise make a rule that refers everything and says so.

    Example:
        >>> uncertainty = np.linspace(0, 1, 1000)
        >>> rule = fit_deferral(uncertainty, (uncertainty < 0.5) | (np.arange(1000) % 2 == 0))
        >>> rule.promised, 0.4 < rule.referred < 0.5
        (True, True)
    """
    _require(uncertainty, correct, accuracy, confidence)
    if len(correct) < LEAST:
        return Deferral(accuracy, confidence, -math.inf, False, 1.0, _too_few(len(correct), accuracy, confidence))
    order = np.random.default_rng(seed).permutation(len(correct))
    cut = int(CHOOSING * len(order))
    proposing, testing = order[:cut], order[cut:]
    miss, level = 1 - accuracy, 1 - confidence
    thresholds = _proposed(uncertainty[proposing], ~correct[proposing], len(testing), miss)
    chosen = -math.inf
    for threshold in thresholds:
        if _p_value(uncertainty[testing], ~correct[testing], threshold, miss) > level:
            break
        chosen = threshold
    referred = float(np.mean(~(uncertainty[testing] <= chosen)))
    if math.isfinite(chosen):
        return Deferral(accuracy, confidence, chosen, True, referred)
    return Deferral(accuracy, confidence, chosen, False, 1.0, _no_promise(correct, len(testing), accuracy, confidence))


@dataclass(frozen=True)
class DeferralCheck:
    """A rule on other data: the accuracy of its answers with its exact interval, and the share that it refers."""

    accuracy: MetricValue
    answered: int
    referred: float
    holds: bool


def check_deferral(rule: Deferral, uncertainty: Floats, correct: Mask, *, level: float = 0.95) -> DeferralCheck:
    """Check a rule on test data; it holds unless the data speak against it: the interval lies below the promise."""
    answered = ~rule.refer(uncertainty)
    n, right = int(answered.sum()), int(correct[answered].sum())
    share = 1 - n / max(1, len(correct))
    if not n:
        return DeferralCheck(MetricValue(math.nan, math.nan, math.nan), 0, share, True)
    low, high = clopper_pearson(right, n, level)
    return DeferralCheck(MetricValue(right / n, low, high), n, share, high >= rule.accuracy)


def _p_value(uncertainty: Floats, wrong: Mask, threshold: float, miss: float) -> float:
    """The chance of so few errors among the answers if errors were as frequent as ``miss``."""
    answered = uncertainty <= threshold
    return float(binom.cdf(int(wrong[answered].sum()), int(answered.sum()), miss))


def _proposed(uncertainty: Floats, wrong: Mask, testing: int, miss: float) -> Floats:
    """The threshold that looks easiest to prove, and looser ones after it."""
    candidates = np.unique(np.quantile(uncertainty, np.arange(1, POINTS + 1) / POINTS, method="higher"))
    taken = np.array([np.sum(uncertainty <= threshold) for threshold in candidates])
    errors = np.array([np.sum(wrong[uncertainty <= threshold]) for threshold in candidates])
    answers = np.floor(taken / len(uncertainty) * testing)
    expected = np.floor(answers * (errors + 0.5) / (taken + 1))
    easiest = int(np.argmin(binom.logcdf(expected, answers, miss)))
    return np.asarray(candidates[easiest:])


def _no_promise(correct: Mask, testing: int, accuracy: float, confidence: float) -> str:
    if testing < _needed(accuracy, confidence):
        return _too_few(testing, accuracy, confidence)
    return (
        f"no promise of {accuracy:.0%} accuracy: even the surest answers are wrong too often"
        f" ({correct.mean():.0%} of all are right); everything is referred"
    )


def _too_few(testing: int, accuracy: float, confidence: float) -> str:
    needed = max(LEAST, _needed(accuracy, confidence))
    return (
        f"no promise of {accuracy:.0%} accuracy: it takes at least {needed} cases to test it, and there are {testing};"
        " everything is referred"
    )


def _needed(accuracy: float, confidence: float) -> int:
    """Answers, all of them right, that reject a lower accuracy: accuracyⁿ ≤ 1 − confidence."""
    return math.ceil(math.log(1 - confidence) / math.log(accuracy))


def _require(uncertainty: Floats, correct: Mask, accuracy: float, confidence: float) -> None:
    n, answers = len(uncertainty), len(correct)
    if n != answers:
        raise InputError(f"{n} uncertainties and {answers} answers were given; expected as many of both")
    if not np.isfinite(uncertainty).all():
        raise InputError("uncertainties are not finite: leave out the member that diverged")
    for name, value in (("accuracy", accuracy), ("confidence", confidence)):
        if not 0 < value < 1:
            raise InputError(f"{name}={value} was given; expected a number between 0 and 1, such as 0.95")


def referral(doubt: Floats, correct: Mask) -> tuple[Floats, Floats]:
    """Share of cases referred and share right among those answered, for every threshold; equal doubts go together.

    Example:
        >>> share, right = referral(np.array([0.1, 0.4, 0.2]), np.array([True, False, True]))
        >>> share.round(2).tolist(), right.round(2).tolist()
        ([0.67, 0.33, 0.0], [1.0, 1.0, 0.67])
    """
    _, group = np.unique(doubt, return_inverse=True)
    answered = np.bincount(group.reshape(-1)).cumsum()
    right = np.bincount(group.reshape(-1), correct).cumsum()
    return 1 - answered / len(doubt), right / answered
