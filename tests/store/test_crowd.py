"""Many processes at one store: nothing lost, nothing twice, no lock to be seen.

``TRAINLESS_CROWD_SECONDS=60`` runs it for as long as the acceptance says.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.store.writers import SHARED, own
from trainless.store import store_at

SECONDS = float(os.environ.get("TRAINLESS_CROWD_SECONDS", "3"))
SCRIPT = Path(__file__).with_name("writers.py")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "writers"), [("sqlite", 4), ("folder", 16), ("postgresql", 16)])
def test_a_crowd_of_writers_loses_and_doubles_nothing(
    kind: str, writers: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = f"{tmp_path}/shared/" if kind == "folder" else str(tmp_path / "scores.sqlite")
    if kind == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        place = server.fresh()
    crowd = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), place, str(number), str(SECONDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    said = [writer.communicate(timeout=SECONDS + 120) for writer in crowd]
    assert [error for _, error in said] == [""] * writers
    kept = [tuple(map(int, answer.split())) for answer, _ in said]
    with store_at(place) as store:
        rows = list(store.rows())
    there = Counter(row.key for row in rows)
    assert set(there.values()) == {1}
    assert {key for key in there if key.space == "own"} == {
        own(writer, number) for writer, (rounds, _) in enumerate(kept) for number in range(rounds)
    }
    wanted = max(math.ceil(rounds / SHARED) for rounds, _ in kept)
    assert sorted(int(key.arch) for key in there if key.space == "shared") == list(range(wanted))
    assert sum(computed for _, computed in kept) == wanted
    sys.stdout.write(f"{kind}: {writers} writers, {SECONDS:g} s, {len(rows)} rows, {wanted} of them shared\n")
