"""The page's server, asked over a real socket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.ui.made import EVALUATIONS, HOSTILE, Site, hostile, leaderboard, searched, site
from trainless.report.report import write_report
from trainless.ui.api import listed
from trainless.ui.run_list import OpenRuns, runs_at
from trainless.ui.security import is_answered


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    searched(folder / "one")
    searched(folder / "two", seed=1)
    shutil.copytree(folder / "one", folder / "deep" / "ödd & 'name' <b>%2e%2e?#")
    write_report(folder / "one")
    hostile(folder / "theirs")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    (folder.parent / "secret").mkdir()
    (folder.parent / "secret" / "report.html").write_text("secret")
    (folder.parent / "secret" / "run.json").write_text((folder / "one" / "run.json").read_text())
    (folder / "two" / "report.html").symlink_to(folder.parent / "secret" / "report.html")
    (folder / "link").symlink_to(folder.parent / "secret")
    return folder


@pytest.fixture(scope="module")
def at(root: Path) -> Iterator[Site]:
    with site(root) as running:
        yield running


def test_the_list_has_every_run_and_says_what_is_wrong(at: Site) -> None:
    found = {run["id"]: run for run in at.get("/api/runs").json["runs"]}
    assert set(found) == {"one", "two", "deep/ödd & 'name' <b>%2e%2e?#", "theirs", "broken"}
    assert found["one"]["progress"]["state"] == "finished"
    assert found["one"]["progress"]["done"] == EVALUATIONS
    assert found["one"]["report"]
    assert not found["two"]["report"]
    assert "run.json cannot be read" in found["broken"]["problem"]
    assert at.get("/api/runs").json["skipped"] == ["link"]


def test_rows_are_sorted_filtered_and_paged(at: Site, root: Path) -> None:
    rows = leaderboard(root / "one")
    page = at.get("/api/rows", id="one", count=5).json
    assert [row["arch"] for row in page["rows"]] == [row["arch"] for row in rows[:5]]
    assert [row["rank"] for row in page["rows"]] == [1, 2, 3, 4, 5]
    assert page["all"] == len(rows)
    low = sorted(rows, key=lambda row: float(row["params"]))
    found = at.get("/api/rows", id="one", by="params", count=500).json["rows"]
    names = [column["name"] for column in at.get("/api/run", id="one").json["columns"]]
    place = names.index("params")
    assert [row["values"][place] for row in found] == [float(row["params"]) for row in low]
    middle = float(low[len(low) // 2]["params"])
    kept = at.get("/api/rows", id="one", where=json.dumps([["params", middle, None]]), words="none", count=500).json
    wanted = [row["arch"] for row in rows if float(row["params"]) >= middle and "none" in row["arch"]]
    assert [row["arch"] for row in kept["rows"]] == wanted
    assert at.get("/api/rows", id="one", offset=3, count=2).json["rows"][0]["rank"] == 4
    assert at.get("/api/rows", id="one", kept="failed").json["rows"] == []


def test_points_curves_and_failures(at: Site, root: Path) -> None:
    rows = leaderboard(root / "one")
    found = at.get("/api/points", id="one", x="params", y="flops").json["points"]
    assert sorted(point[:2] for point in found) == sorted([float(row["params"]), float(row["flops"])] for row in rows)
    curve = at.get("/api/curve", id="one", column="params").json["points"]
    assert curve[-1] == [EVALUATIONS, max(float(row["params"]) for row in rows)]
    assert at.get("/api/failures", id="one").json == {"total": 0, "reasons": [], "last": []}


def test_two_runs_are_compared(at: Site, root: Path) -> None:
    found = at.get("/api/compare", id=["one", "two"]).json
    ours, theirs = ({row["arch"] for row in leaderboard(root / name)} for name in ("one", "two"))
    assert found["shared"][0][1] == len(ours & theirs)
    tops = [{row["arch"] for row in leaderboard(root / name)[:10]} for name in ("one", "two")]
    assert found["top"][0][1] == len(tops[0] & tops[1])
    differing = {line["name"] for line in found["settings"] if line["differs"]}
    assert differing == {"seed", "score_seed"}
    assert {column["name"] for column in found["columns"]} == {"params", "flops"}
    assert at.get("/api/compare", id=["one"]).status == 404


def test_an_architecture_is_drawn(at: Site, root: Path) -> None:
    arch = leaderboard(root / "one")[0]["arch"]
    answer = at.get("/api/drawing", id="one", arch=arch)
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert ElementTree.fromstring(answer.body).tag.endswith("svg")  # noqa: S314 - our own drawing
    assert at.get("/api/drawing", id="one", arch="<script>").status == 404
    assert "code of the user's own" in at.get("/api/drawing", id="theirs", arch="x").json["problem"]


def test_a_report_is_served_in_a_sandbox_and_links_lead_nowhere(at: Site, root: Path) -> None:
    answer = at.get("/report", id="one")
    assert answer.body == (root / "one" / "report.html").read_bytes()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert at.get("/report", id="two").status == 404
    theirs = at.get("/report", id="theirs").headers["content-security-policy"]
    assert "'unsafe-inline'" not in theirs.partition("script-src")[2]


@pytest.mark.parametrize(
    "name",
    ["../secret", "link", "one/../../secret", "..", "/", "", "one/", "%2e%2e/secret", "..\\secret", "\x00", "a" * 4000],
)
@pytest.mark.parametrize("path", ["/report", "/api/run", "/api/rows", "/api/failures"])
def test_no_name_leads_outside(at: Site, name: str, path: str) -> None:
    answer = at.get(path, id=name)
    assert answer.status == 404
    assert b"secret\n" not in answer.body
    assert "there is no run" in answer.json["problem"]


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fetc/passwd",
        "/static/app.js",
        "/one/run.json",
        "/docs",
        "/openapi.json",
        "//etc",
    ],
)
def test_no_other_path_leads_anywhere(at: Site, path: str) -> None:
    assert at.get(path).status == 404


def test_odd_names_work(at: Site) -> None:
    found = at.get("/api/run", id="deep/ödd & 'name' <b>%2e%2e?#").json
    assert found["rows"] > 0


def test_nothing_but_reading_is_answered_and_only_to_this_machine_s_names(at: Site) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert at.get("/api/runs", method=method).status == 405
    for host in ("evil.example", f"evil.example:{at.port}", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil"):
        assert at.get("/api/runs", host=host).status == 421, host
    for host in ("localhost", f"localhost:{at.port}", "127.0.0.1", f"[::1]:{at.port}", "LOCALHOST"):
        assert at.get("/api/runs", host=host).status == 200, host
    assert is_answered("box.lan:8501", "box.lan")
    assert not is_answered("evil.example", "0.0.0.0")  # noqa: S104 - a name, not an address that is bound


def test_every_answer_is_marked(at: Site) -> None:
    for path in ("/", "/app.js", "/style.css", "/api/runs", "/absent"):
        headers = at.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
    assert "unsafe" not in at.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/rows", {"id": "one", "where": "{"}),
        ("/api/rows", {"id": "one", "where": '[["params", "nan", 1]]'}),
        ("/api/rows", {"id": "one", "where": "[" * 3000}),
        ("/api/rows", {"id": "one", "where": f'[["params", null, {"9" * 400}]]'}),
        ("/api/rows", {"id": "one", "by": "absent"}),
        ("/api/rows", {"id": "one", "kept": "some"}),
        ("/api/rows", {"id": "one", "offset": -1}),
        ("/api/points", {"id": "one", "x": "params", "y": "absent"}),
        ("/api/rows", {}),
    ],
)
def test_odd_questions_are_refused(at: Site, path: str, query: dict[str, str]) -> None:
    answer = at.get(path, **query)
    assert answer.status in (404, 422)
    assert answer.json["problem"]


def test_words_from_data_stay_words(at: Site) -> None:
    found = at.get("/api/run", id="theirs").json
    assert found["what"] == HOSTILE.replace("\u202e", "�")
    rows = at.get("/api/rows", id="theirs").json["rows"]
    assert HOSTILE.replace("\u202e", "�") in rows[0]["arch"]
    assert at.get("/api/failures", id="theirs").json["total"] == 1


def test_a_new_run_appears_and_one_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        assert at.get("/api/runs").json["runs"] == []
        searched(tmp_path / "new", evaluations=6)
        assert at.get("/api/run", id="new").json["progress"]["done"] == 6
        shutil.rmtree(tmp_path / "new")
        assert at.get("/api/run", id="new").status == 404
        searched(tmp_path / "new", evaluations=9)
        assert at.get("/api/run", id="new").json["progress"]["done"] == 9
        if os.geteuid() != 0:
            (tmp_path / "new" / "run.json").chmod(0)
            assert at.get("/api/run", id="new").status == 404


def test_the_page_makes_no_markup_of_strings() -> None:
    folder = Path(__file__).resolve().parents[2] / "trainless" / "ui" / "static"
    for file in folder.glob("*.js"):
        text = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http:", "https:"):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), (file.name, word)


TOKEN = "a-token-of-many-signs"  # noqa: S105 - of the test


def test_a_token_is_asked_for_once_and_is_a_cookie_then(root: Path) -> None:
    with site(root, TOKEN) as at:
        for path in ("/", "/api/runs", "/app.js", "/report"):
            assert at.get(path).status == 401
            assert at.get(path, token="another-token-of-signs").status == 401  # noqa: S106 - a wrong one
        assert at.get("/?token=%ff%fe").status == 401
        assert at.get("/api/runs", token=TOKEN).status == 401  # only the page itself takes it from its address
        first = at.get("/", token=TOKEN)
        assert (first.status, first.headers["location"], first.body) == (303, "/", b"")
        kept = first.headers["set-cookie"]
        assert kept.endswith("; Path=/; HttpOnly; SameSite=Lax")
        cookie = {"Cookie": f"other=1; {kept.partition(';')[0]}"}
        assert at.get("/api/runs", headers=cookie).json["runs"]
        assert at.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).json["runs"]
        assert at.get("/api/runs", headers={"Cookie": "trainless-token=wrong"}).status == 401
        assert at.get("/api/runs", host="evil.example", headers=cookie).status == 421


def test_slow_connections_are_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.ui.connections.TICK", 0.05)
    monkeypatch.setattr("trainless.ui.connections.HEAD_SECONDS", 0.3)
    monkeypatch.setattr("trainless.ui.connections.STILL_SECONDS", 0.6)
    begun = (b"", b"GET / HT", b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nx: ")
    with site(root) as at:
        slow = [socket.create_connection(("127.0.0.1", at.port)) for _ in range(60)]
        for number, connection in enumerate(slow):
            connection.sendall(begun[number % len(begun)])
        assert at.get("/api/runs").status == 200  # others are answered meanwhile
        until = time.monotonic() + 20
        for connection in slow:
            connection.settimeout(max(0.1, until - time.monotonic()))
            with connection, suppress(ConnectionError):
                assert connection.recv(1) == b""


def test_connections_are_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.ui.connections.MOST", 5)
    with site(root) as at:
        held = [socket.create_connection(("127.0.0.1", at.port)) for _ in range(5)]
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", at.port)) as one, suppress(ConnectionError):
            one.settimeout(10)
            assert one.recv(1) == b""  # one too many
        for connection in held:
            connection.close()
        time.sleep(0.2)
        assert at.get("/").status == 200


def test_a_long_request_is_refused(root: Path) -> None:
    with site(root) as at:
        with suppress(ConnectionError):  # it is closed before all is sent
            assert at.get("/api/runs", headers={"x": "y" * 2_000_000}).status == 400
        assert at.get("/api/run", id="x" * 60_000).status == 422


def test_five_hundred_runs_are_listed_at_once_and_opened_later(root: Path, tmp_path: Path) -> None:
    for number in range(500):
        shutil.copytree(root / "one", tmp_path / f"run-{number:03d}")
    runs = OpenRuns(runs_at(str(tmp_path)))
    start, began = time.process_time(), time.monotonic()
    found = listed(runs)["runs"]
    spent, seconds = time.process_time() - start, time.monotonic() - began
    assert len(found) == 500
    assert all(run["kind"] == "search" and run["what"] == "evolution" and run["task"] == "digits" for run in found)
    assert min(spent, seconds) < 1.0
    unread = sum("unread" in run for run in found)
    while unread:  # the page asks again
        found = listed(runs)["runs"]
        assert sum("unread" in run for run in found) < unread
        unread = sum("unread" in run for run in found)
    assert all(run["progress"]["done"] == EVALUATIONS for run in found)


def test_only_runs_are_listed(root: Path, tmp_path: Path) -> None:
    for place in ("good", "corpus/bad", ".hidden/run", "deep/er/run"):
        shutil.copytree(root / "one", tmp_path / place)
    (tmp_path / "corpus" / ".no-runs").touch()
    (tmp_path / "editor").mkdir()
    (tmp_path / "editor" / "settings.json").write_text("{}")
    assert runs_at(str(tmp_path)).names() == ["deep/er/run", "good"]
    checkout = Path(__file__).parents[2]
    assert not [name for name in runs_at(str(checkout)).names() if name.startswith("tests/")]


def test_one_bad_folder_is_one_bad_row(tmp_path: Path) -> None:
    searched(tmp_path / "good")
    for name in ("bad", "worse"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.json").write_text("{}")
    (tmp_path / "bad" / "runs.json").write_text("[1]")
    (tmp_path / "worse" / "runs.json").write_text('[{"seconds": [], "archs": 1}]')
    with site(tmp_path) as at:
        rows = {run["id"]: run for run in at.get("/api/runs").json["runs"]}
        assert set(rows) == {"bad", "good", "worse"}
        assert rows["good"]["progress"]["state"] == "finished"
        assert all("is damaged" in rows[name]["problem"] for name in ("bad", "worse"))
        assert at.get("/api/run", id="bad").status == 404


def test_a_folder_whose_name_is_no_text_is_one_more_row(tmp_path: Path) -> None:
    searched(tmp_path / "good")
    try:
        (tmp_path / os.fsdecode(b"b\xe4d")).mkdir()
    except OSError:
        pytest.skip("this file system has names of text alone")
    shutil.copytree(tmp_path / "good", tmp_path / os.fsdecode(b"b\xe4d"), dirs_exist_ok=True)
    with site(tmp_path) as at:
        assert [run["id"] for run in at.get("/api/runs").json["runs"]] == ["b\\xe4d", "good"]
        assert at.get("/api/run", id="b\\xe4d").json["progress"]["state"] == "finished"
