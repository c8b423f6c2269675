"""What workers print, passed on by the coordinator as plain lines.

A proxy or a network of the user's may print whatever it likes, in any process. Written to the terminal as it is, it
would break the progress bar, get between the lines of ``--json`` and steer the terminal. So the standard streams of a
worker, and of what it starts, are one pipe; the coordinator reads it and writes whole lines to its error stream, which
the progress bar knows.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import re
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

from trainless.core.wording import printable

PORTION = 1 << 16
LONGEST = 2000  # characters of a line
FAREWELL_SECONDS = 1.0
_ENDS = re.compile(rb"[\r\n]+")


def plain_lines(portions: Iterator[bytes]) -> Iterator[str]:
    r"""The lines of what comes in portions, each fit for a terminal; empty ones are left out.

    Example:
        >>> list(plain_lines(iter([b"one\ntw", b"o \x1b[2J\r\n\n", b"three"])))
        ['one', 'two �[2J', 'three']
    """
    rest = b""
    for portion in portions:
        *whole, rest = _ENDS.split(rest + portion)
        if len(rest) > PORTION:
            whole, rest = [*whole, rest], b""
        yield from (_plain(line) for line in whole if line.strip())
    if rest.strip():
        yield _plain(rest)


def _plain(line: bytes) -> str:
    text = printable(line.decode("utf-8", "replace").expandtabs())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def print_into(pipe: Connection) -> None:
    """In a worker: have everything that this process and what it starts print go into a pipe."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        os.dup2(pipe.fileno(), number)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what was printed is told even where the process is killed
    pipe.close()


class Outlet:
    """A pipe for workers to print into, and a thread that passes on what comes.

    Attributes:
        entry: The workers' end; each gets its own copy.
    """

    def __init__(self) -> None:
        self._exit, self.entry = multiprocessing.Pipe(duplex=False)
        self._thread = threading.Thread(target=self._pass_on, name="outlet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Pass on the rest; a process that has left its worker's group and still holds the pipe is not waited for."""
        self.entry.close()
        self._thread.join(FAREWELL_SECONDS)
        if not self._thread.is_alive():
            self._exit.close()

    def _portions(self) -> Iterator[bytes]:
        while portion := os.read(self._exit.fileno(), PORTION):
            yield portion

    def _pass_on(self) -> None:
        for line in plain_lines(self._portions()):
            if sys.stderr is None:
                continue  # it was closed
            try:
                sys.stderr.write(f"worker: {line}\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                continue  # nobody listens, but a full pipe would stop the workers
