"""Jobs and answers as files in a folder of one user, which several machines see.

Whoever puts something there writes it beside and renames it, so a file is whole or not there. A node takes a job by
renaming its file, which one of them alone can do, and says that it lives by renewing a file's time. A job is a name,
``id.attempt``; once it was taken, ``id.attempt.node``.

    work              what all jobs have in common, by its digest
    jobs/             waiting
    taken/            with a node
    answers/          done
    nodes/            who is there
    coordinator       renewed as long as somebody waits for answers
    stop              there once nobody does

What goes through the folder is pickled, as it is between processes of one machine, and a pickle runs code when it is
read. So the folder belongs to this user and nobody else may enter it, and both, and the owner of every file, are looked
at before anything is read; the work is also checked by its digest, which nodes are told apart from the folder.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from trainless.core.errors import InputError

BEAT_SECONDS = 5.0
JOBS, TAKEN, ANSWERS, NODES = "jobs", "taken", "answers", "nodes"
_WORK, _COORDINATOR, _STOP = "work", "coordinator", "stop"


class Name(NamedTuple):
    """A job as a file's name says it; without a node it waits."""

    id: int
    attempt: int
    node: str = ""

    def __str__(self) -> str:
        return f"{self.id}.{self.attempt}{self.node and '.'}{self.node}"

    @classmethod
    def read(cls, text: str) -> Name | None:
        """Read a file's name; None where it is no job's.

        Example:
            >>> Name.read("7.1.abc"), str(Name(7, 1)), Name.read(".7.1")
            (Name(id=7, attempt=1, node='abc'), '7.1', None)
        """
        number, _, rest = text.partition(".")
        attempt, _, node = rest.partition(".")
        return cls(int(number), int(attempt), node) if number.isdecimal() and attempt.isdecimal() else None


