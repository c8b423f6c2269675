"""A served ensemble: a file that is really dropped in a browser, answers for programs, and who is not answered."""

from __future__ import annotations

import base64
import http.client
import io
import json
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import typer.main
from PIL import Image

from tests.browser import Visit
from tests.cli.test_verdict import sound
from tests.designs.tiny import small
from tests.ui.pages import poor_contrast
from trainless.cli.app import app, run
from trainless.designs.pipeline import design
from trainless.learn.predictor import Predictor, load_predictor
from trainless.learn.reading import ReadingSettings
from trainless.tasks import task
from trainless.ui.serve import Answering, safe_name, server
from trainless.ui.server import listening

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-many-signs"  # noqa: S105 - of the test


@dataclass(frozen=True)
class Served:
    port: int

    def post(self, content: bytes, **headers: str) -> tuple[int, Any]:
        return self.ask("POST", "/api/predict", content, **headers)

    def ask(self, method: str, path: str, content: bytes = b"", **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method, path, content, {name.replace("_", "-"): value for name, value in headers.items()}
            )
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body[:1] in b"{[" else body.decode()
        finally:
            connection.close()


@contextmanager
def serving(predictor: Predictor, *, host: str = "127.0.0.1", limit: int = 10**6, token: str = "") -> Iterator[Served]:
    """The real server in a thread."""
    with listening("127.0.0.1", 0) as socket:
        started = server(Answering(predictor), host, limit=limit, token=token)
        thread = threading.Thread(target=started.run, kwargs={"sockets": [socket]})
        thread.start()
        while not started.started:
            time.sleep(0.01)
        try:
            yield Served(socket.getsockname()[1])
        finally:
            started.should_exit = True
            thread.join(10)


@pytest.fixture(scope="module")
def made() -> tuple[Path, Path]:
    return sound()


@pytest.fixture(scope="module")
def predictor(made: tuple[Path, Path]) -> Predictor:
    return load_predictor(made[0]).reading(ReadingSettings(positive="malignant", sensitivity=0.8))


def file_of(x: np.ndarray) -> bytes:
    kept = io.BytesIO()
    np.savez(kept, x=x)
    return kept.getvalue()


def test_a_program_gets_what_predict_says(predictor: Predictor, made: tuple[Path, Path]) -> None:
    x = np.load(made[1])["x"][:7]
    said = predictor.predict(x[:, None])
    assert said.label is not None
    assert said.screen is not None
    with serving(predictor) as at:
        status, found = at.post(file_of(x), x_file_name="new.npz")
        assert status == 200
        assert len(found["cases"]) == 7
        for case, one in enumerate(found["cases"]):
            assert one["answer"] == ("benign", "malignant")[said.label[case]]
            assert list(one["probabilities"].values()) == pytest.approx(said.mean[case].tolist(), abs=1e-6)
            assert one["screen"] == {"malignant": bool(said.screen[case])}
            assert sum(one["votes"].values()) == 2
            assert "picture" not in one
        status, found = at.ask("POST", "/api/predict?explain=1", file_of(x[:2]), x_file_name="new.npz")
        kind, _, picture = found["cases"][0]["picture"].partition(",")
        assert kind == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(picture))).size == (224, 224)
        assert len(found["cases"][0]["similar"]) == 3
        status, about = at.ask("GET", "/api/about")
        assert (about["classes"], about["input_shape"], about["limit"]) == (["benign", "malignant"], [1, 8, 8], 10**6)
        assert at.ask("GET", "/")[0] == 200


