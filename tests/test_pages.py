"""The commands and examples of README.md and of every page in docs/ run as they are written; see tests/pages.py."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import typer

from tests.commands import Command, python
from tests.pages import ROOT, SERVERS, Page, arguments, page, pages, prepare
from trainless.cli.app import app

PAGES = pages()
RUN = [each for each in PAGES if each.steps]
README = page(ROOT / "README.md")


def test_there_is_something_to_test() -> None:
    assert len(README.steps) >= 8
    assert {"my_net.py", "my_proxy.py"} <= set(README.files)
    named = {each.name for each in RUN}
    assert {"docs/start/five-minutes.md", "docs/how-to/deploy.md", "docs/spaces.md"} <= named
    assert len(RUN) >= 14


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("trainless")
    assert subprocess.run([command, "--version"], capture_output=True, text=True).stdout.startswith("trainless ")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_no_command_hides_in_another_kind_of_block() -> None:
    """Blocks say what they are, so that nothing is left out by mistake."""
    for each in PAGES:
        text = (ROOT / each.name).read_text(encoding="utf-8")
        for kind, block in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            assert kind, f"{each.name}: a block without a language: {block[:60]!r}"
            assert kind in ("console", "sh", "python") or "trainless " not in block, f"{each.name}: {block[:60]!r}"


@pytest.mark.parametrize("found", [each for each in PAGES if each.shell], ids=lambda found: found.name)
def test_commands_that_need_more_than_this_machine_are_commands(found: Page) -> None:
    """They are read as they would be, with every option and argument, and not run."""
    for line in found.shell:
        _, *given = shlex.split(line, comments=True)
        command = typer.main.get_command(app)
        while hasattr(command, "commands") and not given[0].startswith("-"):
            command = command.commands[given.pop(0)]
        with contextlib.suppress(typer.Exit):  # --version
            command.make_context(command.name or "", given)  # refuses what is unknown or lacks a value


@pytest.mark.slow
@pytest.mark.parametrize("found", RUN, ids=lambda found: found.name)
def test_what_a_page_says_works(
    found: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if any("--table" in step.text for step in found.steps):
        request.getfixturevalue("data_dir")  # skips where the tables are not
    prepare(found, tmp_path)
    monkeypatch.setenv("TRAINLESS_STORE", str(tmp_path / "scores.sqlite"))
    for step in found.steps:
        if step.kind == "python":
            done = Command([step.text], tmp_path, program=python)
            assert done.wait() == 0, f"{step.text}\n{done.err}"
            continue
        given = arguments(step.text)
        done = Command(given, tmp_path)
        if given[0] in SERVERS:
            answers(done)
        else:
            assert done.wait() == 0, f"{step.text}\n{done.err}"
            assert done.out or "--csv" in step.text, f"{step.text} printed nothing"


def answers(server: Command) -> None:
    """A server says where it is, answers there, and ends by Ctrl-C."""
    try:
        for _ in range(1200):
            if address := re.search(r"http://[\w.:]+/", server.out):
                break
            assert server.poll() is None, server.err
            time.sleep(0.05)
        else:
            raise AssertionError(f"it does not say where it is: {server.out} {server.err}")
        with urllib.request.urlopen(address[0], timeout=30) as answer:  # noqa: S310 - it is this machine's own
            assert answer.status == 200
        server.send(signal.SIGINT)
        assert server.wait(30) in (0, 130)
    finally:
        server.kill()
