"""Code of the user's own that ends, raises or says whatever it likes: one line, and never an end in silence."""

from __future__ import annotations

import csv
import signal
import time
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


LEFT_BEHIND = {
    "twins of the process": "if os.fork() == 0 and os.fork() == 0: raise SystemExit",
    "other modes": """import torch
    os.chdir('/')
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_default_device('meta')
    torch.set_float32_matmul_precision('medium')
    torch.use_deterministic_algorithms(True)""",
}


def snips(folder: Path, proxies: str) -> list[tuple[str, str]]:
    """The archs of a search that has ended well, and their scores by snip."""
    arguments = [proxies if word == "mine.py:mine" else word for word in USES["search"]]
    command = Command(arguments, folder, {"TRAINLESS_STORE": "none"})
    assert command.wait(60) == 0, command.err
    with (folder / "run" / "leaderboard.csv").open() as file:
        return sorted((row["arch"], row["snip"]) for row in csv.DictReader(file))


def test_what_a_proxy_leaves_behind_changes_nothing_else(tmp_path: Path) -> None:
    """It is measured first, in the command's own process; the scores after it are those of a search without it."""
    (tmp_path / "alone").mkdir()
    alone = snips(tmp_path / "alone", "snip")
    assert len(alone) == 2
    for kind, body in LEFT_BEHIND.items():
        place = tmp_path / kind
        place.mkdir()
        (place / "mine.py").write_text(PROXY.format(body=body))
        assert snips(place, "mine.py:mine,snip") == alone, kind
        steps = (place / "run" / "trajectory.jsonl").read_text().count('{"step"')
        assert steps == (tmp_path / "alone" / "run" / "trajectory.jsonl").read_text().count('{"step"'), kind


def test_twins_that_a_proxy_forks_say_nothing(tmp_path: Path) -> None:
    """Without workers it is the command itself that is forked, and would go on twice."""
    lines = []
    for body in ("pass", LEFT_BEHIND["twins of the process"]):
        code, out, _ = said(tmp_path, "score", PROXY.format(body=body))
        assert code == 0
        lines.append(len(out.splitlines()))
    assert lines[0] == lines[1]


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda number, frame: None"])
def test_a_proxy_that_ignores_ctrl_c_does_so_alone(handler: str, tmp_path: Path) -> None:
    body = f"import signal; signal.signal(signal.SIGINT, {handler}); open('begun', 'w').close()"
    (tmp_path / "mine.py").write_text(PROXY.format(body=body))
    arguments = ["100000" if word == "2" else word for word in USES["search"]]
    command = Command(arguments, tmp_path, {"TRAINLESS_STORE": "none"})
    try:
        until = time.monotonic() + 30
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        for _ in range(40):
            command.send(signal.SIGINT)
            time.sleep(0.1)
            if command.poll() is not None:
                break
        assert command.wait(5) == 130
    finally:
        command.kill()


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
