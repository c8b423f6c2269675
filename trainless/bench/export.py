"""Scores of a sweep for others: as rows of CSV, and in the store that every other verb looks into."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from trainless.bench.plan import Plan
from trainless.core.errors import InputError
from trainless.proxies.proxy import registry
from trainless.scoring.request import data_for, init_named, setting_for
from trainless.spaces import open_space
from trainless.spaces.protocol import key
from trainless.store import Key, Result, Store
from trainless.store.score_file import ScoreFile
from trainless.tasks import task as open_task


def to_csv(file: ScoreFile, path: str | Path) -> None:
    """One row per arch and seed, one column per proxy; what is not there is empty."""
    try:
        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["arch_str", "seed", *file.proxies])
            for a, arch in enumerate(file.archs):
                for s, seed in enumerate(file.seeds):
                    values = file.values[a, :, s].tolist()
                    writer.writerow(
                        [arch, seed, *("" if not math.isfinite(value) else repr(value) for value in values)]
                    )
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): give another file") from error


def to_store(file: ScoreFile, plan: Plan, store: Store) -> int:
    """Keep every score of registered proxies that succeeded; the number of them."""
    space, task = open_space(plan.space, plan.space_args), open_task(plan.task)
    data = data_for(plan.batch or None, task, [], "cpu")
    archs = [",".join(map(str, space.parse(arch))) for arch in file.archs]
    where = "" if plan.device == "cpu" else f" on {plan.device.partition(':')[0]}"
    kept = 0
    for p, name in enumerate(file.proxies):
        if name not in registry:
            continue
        proxy = registry[name]
        setting = f"{setting_for(proxy, init_named(plan.init), data)!r}{where}"
        for s, seed in enumerate(file.seeds):
            rows = [
                (
                    Key(key(space), archs[a], name, proxy.version, setting, task.fingerprint, seed),
                    Result(float(file.values[a, p, s]), "ok", math.nan, math.nan),
                )
                for a in range(len(archs))
                if file.codes[a, p, s] == 0
            ]
            store.keep(rows)
            kept += len(rows)
    return kept
