"""Ensembles of networks that disagree at initialisation, beside top-ranked, random and one-architecture ones.

On each set and seed ``LOOKED`` random residual networks of half to twice the plain one's multiply–accumulates are
ranked by the shipped ranking without training. Ensembles of ``SIZE`` members are made: the first by rank (``top``),
those that :func:`trainless.designs.diversity.disagreeing` chooses at several shares of disagreement (``unlike-0.5``),
random ones, and the first one's architecture with other weights (``one``). Each network is trained on a fold of the
training and validation parts for the same number of core seconds; the test part is not read. What a training says of
the cases held out is a file of its own under ``--output``, written when it ends, so that the same command goes on where
it was stopped, and several may work side by side on other sets.

``python -m benchmarks.disagreement run --sets … --output DIR`` trains, ``… report --output DIR`` prints the paired
differences to ``top`` in log loss, AUC and area under the confidence curve over sets, seeds and folds, and writes
``summary.json`` there.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recipes import fold_of
from benchmarks.searched import near, opened, plain_of, recipe_within
from trainless.core.arch import Arch, Proposal
from trainless.core.files import write_atomic, write_json
from trainless.core.seeds import seeded
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.designs.diversity import disagreeing
from trainless.execution.executor import perform
from trainless.learn.ensemble import average, confidence_curve
from trainless.learn.loop import train
from trainless.learn.metrics import evaluate
from trainless.learn.predictor import predict_part
from trainless.rankings import ranking
from trainless.runs.signals import scores_of
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import init_named, select
from trainless.spaces.moves import sample
from trainless.spaces.residual import Residual

LOOKED, SIZE, FOLDS = 40, 4, 3
SHARES = (0.25, 0.5, 1.0)
TOP = "top"
SPACE = Residual()
METRICS = ("loss", "auc", "area")
HIGHER = {"loss": False, "auc": True, "area": True}
DRAWS, LEVEL = 10_000, 0.95


@dataclass(frozen=True)
class Job:
    """One training: a network with its weights' seed, on a fold of a set."""

    name: str
    seed: int
    fold: int
    arch: Arch
    weights: int

    @property
    def file(self) -> str:
        """A name that says which training it is."""
        arch = "-".join(map(str, self.arch))
        return f"{Path(self.name).name.split('.')[0]}.{self.seed}.{self.fold}.{arch}.{self.weights}.npz"


def ensembles(name: str, seed: int, looked: int, size: int, device: str) -> dict[str, list[tuple[Arch, int]]]:
    """The networks of each ensemble with the seeds of their weights, chosen before anything is trained."""
    task = opened(name)
    plain, random = plain_of(task), np.random.default_rng(seed)
    archs: list[Arch] = []
    while len(archs) < looked:
        arch = sample(SPACE, random)
        if near(arch, plain, task) and arch not in archs:
            archs.append(arch)
    ours = ranking("trainless")
    proxies = select(ours.proxies)
    measure = ByProxies(SPACE, task, proxies, seed=seed, init=init_named("own"), device=device)
    rows = {SPACE.format(arch): perform(measure, Proposal(arch)).values for arch in archs}
    standing = ours(scores_of(rows, {proxy.name: proxy.higher_is_better for proxy in proxies}))
    ranked = [archs[place] for place in np.argsort(-np.nan_to_num(standing, nan=-np.inf), kind="stable")]
    drawn = [archs[place] for place in random.permutation(looked)[:size]]
    found = {TOP: ranked[:size], "random": drawn, "one": ranked[:1] * size}
    for share in SHARES:
        found[f"unlike-{share:g}"] = disagreeing(SPACE, ranked, task, size, diversity=share, seed=seed)
    return {kind: _with_seeds(chosen) for kind, chosen in found.items()}


def _with_seeds(archs: Sequence[Arch]) -> list[tuple[Arch, int]]:
    """Weights' seeds count the times that an arch is there, so that ensembles share the trainings of one network."""
    return [(arch, list(archs[:place]).count(arch)) for place, arch in enumerate(archs)]


def trained(job: Job, task: Task, seconds: float, device: str) -> dict[str, Any]:
    """Train one network for so many core seconds by counted multiply–accumulates; what it says of what is held out."""
    own = fold_of(task, job.fold, FOLDS)
    made, _ = recipe_within(own, job.arch, seconds)
    weights = 1000 * job.seed + job.weights
    with seeded(weights):
        net = SPACE.build(job.arch, own)
    start = time.monotonic()
    result = train(net, own, made, seed=weights, device=device)
    valid = own.part("valid")
    about = {**vars(job), "status": result.status, "epochs": made.epochs, "took": time.monotonic() - start}
    return {
        "about": json.dumps(about),
        "p": predict_part(result.net, own, "valid", device).astype(np.float32),
        "y": np.asarray(valid.y)[valid.first],
    }


