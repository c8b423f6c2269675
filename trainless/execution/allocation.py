"""What a scheduler runs: a node's command, again when it dies, and again elsewhere when the allocation ends."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEFT = 75  # the exit code of a node that was asked to leave
PACKAGES = Path(__file__).resolve().parents[2]
GRACE_SECONDS = 3.0  # in which a node gives back what it has
END_SECONDS = 180.0  # after which an allocation that was to end has not ended
LOOK_SECONDS = 0.05
LIVES = 20  # of a node in one allocation


@dataclass
class Allocation:
    """A command of plain words; nothing else goes through the scheduler's files.

    ``checkpoint`` is what submitit calls when an allocation ends early: by preemption or by its time.
    """

    arguments: tuple[str, ...]

    def __call__(self, number: int) -> int:
        """Run a node until nobody needs it; its exit code."""
        import submitit

        here = submitit.JobEnvironment().job_id
        path = os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "trainless.execution.node", *self.arguments, here]
        code = 0
        for _ in range(LIVES):
            self._node = subprocess.Popen(  # noqa: S603 - our own command
                command, env={**os.environ, "PYTHONPATH": path}, start_new_session=True
            )
            code = self._ended(self._node)
            if code == LEFT:
                time.sleep(END_SECONDS)  # the scheduler has asked for it and ends us now
            elif code >= 0:
                break  # nobody needs it, or it would make the same mistake again
        return code

    def _ended(self, node: subprocess.Popen[bytes], seconds: float = math.inf) -> int:
        """Wait, never in the system's own call: a signal's handler asks for the same."""
        until = time.monotonic() + seconds
        while (code := node.poll()) is None and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        return code or 0

    def checkpoint(self, number: int) -> Any:
        """End the node, which gives back its jobs, and say what is to be run when the allocation begins again."""
        from submitit.helpers import DelayedSubmission

        node = getattr(self, "_node", None)
        if node is not None:
            node.send_signal(signal.SIGTERM)
            self._ended(node, GRACE_SECONDS)
            node.kill()
        return DelayedSubmission(Allocation(self.arguments), number)
