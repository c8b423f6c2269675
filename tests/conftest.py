from __future__ import annotations

import gc
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

from tests.browser import browser, visit
from tests.commands import start_server
from tests.postgres import database, postgres

__all__ = ["browser", "database", "postgres", "visit"]

torch.set_num_threads(1)

SERVERS = {"postgres": "postgres|database", "browser": "browser|visit"}  # what is costly to start, and its fixtures

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
if "TRAINLESS_DATA" not in os.environ and (SHARED / "data").is_dir():
    os.environ["TRAINLESS_DATA"] = str(SHARED / "data")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real data and tables, or a skip where this machine has none."""
    folder = os.environ.get("TRAINLESS_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no data directory: set TRAINLESS_DATA to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The directory of the published programs' scores, or a skip where this machine has none."""
    if not (SHARED / "golden").is_dir():
        pytest.skip("no golden values beside the checkout")
    return SHARED / "golden"


@cache
def together(path: str) -> str:
    """What sends all tests of a file to one process: a server that they ask for, or a fixture of the whole file."""
    text = (ROOT / path).read_text(encoding="utf8") if Path(path).name.startswith("test_") else ""
    for server, names in SERVERS.items():
        if re.search(rf'[( ]({names}): |getfixturevalue\("({names})"\)', text):
            return server
    return path if 'scope="module"' in text else ""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where many tests follow, have the server that commands are forked from import while tests are collected."""
    if hasattr(session.config, "workerinput"):
        start_server()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the half million objects of the imports, which stay in any case."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Pay for nothing twice: tests that share a costly fixture go to one process."""
    return Scheduler(config, log)


class Scheduler(LoadScopeScheduling):
    """Files that share something stay together; all other tests go one by one to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid.partition("::")[0]) or nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, and mark one case of every test that is quick."""
    seen = set()
    for item in items:
        test = (item.path, getattr(item, "originalname", item.name))
        if test not in seen and not _shares(item) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)
        seen.add(test)
    if hasattr(config, "workerinput"):
        items.sort(key=_order)


def _order(item: pytest.Item) -> int:
    return 0 if together(item.nodeid.partition("::")[0]) else 1 if item.get_closest_marker("slow") else 2


def _shares(item: pytest.Item) -> bool:
    """Whether a test needs a fixture that is costly to set up."""
    fixtures = getattr(item, "_fixtureinfo", None)
    found = fixtures.name2fixturedefs.items() if fixtures else ()
    return any(name in SERVERS or definitions[-1].scope == "module" for name, definitions in found)