def run(asked: argparse.Namespace) -> None:
    """Choose the ensembles, and train what is not there yet."""
    start, out = time.monotonic(), Path(asked.output)
    for name, seed in itertools.product(asked.sets, range(asked.seeds)):
        label = f"{Path(name).name.split('.')[0]}.{seed}"
        plan = out / f"{label}.json"
        if not plan.exists():
            chosen = ensembles(name, seed, asked.looked, asked.size, asked.device)
            write_json(plan, {"set": name, "seed": seed, "folds": FOLDS, "ensembles": chosen})
        for job in jobs_of(json.loads(plan.read_text())):
            if time.monotonic() - start > asked.seconds:
                print("the time is used up: the same command goes on", flush=True)
                return
            if not (out / job.file).exists():
                found = trained(job, opened(name), asked.training, asked.device)
                write_atomic(out / job.file, _packed(found))
                print(f"{time.monotonic() - start:6.0f} s  {job.file}", flush=True)
    print("all is trained: python -m benchmarks.disagreement report", flush=True)


def _packed(arrays: Mapping[str, Any]) -> bytes:

    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def jobs_of(plan: Mapping[str, Any]) -> Iterator[Job]:
    """Every training of a plan once, fold by fold."""
    networks = {(tuple(arch), weights) for members in plan["ensembles"].values() for arch, weights in members}
    for fold in range(plan["folds"]):
        for arch, weights in sorted(networks):
            yield Job(plan["set"], plan["seed"], fold, arch, weights)


def figures(members: Floats, y: Floats) -> dict[str, float]:
    """Log loss, AUC and area under the confidence curve of an ensemble."""
    classes = members.shape[2]
    mean, prior = average(members), np.bincount(y, minlength=classes) / len(y)
    loss = float(-np.log(np.maximum(mean[np.arange(len(y)), y], 1e-12)).mean())
    target = Target("binary" if classes == 2 else "multiclass", classes)
    auc = evaluate(target, y, mean, draws=0, prior=prior)["auc"].value
    return {"loss": loss, "auc": auc, "area": confidence_curve(members, y).area}


def table(out: Path) -> list[dict[str, Any]]:
    """The figures of every ensemble on every set, seed and fold of which all trainings are there."""
    rows = []
    for path in sorted(out.glob("*.json")):
        plan = json.loads(path.read_text())
        if "ensembles" not in plan:
            continue
        for fold in range(plan["folds"]):
            unit: list[dict[str, Any]] = []
            for kind, members in plan["ensembles"].items():
                names = [out / Job(plan["set"], plan["seed"], fold, tuple(arch), w).file for arch, w in members]
                if not all(name.exists() for name in names):
                    break
                said = [np.load(name) for name in names]
                together = np.stack([each["p"] for each in said]).astype(np.float64)
                about = {"set": Path(plan["set"]).name.split(".")[0], "seed": plan["seed"], "fold": fold, "kind": kind}
                unit.append(about | figures(together, said[0]["y"]))
            else:
                rows += unit
    return rows


def paired(rows: Sequence[Mapping[str, Any]], seed: int = 0) -> list[dict[str, Any]]:
    """Each ensemble's mean difference to ``top`` over sets; its bootstrap draws whole sets, and seeds within them.

    Folds of one seed share their ensembles and most of their samples, so that they are drawn together.
    """
    found = []
    for kind, metric in itertools.product(dict.fromkeys(row["kind"] for row in rows), METRICS):
        if kind == TOP:
            continue
        units: dict[str, dict[int, list[float]]] = {}
        base = {(row["set"], row["seed"], row["fold"]): row[metric] for row in rows if row["kind"] == TOP}
        for row in rows:
            if row["kind"] == kind:
                gap = row[metric] - base[row["set"], row["seed"], row["fold"]]
                units.setdefault(row["set"], {}).setdefault(row["seed"], []).append(gap if HIGHER[metric] else -gap)
        means = [np.array([np.mean(folds) for folds in seeds.values()]) for seeds in units.values()]
        random = np.random.default_rng(seed)
        draws = np.empty(DRAWS)
        for draw in range(DRAWS):
            some = random.integers(len(means), size=len(means))
            draws[draw] = np.mean([random.choice(means[place], len(means[place])).mean() for place in some])
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        better = float(np.mean([each.mean() for each in means]))
        count = sum(map(len, means))
        found.append({"kind": kind, "metric": metric, "better": better, "low": low, "high": high, "runs": count})
    return found


def report(asked: argparse.Namespace) -> None:
    """Print the paired differences, and write them."""
    out = Path(asked.output)
    rows = table(out)
    if not rows:
        print("nothing is complete yet: run it first")
        return
    found = paired(rows)
    for one in found:
        span = f"[{one['low']:+.4f}, {one['high']:+.4f}]"
        print(
            f"{one['kind']:<12} {one['metric']:<5} better than top by {one['better']:+.4f} {span}, {one['runs']} runs"
        )
    write_json(out / "summary.json", {"rows": rows, "paired": found})


def main() -> None:
    """Run the study, or report it, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("--sets", nargs="+", default=["digits"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--looked", type=int, default=LOOKED)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--training", type=float, default=80.0, help="Core seconds of each training.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="No training is begun after so many.")
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()
    {"run": run, "report": report}[asked.what](asked)


if __name__ == "__main__":
    main()
