"""Run those of the papers' searches that score as they go, and keep what they find in results/searches.json.

    TRAINLESS_DATA=… OMP_NUM_THREADS=1 python -m benchmarks.kept_searches te-nas --out runs/te-nas
    python -m benchmarks.measure_results teg-nas:table2

Each run has a folder, from which the same command resumes it. On a table other searches are told stored scores, in
seconds: what is here looks at supernets, or at a space without a table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainless.bench.papers.kept import FILE
from trainless.bench.score_library import results_directory
from trainless.core.files import write_atomic
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.spaces import space

ALONE = "ntk_condition/coupling=isolated,linear_regions,ntk_mse/coupling=isolated"
THIN = "the paper's thin networks, every sample normalised alone"


@dataclass(frozen=True)
class Plan:
    """A search: of what, by what, how often, and what it differs in from the paper's."""

    space: str
    searcher: str
    proxies: str
    runs: int
    differs: str
    arguments: Mapping[str, Any]
    evaluations: int | None = None
    batch: int = 0


def _plan(space: str, searcher: str, proxies: str, runs: int, differs: str, batch: int = 0, **arguments: Any) -> Plan:
    return Plan(space, searcher, proxies, runs, differs, arguments, batch=batch)


PLANS = {
    "te-nas": _plan("nb201", "prune", ALONE.rpartition(",")[0], 4, THIN),
    "te-nas + teg": _plan("nb201", "prune", ALONE, 4, THIN),
    "darts reinforce": _plan("darts", "teg_reinforce", ALONE, 1, f"{THIN}, 14 of them", 14, rate=0.07),
    "darts evolution": _plan("darts", "teg_evolution", ALONE, 1, f"{THIN}, 14 of them", 14),
    "darts fpnas": _plan("darts", "fpnas", ALONE, 1, f"{THIN}, 14 of them", 14),
}


def run(plan: Plan, seed: int, out: Path) -> dict[str, Any]:
    """One run: the architecture that it ends with, in its space's notation, and what it took."""
    rules = space(plan.space)
    settings = SearchSettings(
        searcher_args=plan.arguments, init="paper", batch=plan.batch, evaluations=plan.evaluations or 10**6, store=""
    )
    found = search(
        "cifar10", rules, plan.searcher, proxies=plan.proxies, seed=seed, out=out / f"run-{seed}", settings=settings
    )
    return {
        "seed": seed,
        "arch": rules.format(found.best),
        "evaluations": found.spent.evaluations,
        "seconds": round(found.spent.seconds, 1),
    }


def main() -> None:
    """Run what is named, and keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=PLANS)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the runs")
    parser.add_argument("--runs", type=int, default=0, help="the plan's by default")
    parser.add_argument("--results", type=Path, default=results_directory())
    given = parser.parse_args()
    torch.set_num_threads(1)
    plan, path = PLANS[given.name], given.results / FILE
    runs = [run(plan, seed, given.out) for seed in range(given.runs or plan.runs)]
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    about = {"space": plan.space, "searcher": plan.searcher, "proxies": plan.proxies, "differs": plan.differs}
    known[given.name] = {**about, "torch": torch.__version__, "device": "cpu", "runs": runs}
    write_atomic(path, json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")
    print(given.name, runs)


if __name__ == "__main__":
    main()
