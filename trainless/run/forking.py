"""A run that begins as another was after one of its steps, with other randomness from there on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from trainless.core.errors import InputError
from trainless.engine.store import SqliteStore, merge, store_at
from trainless.run.folder import CONFIGURATION, STORE, TRAJECTORY, read_configuration, replace
from trainless.run.plan import Plan
from trainless.run.trajectory import fork, read_only


def forked(plan: Plan, path: Path, parent: tuple[str | Path, int], seed: int, named: str) -> tuple[Plan, int]:
    """The plan of a child and its ``ahead``; into a new folder the parent's steps and scores are copied."""
    source, step = Path(parent[0]), parent[1]
    configuration = read_configuration(source)
    if source.resolve() == path.resolve():
        raise InputError(f"{path} is the run to fork itself: give another folder with --out")
    child = plan.child(configuration, step, seed)
    if (path / CONFIGURATION).exists():
        return child, int(configuration["ahead"])
    present = {**child.described(), "seed": configuration["seed"]}
    for name, value in present.items():
        if name in configuration and configuration[name] != value:
            raise InputError(
                f"{source} is a run with {name}={configuration[name]!r}, and {name}={value!r} was asked for: a fork"
                " changes the seed alone"
            )
    path.mkdir(parents=True, exist_ok=True)
    if not named:
        _copy_store(source, path)
    with store_at(named or path / STORE) as store, closing(child.measure_at(store.url)) as measure:
        if named and (source / STORE).exists():
            with SqliteStore(source / STORE) as parents:
                merge(parents, store)
        loop, _ = child.loop(measure, store, int(configuration["ahead"]))
        replace(path / TRAJECTORY, fork(loop, read_only(source), step, seed))
    return child, int(configuration["ahead"])


def _copy_store(source: Path, path: Path) -> None:
    """The parent's scores, also while it is running."""
    if not (source / STORE).exists():
        return
    with (
        closing(sqlite3.connect(source / STORE)) as old,
        closing(sqlite3.connect(path / STORE)) as new,
    ):
        old.backup(new)
