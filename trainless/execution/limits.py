"""The memory limit of a worker: the system refuses more, and the coordinator looks where it does not.

A refusal is an ordinary error inside the worker, which survives it. The system counts what a process has asked for;
with a GPU that says nothing, because its driver reserves far more than it uses, so there only what is really in use
is looked at, and the worker that uses too much is ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from trainless.core.errors import InputError

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 2**31 - 1
MUCH = 2**31  # bytes that a process may grow by between two jobs
_left = 0  # bytes in use when something was given back last


def keep_warm() -> bool:
    """Tell glibc's allocator to keep what is freed instead of giving it back at once; whether there is one here.

    For programs of our own (the command line, workers, benchmarks), never done by importing the library: it changes
    the whole process. A forward and backward pass that keeps its graph takes a sixth less time with it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST)) and bool(set_option(_TRIM_THRESHOLD, _LARGEST))


def cool_down(room: int = MUCH) -> bool:
    """Give the system what is free here where that may be more than so many bytes; whether it was done.

    Networks of many sizes, one after the other, leave holes that the next ones do not fit into: without this a process
    that keeps itself warm grows until nothing is left on the machine.
    """
    global _left
    held = in_use(os.getpid())
    if held <= _left + room:
        return False
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    _left = min(held, in_use(os.getpid()))
    return True


REFUSED = ("MemoryError", "can't allocate memory", "not enough memory", "Cannot allocate memory", "bad_alloc")
ROOM = 64 * 2**20  # what a worker has to have left for any candidate at all


def words(limit: int) -> str:
    """The reason of a job that took too much."""
    return f"it needed more than {limit / 1e9:.3g} GB of memory"


def in_use(pid: int) -> int:
    """Bytes of its own that a process holds in memory; 0 where the system does not say."""
    return _status(pid, "RssAnon:")


def _status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def confine(limit: int) -> None:
    """Have the system refuse this process more than so many bytes; an InputError where a worker cannot even begin."""
    if not sys.platform.startswith("linux"):
        return
    held = _status(os.getpid(), "VmData:")
    if held + ROOM > limit:
        raise InputError(
            f"a memory limit of {limit / 1e9:.3g} GB was given, but a worker takes {held / 1e9:.2f} GB before it has"
            f" looked at any candidate: give at least {(held + 4 * ROOM) / 1e9:.1f} GB"
        )
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def explained(reason: str) -> str:
    """A reason in which memory that was refused is put down to this process's limit."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    refused = limit != resource.RLIM_INFINITY and any(sign in reason for sign in REFUSED)
    return words(limit) if refused else reason
