"""An ensemble as a small server: one page to drop a file on, and one address that answers with JSON.

Nothing that is sent is kept. The server answers on this machine alone unless it is told another address, and then only
to those who have its token; a browser's page of somebody else's cannot ask it.
"""

from __future__ import annotations

import base64
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from itertools import accumulate
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from trainless.core.errors import InputError, TrainlessError
from trainless.core.files import strict
from trainless.core.seeds import one_thread
from trainless.core.task import Part
from trainless.core.text import printable, undamaged
from trainless.core.types import Json
from trainless.learn.drift import drift_warning
from trainless.learn.explain import explain
from trainless.learn.metrics import BALANCED
from trainless.learn.predictor import Prediction, Predictor, class_names
from trainless.report.explained import looked_in_words
from trainless.report.explanations import drawn_case
from trainless.report.page import STYLE
from trainless.tasks.new import WORDS, read_new
from trainless.ui.connections import server_of
from trainless.ui.security import Guard
from trainless.ui.server import KINDS

try:
    import uvicorn
    from fastapi import FastAPI, Request, Response
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import JSONResponse
except ImportError as missing:
    raise InputError("trainless serve needs FastAPI and uvicorn: pip install 'trainless[ui]'") from missing

MOST_EXPLAINED = 5  # cases of one file
LONGEST_NAME = 100  # bytes
_ODD = re.compile(r"[^\w. ()+-]")


class Answering:
    """An ensemble that answers files, one at a time."""

    def __init__(self, predictor: Predictor, *, device: str = "cpu") -> None:
        self.predictor, self._device, self._lock = predictor, device, threading.Lock()

    def about(self) -> Json:
        """What it expects and answers."""
        task = self.predictor.task
        return {
            "task": task.name,
            "kind": task.target.kind,
            "classes": list(class_names(task.target)),
            "input_shape": list(task.input_shape),
            "example": task.source.example,
            "reads": WORDS[task.source.kind],
            "members": len(self.predictor.nets),
        }

    def answer(self, files: Sequence[tuple[str, bytes]], *, why: bool = False) -> Json:
        """What it says of the cases in a file, or in several that belong together, called as their names say."""
        names = [safe_name(name) for name, _ in files]
        if again := next((name for name, times in Counter(names).items() if times > 1), ""):
            raise InputError(f"two files called {again} were given: give them in turn, or under other names")
        with tempfile.TemporaryDirectory(prefix="trainless-serve-") as folder:
            place = Path(folder) / "files"
            place.mkdir()
            for name, (_, content) in zip(names, files, strict=True):
                (place / name).write_bytes(content)
            new = read_new(place if len(files) > 1 else place / names[0], self.predictor.task)
            with self._lock, one_thread(), undamaged("the ensemble", "design it again"):
                said = self.predictor.predict(new.x, self._device, new.records)
                found = answers_of(self.predictor, said, new.names)
                if why:
                    self._explain(found, said, Part(new.x, np.zeros(len(new.x)), records=new.records))
        return found

    def _explain(self, found: Json, said: Prediction, part: Part) -> None:
        """Explain the first cases; of a recording its first window."""
        classes = class_names(self.predictor.task.target)
        for case, one in enumerate(found["cases"][:MOST_EXPLAINED]):
            label = 0 if said.label is None else int(said.label[case])
            x = np.asarray(part.x[part.first[[case]]], np.float64)[0]
            seen = explain(self.predictor, x, label)
            kind, drawn = drawn_case(x, seen, str(one["case"]))
            what = f"the probability of {classes[label]}" if classes else "the value"
            one["picture"] = f"data:{kind};base64,{base64.b64encode(drawn).decode()}"
            one["looked"] = looked_in_words(float(seen.heat.max()), what, bool(classes))
            kept = self.predictor.neighbours
            if kept is not None:
                one["similar"] = [
                    {
                        "training_case": int(kept.rows[place]),
                        "is": classes[int(kept.y[place])] if classes else float(np.reshape(kept.y[place], -1)[0]),
                        "similarity": float(cosine),
                    }
                    for place, cosine in zip(seen.similar, seen.cosines, strict=True)
                ]


