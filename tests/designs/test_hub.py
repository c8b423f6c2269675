"""Designs on the Hub: Hugging Face's own client talks to a small Hub on this machine, which keeps files in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.designs.tiny import blobs, small
from trainless.core.errors import InputError
from trainless.designs.hub import card, from_hub, push, share
from trainless.designs.pipeline import design
from trainless.learn.predictor import load_predictor

hub = pytest.importorskip("huggingface_hub")
SHA = "c" * 40


class FakeHub(ThreadingHTTPServer):
    """Repositories by name, with the bytes of their files, and whether each is private."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}


class Handler(BaseHTTPRequestHandler):
    """As much of the Hub's interface as making, committing to, listing and fetching a repository need."""

    server: FakeHub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing is printed."""

    def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), "X-Repo-Commit": SHA, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self.path.partition("?")[0].split("/")
        name = "/".join(parts[3:5])
        if self.path == "/api/repos/create":
            asked = json.loads(raw)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.server.files.setdefault(name, {})
            hidden = asked.get("visibility") == "private" or asked.get("private") is True
            self.server.private.setdefault(name, hidden)
            self.answer({"url": f"{self.home}/{name}", "name": name})
        elif self.path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "preupload" in parts:
            files = json.loads(raw)["files"]
            self.answer(
                {"files": [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]}
            )
        else:
            for line in map(json.loads, raw.splitlines()):
                if line["key"] == "file":
                    self.server.files[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer({"commitUrl": f"{self.home}/{name}/commit/{SHA}", "commitOid": SHA, "success": True})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            raw = self.server.files[name][rest.partition("/")[2]]
            self.answer(raw, ETag=f'"{hashlib.sha1(raw).hexdigest()}"')  # noqa: S324
        else:
            name = "/".join(path.split("/")[3:5])
            if name not in self.server.files:
                self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
                return
            siblings = [{"rfilename": each} for each in self.server.files[name]]
            self.answer({"id": name, "sha": SHA, "siblings": siblings, "private": False, "tags": [], "downloads": 0})

    do_HEAD = do_GET  # noqa: N815

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[FakeHub, dict[str, Any]]]:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    server = FakeHub()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server, {"endpoint": f"http://127.0.0.1:{server.server_address[1]}", "token": "hf_nothing"}
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "run"
    design(blobs(classes=3, n=120), folder, settings=small(members=2))
    return folder


@pytest.mark.slow
def test_a_design_comes_back_with_the_same_answers(
    run: Path, served: tuple[FakeHub, dict[str, Any]], tmp_path: Path
) -> None:
    server, how = served
    assert push(run, "clinic/scans", **how).endswith(f"/clinic/scans/commit/{SHA}")
    assert server.private == {"clinic/scans": True}
    sent = server.files["clinic/scans"]
    sent["members/00/evil.pkl"] = sent["evil.py"] = sent["members/../../evil.json"] = b"no"  # somebody else's
    fetched = from_hub("clinic/scans", tmp_path / "new" / "design", **how)
    x = np.asarray(blobs(classes=3, n=120).part("test").x)
    assert np.array_equal(fetched.predict(x).mean, load_predictor(run).predict(x).mean)
    found = [path for path in (tmp_path / "new").rglob("*") if path.is_file() and ".cache" not in path.parts]
    assert {path.suffix for path in found} == {".json", ".safetensors"}
    assert not list(tmp_path.rglob("evil*"))
    assert not fetched.neighbours


@pytest.mark.slow
def test_what_is_shared_is_what_is_needed_and_no_sample(run: Path, tmp_path: Path) -> None:
    share(run, tmp_path / "some")
    share(run, tmp_path / "more", neighbours=True)
    some, more = ({path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
                  for folder in (tmp_path / "some", tmp_path / "more"))  # fmt: skip
    assert more - some == {"neighbours.safetensors"}
    assert not {"report.html", "shown.npz", "predictions.npz", "summary.json", "scores.sqlite"} & some
    said = load_predictor(tmp_path / "some").predict(np.asarray(blobs(classes=3, n=120).part("test").x))
    assert np.isfinite(said.mean).all()
    assert said.refer is not None


@pytest.mark.slow
def test_the_card_is_one_and_says_the_truth_first(run: Path, tmp_path: Path) -> None:
    text = card(run, "clinic/scans")
    read = hub.ModelCard(text)
    assert read.data.library_name == "trainless"
    assert read.data.pipeline_tag == "image-classification"
    summary = json.loads((run / "summary.json").read_text())
    accuracy = summary["test"]["ensemble"]["accuracy"]["value"]
    assert f"| accuracy | {accuracy:.3f}" in read.text
    useless = {"ok": False, "verdict": "Useless", "problems": ["One class <b>| for all"], "advice": "Stop"}
    summary["test"]["sanity"] |= useless
    share(run, tmp_path / "copy")
    (tmp_path / "copy" / "summary.json").write_text(json.dumps(summary))
    first = hub.ModelCard(card(tmp_path / "copy", "clinic/scans")).text.strip().splitlines()[2]
    assert first == r"**USELESS: One class &lt;b&gt;\| for all. Stop.**"


@pytest.mark.slow
def test_what_cannot_be_is_said_in_one_line(run: Path, served: tuple[FakeHub, dict[str, Any]], tmp_path: Path) -> None:
    server, how = served
    with pytest.raises(InputError, match="the Hub has no clinic/none that you may see"):
        from_hub("clinic/none", tmp_path / "a", **how)
    server.files["clinic/other"] = {"model.bin": b"x"}
    with pytest.raises(
        InputError, match=r"clinic/other is no design of trainless: it has no ensemble.json or no run.json"
    ):
        from_hub("clinic/other", tmp_path / "b", **how)
    with pytest.raises(InputError, match="is not empty: give a new folder"):
        from_hub("clinic/other", run, **how)
    with pytest.raises(InputError, match="is no finished design"):
        push(tmp_path, "clinic/scans", **how)
    assert "clinic/scans" not in server.files
