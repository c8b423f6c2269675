"""Hostile inputs: every file of the corpus, thrown at the commands that read such files.

Whatever comes is answered by one line and the exit code 2, or it is read; never by a traceback, never by running what
it holds, never by writing outside of the folder that was given.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainless.cli.app import run as run_command

CORPUS = Path(__file__).resolve().parent / "fuzz"
SPACE = ("--space", "nb201", "--space-args", "channels=2,cells=1")
ARCH = "|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|"
SPACES = (
    "nb201",
    "nb101",
    "transnas-micro",
    "nb-macro",
    "darts",
    "mobilenet",
    "recurrent",
    "nats-size",
    "transformer",
    "residual",
    "inception",
    "rocket",
    "mlp",
)
SEARCH = ("search", "digits", *SPACE, "--searcher", "random", "--proxies", "params", "--batch", "4")
Throw = Callable[..., int]


FOLDERS = ".folders"


def cases(kind: str) -> list[str]:
    return sorted(path.name for path in (CORPUS / kind).iterdir())


@pytest.fixture
def given(tmp_path: Path) -> Callable[[str], Path]:
    """A case of the corpus in a folder of its own, with bystanders that nobody may touch."""

    def copy(case: str) -> Path:
        source, place = CORPUS / case, tmp_path / "given" / Path(case).name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place)
            for code in place.glob("*.code"):
                code.rename(code.with_suffix(".py"))
        else:
            shutil.copyfile(source, place)
        return place

    return copy


@pytest.fixture
def throw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Throw:
    """Run a command; nothing but what is named may be made or changed."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "bystander").write_text("untouched")
    monkeypatch.chdir(work)
    monkeypatch.setenv("TRAINLESS_STORE", "none")

    def seen() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def call(*arguments: str, into: Path | None = None) -> int:
        before = seen()
        code = run_command(arguments)
        said = capsys.readouterr()
        assert code in (0, 1, 2), said.err
        assert "Traceback" not in said.err + said.out
        if code == 2:
            assert said.err.count("trainless: ") == 1, said.err
        assert not list(tmp_path.rglob("pwned*")), "it ran what the file holds"
        outside = {path: data for path, data in seen().items() if into is None or not Path(path).is_relative_to(into)}
        assert outside == {path: data for path, data in before.items() if path in outside}, "it wrote elsewhere"
        return code

    return call


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrays", "tables", "pictures"])
def test_data(kind: str, given: Callable[[str], Path], throw: Throw, tmp_path: Path) -> None:
    refused = 0
    for case in cases(kind):
        data, out = str(given(f"{kind}/{case}")), tmp_path / "out" / case
        limits = ("--proxies", "params", "--evaluations", "1", "--batch", "4")
        code = throw("search", data, *SPACE, *limits, "--out", str(out), into=out)
        refused += code == 2
        throw("score", ARCH, *SPACE, "--task", data, "--proxies", "params", "--store", "none")
    assert refused > len(cases(kind)) // 2


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
def test_notations(space: str, throw: Throw) -> None:
    for text in json.loads((CORPUS / "archs" / "archs.json").read_text()):
        throw("show", "--space", space, "--", text)


@pytest.mark.slow
def test_stores(given: Callable[[str], Path], throw: Throw, tmp_path: Path) -> None:
    for case in cases("stores"):
        store = given(f"stores/{case}")
        throw("score", ARCH, *SPACE, "--proxies", "params", "--store", str(store), into=store.parent)
        throw("store", "list", str(store), into=store.parent)
        out = tmp_path / "exported"
        out.mkdir(exist_ok=True)
        throw("store", "export", str(store), str(out / "scores.csv"), into=tmp_path)


@pytest.mark.parametrize("case", cases(FOLDERS))
def test_run_folders(case: str, given: Callable[[str], Path], throw: Throw, tmp_path: Path) -> None:
    run = given(f"{FOLDERS}/{case}")
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 1, 8, 8), np.float32))
    common = ("--proxies", "params", "--batch", "4", "--out", str(run))
    for arguments in (
        ("predict", str(run), str(tmp_path / "x.npz"), "--csv", str(run / "said.csv")),
        ("export", str(run), "--onnx", str(run / "net.onnx")),
        ("report", str(run)),
        ("export-study", str(run), str(run / "study.db")),
        ("search", "digits", *SPACE, "--searcher", "random", "--evaluations", "1", *common),
    ):
        throw(*arguments, into=run)


@pytest.mark.parametrize("case", [case for case in cases(FOLDERS) if case.startswith("sweep")])
def test_folders_of_sweeps(case: str, given: Callable[[str], Path], throw: Throw) -> None:
    folder = given(f"{FOLDERS}/{case}")
    limits = ("--archs", "sample:1", "--proxies", "params", "--batch", "4", "--task", "noise:3x8x8:10")
    throw(
        "bench",
        "sweep",
        "--space-args",
        "channels=2,cells=1",
        *limits,
        "--store",
        "none",
        "--out",
        str(folder),
        into=folder,
    )


@pytest.mark.parametrize("case", ["own-space", "own-member"])
def test_code_runs_only_where_the_command_line_names_it(case: str, given: Callable[[str], Path], throw: Throw) -> None:
    run = given(f"{FOLDERS}/{case}")
    for file in (run / "run.json", run / "members/00/member.json"):
        if file.exists():  # as the attacker would who knows where the folder will be
            file.write_text(file.read_text().replace("evil.py", str(run / "evil.py")))
    assert throw("predict", str(run), "x.npz", "--csv", "said.csv") == 2
    assert throw("export", str(run), "--onnx", "net.onnx") == 2
    assert throw("report", str(run), into=run) == 2


TRAJECTORIES = [
    b"\xff\xfe\n",
    b"[" * 100_000 + b"\n",
    b'{"step": 1}\n',
    b'"step"\n',
    b'{"state": {}, "step": 1}\n',
    b'{"state": [, "step": 1}\n',
    b'{"step": 1, "candidates": [7], "scores": [], "told": {}, "spent": [1, 2, 3]}\n',
    b'{"step": 1, "candidates": [[99, -1, 0, 0, 0, 0]], "scores": {}, "told": {}, "spent": [1, 2, 3]}\n',
    b'{"step": 1, "candidates": [[0, 0, 0, 0, 0, 0]], "scores": {"params": ["x"]}, "told": {}, "spent": [1, 2]}\n',
    b'{"step": null, "candidates": []}\n',
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good run."""
    run = tmp_path_factory.mktemp("finished") / "run"
    assert run_command([*SEARCH, "--evaluations", "2", "--out", str(run)]) == 0
    return run


@pytest.mark.slow
@pytest.mark.parametrize("file", ["trajectory.jsonl", "scores.sqlite", "leaderboard.csv", "lock", "run.json"])
def test_a_run_that_was_tampered_with(file: str, finished: Path, throw: Throw, tmp_path: Path) -> None:
    for number, text in enumerate(TRAJECTORIES if file == "trajectory.jsonl" else TRAJECTORIES[:3]):
        run = tmp_path / f"run{number}"
        shutil.copytree(finished, run)
        for beside in run.glob(f"{file}-*"):  # what a database keeps beside itself
            beside.unlink()
        (run / file).write_bytes(text)
        throw("report", str(run), into=run)
        throw("export-study", str(run), str(run / "study.db"), into=run)
        throw(*SEARCH, "--evaluations", "3", "--out", str(run), into=run)
