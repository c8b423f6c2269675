"""What searches found that were run once and kept, because they look at supernets or at a space without a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.bench.papers.sources import Answer, Where, estimates_over
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.bench.sheet import Interval, Share
from trainless.core.arch import Arch
from trainless.core.files import read_json
from trainless.core.opening import is_there, without_links
from trainless.core.task import Task
from trainless.spaces.nds import FAMILIES, PUBLISHED, NdsSpace
from trainless.spaces.nds_net import Skeleton

FILE = "searches.json"


def kept(library: ScoreLibrary, name: str) -> Mapping[str, Any]:
    """A search by its name: its space and its runs."""
    path = library.folder / FILE
    known = read_json(without_links(path)) if is_there(path) else {}
    if name not in known:
        command = f"python -m benchmarks.kept_searches '{name}' --out FOLDER"
        raise Missing(f"no runs of {name} are kept: {command}", f"no runs of {name} are kept")
    found: Mapping[str, Any] = known[name]
    return found


@dataclass(frozen=True)
class KeptSearch:
    """What the networks that a search found reach when they are trained, as the table has it."""

    name: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        runs, table = kept(library, self.name)["runs"], library.table(where.table)
        accuracy = table.column(where.task, where.metric)
        reached = np.array([accuracy[table.index(run["arch"])] for run in runs])
        seconds = float(np.mean([run["seconds"] for run in runs]))
        estimates = {**estimates_over(reached), "seconds": Interval(seconds)}
        return Answer.whole(estimates, len(table), len(runs))


OPERATIONS = {"none": "none", "skips": "skip", "pools": "pool", "separable": "sep", "dilated": "dil"}
UNTRAINED = {
    "cifar": "600 epochs of what a search finds are days of a GPU",
    "imagenet": "needs ImageNet-1k (imagenet/train/CLASS/ and imagenet/val/CLASS/ of the data directory) and GPU days",
}
TASKS: Mapping[Skeleton, Task] = {"cifar": Task.noise((3, 32, 32), 10), "imagenet": Task.noise((3, 224, 224), 1000)}


@dataclass(frozen=True)
class KeptCells:
    """The cells that a search found: what they are made of, and the published network's size in millions."""

    name: str
    skeleton: Skeleton = "cifar"

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = kept(library, self.name)
        channels, cells = PUBLISHED[self.skeleton]
        rules = NdsSpace(found["space"], channels, cells, self.skeleton)
        archs = [rules.parse(run["arch"]) for run in found["runs"]]
        sizes = [rules.counts(arch, TASKS[self.skeleton]).params / 1e6 for arch in archs]
        chosen = [_operations(rules, arch) for arch in archs]
        estimates = {"params": Interval(float(np.mean(sizes)))}
        for name, prefix in OPERATIONS.items():
            counts = [sum(prefix in each for each in names) for names in chosen]
            estimates[name] = Interval(float(np.mean(counts)))
        lacking = dict.fromkeys(("error", "error_top5"), UNTRAINED[self.skeleton])
        return Answer(estimates, estimates, len(archs), Share(len(archs), len(archs)), len(archs), lacking)


def _operations(rules: NdsSpace, arch: Arch) -> list[str]:
    """The operations of all edges."""
    names = FAMILIES[rules.family].operations
    chosen = zip(arch, rules.decisions, strict=True)
    return [decision.options[option] for option, decision in chosen if set(decision.options) == set(names)]
