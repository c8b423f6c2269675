"""Write docs/results.md and its pictures from the stored scores in results/.

Needs the tables (TRAINLESS_DATA) and matplotlib (``pip install 'trainless[figures]'``)::

    python benchmarks/render_results.py --draws 1000
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trainless.bench.render import Page, render
from trainless.bench.score_library import ScoreLibrary

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Read the options and render."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws behind the intervals")
    parser.add_argument("--runs", type=int, default=0, help="runs of each search; 0 for the papers' numbers")
    given = parser.parse_args()
    page = Page(given.docs / "results.md", given.docs / "figures", given.draws, given.runs or None)
    render(ScoreLibrary(given.results), page, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
