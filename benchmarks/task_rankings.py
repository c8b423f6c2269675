"""Which ranking is right on data of one's own: random architectures are scored, then trained, and the two compared.

    python benchmarks/task_rankings.py digits breastmnist   # adds to results/task_rankings.json

Thin NAS-Bench-201 networks (8 channels, one cell per stage), the default recipe, test accuracy and area under the curve
of the weights with the lowest validation loss. One process, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import trainless as tl
from trainless.learn.loop import train
from trainless.learn.outputs import predict_part
from trainless.learn.recipe import recipe
from trainless.ranking import registry as rankings
from trainless.spaces.moves import sample

OUT = Path(__file__).resolve().parent / "results" / "task_rankings.json"
NAMES = ("teacup", "trainless", "trainless-label-free", "vkdnw-agg", "az-nas")


def study(name: str, networks: int, epochs: int, channels: int) -> dict[str, Any]:
    """Score and train random architectures on one task."""
    task, space = tl.task(name), tl.space("nb201", channels=channels, cells=1)
    rng = np.random.default_rng(0)
    archs: dict[Any, None] = {}
    while len(archs) < networks:
        archs[space.canonical(sample(space, rng))] = None
    proxies = sorted({proxy for ranking in NAMES for proxy in rankings[ranking].proxies})
    began = time.process_time()
    scores = tl.score((space, list(archs)), task=task, proxies=proxies, batch=64)
    scoring = time.process_time() - began
    y = np.asarray(task.part("test").y)
    accuracy, area = [], []
    began = time.process_time()
    for number, arch in enumerate(archs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            net = space.build(arch, task)
        chosen = recipe("default", epochs=epochs, batch=32, patience=min(12, epochs - 1))
        trained = train(net, task, chosen, seed=number)
        said = predict_part(trained.net, task, "test")
        accuracy.append(float((said.argmax(1) == y).mean()))
        area.append(_area(y, said))
        print(f"{name}: {number + 1}/{networks}", flush=True)
    training = time.process_time() - began
    return {
        "networks": networks,
        "epochs": epochs,
        "space": f"nb201(channels={channels}, cells=1)",
        "scoring_s": round(scoring, 1),
        "training_s": round(training, 1),
        "archs": [space.format(arch) for arch in archs],
        "accuracy": accuracy,
        "auc": area,
        "rankings": {
            ranking: {
                "accuracy": _agreement(rankings[ranking](scores), accuracy),
                "auc": _agreement(rankings[ranking](scores), area),
            }
            for ranking in NAMES
        },
    }


def _area(y: Any, said: Any) -> float:
    if said.shape[1] == 2:
        return float(roc_auc_score(y, said[:, 1]))
    return float(roc_auc_score(y, said, multi_class="ovr", labels=np.arange(said.shape[1])))


def _agreement(values: Any, truth: list[float]) -> list[float]:
    """Spearman's ρ and its 95 % interval over networks; a failure is last."""
    x, y = np.where(np.isfinite(values), values, -1e300), np.array(truth)
    draws = np.random.default_rng(0).integers(0, len(x), (1000, len(x)))
    many = [spearmanr(x[draw], y[draw])[0] for draw in draws]
    low, high = np.nanquantile(many, [0.025, 0.975])
    return [round(float(one), 3) for one in (spearmanr(x, y)[0], low, high)]


def main() -> None:
    """Study the tasks that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--networks", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--channels", type=int, default=8)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.tasks:
        found = study(name, given.networks, given.epochs, given.channels)
        known = json.loads(OUT.read_text(encoding="utf-8")) if OUT.is_file() else {}
        OUT.write_text(json.dumps({**known, name: found}, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(found["rankings"]), flush=True)


if __name__ == "__main__":
    main()
