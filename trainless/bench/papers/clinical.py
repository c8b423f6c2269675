"""Our side of TEACUP's clinical figures: what its study, run on one task, has left in ``results/clinical``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from trainless.bench.papers.sources import Answer, Where, middle
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.bench.sheet import Interval
from trainless.bench.statistics import evaluate
from trainless.core.files import read_json
from trainless.core.opening import is_there, without_links
from trainless.core.scores import Record, Scores
from trainless.core.types import Floats
from trainless.rankings import Ridge, fit_ridge
from trainless.runs.score_file import ScoreFile, read_scores

BRING = {
    "nodulemnist3d": (
        "NoduleMNIST3D is for the reader to bring: put nodulemnist3d.npz of zenodo.org/records/10519652 (MD5"
        " 8755a7e9e05a4d9ce80a24c3e7a256f3) into medmnist/ of the data directory, then"
    )
}


def study(library: ScoreLibrary, task: str) -> Mapping[str, Any]:
    """The report of a task's study."""
    path = library.folder / "clinical" / f"{task}.json"
    if not is_there(path):
        run = f"python -m benchmarks.teacup all {task} --data packed --out study"
        raise Missing(f"{BRING.get(task, 'no study of this task is stored:')} {run}", f"no study of {task}")
    return read_json(without_links(path))


@dataclass(frozen=True)
class Clinical:
    """Members of a study: their mean and deviation, all of them together, and the surest answers.

    The ``joined`` members answer by their ``average`` or by ``vote``; figures are of the study's ``metric``.
    """

    task: str
    role: str
    metric: Literal["auc", "accuracy", "f1_macro"] = "auc"
    joined: Literal["average", "vote"] = "average"

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = study(library, self.task)["groups"].get(self.role)
        if found is None:
            raise Missing(f"the stored study of {self.task} has no members of {self.role}")
        members, together = found["members"][self.metric], found[self.joined][self.metric]
        sure = dict(zip((f"accuracy_of_{share:.0%}" for share in _shares(found)), _accuracies(found), strict=True))
        estimates = {
            "mean": Interval(members["mean"]),
            "std": Interval(members["std"]),
            "ensemble": Interval(together["value"], together["low"], together["high"]),
            **{name: Interval(value) for name, value in sure.items()},
        }
        return Answer.whole(estimates, found["size"], 1)


def _shares(found: Mapping[str, Any]) -> list[float]:
    return list(found["confidence"]["shares"])


def _accuracies(found: Mapping[str, Any]) -> list[float]:
    return list(found["confidence"]["accuracy"])


@dataclass(frozen=True)
class ClinicalRank:
    """Spearman's ρ of a ranking with what a study's random networks reach."""

    task: str
    ranking: str
    metric: Literal["auc", "accuracy", "f1_macro"] = "auc"

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = study(library, self.task)["rankings"]
        if self.ranking not in found["of"]:
            raise Missing(f"the stored study of {self.task} has no values of {self.ranking}")
        value = found["of"][self.ranking][self.metric]
        estimate = Interval(value["value"], value["low"], value["high"])
        return Answer.whole({"spearman": estimate}, found["networks"], 1)


@dataclass(frozen=True)
class ClinicalMetric:
    """Spearman's ρ of one of TEACUP's metrics, turned so that higher is better, with what random networks reach."""

    task: str
    proxy: str
    metric: Literal["auc", "accuracy", "f1_macro"] = "auc"

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        reached = np.array(study(library, self.task)["rankings"]["truth"][self.metric], np.float64)
        file = _random_networks(library, self.task, len(reached))
        if self.proxy not in file.proxies:
            raise Missing(f"{self.proxy} is not among the scores of all random networks of {self.task}")
        up = file.higher_is_better(self.proxy)
        return Answer.of(evaluate(file.column(self.proxy), reached, higher_is_better=up, draws=where.draws))


REWARDS: Mapping[str, str] = {"cinc2017-windows": "f1_macro", "breastmnist": "auc"}
"""What TEACUP's fit is about on the tasks whose random networks were trained."""


