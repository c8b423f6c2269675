from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.browser import browser, visit
from tests.postgres import database, postgres

__all__ = ["browser", "database", "postgres", "visit"]

torch.set_num_threads(1)

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
