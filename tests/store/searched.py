"""A small search that may live in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainless.core.task import Task
from trainless.runs.search import Found, search
from trainless.runs.settings import SearchCallbacks, SearchSettings, Watch
from trainless.spaces.nb201 import NasBench201

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def found(out: Path, watch: Watch = lambda loop, budget: None, **options: Any) -> Found:
    settings = SearchSettings(**{"proxies": "naswot", "evaluations": 30, "batch": 8, "seed": 3, **options})
    return search(TASK, SPACE, "evolution", out=out, settings=settings, callbacks=SearchCallbacks(measured=watch))


def places(run: Found) -> list[tuple[str, str]]:
    return [(place.text, repr(dict(place.scores))) for place in run.places]  # NaN is not equal to itself
