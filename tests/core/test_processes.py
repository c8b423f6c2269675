from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from trainless.core import processes


def test_a_ctrl_c_in_the_middle_of_a_kill_leaves_nobody_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_kill_below", stopped)
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    process.start()
    with pytest.raises(KeyboardInterrupt):
        processes.kill_group(process)
    process.join(10)
    assert process.exitcode == -signal.SIGKILL
