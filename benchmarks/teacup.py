"""TEACUP's study on one task, start to end: score a space, search it thirty times, train what was found, judge it.

    python -m benchmarks.teacup pack breastmnist --data packed                   # where the data are: as plain arrays
    python -m benchmarks.teacup score breastmnist --data packed --out study --device cuda --workers 15
    python -m benchmarks.teacup search breastmnist --data packed --out study --device cuda --workers 10
    python -m benchmarks.teacup train breastmnist --data packed --out study --device cuda --workers 12
    python -m benchmarks.teacup report breastmnist --out study
    python -m benchmarks.teacup all digits --data packed --out study --channels 4 --cells 1 --sample 60 --epochs 2

All but ``pack`` run where there is nothing but torch, NumPy, SciPy and safetensors. The folder gets
``scores_paper.npz`` (TEACUP's four metrics in its setting), ``scores_own.npz`` (the ingredients of our rankings, of
some hundred random networks), ``jobs.json``, ``members.npz``, ``report.json`` and ``report.md``. Every command goes on
from what is there: scores, searches and trained networks one by one.

Multiply–accumulates of training by counts, in 10^12: the densest network, ResNet-18 of the width, and a study (40
networks like the densest, 40 random ones of a third of that, three ResNet-18). Minutes are guesses for one H200 and 12
to 15 processes: scoring at 25 networks per second (measured: 15 to 21 with 11 to 30 proxies), ten prunings at
2 s per supernet, training at 10^13 per second in images and 5 × 10^12 in signals and volumes.

    task              networks            epochs   densest   ResNet-18   study   score + search + train
    breastmnist       16 × 5, width 64    200         55.1       149.3    3390     6 + 3 + 6 minutes
    digits            16 × 5, width 64     60          3.1         7.9     190     6 + 3 + 2
    cinc2017-windows  16 × 5, width 64     10         97.0       390.3    6340     7 + 4 + 21
    cinc2017-windows  16 × 2, width 32     10         41.5        97.6    2500     3 + 2 + 8
    adrenalmnist3d    16 × 5, width 64    100       2904.0      6325.8  174000     far too long
    adrenalmnist3d     8 × 1, width 16     40         63.6       159.2    3870     4 + 1 + 13

``--sample 1500 --again 150`` makes scoring a third.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.members import Job, pack, train_all, unpack
from benchmarks.teacup_report import judge, page
from trainless.core.arch import Arch
from trainless.core.scores import Record, Scores
from trainless.designs.planning import Trial, scored_samples, trials
from trainless.designs.settings import WINNERS, DesignSettings
from trainless.execution.fork_server import shared_gpu
from trainless.learn.ensemble import most_common
from trainless.rankings import ranking
from trainless.runs.score_file import ScoreFile, read_scores
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings, SweepSettings
from trainless.runs.sweep import SweepProgress, sweep
from trainless.scoring.measures import Lookup
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import NasBench201

RECIPES = {
    "breastmnist": "teacup-breastmnist",
    "adrenalmnist3d": "teacup-nodulemnist3d",
    "cinc2017-windows": "teacup-ecg2017",
}
RANKINGS = ("trainless",)
PAPER, OWN, JOBS, MEMBERS = "scores_paper.npz", "scores_own.npz", "jobs.json", "members.npz"
Floats = Any


def archs_of(given: argparse.Namespace) -> list[str]:
    """The classes of NAS-Bench-201 in a shuffled order that is always the same; fewer where a sample was asked for."""
    space = NasBench201(given.channels, given.cells)
    found = [space.format(arch) for arch in enumerate_archs(space, canonical=True)]
    order = np.random.default_rng(given.seed).permutation(len(found))
    return [found[place] for place in order[: given.sample or None]]


def score(given: argparse.Namespace) -> None:
    """Score the space by TEACUP's metrics, its best again with the seeds of further runs, and some by ours."""
    every, began = archs_of(given), time.monotonic()
    teacup = ",".join(ranking("teacup").proxies)
    left = given.score_s
    first = swept(given, PAPER, "paper", every, teacup, range(1), 0.6 * left)
    values = composite(first, every, 0)
    best = [every[place] for place in np.argsort(-values, kind="stable")[: given.again] if np.isfinite(values[place])]
    if best and given.runs > 1:
        left = given.score_s - (time.monotonic() - began)
        swept(given, PAPER, "paper", best, teacup, range(1, given.runs), 0.6 * left)
    ours = sorted({proxy for name in RANKINGS for proxy in ranking(name).proxies} | {"flops", "params"})
    left = given.score_s - (time.monotonic() - began)
    swept(given, OWN, "own", every[: given.others], ",".join(ours), range(1), left)


