"""What the proxies of guided searches cost by themselves, the passes that they share with others included.

    TRAINLESS_DATA=… OMP_NUM_THREADS=1 python -m benchmarks.prices

A sweep's own milliseconds are what a proxy *adds* to those before it, which says little of a search by that proxy
alone. Here networks are built and scored by the proxies of each search and by nothing else, in the setting of the
scores that the search is told. Processor time of one thread; written to results/prices.json.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from trainless.bench.papers import definitions
from trainless.bench.papers.sources import Guided
from trainless.bench.score_library import PRICES, ScoreLibrary
from trainless.runs.score_file import ScoreFile
from trainless.scoring.evaluate import score
from trainless.scoring.request import init_named
from trainless.spaces import space
from trainless.tasks import task

RESULTS = Path(__file__).resolve().parent.parent / "results"
NETWORKS = 12


def milliseconds(file: ScoreFile, proxies: Sequence[str], archs: Sequence[str]) -> float:
    """The mean of building a network and scoring it on CIFAR-10's images, each the faster of two."""
    data, rules = task("cifar10"), space(file.settings["space"].partition("(")[0])
    batch, init = file.settings["batch"] or None, init_named(file.settings["init"])

    def once(arch: str) -> float:
        began = time.process_time()
        score((rules, [rules.parse(arch)]), batch, task=data, proxies=proxies, init=init)
        return 1000 * (time.process_time() - began)

    return float(np.mean([min(once(arch), once(arch)) for arch in archs]))


def prices(library: ScoreLibrary, table: str, searches: Sequence[tuple[str, ...]]) -> dict[str, float]:
    """The milliseconds of each search's proxies; those whose scores have one setting are computed together."""
    archs = np.random.default_rng(0).permutation(np.array(library.stored(table)[0][0].archs))[:NETWORKS].tolist()
    known: dict[tuple[str, ...], float] = {}
    found = {}
    for proxies in searches:
        files: dict[int, tuple[ScoreFile, list[str]]] = {}
        for proxy in proxies:
            file = library.source(table, proxy)
            if file is not None:
                files.setdefault(id(file), (file, []))[1].append(proxy)
        for file, names in files.values():
            if tuple(names) not in known:
                known[tuple(names)] = milliseconds(file, names, archs)
        found[",".join(proxies)] = round(sum(known[tuple(names)] for _, names in files.values()), 1)
        print(proxies, found[",".join(proxies)], flush=True)
    return found


def main() -> None:
    """Measure what the definitions of papers search by."""
    library = ScoreLibrary(RESULTS)
    guided = {
        (each.where.table, row.source.proxies)
        for each in definitions().values()
        for row in each.rows
        if isinstance(row.source, Guided)
    }
    tables = sorted({table for table, _ in guided})
    found = {table: prices(library, table, sorted(names for at, names in guided if at == table)) for table in tables}
    about = {"networks": NETWORKS, "device": "cpu, one thread", "torch": torch.__version__, "ms": found}
    (RESULTS / PRICES).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