def test_files_that_belong_together_are_one_case(tmp_path: Path) -> None:
    """A header and its recording, as two files; and images, each a case of its own."""
    random = np.random.default_rng(0)
    for label, light in (("dark", 0), ("light", 120)):
        (tmp_path / "imgs" / label).mkdir(parents=True)
        for number in range(24):
            pixels = (random.integers(0, 120, (8, 8)) + light).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "imgs" / label / f"{number:02d}.png")
    wfdb_records(tmp_path / "ecg")
    for data, names in (("imgs", ("dark/01.png", "light/02.png")), ("ecg", ("r00.hea", "r00.dat"))):
        made = design(task(tmp_path / data), tmp_path / "run" / data, settings=small())
        files = [tmp_path / data / name for name in names]
        content = b"".join(file.read_bytes() for file in files)
        sizes = ",".join(str(file.stat().st_size) for file in files)
        with serving(made.predictor) as at:
            sent = {"x_file_name": ",".join(file.name for file in files), "x_file_sizes": sizes}
            status, found = at.post(content, **sent)
            assert status == 200, found
            assert [one["case"] for one in found["cases"]] == (["01.png", "02.png"] if data == "imgs" else ["r00.hea"])
            for wrong, words in (
                (
                    {**sent, "x_file_sizes": f"{len(content)}"},
                    "expected a size for each name, and all of them together",
                ),
                ({**sent, "x_file_sizes": f"-1,{len(content) + 1}"}, "expected a size for each name"),
                ({**sent, "x_file_sizes": f"{len(content)},{'9' * 5000}"}, "expected a size for each name"),
                ({**sent, "x_file_name": f"{names[0]},../{names[0]}"}, "two files called"),
            ):
                status, found = at.post(content, **wrong)
                assert status == 422
                assert words in found["problem"]