def swept(
    given: argparse.Namespace,
    name: str,
    init: str,
    archs: list[str],
    proxies: str,
    seeds: range,
    limit: float,
    batch: int = 0,
) -> ScoreFile:
    """One sweep; its journals are kept beside the results, which it goes on from.

    The ``batch`` is that of each paper, 64 or what is said.
    """
    work = given.work / name.removesuffix(".npz")
    work.mkdir(parents=True, exist_ok=True)
    if (given.out / name).is_file() and not (work / "scores.npz").is_file():
        shutil.copyfile(given.out / name, work / "scores.npz")
    task = unpack(given.task, given.data)
    data = given.work / f"{given.task}.npz"
    if not data.is_file():
        np.savez(data, x=np.asarray(task.part("train").x), y=np.asarray(task.part("train").y))
    listed = work / "archs.txt"
    listed.write_text("\n".join(archs) + "\n", encoding="utf-8")
    plan = SweepSettings(
        out=str(work),
        space_args=f"channels={given.channels},cells={given.cells}",
        archs=str(listed),
        proxies=proxies,
        init=init,
        batch=scored_samples(task, "teacup") if init == "paper" else min(batch or 64, len(task.part("train"))),
        task=str(data),
        seed=seeds.start,
        seeds=len(seeds),
        workers=given.workers,
        device=given.device,
        time=max(1.0, limit),
    )
    found = sweep(plan, _say)
    given.out.mkdir(parents=True, exist_ok=True)
    found.write(given.out / name)
    return found


def _say(progress: SweepProgress) -> None:
    print(f"{progress.seconds:6.0f} s  {progress.done}/{progress.total}  {progress.rate:.2f} per s", flush=True)


def composite(file: ScoreFile, archs: Sequence[str], seed: int, name: str = "teacup") -> Floats:
    """A ranking's value of each arch with a seed: −∞ for one that failed, NaN for one that was not scored.

    It is relative to the archs that were scored, where the ranking is made of ranks.
    """
    chosen = ranking(name)
    places = [file.proxies.index(proxy) for proxy in chosen.proxies]
    asked = (file.codes[:, places, file.seeds.index(seed)] != 1).all(axis=1)
    rows = {arch: row for row, arch in enumerate(file.archs) if asked[row]}
    columns = {proxy: file.column(proxy, seed) for proxy in chosen.proxies}
    known = [arch for arch in archs if arch in rows]
    records = [
        Record(arch, proxy, float(columns[proxy][rows[arch]]), file.higher_is_better(proxy))
        for arch in known
        for proxy in chosen.proxies
    ]
    values = dict(zip(known, chosen(Scores(records)), strict=True)) if known else {}
    return np.array([values.get(arch, np.nan) for arch in archs], np.float64)


def run_values(file: ScoreFile, archs: Sequence[str], run: int) -> Floats:
    """What a run of a search looks up: the values of its own seed where there are any, seed 0's otherwise.

    Only the best of seed 0 are scored again. Another batch and other weights shift all values together; that shift is
    taken out by the medians, so that archs with either seed can be compared.
    """
    first = composite(file, archs, 0)
    if run not in file.seeds:
        return first
    own = composite(file, archs, run)
    both = np.flatnonzero(np.isfinite(own) & np.isfinite(first))
    moved = first.copy()
    if len(both):
        moved[both] = own[both] - np.median(own[both] - first[both])
    return moved


