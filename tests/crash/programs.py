"""Small runs whose every write is recorded: ``python -m tests.crash.programs KIND FOLDER NOTES``.

What a program was promised it notes in a file outside of its folder, at the moment when it may rely on it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.fuzz.seeds import NOISE, SPACE, noisy_images, settings
from trainless.core.scores import Record
from trainless.runs.loop import Loop
from trainless.runs.score_file import Journal, read_known
from trainless.runs.search import search
from trainless.runs.settings import SearchCallbacks
from trainless.searchers.stopping import Budget


class Notes:
    """A file of promises."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._noted: set[str] = set()

    def promise(self, what: str) -> None:
        if what not in self._noted:
            self._noted.add(what)
            os.write(self._file, f"{what}\n".encode())


def searched(folder: Path, notes: Notes | None = None) -> None:
    """A search: whatever is measured is promised."""

    def measured(loop: Loop, budget: Budget) -> None:
        for proposal in loop.known if notes else ():
            notes.promise(",".join(map(str, proposal.arch)))

    search(NOISE, SPACE, out=folder, settings=settings(), callbacks=SearchCallbacks(measured))


def designed(folder: Path, notes: Notes | None = None) -> None:
    """A design: a member whose JSON is written is promised."""
    from tests.designs.tiny import small
    from trainless.designs.pipeline import design

    def progress(stage: str, done: float, total: float, detail: str) -> None:
        for about in sorted(folder.glob("members/*/member.json")) if notes else ():
            notes.promise(about.parent.name)

    design(noisy_images(), folder, settings=small(baseline=0), progress=progress, report=False)


def journalled(folder: Path, notes: Notes | None = None) -> None:
    """The journals of a sweep and the file that they are merged into: a journal that is closed is promised."""
    folder.mkdir(exist_ok=True)
    for writer in ("w1", "w2"):
        journal = Journal(folder, writer)
        for number in range(4):
            journal.write(f"{writer}-{number}", [Record("x", "params", float(number), True)])
        journal.close()
        for number in range(4) if notes else ():
            notes.promise(f"{writer}-{number}")
    known = read_known(folder)
    known.to_file(sorted(known.values["params", 0]), ["params"], [0]).write(folder / "scores.npz")


PROGRAMS = {"search": searched, "design": designed, "journals": journalled}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]), Notes(Path(sys.argv[3])))
