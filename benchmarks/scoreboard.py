"""All statistics of 30 proxies on 15,625 networks with 1,000 bootstrap draws: how long that takes on two cores.

    python benchmarks/scoreboard.py [--proxies 30] [--networks 15625] [--draws 1000] [--out FILE.json]

Every proxy has failures, so that both versions are computed (ranked last, and left out), which is twice the work. Half
of them have ties, as scores of canonical networks have. Seconds of the processor are stated too, because a busy machine
takes longer by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import scipy

from trainless.bench.statistics import MEANINGS, evaluate_all

OUT = Path(__file__).resolve().parent / "results" / "scoreboard.json"


def columns(proxies: int, networks: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores with 2 % failures and accuracies as NAS-Bench-201 has them: many near 90, in steps of 0.01."""
    rng = np.random.default_rng(0)
    accuracy = np.clip(rng.normal(88, 6, networks), 10, 94).round(2)
    found = {}
    for proxy in range(proxies):
        scores = accuracy + rng.normal(0, 1 + proxy, networks)
        scores = scores.round(2) if proxy % 2 else scores
        scores[rng.random(networks) < 0.02] = np.nan
        found[f"proxy_{proxy:02d}"] = scores
    return found, accuracy


def measure(proxies: int, networks: int, draws: int, workers: int) -> dict[str, object]:
    """Seconds by the clock and of the processor."""
    scores, accuracy = columns(proxies, networks)
    clock, processor = time.perf_counter(), time.process_time()
    evaluate_all(scores, accuracy, draws=draws, workers=workers)
    return {
        **{"proxies": proxies, "networks": networks, "draws": draws, "workers": workers, "statistics": len(MEANINGS)},
        "seconds": round(time.perf_counter() - clock, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--proxies", type=int, default=30)
    parser.add_argument("--networks", type=int, default=15_625)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    found = measure(given.proxies, given.networks, given.draws, given.workers)
    environment = {
        **{"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__},
        **{"machine": platform.machine(), "cores": os.cpu_count(), "load_before": round(load, 2)},
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"environment": environment, **found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
