"""Measures that behave badly in ways that a pickled object can carry into another process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.execution.messages import HEAD, send
from trainless.execution.pool import Reply
from trainless.scoring.measures import Measure, Outcome


@dataclass
class Sum(Measure):
    """The sum of the options."""

    higher_is_better: Mapping[str, bool] = field(default_factory=lambda: {"sum": True})

    def __call__(self, proposal: Proposal) -> Outcome:
        return Outcome({"sum": float(sum(proposal.arch))})


class Unmakable(Sum):
    """Work that no other process can make; it takes a while to find out."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _missing, ()


def _missing() -> None:
    time.sleep(1.0)
    raise InputError("its data are not on this machine")


@dataclass
class Hostile(Sum):
    """The sum of the options; the first option of an arch may say what goes wrong on the way."""

    folder: str = ""

    def __call__(self, proposal: Proposal) -> Outcome:
        kind = proposal.arch[0]
        if kind == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == 3:
            time.sleep(60)
        if kind == 4:
            raise ValueError("a bad\nnetwork definition")
        if kind == 5:
            raise InputError("the store is on fire")
        if kind == 6 and not (Path(self.folder) / "once").exists():
            (Path(self.folder) / "once").touch()
            os._exit(9)
        if kind in (7, 8, 9):  # hangs, dies or ends well with a process of its own, all whose numbers are in the folder
            child = subprocess.Popen(["sleep", "600"])
            with (Path(self.folder) / f"child-{kind}").open("a") as file:
                file.write(f"{child.pid}\n")
            if kind == 7:
                time.sleep(60)
            if kind == 8:
                os._exit(9)
        if kind == 10:
            sys.stdout.write("a \x1b[2Jpicture\r\n")
            subprocess.run(["sh", "-c", "echo and a child"], check=True)
            sys.stderr.write("an \x1b]0;owned\x07end without one")
            sys.stderr.flush()
        if kind == 11:
            os.fork()  # and both return
        if kind == 12:
            os.closerange(3, 200)
            time.sleep(60)
        if kind == 13:
            os._exit(0)
        if kind == 16:  # hides from whoever would end it, in every way that a process has
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            for deeper in range(3):  # children in sessions of their own, whose parents have ended
                if os.fork() == 0:
                    os.setsid()
                    if os.fork():
                        os._exit(0)
                    with (Path(self.folder) / "child-16").open("a") as file:
                        file.write(f"{os.getpid()}\n")
                    os.closerange(0, 200)
                    time.sleep(600 + deeper)
            os.closerange(0, 200)
            while True:
                time.sleep(1)
        if kind == 17:
            raise KeyboardInterrupt("nobody pressed it")
        if kind in (14, 15):  # answers itself, for a job that it does not have or for its own
            frame = sys._getframe()
            while "job" not in frame.f_locals and frame.f_back is not None:
                frame = frame.f_back
            number = frame.f_locals["job"].id + (kind == 14)
            send(_pipe(), Reply(number, Outcome({"sum": -1.0})))
        if kind == 18:  # begins to answer, and says no more
            os.write(_pipe().fileno(), LIES[proposal.arch[1]])
            time.sleep(60)
        if kind == 19:  # stops or ends what starts and ends workers
            if os.getppid() > 1:  # it is not dead yet
                os.kill(os.getppid(), (signal.SIGSTOP, signal.SIGKILL)[proposal.arch[1]])
            time.sleep(60)
        return super().__call__(proposal)


def _pipe() -> Connection:
    """The pipe of this worker."""
    pipes = [each for each in gc.get_objects() if isinstance(each, Connection) and not each.closed]
    return next(each for each in pipes if each.readable and each.writable)


def _sized(content: bytes) -> bytes:
    return HEAD.pack(len(content)) + content


LIES = (
    HEAD.pack(1000) + b"the rest never comes",
    b"\0\0",  # nor that of its length
    HEAD.pack(2**60),
    *map(_sized, (b"", b"I99x\n.", b"\x8e" + b"\xff" * 8, b"\x80\x63.", b"garbage")),  # no pickles, each in its own way
    _sized(b"cbuiltins\nexit\n(tR."),
)
