"""Connections of the pages' servers: slow ones are closed, and there are never too many."""

from __future__ import annotations

import asyncio
from typing import Any

from trainless.core.errors import InputError
from trainless.ui.security import App

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as missing:
    raise InputError("a page needs FastAPI and uvicorn: pip install 'trainless[ui]'") from missing

MOST = 200  # connections at a time
TICK = 1.0  # seconds between two looks at a connection
HEAD_SECONDS = 10.0  # until a request has begun and its head is complete
STILL_SECONDS = 20.0  # in which a body, or whoever takes an answer, may hardly move
LEAST = 1000  # bytes in a tick, with fewer of which a body hardly moves


class PatientProtocol(H11Protocol):
    """HTTP to those who ask and take their answers in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch it, or refuse one too many."""
        super().connection_made(transport)
        self._heard, self._left = 0, 0
        self._since = self.loop.time()
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._timer = self.loop.call_later(TICK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch it no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes."""
        self._heard += len(data)
        super().data_received(data)

    def on_response_complete(self) -> None:
        """The next request has its own time."""
        self._since = self.loop.time()
        super().on_response_complete()

    def _look(self) -> None:
        """Close it where it does not move: a head that never ends, a body that trickles, an answer nobody takes."""
        asking = self.cycle is None or self.cycle.response_complete
        left = self.transport.get_write_buffer_size()
        if not asking:
            moves = self._heard >= LEAST if self.cycle.more_body else (not left or left != self._left)
            self._since = self.loop.time() if moves else self._since
        self._heard, self._left = 0, left
        if self.loop.time() - self._since > (HEAD_SECONDS if asking and not left else STILL_SECONDS):
            self.transport.abort()
        elif not self.transport.is_closing():
            self._timer = self.loop.call_later(TICK, self._look)


def server_of(app: App) -> uvicorn.Server:
    """A server that is ready to run on a socket, quiet and patient only so far."""
    quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
    return uvicorn.Server(
        uvicorn.Config(app, **quiet, http=PatientProtocol, lifespan="off", ws="none", timeout_graceful_shutdown=2)
    )
