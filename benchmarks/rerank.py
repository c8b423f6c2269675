"""Rank the random networks of results/clinical/ by today's rankings, without training them again.

    TRAINLESS_DATA=… python -m benchmarks.rerank && make docs-figures

The networks follow from the seed; their test figures, FLOPs and TEACUP's values are those of the study, and the stored
FLOPs prove that they are the same networks. They are scored and ranked among themselves, on a CPU.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.members import pack
from benchmarks.render_clinical import RESULTS, TASKS
from benchmarks.teacup import OWN, RANKINGS, archs_of, composite, swept
from benchmarks.teacup_report import compared
from trainless.core.files import strict
from trainless.rankings import ranking


def reranked(task: str, found: dict[str, Any]) -> dict[str, Any]:
    """What the study of a task says of rankings, with ours computed anew."""
    held, space = found["rankings"], found["settings"]["space"]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        pack(task, where / "packed")
        given = argparse.Namespace(
            **space,
            task=task,
            data=where / "packed",
            out=where / "out",
            work=where / "work",
            seed=0,
            sample=0,
            workers=1,
            device="cpu",
        )
        archs = archs_of(given)[: held["networks"]]
        proxies = {proxy for name in RANKINGS for proxy in ranking(name).proxies} | {"flops"}
        file = swept(given, OWN, "own", archs, ",".join(sorted(proxies)), (0,), float("inf"))
    flops = dict(zip(file.archs, file.column("flops", 0), strict=True))
    if not np.allclose([flops[arch] for arch in archs], held["values"]["flops"]):
        raise SystemExit(f"{task}: these are not the networks that were trained")
    ours = {name: composite(file, archs, 0, name) for name in RANKINGS}
    values = {name: ours.get(name, np.array(held["values"][name])) for name in held["values"]}
    values = {name: np.array(each, np.float64) for name, each in values.items()}  # null is NaN
    said: dict[str, Any] = strict(compared(held["truth"], values))
    return said


def main() -> None:
    """Every task, one after the other."""
    for task in TASKS:
        path = RESULTS / f"{task}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        found["rankings"] = reranked(task, found)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(task, {name: round(one["auc"]["value"], 3) for name, one in found["rankings"]["of"].items()}, flush=True)


if __name__ == "__main__":
    main()
