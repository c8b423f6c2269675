"""Rankings fitted to a few trained networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from trainless.core.errors import InputError
from trainless.core.scores import Scores
from trainless.core.types import Floats
from trainless.rankings.ranking import Ranking, column, is_logarithm, logarithms


@dataclass(frozen=True, eq=False)
class Fitted(Ranking):
    """A model of the accuracy from features: the predicted accuracy is the ranking.

    The model predicts one value per row of features (candidates × ``proxies``); NaN where it cannot.
    """

    proxies: tuple[str, ...]
    model: Callable[[Floats], Floats]
    pointwise = True

    def __call__(self, scores: Scores) -> Floats:
        return self.predict(np.stack([column(scores, proxy) for proxy in self.proxies], axis=1))

    def predict(self, features: Floats) -> Floats:
        """The predictions for candidates × features; −inf where a feature that is needed failed."""
        if features.ndim != 2 or features.shape[1] != len(self.proxies):
            raise InputError(
                f"features of shape {features.shape} were given; expected candidates × {len(self.proxies)}"
                f" ({', '.join(self.proxies[:5])}{', …' if len(self.proxies) > 5 else ''})"
            )
        predicted = self.model(features)
        return np.where(np.isnan(predicted), -np.inf, predicted)


@dataclass(frozen=True, eq=False)
class Ridge:
    """TEACUP's bootstrapped ridge regression.

    ``coefficients`` are draws × proxies; ``held_out`` is, by draw and task, Spearman's ρ on the networks that were held
    out.
    """

    ranking: Fitted
    coefficients: Floats
    held_out: Floats

    @property
    def weights(self) -> dict[str, float]:
        """The mean coefficients divided by the smallest of them, as the paper states them."""
        mean = self.coefficients.mean(axis=0)
        return dict(zip(self.ranking.proxies, (mean / np.abs(mean).min()).tolist(), strict=True))


def fit_ridge(
    tasks: Sequence[tuple[Scores, npt.ArrayLike]],
    proxies: Sequence[str],
    *,
    draws: int = 2000,
    train: float = 0.8,
    alpha: float = 1.0,
    seed: int = 0,
) -> Ridge:
    """Regress standardised accuracies on log₁₀|proxy| over many random splits (TEACUP, section 7.4).

    In each draw the networks of every task are split ``train`` : 1 − ``train`` at random, the training parts of all
    tasks are joined, and a ridge regression with a free intercept is fitted. The paper does not state the strength of
    the penalty: the default is scikit-learn's. Accuracies are standardised within each task; networks with a failed
    score are left out.
    """
    rng = np.random.default_rng(seed)
    natural = [is_logarithm(name) for name in proxies]

    def logs_of(features: Floats) -> Floats:
        return np.stack([logarithms(features[:, place], each) for place, each in enumerate(natural)], axis=1)

    parts = [_standardised(scores, np.asarray(truth, np.float64), tuple(proxies), logs_of) for scores, truth in tasks]
    coefficients, held_out = np.empty((draws, len(proxies))), np.empty((draws, len(parts)))
    intercepts = np.empty(draws)
    for draw in range(draws):
        orders = [rng.permutation(len(truth)) for _, truth in parts]
        cuts = [max(2, round(train * len(order))) for order in orders]
        chosen = [order[:cut] for order, cut in zip(orders, cuts, strict=True)]
        x = np.concatenate([logs[mine] for (logs, _), mine in zip(parts, chosen, strict=True)])
        y = np.concatenate([truth[mine] for (_, truth), mine in zip(parts, chosen, strict=True)])
        coefficients[draw], intercepts[draw] = _ridge(x, y, alpha)
        for task, ((logs, truth), order, cut) in enumerate(zip(parts, orders, cuts, strict=True)):
            held_out[draw, task] = _spearman(logs[order[cut:]] @ coefficients[draw], truth[order[cut:]])
    slope, intercept = coefficients.mean(axis=0), float(intercepts.mean())
    return Ridge(Fitted(tuple(proxies), lambda x: logs_of(x) @ slope + intercept), coefficients, held_out)


def _standardised(
    scores: Scores, truth: Floats, proxies: tuple[str, ...], logs_of: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    if truth.shape != (len(scores),):
        raise InputError(f"{truth.shape} true values were given for {len(scores)} candidates; expected one for each")
    logs = logs_of(np.stack([column(scores, proxy) for proxy in proxies], axis=1))
    known = np.isfinite(logs).all(axis=1) & np.isfinite(truth)
    if known.sum() < 3 or np.ptp(truth[known]) == 0:
        raise InputError(
            f"{int(known.sum())} candidates have all of {', '.join(proxies)} and a true value; at least 3 with"
            " different values are needed for a fit"
        )
    return logs[known], (truth[known] - truth[known].mean()) / truth[known].std()


def _ridge(x: Floats, y: Floats, alpha: float) -> tuple[Floats, float]:
    """Coefficients and intercept; the intercept is not penalised."""
    centre, level = x.mean(axis=0), float(y.mean())
    deviations = x - centre
    slope: Floats = np.linalg.solve(deviations.T @ deviations + alpha * np.eye(x.shape[1]), deviations.T @ (y - level))
    return slope, level - float(centre @ slope)


def _spearman(one: Floats, other: Floats) -> float:
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def fit_forest(
    names: Sequence[str], features: npt.ArrayLike, accuracy: npt.ArrayLike, *, trees: int = 100, seed: int = 0
) -> Fitted:
    """VKDNW's model-driven ranking: a random forest of standardised features.

    The features may be FIM deciles, proxies and structure alike. Infinite ones become the extreme finite values of the
    networks it was fitted to; a missing one is left to the trees, which send it to a side. The published program does
    not seed its forest.

    Example:
        >>> model = fit_forest(["flops"], [[1.0], [2.0], [3.0], [4.0]], [10.0, 20.0, 30.0, 40.0])
        >>> bool(model.predict(np.array([[4.0]])) > model.predict(np.array([[1.0]])))
        True
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = np.asarray(features, np.float64), np.asarray(accuracy, np.float64)
    if x.ndim != 2 or x.shape != (len(y), len(names)):
        raise InputError(f"features of shape {x.shape} were given for {len(y)} networks and {len(names)} names")
    finite = np.where(np.isfinite(x), x, np.nan)
    if empty := [name for index, name in enumerate(names) if np.isnan(finite[:, index]).all()]:
        raise InputError(f"the feature {empty[0]!r} is finite on none of the networks: leave it out")
    low, high = np.nanmin(finite, axis=0), np.nanmax(finite, axis=0)

    def bounded(values: Floats) -> Floats:
        return np.where(np.isinf(values), np.clip(values, low, high), values)

    model = make_pipeline(StandardScaler(), RandomForestRegressor(trees, random_state=seed))
    model.fit(bounded(x), y)
    return Fitted(tuple(names), lambda values: np.asarray(model.predict(bounded(values)), np.float64))
