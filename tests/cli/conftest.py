from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainless.cli.app import run


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def trainless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Run a command line in an empty folder with a store of its own."""
    monkeypatch.setenv("TRAINLESS_STORE", str(tmp_path / "store" / "scores.sqlite"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Answer:
        code = run(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call
