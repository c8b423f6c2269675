"""Rank the random networks of results/clinical/ by today's rankings, without training them again.

    TRAINLESS_DATA=… python -m benchmarks.rerank && make docs-figures
    TRAINLESS_DATA=… python -m benchmarks.rerank --rankings teacup        # the others keep their values

The networks follow from the seed, and their FLOPs prove that they are those that were trained; their test figures are
those of the study. All of them are scored on a CPU and ranked among themselves; scores are kept in
results/clinical/scores/, from which a later call goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.members import pack, unpack
from benchmarks.render_clinical import RESULTS, TASKS
from benchmarks.teacup import OWN, PAPER, RANKINGS, archs_of, composite, swept
from benchmarks.teacup_report import compared
from trainless.core.files import strict
from trainless.rankings import ranking
from trainless.spaces.nb201 import NasBench201

PUBLISHED = "scores_published.npz"
SETTINGS = {
    "teacup-published": (PUBLISHED, "kaiming", 32),
    "teacup": (PAPER, "paper", 0),
    **dict.fromkeys(RANKINGS, (OWN, "own", 64)),
}
"""Of each ranking the file of its scores, the initialisation and the samples of a batch; 0 for each paper's."""


def reranked(task: str, found: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What the study of a task says of rankings, with some computed anew."""
    held, rules = found["rankings"], NasBench201(**found["settings"]["space"])
    values = {name: np.array(each, np.float64) for name, each in held["values"].items()}
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        pack(task, where / "packed")
        given = argparse.Namespace(
            **found["settings"]["space"],
            task=task,
            data=where / "packed",
            out=RESULTS / "scores" / task,
            work=where / "work",
            seed=0,
            sample=0,
            workers=1,
            device="cpu",
        )
        archs = archs_of(given)[: held["networks"]]
        opened = unpack(task, where / "packed")
        if not np.allclose([rules.counts(rules.parse(arch), opened).flops for arch in archs], values["flops"]):
            raise SystemExit(f"{task}: these are not the networks that were trained")
        for name in names:
            file, init, batch = SETTINGS[name]
            proxies = ",".join(ranking(name).proxies)
            scored = swept(given, file, init, archs, proxies, range(1), float("inf"), batch)
            values[name] = composite(scored, archs, 0, name)
    ordered = {name: values[name] for name in (*SETTINGS, *values) if name in values}
    said: dict[str, Any] = strict(compared(held["truth"], ordered))
    return said


def main() -> None:
    """Every task, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rankings", default=",".join(SETTINGS), help="those that are computed anew")
    names = parser.parse_args().rankings.split(",")
    for task in TASKS:
        path = RESULTS / f"{task}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        found["rankings"] = reranked(task, found, names)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(task, {name: round(one["auc"]["value"], 3) for name, one in found["rankings"]["of"].items()}, flush=True)


if __name__ == "__main__":
    main()
