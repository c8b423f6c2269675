"""Measure what docs/results.md shows, into results/leaderboard.json and results/papers.json.

Needs the tables (TRAINLESS_DATA); ``make docs-figures`` then renders the pages, in a second. All of it, or parts: the
leaderboard, tables or papers by their names; what is not measured stays as it is::

    python -m benchmarks.measure_results
    python -m benchmarks.measure_results leaderboard teacup:table2 gradsign
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from trainless.bench import leaderboard
from trainless.bench.correlate import beside_peers
from trainless.bench.papers import compare, definitions, find, stored
from trainless.bench.score_library import ScoreLibrary

ROOT = Path(__file__).resolve().parents[1]
COSTS = ROOT / "benchmarks" / "results" / "proxies.json"
NETWORK = "nb201-median"
LEADERBOARD = "leaderboard"


def costs(path: Path = COSTS) -> dict[str, float]:
    """The price of each proxy alone, in forward-backward equivalents, on a median network of NAS-Bench-201."""
    found = json.loads(path.read_text(encoding="utf-8"))["networks"][NETWORK]["costs"]
    return {name: cost["fbe"] for name, cost in found.items() if cost["fbe"] is not None}


def measure(library: ScoreLibrary, parts: Sequence[str], draws: int, runs: int | None) -> None:
    """Measure what is named, everything where nothing is."""
    if not parts or LEADERBOARD in parts:
        found = leaderboard.measured(library, costs(), draws, _say)
        leaderboard.write(found, library.folder / leaderboard.FILE)
    names = [each.name for part in parts or ["all"] if part != LEADERBOARD for each in find(part)]
    if not names:
        return
    path = library.folder / stored.FILE
    before = stored.read(path) if path.exists() else {}
    known, fresh = definitions(), {}
    for name in names:
        _say(name)
        fresh[name] = compare(known[name], library, draws=min(draws, 200), runs=runs)
    sheets = {name: sheet for name in known if (sheet := fresh.get(name) or before.get(name))}
    stored.write({**sheets, stored.PEERS: beside_peers(library)}, path)


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"{LEADERBOARD}, or tables and papers (trainless bench paper list)")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws behind the intervals")
    parser.add_argument("--runs", type=int, default=0, help="runs of each search; 0 for the papers' numbers")
    given = parser.parse_args()
    measure(ScoreLibrary(given.results), given.parts, given.draws, given.runs or None)


if __name__ == "__main__":
    main()