def find(given: argparse.Namespace) -> None:
    """Ten runs of each search: two look values up, pruning scores its supernets; write the jobs of training."""
    if (given.out / JOBS).is_file():
        print(f"{given.out / JOBS} is there: nothing is searched again", flush=True)
        return
    methods = tuple(given.methods.split(","))
    numbers = {"searches": given.runs, "evaluations": given.evaluations, "methods": methods, "seed": given.seed}
    settings = DesignSettings(preset="teacup", **numbers).resolved()
    wanted = trials(settings, NasBench201(given.channels, given.cells))
    wanted.sort(key=lambda trial: trial.evaluations is not None)  # pruning takes longest
    began = time.monotonic()
    with shared_gpu(given.device.startswith("cuda") and given.workers > 1):
        context = multiprocessing.get_context("spawn")
        with context.Pool(min(given.workers, len(wanted))) as pool:
            found = pool.starmap(run_trial, [(vars(given), trial) for trial in wanted], chunksize=1)
    searches = sorted(found, key=lambda one: str(one["name"]))
    jobs = jobs_of(given, searches)
    about = {"seconds": round(time.monotonic() - began, 1), "searches": searches, "jobs": jobs}
    (given.out / JOBS).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(Counter(one["arch"] for one in searches).most_common(3), flush=True)


def run_trial(options: dict[str, Any], trial: Trial) -> dict[str, Any]:
    """One search and its winner: its own choice or the first of its leaderboard; what ended before is read."""
    torch.set_num_threads(1)
    given = argparse.Namespace(**options)
    kept = given.work / f"{trial.name}.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    space, task = NasBench201(given.channels, given.cells), unpack(given.task, given.data)
    options = {"searcher_args": trial.arguments, "evaluations": trial.evaluations, "seed": trial.seed}
    if trial.searcher == "prune":
        options |= {
            "ranking": "teacup",
            "init": "paper",
            "batch": scored_samples(task, "teacup"),
            "device": given.device,
        }
    else:
        options |= looked_up(read_scores(given.out / PAPER), space, int(trial.name[-2:]))
    began = time.monotonic()
    found = search(task, space, trial.searcher, settings=SearchSettings(**options))
    winner = {
        "name": trial.name,
        "arch": space.format(found.best if given.winner == "own" else found.places[0].arch),
        "evaluations": found.spent.evaluations,
        "seconds": round(time.monotonic() - began, 1),
    }
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(winner), encoding="utf-8")
    return winner


def looked_up(file: ScoreFile, space: NasBench201, run: int) -> dict[str, Any]:
    """Search among the classes that were scored, by TEACUP's composite; one that failed has no value."""
    rows = np.flatnonzero((file.codes[:, :, 0] != 1).any(1))
    texts = [file.archs[row] for row in rows]
    values = run_values(file, texts, run)
    archs: list[Arch] = [space.parse(text) for text in texts]
    there = set(archs)
    return {
        "measure": Lookup("teacup", archs, {1.0: np.where(np.isfinite(values), values, np.nan)}, np.zeros(len(archs))),
        "costs": {"unscored": lambda arch: 1.0 if space.canonical(arch) in there else 2.0},
        "constraints": {"unscored": 1.0},
    }


def jobs_of(given: argparse.Namespace, searches: Sequence[dict[str, Any]]) -> list[Job]:
    """Winners, initialisations of the most frequent winner, ResNet-18, and random networks."""
    space = NasBench201(given.channels, given.cells)
    twins = [space.canonical(space.parse(one["arch"])) for one in searches]
    common = space.format(most_common(twins))
    chosen = [
        *((one["name"].partition("-")[0], one["arch"]) for one in searches),
        *[("single", common)] * given.single,
        *[("resnet18", "resnet18")] * given.resnets,
        *(("random", arch) for arch in archs_of(given)[: given.random]),
    ]
    shared = {
        "task": given.task,
        "space": {"channels": given.channels, "cells": given.cells},
        "width": given.width,
        "recipe": given.recipe or RECIPES.get(given.task, "default"),
        "epochs": given.epochs,
        "batch": given.batch,
    }
    return [{**shared, "role": role, "arch": arch, "seed": number} for number, (role, arch) in enumerate(chosen)]