def answers_of(predictor: Predictor, said: Prediction, names: Sequence[str | int]) -> Json:
    """Answers as plain data: every case, and what has to be known about all of them."""
    classes, unlike = class_names(predictor.task.target), None
    if said.drift is not None and predictor.drift is not None:
        unlike = predictor.drift.unlike(said.drift)
    cases = []
    for case, name in enumerate(names):
        one: Json = {"case": name}
        if said.label is not None:
            one["answer"] = classes[int(said.label[case])]
            if said.alike is not None and predictor.prior:
                one[BALANCED] = classes[int(said.alike[case])]
            one["probabilities"] = dict(zip(classes, said.mean[case].tolist(), strict=True))
            votes = np.bincount(said.members[:, case].argmax(1), minlength=len(classes))
            one["votes"] = {classes[k]: int(votes[k]) for k in np.argsort(-votes, kind="stable") if votes[k]}
        else:
            one["answer"] = said.mean[case].tolist()
            if said.low is not None and said.high is not None:
                one["interval"] = [said.low[case].tolist(), said.high[case].tolist()]
        if said.sets is not None:
            one["possible"] = [classes[k] for k in np.flatnonzero(said.sets[case])]
        if said.screen is not None and predictor.positive is not None:
            one["screen"] = {classes[predictor.positive]: bool(said.screen[case])}
        if said.refer is not None:
            one["refer"] = bool(said.refer[case])
        if unlike is not None:
            one["unlike_training"] = bool(unlike[case])
        cases.append(one)
    notes = []
    if said.drift is not None and predictor.drift is not None:
        warning = drift_warning(predictor.drift, said.drift)
        notes += [f"Warning: {warning}."] if warning.warn else []
    found: Json = {"cases": cases, "notes": notes}
    rule = predictor.deferral
    if said.refer is not None and rule is not None and not rule.promised:
        found["referral"] = f"{str(rule)[:1].upper()}{str(rule)[1:]}."
    return dict(strict(found))


def divided(named: str, sizes: str, content: bytes) -> list[tuple[str, bytes]]:
    """The files of a body: one, or several one after the other whose names and sizes are given with commas.

    Example:
        >>> divided("a.hea,a%2C1.dat", "2,3", b"HHDDD"), divided("a, b.png", "", b"PNG")
        ([('a.hea', b'HH'), ('a,1.dat', b'DDD')], [('a, b.png', b'PNG')])
    """
    if not sizes:
        return [(unquote(named), content)]
    names, lengths = [unquote(name) for name in named.split(",")], sizes.split(",")
    known = all(re.fullmatch(r" *[0-9]{1,15} *", length) for length in lengths) and len(names) == len(lengths)
    if not known or sum(map(int, lengths)) != len(content):
        raise InputError(
            f"{len(names)} names in x-file-name and x-file-sizes {sizes[:60]} were given with {len(content)} bytes;"
            " expected a size for each name, and all of them together"
        )
    ends = list(accumulate(map(int, lengths), initial=0))
    return [(name, content[begin:end]) for name, begin, end in zip(names, ends, ends[1:], strict=False)]


def safe_name(name: str) -> str:
    """A file name that leads nowhere: the last part of what was sent, with plain signs alone.

    Example:
        >>> safe_name("../../etc/scan 1.nii.gz"), safe_name("..")
        ('scan 1.nii.gz', 'file')
    """
    last = _ODD.sub("_", re.split(r"[/\\\\]", name)[-1]).strip(". ")
    return last.encode()[-LONGEST_NAME:].decode(errors="ignore").strip(". ") or "file"


def application(answering: Answering, bound: str, *, limit: int, token: str = "") -> Guard:
    """Everything that is answered by a server that is bound to an address; with a token only to those who have it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    folder = resources.files("trainless.ui").joinpath("drop")
    texts = {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(KINDS))}
    texts["drop.css"] = STYLE.encode() + texts["drop.css"]
    for name, content in texts.items():

        def answer(name: str = name, content: bytes = content) -> Response:
            return Response(content, media_type=KINDS[name[name.rindex(".") :]])

        app.add_api_route("/" if name == "index.html" else f"/{name}", lambda answer=answer: answer())

    @app.get("/api/about")
    def about() -> Response:
        return JSONResponse({**answering.about(), "limit": limit})

    @app.post("/api/predict")
    async def predict(request: Request) -> Response:
        named = request.headers.get("x-file-name", "")  # a page of somebody else's cannot send this header
        if not named:
            return _problem(400, "no file name was given: send the file as the body and its name as x-file-name")
        content = bytearray()
        async for piece in request.stream():
            content += piece
            if len(content) > limit:
                return _problem(413, f"the file is larger than {limit / 1e6:.0f} MB, the server's --limit")
        why = request.query_params.get("explain", "") in ("1", "yes", "true")
        try:
            files = divided(named, request.headers.get("x-file-sizes", ""), bytes(content))
            found = await run_in_threadpool(answering.answer, files, why=why)
        except TrainlessError as error:
            return _problem(422, printable(str(error)))
        return JSONResponse(found)

    return Guard(app, bound, methods=("GET", "HEAD", "POST"), token=token)


def _problem(status: int, words: str) -> Response:
    return JSONResponse({"problem": words}, status_code=status, headers={"connection": "close"})


def server(answering: Answering, host: str, *, limit: int, token: str = "") -> uvicorn.Server:
    """A server that is ready to run on a socket."""
    return server_of(application(answering, host, limit=limit, token=token))
