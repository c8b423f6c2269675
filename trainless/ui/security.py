"""Protection of the page's server: whose requests are answered, and what an answer may do."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from trainless.core.errors import InputError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}


_PLAIN = re.compile(r"[\w.~-]+", re.ASCII)
_UNKNOWN = b'{"problem": "this server answers only to those who have its token: open the address that it printed"}'


def host_of(header: str) -> str:
    """The name in a Host header, without its port and brackets.

    Example:
        >>> host_of("localhost:8501"), host_of("[::1]:8501"), host_of("[::1]"), host_of("127.0.0.1")
        ('localhost', '::1', '::1', '127.0.0.1')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether a name means this machine alone.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.5"), is_loopback("0.0.0.0"), is_loopback("example.org")
        (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_answered(header: str, bound: str) -> bool:
    """Whether a request with this Host header is answered by a server that is bound to an address.

    A page of somebody else's whose name is made to lead here (DNS rebinding) sends that name. So no name is answered
    but localhost and the one that the server was told; an address is no name and cannot be made to lead elsewhere.

    Example:
        >>> is_answered("127.0.0.1:8501", "127.0.0.1"), is_answered("evil.example:8501", "127.0.0.1")
        (True, False)
        >>> is_answered("10.0.0.7:8501", "127.0.0.1"), is_answered("10.0.0.7:8501", "0.0.0.0")
        (False, True)
    """
    host = host_of(header)
    if is_loopback(host):
        return True
    if is_loopback(bound):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == bound.lower()
    return True


SHORTEST = 16  # signs of a token
COOKIE = b"trainless-token"


def token_for(host: str, given: str = "") -> str:
    """The token that whoever asks has to know: the one that is given, in ``TRAINLESS_TOKEN`` too, or a new one.

    On loopback there is none where none is given.

    Example:
        >>> token_for("127.0.0.1"), token_for("127.0.0.1", "sixteen-signs-ok"), len(token_for("0.0.0.0"))
        ('', 'sixteen-signs-ok', 32)
    """
    token = given or os.environ.get("TRAINLESS_TOKEN", "")
    if token and (len(token) < SHORTEST or not _PLAIN.fullmatch(token)):
        raise InputError(
            f"a token of {len(token)} signs was given; expected at least {SHORTEST}, letters, digits and . _ ~ - alone"
        )
    return token or ("" if is_loopback(host) else secrets.token_urlsafe(24))


class Guard:
    """Answers requests to this server's own name by these methods, and says what browsers may do with the answers.

    With a token only to those who have it: programs send it as ``Authorization: Bearer``, a browser opens
    ``/?token=…`` once and has it as a cookie from then on.
    """

    def __init__(self, app: App, bound: str, *, methods: Sequence[str] = ("GET", "HEAD"), token: str = "") -> None:
        self._app, self._bound, self._methods, self._token = app, bound, methods, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not is_answered(hosts[0].decode("latin-1"), self._bound):
            await _refuse(send, 421, b"this server answers to localhost only: open it by the address that it printed")
        elif scope["method"] not in self._methods:
            await _refuse(send, 405, b"this server only shows")
        elif self._token and not any(hmac.compare_digest(each, self._token) for each in _tokens(scope["headers"])):
            given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
            if scope["path"] == "/" and hmac.compare_digest(given.encode(), self._token):
                kept = COOKIE + b"=" + self._token + b"; Path=/; HttpOnly; SameSite=Lax"
                await _refuse(send, 303, b"", (b"location", b"/"), (b"set-cookie", kept))
            else:
                await _refuse(send, 401, _UNKNOWN, kind=b"application/json")
        else:
            await self._app(scope, receive, _marking(send))


def _tokens(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """What a request sends as a token."""
    for name, value in headers:
        if name == b"authorization" and value.startswith(b"Bearer "):
            yield value.removeprefix(b"Bearer ").strip()
        elif name == b"cookie":
            parts = (part.strip().partition(b"=") for part in value.split(b";"))
            yield from (held for key, _, held in parts if key == COOKIE)


def _marking(send: Send) -> Send:
    async def marked(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            policy = {b"content-security-policy": PAGE_POLICY.encode()}
            extra = [(name, value) for name, value in {**HEADERS, **policy}.items() if name not in there]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return marked


async def _refuse(
    send: Send, status: int, words: bytes, *more: tuple[bytes, bytes], kind: bytes = b"text/plain; charset=utf-8"
) -> None:
    """Answer without the application, and end the connection, of which the rest is not read."""
    headers = [(b"content-type", kind), (b"content-length", str(len(words)).encode()), (b"connection", b"close")]
    marked = _marking(send)
    await marked({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
    await marked({"type": "http.response.body", "body": words})
