"""A worker's messages, taken in as they come: nobody waits for the rest of one, which may never be sent.

A message is its length and a pickle, as whatever goes between our own processes is. What a job writes into its worker's
pipe is no message of ours, and is told as such.
"""

from __future__ import annotations

import os
import struct
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from trainless.core.processes import physical_memory

HEAD = struct.Struct("!Q")
PORTION = 1 << 20
TRAVEL_SECONDS = 5.0  # for which a message that has begun is still on its way


def send(pipe: Connection, message: Any) -> None:
    """Send a message to the :class:`Inbox` at the other end."""
    content = ForkingPickler.dumps(message)
    for part in (HEAD.pack(len(content)), content):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe.fileno(), left) :]


class NoMessageError(Exception):
    """What came is no message."""


class Inbox:
    """This process's end of a pipe into which another one sends.

    Example:
        >>> import multiprocessing
        >>> ours, theirs = multiprocessing.Pipe()
        >>> inbox = Inbox(ours)
        >>> send(theirs, "done")
        >>> inbox.on_its_way, inbox.take(), inbox.on_its_way
        (True, ['done'], False)
        >>> _ = os.write(theirs.fileno(), HEAD.pack(4))  # and never the four bytes
        >>> inbox.take()
        []
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._begun = bytearray()
        self._since = 0.0  # when its first bytes came, by ``time.monotonic()``

    @property
    def on_its_way(self) -> bool:
        """Whether a message waits, or has lately begun to come."""
        if self._begun:
            return time.monotonic() - self._since < TRAVEL_SECONDS
        return self._pipe.poll()

    def take(self) -> list[Any]:
        """The messages that are whole now; waits for nothing where the pipe has anything to read.

        An exception in their place is what came and is none. Raises EOFError where nothing will ever come any more.
        """
        portion = os.read(self._pipe.fileno(), PORTION)
        if not portion:
            raise EOFError
        self._since = self._since if self._begun else time.monotonic()
        self._begun += portion
        found = []
        while len(self._begun) >= HEAD.size:
            (length,) = HEAD.unpack_from(self._begun)
            end = HEAD.size + length
            if length > physical_memory():
                self._begun.clear()
                found.append(NoMessageError(f"it says that it has {length} bytes"))
            elif len(self._begun) < end:
                break
            else:
                found.append(_unpacked(bytes(self._begun[HEAD.size : end])))
                del self._begun[:end]
                self._since = time.monotonic()
        return found


def _unpacked(content: bytes) -> Any:
    try:
        return ForkingPickler.loads(content)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever bytes that are no pickle of ours lead to
        return error