class Queue:
    """A folder of jobs and answers; see the module's text.

    Raises:
        InputError: The folder is not this user's alone.
    """

    def __init__(self, folder: Path) -> None:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise InputError(f"{folder} may be used by others, who could run code by it: expected mode 0700")
        above = folder.parent.stat().st_mode
        if above & 0o022 and not above & stat.S_ISVTX:
            raise InputError(
                f"{folder.parent} lets others put their folders in the place of yours, and so run code: chmod go-w it,"
                " or give another with folder=PATH"
            )
        self.folder = folder

    @classmethod
    def made(cls, parent: Path) -> Queue:
        """Make a new one in a folder that all machines see."""
        try:
            parent.mkdir(parents=True, exist_ok=True)
            queue = cls(Path(tempfile.mkdtemp(prefix="queue-", dir=parent)))
            for name in (JOBS, TAKEN, ANSWERS, NODES):
                (queue.folder / name).mkdir(mode=0o700)
        except OSError as error:
            raise InputError(
                f"no folder can be made in {parent} ({error.strerror}): give one that all machines see, folder=PATH"
            ) from error
        return queue

    def offer(self, work: Any) -> str:
        """Put there what all jobs have in common; its digest."""
        content = pickle.dumps(work)
        self._write(self.folder / _WORK, content)
        return hashlib.blake2b(content, digest_size=32).hexdigest()

    def work(self, digest: str) -> Any:
        content = self._read(self.folder / _WORK)
        if hashlib.blake2b(content, digest_size=32).hexdigest() != digest:
            raise InputError(f"{self.folder / _WORK} is not what this node was started for")
        return pickle.loads(content)  # noqa: S301 - our own, in a folder of ours alone, and checked by its digest

    def put(self, name: Name, payload: Any) -> None:
        self._write(self.folder / JOBS / str(name), pickle.dumps(payload))

    def names(self, kind: str) -> list[Name]:
        """The jobs of a kind, the oldest first."""
        found = (Name.read(name) for name in os.listdir(self.folder / kind))
        return sorted(name for name in found if name is not None)

    def take(self, node: str) -> tuple[Name, Any] | None:
        """The oldest job that waits, which is this node's now."""
        for name in self.names(JOBS):
            mine = Name(name.id, name.attempt, node)
            target = self.folder / TAKEN / str(mine)
            try:
                (self.folder / JOBS / str(name)).rename(target)
            except FileNotFoundError:
                if not target.exists():  # another was first; else a file server has lost its own answer
                    continue
            with suppress(FileNotFoundError):  # taken back in the meantime
                return mine, pickle.loads(self._read(target))  # noqa: S301 - as above
        return None

    def give_back(self, name: Name) -> None:
        with suppress(FileNotFoundError):
            (self.folder / TAKEN / str(name)).rename(self.folder / JOBS / str(Name(name.id, name.attempt)))

    def answer(self, name: Name, answer: Any) -> None:
        """Answer a job, unless it was taken back."""
        taken = self.folder / TAKEN / str(name)
        if taken.exists():
            self._write(self.folder / ANSWERS / str(name), pickle.dumps(answer))
            taken.unlink(missing_ok=True)

    def answers(self) -> Iterator[tuple[Name, Any]]:
        """Everything that was answered, each once."""
        for name in self.names(ANSWERS):
            path = self.folder / ANSWERS / str(name)
            content = self._read(path)
            path.unlink()
            try:
                answer = pickle.loads(content)  # noqa: S301 - as above
            except Exception as error:  # whatever bytes that are no pickle of ours lead to
                answer = error
            yield name, answer

    def retract(self, name: Name) -> None:
        """Take a job back, whether it waits or is with a node; what the node answers is refused."""
        for path in (self.folder / JOBS / str(name), *(self.folder / TAKEN).glob(f"{name}.*")):
            path.unlink(missing_ok=True)

    def nodes(self) -> dict[str, int]:
        """Who is there, with the moment of the last renewal by the file server's clock."""
        found = {}
        with suppress(FileNotFoundError):  # also of the folder, which somebody may have removed
            for name in os.listdir(self.folder / NODES):
                with suppress(FileNotFoundError):
                    found[name] = _renewed(self.folder / NODES / name)
        return found

    def arrive(self, node: str) -> None:
        """Say who is there, unless that is known: a node that was silent for long was forgotten."""
        path = self.folder / NODES / node
        if not path.exists():
            self._write(path, f"{platform.node()} {os.getpid()}\n".encode())

    def forget(self, node: str) -> None:
        (self.folder / NODES / node).unlink(missing_ok=True)

    @property
    def stopped(self) -> bool:
        return (self.folder / _STOP).exists() or not self.folder.exists()

    def stop(self) -> None:
        self._write(self.folder / _STOP, b"")

    def waited_for(self) -> int:
        """The moment of the coordinator's last renewal."""
        try:
            return _renewed(self.folder / _COORDINATOR)
        except FileNotFoundError:
            return 0

    @contextmanager
    def beating(self, node: str = "") -> Iterator[None]:
        """Say again and again that a node lives, or the coordinator."""
        path = self.folder / NODES / node if node else self.folder / _COORDINATOR
        if node:
            self.arrive(node)
        else:
            self._write(path, b"")
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(BEAT_SECONDS):
                with suppress(OSError):
                    os.utime(path)

        thread = threading.Thread(target=beat, name="beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, path: Path, content: bytes) -> None:
        beside = self.folder / f".{secrets.token_hex(12)}"
        with beside.open("xb") as file:
            file.write(content)  # closing it sends it to the file server; nothing here has to survive a loss of power
        beside.rename(path)

    def _read(self, path: Path) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                raise InputError(f"{path} is not this user's own file: it is not read")
            return file.read()


def _renewed(path: Path) -> int:
    """When a file was renewed: opening it asks the file server, which only looking does not."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.fstat(handle).st_mtime_ns
    finally:
        os.close(handle)
