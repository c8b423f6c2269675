"""The page's server: files of our own, and answers about runs; needs the extra ``ui``."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import socket
from importlib import resources
from typing import Annotated, Any

from trainless.core.errors import InputError, TrainlessError
from trainless.core.text import printable
from trainless.report.page import SCRIPT, STYLE
from trainless.ui import api as answers
from trainless.ui.connections import server_of
from trainless.ui.run_list import OpenRuns
from trainless.ui.security import Guard
from trainless.ui.table import Kept, RowFilter, Within

try:
    import uvicorn
    from fastapi import FastAPI, Query, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
except ImportError as missing:
    raise InputError("trainless ui needs FastAPI and uvicorn: pip install 'trainless[ui]'") from missing

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline';"
    f" script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Id = Annotated[str, Query(alias="id", max_length=4096)]
Words = Annotated[str, Query(max_length=1000)]
Where = Annotated[str, Query(max_length=4000)]


def application(runs: OpenRuns, bound: str, token: str = "") -> Guard:
    """Everything that is answered by a server that is bound to an address; with a token only to those who have it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(TrainlessError, _mistaken)
    app.add_exception_handler(RequestValidationError, _misasked)
    _serve_files(app)
    _serve_runs(app, runs)
    _serve_pictures(app, runs)
    return Guard(app, bound, token=token)


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 is any that is free. Raises InputError where the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(128)  # whoever reads the address may come before the server is ready
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", "") or error
        raise InputError(f"{host} port {port} cannot be used ({reason}): give another --port, or 0 for any") from error
    return found


def serve(runs: OpenRuns, host: str, token: str = "") -> uvicorn.Server:
    """A server that is ready to run on a socket."""
    return server_of(application(runs, host, token))


def _serve_files(app: FastAPI) -> None:
    """The page's own files, by their names; no other name leads anywhere."""
    texts = {
        each.name: each.read_bytes()
        for each in resources.files("trainless.ui").joinpath("static").iterdir()
        if each.name.endswith(tuple(KINDS))
    }
    texts["style.css"] = STYLE.encode() + texts["style.css"]

    def answer(name: str) -> Response:
        return Response(texts[name], media_type=KINDS[name[name.rindex(".") :]])

    for name in texts:
        app.add_api_route("/" if name == "index.html" else f"/{name}", lambda name=name: answer(name))


def _serve_runs(app: FastAPI, runs: OpenRuns) -> None:
    @app.get("/api/runs")
    def listed() -> Response:
        return JSONResponse(answers.listed(runs))

    @app.get("/api/run")
    def about(name: Id) -> Response:
        return JSONResponse(answers.about(runs, name))

    @app.get("/api/rows")
    def rows(
        name: Id,
        words: Words = "",
        kept: Kept = "all",
        where: Where = "[]",
        by: Words = "",
        descending: bool = False,
        offset: Annotated[int, Query(ge=0)] = 0,
        count: Annotated[int, Query(ge=1, le=answers.MOST_ROWS)] = 50,
    ) -> Response:
        left = RowFilter(words, kept, limits_of(where))
        found = answers.rows(runs, name, left, by=by, descending=descending, offset=offset, count=count)
        return JSONResponse(found)

    @app.get("/api/points")
    def scattered(name: Id, x: Words, y: Words, words: Words = "", kept: Kept = "all", where: Where = "[]") -> Response:
        return JSONResponse(answers.scattered(runs, name, x, y, RowFilter(words, kept, limits_of(where))))

    @app.get("/api/failures")
    def failed(name: Id) -> Response:
        return JSONResponse(answers.failed(runs, name))

    @app.get("/api/curve")
    def curve(name: Id, column: Words) -> Response:
        return JSONResponse(answers.curve(runs, name, column))

    @app.get("/api/compare")
    def compared(names: Annotated[list[str], Query(alias="id", max_length=8)]) -> Response:
        return JSONResponse(answers.compared(runs, names))


def _serve_pictures(app: FastAPI, runs: OpenRuns) -> None:
    @app.get("/api/drawing")
    def drawing(name: Id, arch: Annotated[str, Query(max_length=100_000)]) -> Response:
        headers = {"content-security-policy": SVG_POLICY}
        return Response(answers.drawing(runs, name, arch), media_type="image/svg+xml", headers=headers)

    @app.get("/report")
    def report(name: Id) -> Response:
        found = runs.listed.report(name)
        if found is None:
            raise InputError(f"the run {name!r} has no report: trainless report makes one")
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(found, media_type="text/html; charset=utf-8", headers=headers)


def limits_of(text: str) -> list[Within]:
    """The limits that the page asks for, as JSON ``[["params", null, 12000]]``.

    Example:
        >>> limits_of('[["params", null, 12000]]')
        [Within(column='params', low=None, high=12000.0)]
    """
    try:
        found = [Within(str(column), _bound(low), _bound(high)) for column, low, high in json.loads(text)]
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError('limits were given that are none; expected [["params", null, 12000]]') from error
    return found


def _bound(value: Any) -> float | None:
    if value is None:
        return None
    if math.isnan(bound := float(value)):
        raise ValueError("a limit is a number")
    return bound


async def _mistaken(request: Request, error: Exception) -> Response:
    return JSONResponse({"problem": printable(str(error))}, status_code=404)


async def _misasked(request: Request, error: Exception) -> Response:
    return JSONResponse({"problem": "this server was asked for something that it does not know"}, status_code=422)