def fit(given: argparse.Namespace) -> None:
    """Train all jobs."""
    jobs = json.loads((given.out / JOBS).read_text(encoding="utf-8"))["jobs"]
    train_all(jobs, given.data, given.out / MEMBERS, processes=given.workers, device=given.device, limit=given.train_s)


def report(given: argparse.Namespace) -> None:
    """Judge what there is."""
    with np.load(given.out / MEMBERS, allow_pickle=False) as file:
        jobs = json.loads(str(file["jobs"]))
        arrays = {name: file[name] for name in file.files if name != "jobs"}
    trained = [job["arch"] for job in jobs if job["role"] == "random"]
    paper, own = read_scores(given.out / PAPER), read_scores(given.out / OWN)
    columns = {"teacup": dict(zip(paper.archs, composite(paper, paper.archs, 0), strict=True))}
    for name in RANKINGS:
        columns[name] = dict(zip(own.archs, composite(own, own.archs, 0, name), strict=True))
    for name in ("flops", "params"):
        columns[name] = dict(zip(own.archs, own.column(name, 0), strict=True))
    values = {name: np.array([held.get(arch, np.nan) for arch in trained]) for name, held in columns.items()}
    found = judge(given.task, jobs, arrays, values)
    (given.out / "report.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (given.out / "report.md").write_text(page(found), encoding="utf-8")
    print(page(found), flush=True)


def everything(given: argparse.Namespace) -> None:
    """All stages."""
    for stage in (score, find, fit, report):
        stage(given)


def main(arguments: Sequence[str] | None = None) -> None:
    """One stage or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    stages = {"score": score, "search": find, "train": fit, "report": report, "all": everything}
    parser.add_argument("stage", choices=["pack", *stages])
    parser.add_argument("task")
    parser.add_argument("--data", type=Path, default=Path("packed"), help="folder of packed tasks")
    parser.add_argument("--out", type=Path, default=Path("study"))
    parser.add_argument("--work", type=Path, default=None, help="folder of journals; beside --out by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--cells", type=int, default=5)
    parser.add_argument("--sample", type=int, default=0, help="classes to score; 0 for all 5,653")
    parser.add_argument("--again", type=int, default=300, help="the best of them, scored again for each further run")
    parser.add_argument("--others", type=int, default=300, help="random classes scored for our rankings")
    parser.add_argument("--runs", type=int, default=10, help="of each search")
    parser.add_argument("--methods", default="rl,genetic,prune")
    parser.add_argument("--evaluations", type=int, default=1000, help="of each run")
    parser.add_argument("--winner", default="own", choices=WINNERS, help="what a search ends with; the study had best")
    parser.add_argument("--single", type=int, default=10, help="members of one architecture")
    parser.add_argument("--resnets", type=int, default=3)
    parser.add_argument("--random", type=int, default=40, help="random classes to train")
    parser.add_argument("--width", type=int, default=64, help="of ResNet-18's first stage")
    parser.add_argument("--recipe", default="", help="TEACUP's for the task by default")
    parser.add_argument("--epochs", type=int, default=0, help="0 for the recipe's")
    parser.add_argument("--batch", type=int, default=0, help="0 for the recipe's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--score-s", type=float, default=1e9, help="seconds for scoring")
    parser.add_argument("--train-s", type=float, default=1e9, help="seconds for training")
    given = parser.parse_args(arguments)
    if given.stage == "pack":
        pack(given.task, given.data)
        return
    given.work = given.work or given.out.with_name(f"{given.out.name}.work")
    stages[given.stage](given)


if __name__ == "__main__":
    main()
