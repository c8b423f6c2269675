"""Processes and signals: groups that end together, Ctrl-C (once to finish what is in flight, twice to stop), memory.

A network definition or a proxy of the user's may start processes of its own. Killing the worker alone would leave them
behind, so each worker is the leader of a session: no Ctrl-C of the terminal reaches it, and one signal reaches all.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn, TypeVar

from trainless.core.errors import InputError

T = TypeVar("T")
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
ROUNDS = 100


def lead_group() -> None:
    """In a worker: make this process the leader of a session, which everything that it starts belongs to.

    What leaves the session stays below this process, also where its own parent has ended (on Linux).
    """
    os.setsid()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)


def kill_group(process: BaseProcess, began: float = 0.0) -> None:
    """Kill a worker, dead or alive, with everything that it started; of a living one also what left its session.

    A number that the system has given to another process since is left alone. That cannot be where any process of the
    group lives: until then no other gets the leader's number. ``began`` is what :func:`began_at` said of it: one whose
    parent has died counts as dead, and may live.
    """
    pid = process.pid
    if pid is None:
        return
    if process.is_alive() or (began and began_at(pid) == began):
        try:
            _kill_below(pid)
        finally:  # a Ctrl-C in the middle would leave it stopped, and whoever waits for it waiting
            _kill(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # where it had not become a leader yet
    elif not exists(pid):
        _kill(pid)


def _kill_below(pid: int) -> None:
    """Kill all that descend from a living process, which adopts whoever loses a parent; it is stopped meanwhile."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
        for _ in range(ROUNDS):  # those that were started while we looked
            found = descendants(pid)
            if not found:
                break
            for each in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Processes that live and descend from one; none where the system does not list them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry.parent.name))
    found, waiting = list[int](), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found, waiting = found + below, waiting + below
    return found


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


@contextmanager
def process_kept() -> Iterator[None]:
    """Run a user's code in a process that stays what it is: one, in the same folder, which Ctrl-C reaches.

    Example:
        >>> before = os.getcwd()
        >>> with process_kept():
        ...     os.chdir("/")
        >>> os.getcwd() == before
        True
    """
    owner, folder, heard = os.getpid(), _working_folder(), signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if os.getpid() != owner:  # a twin that the code has forked would do all that follows, too
            os.write(2, b"a process that was forked here went on as if it were its parent: it was ended\n")
            os._exit(1)
        if folder and _working_folder() != folder:
            os.chdir(folder)
        if heard is not None and signal.getsignal(signal.SIGINT) not in (heard, _insist):
            with suppress(ValueError):  # only the main thread may; the other one is there once Ctrl-C was pressed
                signal.signal(signal.SIGINT, heard)


def _working_folder() -> str:
    """The folder that this process works in; empty where it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def physical_memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def require_room(needed: float, what: str, remedy: str) -> None:
    """Raise InputError where something would take more bytes than this machine has."""
    there = physical_memory()
    if needed > there:
        raise InputError(
            f"{what} would take {needed / 1e9:,.1f} GB, but this machine has {there / 1e9:,.1f} GB: {remedy}"
        )


@contextmanager
def one_interrupt(notice: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C be asked for instead of raised; the second is raised as ever.

    Example:
        >>> with one_interrupt() as stopping:
        ...     stopping()
        False
    """
    global _pressed, _insisted
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def remember(number: int, frame: object) -> None:
        global _pressed
        asked.set()
        _pressed = time.monotonic()
        signal.signal(signal.SIGINT, _insist)
        notice()

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
        _pressed, _insisted = math.inf, False


def _insist(number: int, frame: object) -> NoReturn:
    global _insisted
    _insisted = True
    raise KeyboardInterrupt


def raise_if_insisted() -> None:
    """Raise the second Ctrl-C again: a library that calls Python from C may have lost it."""
    if _insisted and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Keep a Ctrl-C until the end of the block, which is not to be left half done.

    Example:
        >>> with interrupts_later():
        ...     pass
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if came:
            signal.raise_signal(signal.SIGINT)


GRACE, LOOK = 0.5, 0.1  # seconds that a wait goes on after Ctrl-C was pressed, and between two looks
_insisted = False  # whether another came after it
_pressed = math.inf  # when the Ctrl-C came that :func:`one_interrupt` remembers


class Wait:
    """A wait for another process or machine, as long as it may be: Ctrl-C ends it, also one that is only asked for.

    What is being computed is finished after the first Ctrl-C; what others keep us waiting for is not. Raises
    KeyboardInterrupt in the main thread alone.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def look(self) -> None:
        """Raise KeyboardInterrupt where Ctrl-C was pressed and the grace is over."""
        over = time.monotonic() - max(_pressed, self._began) >= GRACE
        if over and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def pause(self, seconds: float, end: threading.Event | None = None) -> None:
        """Wait so long, or until an event."""
        until, end = time.monotonic() + seconds, end or threading.Event()
        while (left := until - time.monotonic()) > 0 and not end.wait(min(LOOK, left)):
            self.look()

    def result(self, work: Callable[[], T], abandon: Callable[[], None]) -> T:
        """Do what may never come back, in a thread of its own; whoever is interrupted abandons it."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        done: Future[T] = Future()
        threading.Thread(target=fulfil, args=(done, work), name="waiting", daemon=True).start()
        try:
            while not concurrent.futures.wait([done], LOOK).done:
                self.look()
        except BaseException:
            abandon()
            raise
        return done.result()


def fulfil(done: Future[T], work: Callable[[], T]) -> None:
    """Give a promise what work comes to."""
    try:
        done.set_result(work())
    except BaseException as error:  # it is raised where the result is asked for
        done.set_exception(error)
