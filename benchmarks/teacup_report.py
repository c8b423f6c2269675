"""What the trained networks of ``benchmarks/teacup.py`` show: ensembles, confidence, promises, rankings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import betabinom

from trainless.bench.correlation import spearman
from trainless.bench.weighted_order import sample_of
from trainless.core.files import number, strict
from trainless.core.target import Target
from trainless.learn.calibration import fit_sets, quantile
from trainless.learn.deferral import fit_deferral
from trainless.learn.ensemble import average, confidence_curve, curve_of, variance, vote, votes
from trainless.learn.metrics import MetricValue, accuracy, auc, bootstrap, evaluate, f1_macro
from trainless.learn.predictor import doubt
from trainless.learn.recipe import recipe

SEARCHES = ("rl", "genetic", "prune")
MEASURES = {"auc": auc, "accuracy": accuracy, "f1_macro": f1_macro}
SPLITS, COVERAGE, PROMISE, CONFIDENCE, DRAWS = 20, 0.9, 0.95, 0.9, 1000
Floats = Any
Arrays = Mapping[str, Floats]
Json = dict[str, Any]


def judge(task: str, jobs: Sequence[Json], arrays: Arrays, rankings: Mapping[str, Floats]) -> Json:
    """Everything, as plain data.

    Args:
        task: Whose jobs.
        jobs: As ``train_all`` left them.
        arrays: Predictions by job number and part, and true classes.
        rankings: One value per random job, in their order, of each ranking.
    """
    sound = {number: job for number, job in enumerate(jobs) if job.get("status") == "ok"}
    y = {part: np.asarray(arrays[f"{task}_{part}"]) for part in ("valid", "test")}
    groups: dict[str, list[int]] = {"searched": [n for n, job in sound.items() if job["role"] in SEARCHES]}
    for role in (*SEARCHES, "single", "resnet18", "random"):
        groups[role] = [number for number, job in sound.items() if job["role"] == role]
    said = {name: np.stack([arrays[f"{n}_test"] for n in chosen]) for name, chosen in groups.items() if chosen}
    found: Json = {
        "task": task,
        "settings": {name: jobs[0][name] for name in ("space", "recipe", "epochs", "batch", "width")},
        "samples": {part: len(labels) for part, labels in y.items()},
        "unsound": dict(Counter(job.get("status", "not trained") for job in jobs if job.get("status") != "ok")),
        "seconds": sum(job.get("seconds", 0.0) for job in jobs),
        "architectures": len({job["arch"] for job in sound.values() if job["role"] in SEARCHES}),
        "groups": {name: group_of(members, y["test"]) for name, members in said.items()},
        "promises": {
            name: promises(arrays, groups[name], y, jobs, task) for name in ("searched", "single") if name in said
        },
        "rankings": ranked(sound, jobs, arrays, y["test"], rankings),
    }
    if "single" in said:
        found["against_single"] = {
            name: against(said[name], said["single"], y["test"]) for name in ("searched", *SEARCHES) if name in said
        }
    return dict(strict(found))


def group_of(members: Floats, y: Floats) -> Json:
    """Members one by one, and their average and majority vote."""
    target = _target(members)
    single = [evaluate(target, y, member.astype(np.float64), draws=0) for member in members]
    mean, shares = average(members.astype(np.float64)), votes(members.astype(np.float64))
    curve = confidence_curve(members.astype(np.float64), y)
    hit = vote(members.astype(np.float64)) == y
    return {
        "size": len(members),
        "members": {
            name: {"mean": np.mean(values), "std": np.std(values), "best": max(values)}
            for name in ("auc", "accuracy", "f1_macro")
            if (values := [one[name].value for one in single])
        },
        "average": {name: bootstrap(measure(y, mean), len(y)) for name, measure in MEASURES.items()},
        "vote": {
            "auc": bootstrap(auc(y, shares), len(y)),
            "accuracy": bootstrap(lambda weights: float(weights @ hit / weights.sum()), len(y)),
            "f1_macro": bootstrap(f1_macro(y, np.eye(members.shape[2])[vote(members.astype(np.float64))]), len(y)),
        },
        "confidence": {"shares": curve.shares, "accuracy": curve.accuracy, "area": curve.area},
    }


def against(ours: Floats, single: Floats, y: Floats) -> Json:
    """Differences of AUC and of the area under the confidence curve, paired over test samples."""
    rows = [(average(members), vote(members) == y, variance(members)) for members in map(np.float64, (ours, single))]

    def of(index: Floats) -> tuple[float, float]:
        once = np.ones(len(index))
        areas = [auc(y[index], mean[index])(once) for mean, _, _ in rows]
        curves = [curve_of(hit[index], spread[index]).area for _, hit, spread in rows]
        return areas[0] - areas[1], curves[0] - curves[1]

    random = np.random.default_rng(0)
    drawn = np.array([of(random.integers(len(y), size=len(y))) for _ in range(DRAWS)])
    low, high = np.nanquantile(drawn, [0.025, 0.975], axis=0).tolist()
    value = of(np.arange(len(y)))
    return {name: MetricValue(value[at], low[at], high[at]) for at, name in enumerate(("auc", "confidence_area"))}


def promises(arrays: Arrays, chosen: Sequence[int], y: Arrays, jobs: Sequence[Json], task: str) -> Json:
    """Conformal coverage and deferral over random halves of what training has not chosen by.

    A recipe that keeps the last weights chooses nothing by the validation part, which is then pooled with the test
    part.
    Without ties, the number covered in a random split is beta-binomial whatever the scores are: of m samples, the k-th
    smallest of n calibration scores covers Betabinom(m, k, n + 1 − k). That is the law of the bare sets, which may be
    empty; the ensemble's always hold the most probable class and so cover more where it is right more often than that.
    """
    free = recipe(jobs[chosen[0]]["recipe"]).keep == "last"
    parts = ("valid", "test") if free else ("test",)
    p = np.concatenate(
        [average(np.stack([arrays[f"{n}_{part}"] for n in chosen]).astype(np.float64)) for part in parts]
    )
    labels = np.concatenate([y[part] for part in parts])
    n = len(labels) // 2
    rank = math.ceil((n + 1) * COVERAGE - 1e-9)
    law = betabinom(len(labels) - n, rank, n + 1 - rank)
    covered, bare, sizes, rules = [], [], [], []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(labels))
        fitting, testing = order[:n], order[n:]
        sets = fit_sets(p[fitting], labels[fitting], COVERAGE).sets(p[testing])
        covered.append(float(sets[np.arange(len(testing)), labels[testing]].mean()))
        misfit = 1 - p[np.arange(len(labels)), labels]
        bare.append(float((misfit[testing] <= quantile(misfit[fitting], COVERAGE)).mean()))
        sizes.append(float(sets.sum(1).mean()))
        rule = fit_deferral(doubt(p[fitting]), p[fitting].argmax(1) == labels[fitting], PROMISE, seed=split)
        answered = ~rule.refer(doubt(p[testing]))
        right = (p[testing].argmax(1) == labels[testing])[answered]
        rules.append((rule.promised, float(answered.mean()), float(right.mean()) if len(right) else math.nan))
    expected, error = float(law.mean() / (len(labels) - n)), float(law.std() / (len(labels) - n))
    promised = [rule for rule in rules if rule[0]]
    broken = sum(rule[2] < PROMISE for rule in promised)
    return {
        "pooled": list(parts),
        "calibration": n,
        "held_out": len(labels) - n,
        "coverage": {
            "mean": np.mean(covered),
            "std": np.std(covered, ddof=1),
            "expected": expected,
            "error_of_one": error,
            "error_of_mean": error / math.sqrt(SPLITS),
            "bare": np.mean(bare),
            "bare_within_three_errors": bool(abs(np.mean(bare) - expected) <= 3 * error / math.sqrt(SPLITS)),
            "mean_size": np.mean(sizes),
            "each": covered,
        },
        "deferral": {
            "accuracy": PROMISE,
            "confidence": CONFIDENCE,
            "promised": len(promised),
            "below_on_held_out": broken,
            "answered": np.mean([rule[1] for rule in promised]) if promised else math.nan,
            "right": np.mean([rule[2] for rule in promised]) if promised else math.nan,
        },
        "splits": SPLITS,
    }


def ranked(
    sound: Mapping[int, Json], jobs: Sequence[Json], arrays: Arrays, y: Floats, rankings: Mapping[str, Floats]
) -> Json:
    """Spearman's ρ of each ranking with the random networks' test figures, and how far it is from the first ranking's.

    Failures (−∞) are last; a network that a ranking did not score (NaN) is left out of all of them, and counted.
    Differences are paired: both rankings are resampled over the same networks.
    """
    numbers = [number for number, job in enumerate(jobs) if job["role"] == "random"]
    there = np.array([number in sound for number in numbers], bool)
    if there.sum() < 3:
        return {"networks": int(there.sum())}
    p = [arrays[f"{number}_test"].astype(np.float64) for number, ok in zip(numbers, there, strict=True) if ok]
    once = np.ones(len(y))
    truths = {name: [measure(y, one)(once) for one in p] for name, measure in MEASURES.items()}
    return compared(truths, {name: values[there] for name, values in rankings.items()})


def compared(truths: Mapping[str, Sequence[float]], rankings: Mapping[str, Floats]) -> Json:
    """The same from the networks' figures and each ranking's values."""
    networks = len(next(iter(truths.values())))
    known = [name for name, values in rankings.items() if (~np.isnan(values)).sum() > 2]  # any other one says nothing
    scored = np.logical_and.reduce([np.full(networks, True), *(~np.isnan(rankings[name]) for name in known)])
    found: Json = {"networks": networks, "compared": int(scored.sum()), "truth": truths}
    found |= {"unscored": {name: int(np.isnan(values).sum()) for name, values in rankings.items()}}
    found |= {"failed": {name: int(np.isneginf(values).sum()) for name, values in rankings.items()}}
    values = {name: [number(value) for value in values] for name, values in rankings.items()}
    found |= {"of": {}, "less_first": {}, "values": values}  # a failure is "-inf", nothing is null
    if scored.sum() < 3:
        return found
    drawn = {
        name: {what: correlations(values[scored], np.array(truth)[scored]) for what, truth in truths.items()}
        for name, values in rankings.items()
        if name in known
    }
    first = next(iter(drawn.values()), {})
    for name, each in drawn.items():
        found["of"][name] = {what: _interval(values) for what, values in each.items()}
        found["less_first"][name] = {what: _interval(values - first[what]) for what, values in each.items()}
    return found


def correlations(values: Floats, truth: Floats) -> Floats:
    """Spearman's ρ, then ρ in draws of as many networks, which are the same for all; −∞ is last."""
    random = np.random.default_rng(0)
    drawn = [np.bincount(random.integers(len(truth), size=len(truth)), minlength=len(truth)) for _ in range(DRAWS)]
    weights = np.stack([np.ones(len(truth)), *drawn], axis=1)
    return spearman(sample_of(np.where(np.isfinite(values), values, np.nan), truth, weights))


