"""Code of the user's own that ends, raises or says whatever it likes: one line, and never an end in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Command

pytestmark = pytest.mark.slow
ODD = """
class Odd(%s):
    def __str__(self):
        %s
"""
RAISES = {
    "a generator's end": "raise GeneratorExit",
    "an exit": "raise SystemExit(0)",
    "a base": "raise BaseException('so')",
    "no text": ODD % ("BaseException", "return 7") + "raise Odd",
    "an exit as text": ODD % ("Exception", "raise SystemExit(0)") + "raise Odd",
    "endless text": ODD % ("Exception", "return str(self)") + "raise Odd",
    "many lines": "raise ValueError('a\\n\\x1b[2Jb\\n' * 50)",
}
PROXY = """
import os
import trainless as tl

def now():
    {body}

@tl.proxy(higher_is_better=True, paper="none")
def mine(p):
    "Mine."
    now()
    return 1.0
"""
SPACE = ("--space", "nb201", "--space-args", "channels=2,cells=1", "--batch", "4")
ARCH = "|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|"
USES = {
    "search": ("search", "digits", *SPACE, "--evaluations", "2", "--proxies", "mine.py:mine", "--out", "run"),
    "score": ("score", *SPACE, "--proxies", "params,mine.py:mine", "--store", "none", ARCH),
}


def said(folder: Path, use: str, code: str) -> tuple[int, str, str]:
    """The end of a command that uses this code, and what it said."""
    (folder / "mine.py").write_text(code)
    command = Command(USES[use], folder, {"TRAINLESS_STORE": "none"})
    return command.wait(60), command.out, command.err


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", RAISES)
def test_whatever_a_file_raises_when_it_is_imported_is_one_line(kind: str, use: str, tmp_path: Path) -> None:
    code, _, err = said(tmp_path, use, RAISES[kind])
    assert code == 2
    assert "Traceback" not in err
    assert err.count("trainless: ") == 1
    assert "importing mine.py failed" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", RAISES)
def test_whatever_a_proxy_raises_is_its_failure(kind: str, use: str, tmp_path: Path) -> None:
    body = RAISES[kind].strip().replace("\n", "\n    ")
    code, out, err = said(tmp_path, use, PROXY.format(body=body))
    assert "Traceback" not in err + out
    assert "\x1b" not in err + out
    assert code in (0, 1, 2)
    assert out + err  # it never ends in silence


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("status", [0, 3])
def test_a_proxy_cannot_end_the_command_in_silence(status: int, use: str, tmp_path: Path) -> None:
    """One worker, and ``os._exit(0)`` in a proxy: exit 0, no output."""
    _, out, err = said(tmp_path, use, PROXY.format(body=f"os._exit({status})"))
    assert f"os._exit({status}) was called" in out + err


def test_a_missing_gpu_is_said_before_anything_is_scored(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROXY.format(body="open('scored', 'w').close()"))
    for arguments in (
        (*USES["search"], "--device", "cuda:77"),
        (*USES["score"], "--device", "cuda:77"),
        (
            "bench",
            "sweep",
            "--task",
            "digits",
            *SPACE,
            "--archs",
            "sample:1",
            "--proxies",
            "mine.py:mine",
            "--device",
            "cuda:77",
            "--out",
            "sweep",
        ),
    ):
        command = Command(arguments, tmp_path, {"TRAINLESS_STORE": "none"})
        assert command.wait(60) == 2, command.out
        assert "PyTorch sees" in command.err
        assert "Traceback" not in command.err
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith((".", "__"))) == ["mine.py"]
