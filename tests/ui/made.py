"""Small runs, and the real server on a free port of this machine."""

from __future__ import annotations

import csv
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from trainless.runs.search import search
from trainless.runs.settings import SearchCallbacks, SearchSettings, Watch
from trainless.spaces.nb201 import NasBench201
from trainless.ui.run_list import OpenRuns, runs_at
from trainless.ui.server import listening, serve

SPACE = NasBench201(2, 1)
EVALUATIONS = 24


def searched(
    folder: Path, seed: int = 0, evaluations: int = EVALUATIONS, watch: Watch = lambda loop, budget: None, **more: Any
) -> Path:
    """A real search that takes no time."""
    settings = SearchSettings(**{"proxies": ["params", "flops"], "searcher_args": {"population": 6}, **more})
    callbacks = SearchCallbacks(measured=watch)
    search(
        "digits", SPACE, "evolution", evaluations=evaluations, seed=seed, out=folder, settings=settings,
        callbacks=callbacks,
    )  # fmt: skip
    return folder


def leaderboard(folder: Path) -> list[dict[str, str]]:
    with (folder / "leaderboard.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Site:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(
        self, path: str, host: str = "", method: str = "GET", headers: Mapping[str, str] | None = None, **query: Any
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            target = f"{path}?{urlencode(query, doseq=True)}" if query else path
            connection.putrequest(method, target, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def site(place: str | Path, token: str = "") -> Iterator[Site]:
    """The real server in a thread."""
    with closing(runs_at(str(place))) as listed, listening("127.0.0.1", 0) as socket:
        server = serve(OpenRuns(listed), "127.0.0.1", token)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Site(socket.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(10)


HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e</script><script>document.title='owned'</script>"


def hostile(folder: Path) -> Path:
    """A run of somebody else's whose every word is an attack; its space is code that must not run."""
    folder.mkdir(parents=True)
    about = {
        "format": 1,
        "task": {"name": HOSTILE, "fingerprint": HOSTILE},
        "space": f"evil.py:{HOSTILE}",
        "decisions": {HOSTILE: [HOSTILE, "b"]},
        "searcher": HOSTILE,
        "ranking": "",
        "higher_is_better": {HOSTILE: True, "constructor": False},
        "budget": {"evaluations": 2, "seconds": None},
        HOSTILE: HOSTILE,
    }
    (folder / "run.json").write_text(json.dumps(about))
    step = {
        "step": 1,
        "candidates": [[0], [1]],
        "scores": {HOSTILE: [1.0, None], "constructor": [2.0, "inf"]},
        "told": {},
        "spent": [2, 1.0, 0.0],
        "failures": {"1": {HOSTILE: HOSTILE}},
    }
    (folder / "trajectory.jsonl").write_text(json.dumps(step) + "\n")
    (folder / "report.html").write_text("<script>parent.document.title='owned'; fetch('/api/runs')</script>")
    return folder
