"""Processes and signals: groups that end together, Ctrl-C (once to finish what is in flight, twice to stop), memory.

A network definition or a proxy of the user's may start processes of its own. Killing the worker alone would leave them
behind, so each worker is the leader of a session: no Ctrl-C of the terminal reaches it, and one signal reaches all.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn


def lead_group() -> None:
    """In a worker: make this process the leader of a session, which everything that it starts belongs to."""
    os.setsid()


def kill_group(process: BaseProcess) -> None:
    """Kill a worker, dead or alive, with everything that it started.

    A number that the system has given to another process since is left alone. That cannot be where any process of the
    group lives: until then no other gets the leader's number.
    """
    pid = process.pid
    if pid is None:
        return
    if process.is_alive():
        _kill(pid)
        process.kill()  # where it had not become a leader yet
    elif not exists(pid):
        _kill(pid)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left


def exists(pid: int) -> bool:
    """Whether this machine has a process of this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def began_at(pid: int) -> float:
    """When a process of this machine began, in seconds since 1970; 0 where the system does not say."""
    with suppress(OSError, IndexError, ValueError, StopIteration):
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text().splitlines()
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextmanager
def exit_refused() -> Iterator[None]:
    """Have ``os._exit`` raise in this process for the block: what a user's code calls may not end ours in silence.

    Example:
        >>> with exit_refused():
        ...     os._exit(0)
        Traceback (most recent call last):
        RuntimeError: os._exit(0) was called, which would have ended the whole command
    """
    leave, owner = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != owner:  # a process that was forked inside
            leave(status)
        raise RuntimeError(f"os._exit({status}) was called, which would have ended the whole command")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


def physical_memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


@contextmanager
def one_interrupt(notice: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C be asked for instead of raised; the second is raised as ever.

    Example:
        >>> with one_interrupt() as stopping:
        ...     stopping()
        False
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def remember(number: int, frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        notice()

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
