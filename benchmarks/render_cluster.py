"""Write the tables of docs/cluster.md from benchmarks/results/cluster.json.

make docs-figures
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "cluster.md", ROOT / "benchmarks" / "results" / "cluster.json"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
WRITERS = 16
NAMES = {
    "local": "processes of one machine",
    "folder": "a run in a shared folder",
    "postgresql": "a run in PostgreSQL",
    "slurm": f"SLURM (submitit's local executor), {WRITERS} workers",
    "ray": "Ray",
    "writers": f"{WRITERS} writers of one shared folder",
}


def figures(found: dict[str, Any]) -> str:
    """The tables of docs/cluster.md."""
    lines = [
        "| | faults | candidates | lost | doubled | under a wrong name | leaderboard |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, words in NAMES.items():
        if name not in found["faults"]:
            continue
        kind = found["faults"][name]
        kinds = Counter(fault["fault"] for fault in kind["faults"])
        board = {True: "the same bytes", False: "differs", None: "–"}[kind["same_leaderboard"]]
        said = ", ".join(f"{number} {what}" for what, number in sorted(kinds.items()))
        counts = " | ".join(f"{kind[name]:,}" for name in ("evaluations", "lost", "doubled", "wrong_name"))
        lines.append(f"| {words} | {len(kind['faults'])}: {said} | {counts} | {board} |")
    costs, where = found["cost"], found["environment"]
    folder, node = costs["folder_ms"], costs["slurm_local_ms"]
    lines += [
        "",
        f"A candidate whose score takes no time takes {folder['median']:.1f} ms in a shared folder (claimed, kept, on"
        f" the disk; {costs['folder_cpu_ms']:.1f} ms of processor time), of which the disk's own sync is"
        f" {costs['sync_ms']['median']:.1f} ms, and {node['median']:.1f} ms through a node of SLURM's local stand-in"
        f" (medians; 95 % within {folder['p95']:.1f} and {node['p95']:.1f} ms)."
        f" A process holds {costs['memory_bytes_per_score']} bytes for each score of a shared folder. Measured on"
        f" {where['cores']} cores with a load of {where['load']}.",
    ]
    return "\n".join(lines) + "\n"


def page(text: str, found: dict[str, Any]) -> str:
    """docs/cluster.md with the tables of a result file."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{figures(found)}{END}{rest.partition(END)[2]}"


def rendered() -> str:
    """The page as it has to be."""
    return page(PAGE.read_text(), json.loads(RESULTS.read_text()))