def _interval(drawn: Floats) -> MetricValue:
    """The first value, and 95 % of the others."""
    low, high = np.nanquantile(drawn[1:], [0.025, 0.975]) if np.isfinite(drawn[1:]).any() else (math.nan, math.nan)
    return MetricValue(float(drawn[0]), float(low), float(high))


def coverage(ranks: Json) -> str:
    """What is to be known of networks without a value: how many are left out, and how many failures are last."""
    unscored = {name: count for name, count in ranks.get("unscored", {}).items() if count}
    failed = {name: count for name, count in ranks.get("failed", {}).items() if count}
    said = [f"{ranks['compared']} of them compared"] if unscored else []
    said += [f"{count} not scored by {name}" for name, count in unscored.items()]
    said += [f"{count} failed by {name} and are last" for name, count in failed.items()]
    return f" ({'; '.join(said)})" if said else ""


def page(found: Json) -> str:
    """The figures as Markdown."""
    lines = [
        f"## {found['task']}",
        "",
        f"{found['settings']}; {found['samples']['test']} test samples; {found['architectures']} different"
        f" architectures found; {found['seconds'] / 60:.0f} process-minutes of training;"
        f" unsound: {found['unsound'] or 'none'}.",
        "",
        "| members | n | AUC of one | accuracy of one | F1 of one | AUC, average | accuracy, vote | F1, vote |"
        " confidence area |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in found["groups"].items():
        single = one["members"]
        lines.append(
            f"| {name} | {one['size']} | {_mean(single['auc'])} | {_mean(single['accuracy'])} |"
            f" {_mean(single['f1_macro'])} | {_shown(one['average']['auc'])} | {_shown(one['vote']['accuracy'])} |"
            f" {_shown(one['vote']['f1_macro'])} | {one['confidence']['area']:.3f} |"
        )
    lines += ["", "Less the single-architecture ensemble, paired:", ""]
    lines += ["| members | AUC | confidence area |", "| --- | --- | --- |"]
    for name, one in found.get("against_single", {}).items():
        lines.append(f"| {name} | {_shown(one['auc'])} | {_shown(one['confidence_area'])} |")
    lines += ["", f"Over {SPLITS} random splits:", ""]
    lines += [
        "| members | coverage, 90 % promised | bare sets | expected ± error of the mean | set size | deferral at 95 % |"
    ]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name, one in found["promises"].items():
        sets, rule = one["coverage"], one["deferral"]
        said = f"promised in {rule['promised']}, below on held-out samples in {rule['below_on_held_out']}"
        lines.append(
            f"| {name} | {sets['mean']:.3f} (std {sets['std']:.3f}) | {sets['bare']:.3f} |"
            f" {sets['expected']:.3f} ± {sets['error_of_mean']:.3f} | {sets['mean_size']:.2f} | {said} |"
        )
    ranks = found["rankings"]
    lines += ["", f"Spearman's ρ with trained networks, {ranks['networks']} random ones{coverage(ranks)}:", ""]
    lines += ["| ranking | test AUC | less the first, paired | test accuracy | test F1 |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for name, one in ranks.get("of", {}).items():
        less = _shown(ranks["less_first"][name]["auc"])
        lines.append(
            f"| {name} | {_shown(one['auc'])} | {less} | {_shown(one['accuracy'])} | {_shown(one['f1_macro'])} |"
        )
    return "\n".join(lines) + "\n"


def _target(members: Floats) -> Target:
    classes = members.shape[2]
    return Target("binary" if classes == 2 else "multiclass", classes)


def _mean(one: Mapping[str, float]) -> str:
    return f"{one['mean']:.3f} ± {one['std']:.3f}"


def _shown(one: Mapping[str, float | None]) -> str:
    value, low, high = (math.nan if one[name] is None else one[name] for name in ("value", "low", "high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]" if math.isfinite(low) else f"{value:.3f}"
