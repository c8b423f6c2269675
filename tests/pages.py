"""What stands in a page of Markdown that can be run, and the files that its commands take for a reader's own.

In every page, of README.md and docs/, one thing holds: a ``console`` block is commands that run as they are written,
one after the other in one folder; a ``python`` block that begins with the name of a file is that file, any other is a
program; ``sh`` is for what needs more than this machine (installations, Docker, other programs). A test that runs a
page changes two things: a design or a search with ``--time`` does a little instead (``SHORT``), and a server takes any
free port, answers once and is ended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SHORT = {"design": "--evaluations 2 --members 1 --epochs 1 --workers 1", "search": "--evaluations 3"}
SERVERS = ("serve", "ui")
BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """Something that a page says to do: a command line, or a program."""

    kind: str
    text: str


@dataclass(frozen=True)
class Page:
    """A page's name from the repository's root, its files by name, and its steps in order."""

    name: str
    files: dict[str, str]
    steps: tuple[Step, ...]
    shell: tuple[str, ...]


def page(path: Path) -> Page:
    """Read a page."""
    files: dict[str, str] = {}
    steps: list[Step] = []
    shell: list[str] = []
    for kind, block in BLOCK.findall(path.read_text(encoding="utf-8")):
        named = re.match(r"# (\w+\.py)\n", block)
        if kind == "python" and named:
            files[named[1]] = block
        elif kind == "python":
            steps.append(Step("python", block))
        elif kind == "console":
            steps += [Step("trainless", line[2:]) for line in block.splitlines() if line.startswith("$ ")]
        elif kind == "sh":
            shell += [line for line in block.replace("\\\n", "").splitlines() if line.startswith("trainless ")]
    return Page(path.relative_to(ROOT).as_posix(), files, tuple(steps), tuple(shell))


def pages() -> list[Page]:
    """All pages, the README first."""
    return [page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def arguments(command: str) -> list[str]:
    """What ``trainless`` is given by a command of a page, as a test runs it."""
    program, *given = shlex.split(command)
    assert program == "trainless", f"{command!r}: only trainless runs in a console block; use sh for other programs"
    if given[0] in SHORT and "--time" in given:
        at = given.index("--time")
        given[at : at + 2] = SHORT[given[0]].split()
    if given[0] in SERVERS:
        given += ["--port", "0"]
    return given


def folder_of_study(home: Path) -> None:
    """A table of 60 patients with two rows each, and a new one without labels."""
    random = np.random.default_rng(0)
    home.joinpath("study").mkdir()
    names = ("age", "glucose", "pressure", *(f"marker{place}" for place in range(6)))
    lines, new = [",".join(("patient", "diagnosis", *names))], [",".join(names)]
    for patient in range(60):
        ill = patient % 2
        for _ in range(2):
            values = ",".join(f"{value:.3f}" for value in random.normal(size=len(names)) + 2 * ill)
            lines.append(f"p{patient:02},{'diabetic' if ill else 'healthy'},{values}")
    new += [",".join(f"{value:.3f}" for value in random.normal(size=len(names))) for _ in range(3)]
    (home / "study" / "labels.csv").write_text("\n".join(lines) + "\n")
    (home / "study" / "new.csv").write_text("\n".join(new) + "\n")


def folder_of_scans(home: Path) -> None:
    """Grey images in two classes, and a folder of new ones."""
    random = np.random.default_rng(0)
    for name, count, bright in (("scans/benign", 60, 0), ("scans/malignant", 60, 60), ("new-scans", 3, 30)):
        (home / name).mkdir(parents=True)
        for place in range(count):
            pixels = random.integers(0, 120, (16, 16)).astype(np.uint8)
            pixels[4:10, 4:10] += np.uint8(bright)
            Image.fromarray(pixels).save(home / name / f"{place:04}.png")


def folder_of_volumes(home: Path) -> None:
    """Folders of DICOM slices in two classes, and a folder of new ones."""
    from tests.tasks.test_dicom_files import series

    random = np.random.default_rng(0)
    for name, count, bright in (("ct/normal", 24, 0), ("ct/nodule", 24, 300), ("new-ct", 2, 150)):
        for place in range(count):
            values = random.integers(0, 400, (8, 8, 8)).astype(np.uint16)
            values[2:6, 2:6, 2:6] += np.uint16(bright)
            series(home / name / f"patient{place:02}", values)


def folder_of_recordings(home: Path) -> None:
    """WFDB recordings of 30 patients with a table, and a folder of new ones."""
    from tests.tasks.test_signal_files import wfdb

    random = np.random.default_rng(0)
    (home / "ecg").mkdir()
    (home / "new-ecg").mkdir()
    lines = ["file,rhythm,patient"]
    for place in range(60):
        sick = place // 2 % 2
        wfdb(home / "ecg", f"r{place:02}", random.integers(-50, 50, (2, 40 + 10 * (place % 3))) + 300 * sick)
        lines.append(f"r{place:02},{'af' if sick else 'sinus'},p{place // 2:02}")
    (home / "ecg" / "labels.csv").write_text("\n".join(lines) + "\n")
    for place in range(2):
        wfdb(home / "new-ecg", f"n{place}", random.integers(-50, 50, (2, 50)))


def arrays(home: Path) -> None:
    """Arrays with labels 0 and 1, and new ones without."""
    random = np.random.default_rng(0)
    y = np.arange(240) % 2
    x = random.normal(size=(240, 1, 8, 8)) + 1.5 * y[:, None, None, None]
    np.savez(home / "scores.npz", x=x.astype(np.float32), y=y)
    np.savez(home / "new.npz", x=random.normal(size=(3, 1, 8, 8)).astype(np.float32))
    np.savez(home / "my-data.npz", x=x.astype(np.float32), y=y)


DATA: dict[str, Callable[[Path], None]] = {
    r"\bstudy/": folder_of_study,
    r"\bscans\b": folder_of_scans,
    r"\bct\b": folder_of_volumes,
    r"\becg\b": folder_of_recordings,
    r"\b(scores|my-data)\.npz": arrays,
}


def prepare(found: Page, home: Path) -> None:
    """Write the files of a page, and those data that its commands name."""
    for name, text in found.files.items():
        (home / name).write_text(text, encoding="utf-8")
    for pattern, make in DATA.items():
        if any(re.search(pattern, step.text) for step in found.steps if step.kind == "trainless"):
            make(home)
