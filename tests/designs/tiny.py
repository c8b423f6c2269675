from __future__ import annotations

from typing import Any

import numpy as np

from trainless.core.task import Task
from trainless.designs.settings import DesignSettings
from trainless.tasks import task

THIN = {"channels": 3, "cells": 1}


def small(**changes: Any) -> DesignSettings:
    """Settings of a very small design."""
    numbers: dict[str, Any] = {"searches": 1, "evaluations": 5, "members": 2, "epochs": 2, "baseline": 0}
    others: dict[str, Any] = {"methods": ("genetic",), "searcher_args": {}, "space": "nb201", "space_args": THIN}
    others |= {"plain": False, "classical": False, "folds": 1}
    return DesignSettings(**{**numbers, **others, **changes})


def blobs(n: int = 80, classes: int = 2, side: int = 8, seed: int = 0, **options: Any) -> Task:
    """Images whose brightness tells the class."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = random.normal(size=(n, side, side)) + 2.0 * y[:, None, None]
    return task((x.astype(np.float32), y), **options)


def values(n: int = 80, scale: float = 1000.0, shift: float = 5000.0) -> Task:
    """Signals whose mean is the value, in a large unit."""
    random = np.random.default_rng(0)
    y = random.normal(size=n)
    x = y[:, None] + 0.1 * random.normal(size=(n, 16))
    return task((x.astype(np.float32), (y * scale + shift).astype(np.float32)), kind="regression", dims=1)