@dataclass(frozen=True)
class ClinicalRidge:
    """TEACUP's bootstrapped ridge fit on what a study's random networks reach: held-out ρ, or one metric's weight.

    The weight is over the smallest of all; the fit is of both tasks together, as in the paper.
    """

    proxies: tuple[str, ...]
    task: str = ""
    proxy: str = ""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        fit, networks = _fit(library, self.proxies)
        smallest = np.abs(fit.coefficients.mean(axis=0)).min()
        estimates = {}
        if self.task:
            if self.task not in REWARDS:
                study(library, self.task)  # says what to bring
            found = fit.held_out[:, list(REWARDS).index(self.task)]
            estimates = {"held_out": middle(found), "held_out_std": Interval(float(np.nanstd(found)))}
        if self.proxy:
            place = self.proxies.index(self.proxy)
            value = float(fit.coefficients.mean(axis=0)[place] / smallest)
            estimates["weight"] = replace(middle(fit.coefficients[:, place] / smallest), value=value)
        return Answer.whole(estimates, networks, len(fit.coefficients))


@functools.lru_cache(maxsize=16)
def _fit(library: ScoreLibrary, proxies: tuple[str, ...]) -> tuple[Ridge, int]:
    tasks, networks = [], 0
    for task, metric in REWARDS.items():
        reached = np.array(study(library, task)["rankings"]["truth"][metric], np.float64)
        file = _random_networks(library, task, len(reached))
        records = [
            Record(str(row), proxy, value, file.higher_is_better(proxy))
            for proxy in proxies
            for row, value in enumerate(file.column(proxy).tolist())
        ]
        tasks.append((Scores(records), reached))
        networks += len(reached)
    return fit_ridge(tasks, proxies, draws=2000), networks


def _random_networks(library: ScoreLibrary, task: str, networks: int) -> ScoreFile:
    """TEACUP's metrics, at its setting, of a study's random networks, in their order."""
    path = library.folder / "clinical" / "scores" / task / "scores_published.npz"
    if not is_there(path):
        raise Missing(f"no scores of the random networks of {task} are stored")
    file = read_scores(without_links(path))
    if len(file.archs) != networks:
        raise Missing(f"the scores of {task} are not of its {networks} random networks")
    return file


def metrics(library: ScoreLibrary, task: str) -> ScoreFile:
    """TEACUP's metrics, at its setting, of 150 random networks that need not be trained."""
    path = library.folder / "clinical" / "scores" / task / "scores_150.npz"
    if not is_there(path):
        run = f"trainless bench sweep --archs sample:150 --init kaiming --batch 32 --task {task} --proxies …"
        raise Missing(f"{BRING.get(task, 'no metrics of this task are stored:')} {run}", f"no metrics of {task}")
    return read_scores(without_links(path))


def _column(file: ScoreFile, proxy: str, *, turned: bool = False) -> Floats:
    """A metric's values, ``turned`` so that higher is better where it says otherwise."""
    if proxy not in file.proxies:
        raise Missing(f"{proxy} is not among the metrics of 150 networks")
    values = file.column(proxy)
    return -values if turned and not file.higher_is_better(proxy) else values


@dataclass(frozen=True)
class ClinicalPair:
    """Spearman's ρ between two of TEACUP's metrics, both turned so that higher is better."""

    task: str
    proxy: str
    other: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        file = metrics(library, self.task)
        one, other = (_column(file, name, turned=True) for name in (self.proxy, self.other))
        known = np.isfinite(other)
        return Answer.of(evaluate(one[known], other[known], draws=where.draws))


@dataclass(frozen=True)
class ClinicalSpread:
    """Mean and deviation of one of TEACUP's metrics, as it is."""

    task: str
    proxy: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        values = _column(metrics(library, self.task), self.proxy)
        values = values[np.isfinite(values)]
        mean, std = float(values.mean()), float(values.std(ddof=1))
        margin = 1.96 * std / len(values) ** 0.5
        estimates = {"mean": Interval(mean, mean - margin, mean + margin), "std": Interval(std)}
        return Answer.whole(estimates, len(values), 1)


@dataclass(frozen=True)
class SettingSource:
    """Numbers of one of our recipes."""

    recipe: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        from trainless.learn.recipe import recipe

        found = recipe(self.recipe)
        names = ("lr", "momentum", "weight_decay", "epochs")
        estimates = {name: Interval(float(getattr(found, name))) for name in names}
        return Answer.whole({**estimates, "early_stop": Interval(float(found.patience > 0))}, 1, 1)
