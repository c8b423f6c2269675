"""A worker process's life: it is told once what its work is, and then does the jobs that come."""

from __future__ import annotations

import io
import mmap
import multiprocessing
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch

from trainless.core.errors import InputError, TrainlessError
from trainless.core.text import one_line, printable
from trainless.core.user_files import load_text, loaded_files
from trainless.execution.executor import Job, Work, guarded
from trainless.execution.fork_server import ONE_THREAD, deaf_to_interrupts, follow_parent
from trainless.execution.limits import confine, keep_warm
from trainless.execution.messages import send
from trainless.execution.pool import Reply

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


class WorkerOutput:
    """A pipe whose ``entry`` workers print into, each into its own copy, and a thread that passes on what comes."""

    def __init__(self) -> None:
        self._exit, self.entry = multiprocessing.Pipe(duplex=False)
        self._thread = threading.Thread(target=self._pass_on, name="worker output", daemon=True)
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


IDLE = 0.3  # of the cores in use, up to which a machine counts as idle


@dataclass(frozen=True)
class Packed:
    """Work on its way to another process, with the user's own files that it needs."""

    work: bytes
    files: tuple[tuple[str, str, bytes], ...]

    def unpack(self) -> Work[Any, Any]:
        """The work; the user's files are imported first, because it may hold what they define."""
        try:
            for name, path, text in self.files:
                load_text(name, path, text)
            found: Work[Any, Any] = pickle.loads(self.work)  # noqa: S301 - packed by our own coordinator
        except TrainlessError:
            raise
        except Exception as error:
            raise InputError(f"what is to be measured cannot be made in another process: {one_line(error)}") from error
        return found


def pack(work: Work[Any, Any], dumps: Callable[[Any], Any] = ForkingPickler.dumps) -> Packed:
    """Make work ready to travel; on one machine files that are mapped into memory go by their names."""
    try:
        made = bytes(dumps(work))
    except TrainlessError:
        raise
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"what is to be measured cannot be sent to other processes ({error}): define spaces and functions in a"
            " module, or use workers=1"
        ) from error
    return Packed(made, tuple(loaded_files()))


class Performer:
    """The worker's half of a pool: unpacks the work once, then does one job after the other."""

    def __init__(self, packed: Packed, memory: int | None = None, core: int | None = None) -> None:
        self._packed, self._memory, self._core = packed, memory, core
        self._work: Work[Any, Any] | None = None

    def begin(self) -> Reply:
        """Unpack and settle: one thread, no more memory than allowed; whether it is ready, or what is wrong."""
        try:
            work = self._packed.unpack()
            if self._core is not None:
                os.sched_setaffinity(0, {self._core})
            torch.set_num_threads(1)
            keep_warm()
            if self._memory is not None:
                confine(self._memory)
        except TrainlessError as error:
            return Reply(None, mistake=str(error))
        self._work = work
        return Reply(None)

    def perform(self, job: Job[Any]) -> Reply:
        """Do a job: its result, or what the user did wrong; nobody but this process may answer."""
        if self._work is None:
            return Reply(job.id, mistake=self.begin().mistake)
        try:
            return Reply(job.id, guarded(self._work, job.payload))
        except TrainlessError as error:
            return Reply(job.id, mistake=str(error))
        except KeyboardInterrupt as error:  # no Ctrl-C comes here: the job has raised it
            return Reply(job.id, self._work.failed(one_line(error)))

    def close(self) -> None:
        if self._work is not None:
            self._work.close()


def serve(
    pipe: Connection,
    prints: Connection,
    packed: Packed,
    core: int | None,
    memory: int | None,
    environment: Mapping[str, str],
) -> None:
    """Say that it is ready, then do the jobs that come until none does; what is printed goes into a pipe."""
    deaf_to_interrupts()
    follow_parent()
    print_into(prints)
    for name in set(os.environ) - set(environment) - set(ONE_THREAD):
        del os.environ[name]
    os.environ.update(environment)  # the coordinator's, which may be another than when the server began
    performer = Performer(packed, memory, core)
    with closing(performer), suppress(EOFError, ConnectionResetError, BrokenPipeError):
        send(pipe, performer.begin())
        for job in iter(pipe.recv, None):
            send(pipe, performer.perform(job))


def cores(workers: int) -> Sequence[int | None]:
    """The core of each worker, where there is one for every core and hardly anybody else at work.

    Else the system places them: on a busy machine a worker that is kept to one core waits while another is free.
    """
    there = sorted(os.sched_getaffinity(0)) if "sched_setaffinity" in dir(os) else []
    if workers < len(there) or not there or os.getloadavg()[0] > IDLE * len(there):
        return [None] * workers
    return [there[number % len(there)] for number in range(workers)]


def _mapped(array: np.memmap[Any, Any]) -> tuple[Any, ...]:
    """A memory-mapped file goes to another process by its name, not by its content."""
    whole = isinstance(array.base, mmap.mmap)
    if whole and array.filename is not None and os.path.exists(array.filename) and array.flags.c_contiguous:
        return np.memmap, (str(array.filename), array.dtype, "r", array.offset, array.shape)
    return np.array, (np.asarray(array),)


ForkingPickler.register(np.memmap, _mapped)
