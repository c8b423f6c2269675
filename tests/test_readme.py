"""The README's commands and examples run as they are written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Command, python

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
    return tmp_path


def test_there_is_something_to_test() -> None:
    assert len(COMMANDS) >= 5
    assert len(EXAMPLES) == 2
    assert {"my_net.py", "my_proxy.py"} <= set(FILES)


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("trainless")
    assert subprocess.run([command, "--version"], capture_output=True, text=True).stdout.startswith("trainless ")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme(command: str, folder: Path, request: pytest.FixtureRequest) -> None:
    if "--table" in command:
        request.getfixturevalue("data_dir")  # skips where the tables are not
    program, *arguments = shlex.split(command)
    assert program == "trainless"
    done = Command(arguments, folder)
    assert done.wait() == 0, done.err
    assert done.out or "--csv" in command


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_readme(example: str, folder: Path) -> None:
    done = Command([example], folder, program=python)
    assert done.wait() == 0, done.err
