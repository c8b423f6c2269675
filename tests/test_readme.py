"""The README's commands and examples run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
FILES = {block.split()[1]: block for block in blocks("python") if re.match(r"# \w+\.py\n", block)}
EXAMPLES = [block for block in blocks("python") if block not in FILES.values()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("TRAINLESS_STORE", str(tmp_path / "scores.sqlite"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_there_is_something_to_test() -> None:
    assert len(COMMANDS) >= 5
    assert len(EXAMPLES) == 2
    assert {"my_net.py", "my_proxy.py"} <= set(FILES)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme(command: str, folder: Path, request: pytest.FixtureRequest) -> None:
    if "--table" in command:
        request.getfixturevalue("data_dir")  # skips where the tables are not
    done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout or "--csv" in command


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_readme(example: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=folder, check=True, timeout=120)
