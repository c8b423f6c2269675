from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.browser import browser, visit
from tests.postgres import database, postgres

__all__ = ["browser", "database", "postgres", "visit"]

torch.set_num_threads(1)

SERVERS = {"postgres": "postgres", "browser": "browser"}  # session fixtures that are costly to start

SHARED = Path(__file__).resolve().parents[2] / "shared"
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pay for nothing twice: tests that share a costly fixture go to one process, and what takes longest begins first.

    ``-m quick`` is one case of every test that neither is slow nor needs such a fixture.
    """
    seen = set()
    for item in items:
        group = _group(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
        test = (item.path, getattr(item, "originalname", item.name))
        if test not in seen and not group and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)
        seen.add(test)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _group(item: pytest.Item) -> str:
    """The server that a test needs, else its module where that has a fixture of its own for all of its tests."""
    fixtures = getattr(item, "_fixtureinfo", None)
    for name, definitions in fixtures.name2fixturedefs.items() if fixtures else ():
        if name in SERVERS:
            return SERVERS[name]
        if definitions[-1].scope == "module":
            return item.path.stem
    return ""