def wfdb_records(folder: Path) -> None:
    """Recordings of two kinds, 16 bits, and a table without a header as PhysioNet has it."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(24):
        wave = np.sin(np.arange(64) / (2 + 3 * (number % 2))) * 900 + random.normal(size=64) * 30
        name, samples = f"r{number:02d}", wave.astype("<i2")
        (folder / f"{name}.dat").write_bytes(samples.tobytes())
        about = (
            f"{name} 1 100 64\n{name}.dat 16 1000/mV 16 0 {samples[0]} {int(samples.sum(dtype=int)) % 65536} 0 ECG\n"
        )
        (folder / f"{name}.hea").write_text(about, encoding="utf-8")
    rows = [f"r{number:02d},{'NA'[number % 2]}" for number in range(24)]
    (folder / "REFERENCE.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_mistakes_are_one_line(predictor: Predictor) -> None:
    x = np.zeros((1, 8, 8), np.float32)
    with serving(predictor, limit=5000) as at:
        for content, headers, status, words in (
            (file_of(x), {}, 400, "no file name was given"),
            (b"PK nothing", {"x_file_name": "a.npz"}, 422, "a.npz"),
            (file_of(np.zeros((1, 9, 9))), {"x_file_name": "a.npz"}, 422, "expected (N, 1, 8, 8)"),
            (b"x" * 6000, {"x_file_name": "a.npz"}, 413, "larger than"),
            (b"1,2", {"x_file_name": "../../a.csv"}, 422, "a.csv holds a table"),
            (b"1,2", {"x_file_name": "a.exe"}, 422, "a.exe is of a kind that cannot be read"),
            (b"1,2", {"x_file_name": quote("\u6f22" * 300 + ".exe")}, 422, ".exe is of a kind that cannot be read"),
        ):
            found = at.post(content, **headers)
            assert found[0] == status, words
            assert words in found[1]["problem"]
            assert "trainless-serve-" not in found[1]["problem"]
        strange = at.post(file_of(np.full((30, 8, 8), 1000.0)), x_file_name="a.npz")
        assert strange[0] == 413  # and in one that fits
        assert at.post(file_of(x), x_file_name="b.npz")[0] == 200  # it goes on


def test_strange_inputs_come_with_a_warning(predictor: Predictor) -> None:
    with serving(predictor) as at:
        status, found = at.post(file_of(np.full((30, 8, 8), 1000.0)), x_file_name="a.npz")
    assert status == 200
    assert "do not trust these predictions" in found["notes"][0]
    assert all(one["unlike_training"] for one in found["cases"])


def test_beyond_this_machine_a_token_is_needed(predictor: Predictor) -> None:
    with serving(predictor, host="0.0.0.0", token=TOKEN) as at:  # noqa: S104 - bound to loopback by the test's socket
        content = file_of(np.zeros((1, 8, 8), np.float32))
        assert at.post(content, x_file_name="a.npz")[0] == 401
        assert at.post(content, x_file_name="a.npz", authorization="Bearer wrong")[0] == 401
        assert at.ask("GET", "/api/about")[0] == 401
        assert at.post(content, x_file_name="a.npz", authorization=f"Bearer {TOKEN}")[0] == 200


def test_other_names_and_methods_are_refused(predictor: Predictor) -> None:
    with serving(predictor) as at:
        assert at.post(b"", x_file_name="a.npz", host="evil.example")[0] == 421
        assert at.ask("DELETE", "/api/predict")[0] == 405
        assert at.ask("OPTIONS", "/api/predict", origin="http://evil.example")[0] == 405  # no page elsewhere may ask
        assert at.ask("GET", "/../security.py")[0] == 404


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a/b\\c.png", "c.png"),
        ("", "file"),
        ("../..", "file"),
        ("x" * 300 + ".npz", "x" * 96 + ".npz"),
        ("a\0b.npy", "a_b.npy"),
        ("\u6f22" * 300 + ".npz", "\u6f22" * 32 + ".npz"),  # 100 bytes: a file system counts those
    ],
)
def test_names_lead_nowhere(sent: str, kept: str) -> None:
    assert safe_name(sent) == kept


def test_the_command_refuses_a_short_token(made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("serve", str(made[0]), "--token", "short")) == 2
    assert "a token of 5 signs was given; expected at least 16" in capsys.readouterr().err
    assert run(("serve", str(made[0].parent))) == 2
    assert "is no run" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_is_chosen_and_dropped_in_a_browser(
    visit: Callable[..., Visit],
    predictor: Predictor,
    made: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    x = np.load(made[1])["x"]
    said = predictor.predict(x[:1, None])
    assert said.label is not None
    (tmp_path / "one.npz").write_bytes(file_of(x[:1]))
    with serving(predictor, token=TOKEN) as at:
        seen = visit(f"http://127.0.0.1:{at.port}/?token={TOKEN}", offline=False)
        page = seen.page
        page.get_by_text("2 networks together say which it is: benign, malignant").wait_for()
        page.locator("#file").set_input_files(tmp_path / "one.npz")
        page.locator(".answer .said").wait_for(timeout=60_000)
        assert page.locator(".said").inner_text() == ("benign", "malignant")[said.label[0]]
        assert page.locator(".answer img").evaluate("image => image.naturalWidth") == 224
        assert page.get_by_text("Similar: training case").count() == 3
        dropped(seen, "three.npz", file_of(x[:3]))
        page.get_by_text("3 cases in three.npz.").wait_for(timeout=60_000)
        assert page.locator(".answer").count() == 3
        for width, scheme in ((1280, "light"), (390, "dark")):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert seen.overflow(width) <= 0
            assert poor_contrast(seen, 15) == []
        assert seen.faults == []
        assert all(url.startswith((f"http://127.0.0.1:{at.port}/", "data:")) for url in seen.requested)
        dropped(seen, "<img src=x onerror=alert(1)>.csv", b"1,2")
        page.locator("#state.bad").wait_for(timeout=60_000)
        assert "holds a table" in page.locator("#state").inner_text()
        assert page.locator("#state img").count() == 0
        assert seen.errors == []


def dropped(seen: Visit, name: str, content: bytes) -> None:
    """A real drop event with a real file."""
    carried = seen.page.evaluate_handle(
        """([name, text]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0))], name));
            return carried;
        }""",
        [name, base64.b64encode(content).decode()],
    )
    seen.page.dispatch_event("#place", "drop", {"dataTransfer": carried})


def test_the_dockerfile_names_what_there_is() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert steps[0][0] == "FROM"
    assert {word for word, _ in steps} <= {"FROM", "COPY", "RUN", "USER", "WORKDIR", "EXPOSE", "CMD"}
    copied = [path for word, rest in steps if word == "COPY" for path in rest.split()[:-1]]
    assert copied
    assert all((ROOT / path).exists() for path in copied)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    asked = next(rest for word, rest in steps if word == "RUN" and "/source[" in rest)
    assert set(asked.partition("[")[2].partition("]")[0].split(",")) <= set(extras)
    program, verb, folder, *options = json.loads(next(rest for word, rest in steps if word == "CMD"))
    assert (program, folder) == ("trainless", "/model")
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert set(options[::2]) <= known
    port = options[options.index("--port") + 1]
    assert next(rest for word, rest in steps if word == "EXPOSE") == port
    assert next(place for place, (word, _) in enumerate(steps) if word == "USER") < len(steps) - 1
    told = " ".join(line for line in lines if line.startswith("#"))
    assert f"127.0.0.1:{port}:{port}" in told
    assert "TRAINLESS_TOKEN" in told
