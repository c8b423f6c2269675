from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection

import pytest
import torch

from tests.commands import PRELOADED
from trainless.execution import fork_server
from trainless.execution.limits import cool_down, in_use, keep_warm

MEGABYTE = 2**20


def _leave_holes(said: Connection) -> None:
    keep_warm()
    kept, gone = [], []
    for _ in range(200):
        gone.append(torch.ones(MEGABYTE // 4))
        kept.append(torch.ones(1024))  # what lies above each hole keeps the system from having it back
    del gone
    before = in_use(os.getpid())
    idle = cool_down(room=before + MEGABYTE)
    first = cool_down(room=0), in_use(os.getpid())
    again = cool_down(room=100 * MEGABYTE)
    said.send((before, idle, *first, again, float(sum(one.sum() for one in kept))))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is told what to keep")
def test_holes_between_what_is_in_use_are_given_back_once_they_are_large() -> None:
    here, there = fork_server.context(False, *PRELOADED).Pipe()
    process = fork_server.context(False, *PRELOADED).Process(target=_leave_holes, args=(there,))
    process.start()
    there.close()
    before, idle, done, after, again, kept = here.recv()
    process.join()
    assert (idle, done, again) == (False, True, False)
    assert before - after > 150 * MEGABYTE
    assert kept == 200 * 1024
