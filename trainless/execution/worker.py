"""A worker process's life: it is told once what to measure, and then measures what comes."""

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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch

from trainless.core.arch import Proposal
from trainless.core.errors import InputError, TrainlessError
from trainless.core.text import one_line, printable
from trainless.core.user_files import load_text, loaded_files
from trainless.execution import limits
from trainless.execution.fork_server import ONE_THREAD, deaf_to_interrupts, follow_parent
from trainless.execution.limits import keep_warm
from trainless.scoring.measures import Measure, Outcome, guarded

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


IDLE = 0.3  # of the cores in use, up to which a machine counts as idle


@dataclass(frozen=True)
class Luggage:
    """A measure on its way to another process, with the user's own files that it needs."""

    measure: bytes
    files: tuple[tuple[str, str, bytes], ...]

    def unpack(self) -> Measure:
        """The measure; the user's files are imported first, because it may hold what they define."""
        try:
            for name, path, text in self.files:
                load_text(name, path, text)
            found: Measure = pickle.loads(self.measure)  # noqa: S301 - packed by our own coordinator
        except TrainlessError:
            raise
        except Exception as error:
            raise InputError(f"what is to be measured cannot be made in another process: {one_line(error)}") from error
        return found


def pack(measure: Measure, dumps: Callable[[Any], Any] = ForkingPickler.dumps) -> Luggage:
    """Make a measure ready to travel.

    Args:
        measure: What to do.
        dumps: Makes bytes of it; on one machine files that are mapped into memory go by their names.

    Raises:
        InputError: It cannot travel.
    """
    try:
        made = bytes(dumps(measure))
    except TrainlessError:
        raise
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"what is to be measured cannot be sent to other processes ({error}): define spaces and functions in a"
            " module, or use workers=1"
        ) from error
    return Luggage(made, tuple(loaded_files()))


def settle(core: int | None, memory: int | None) -> None:
    """One thread, on one core where that was asked for, and no more memory than allowed."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    keep_warm()
    if memory is not None:
        limits.confine(memory)


def answer(measure: Measure, proposal: Proposal, memory: int | None) -> Outcome | str:
    """The outcome, or what the user did wrong."""
    try:
        return limits.explained(guarded(measure, proposal), memory)
    except TrainlessError as error:
        return str(error)


def serve(
    pipe: Connection,
    prints: Connection,
    luggage: Luggage,
    core: int | None,
    memory: int | None,
    environment: Mapping[str, str],
) -> None:
    """Say that it is ready, then measure what comes until nothing does; what is printed on the way goes into a pipe."""
    deaf_to_interrupts()
    follow_parent()
    print_into(prints)
    for name in set(os.environ) - set(environment) - set(ONE_THREAD):
        del os.environ[name]
    os.environ.update(environment)  # the coordinator's, which may be another than when the server began
    try:
        measure = luggage.unpack()
        settle(core, memory)
    except TrainlessError as error:
        pipe.send((None, str(error)))
        return
    try:
        pipe.send((None, None))
        for ticket, proposal in iter(pipe.recv, None):
            pipe.send((ticket, answer(measure, proposal, memory)))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    finally:
        measure.close()


def cores(workers: int) -> Sequence[int | None]:
    """The core of each worker, where there is one for every core and hardly anybody else at work.

    Else the system places them: on a busy machine a worker that is kept to one core waits while another is free.

    Example:
        >>> cores(1)[0] is None or len(cores(1)) == 1
        True
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
