"""Real commands in processes of their own, forked from one server that has imported all that they import.

That saves each command four seconds of processor time.
"""

from __future__ import annotations

import multiprocessing.forkserver
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainless.execution import fork_server

PRELOADED = (
    *("trainless.cli", "trainless.scoring.measures", "trainless.designs.pipeline", "trainless.tasks.builtin"),
    *("trainless.spaces.nb201", "trainless.proxies.zerocost", "trainless.runs.reader_sweep"),
    *("pydantic.main", "sklearn.datasets", "rich.progress", "PIL.PngImagePlugin"),  # what commands import when called,
    *("torch._dynamo", "sklearn.ensemble"),  # and what an optimiser's first step and a design's trees do
    *("tests.commands", "tests.execution.faulty"),
)


def start_server() -> None:
    """Start the server, unless it runs: one for all tests of a process, whoever of them forks from it first."""
    fork_server.prepare(*PRELOADED)


def share_server() -> None:
    """Fork workers from the server that this process itself was forked from, instead of starting another."""
    multiprocessing.forkserver.ensure_running = lambda: None
    multiprocessing.forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]


class Command:
    """A process with a folder, an environment and output of its own; it leads its session, as at a terminal.

    Args:
        arguments: Those of ``trainless``.
        folder: Where it works.
        environment: Changes of the environment.
        program: What runs them.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: dict[str, str] | None = None,
        program: Callable[[list[str]], Any] | None = None,
    ) -> None:
        self._said = [folder / f".{name}-{id(self)}" for name in ("out", "err")]
        changed = {**os.environ, **(environment or {})}
        given = (program or _trainless, list(arguments), folder, changed, self._said)
        self._process = fork_server.context(False, *PRELOADED).Process(target=_begin, args=given)
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def out(self) -> str:
        """What it has written so far."""
        return self._said[0].read_text() if self._said[0].exists() else ""

    @property
    def err(self) -> str:
        """What it has written as errors so far."""
        return self._said[1].read_text() if self._said[1].exists() else ""

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._process.exitcode

    def wait(self, seconds: float = 120.0) -> int:
        """Wait for the end; the exit code."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"it hangs: {self.err}"
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, where it has not ended."""
        self._process.kill()
        self._process.join()


def _begin(
    program: Callable[[list[str]], Any],
    arguments: list[str],
    folder: Path,
    environment: dict[str, str],
    said: list[Path],
) -> None:
    os.setsid()
    share_server()
    for number, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["trainless", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    program(arguments)


def _trainless(arguments: list[str]) -> None:
    from trainless.cli import main

    main(arguments)


def said_by(code: str, folder: Path, *arguments: str, ends: int = 0) -> str:
    """What Python code prints in a process of its own, which ends as expected."""
    process = Command([code, *arguments], folder, program=python)
    assert process.wait(300.0) == ends, process.err
    return process.out


def python(arguments: list[str]) -> None:
    """The program of ``python -W error -c code``, with arguments."""
    warnings.simplefilter("error")
    sys.path.insert(0, "")
    sys.argv = ["-c", *arguments[1:]]
    exec(compile(arguments[0], "<example>", "exec"), {"__name__": "__main__"})  # noqa: S102
