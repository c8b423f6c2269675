"""Throw mutations at every reader for a time, say what they stumbled over, and keep it.

    python -m tests.fuzz.run --time 60

What is found is kept in ``tests/fuzz/found``, and the tests throw it again every time: whoever mends a reader leaves it
there.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import BY_ENDING, ODD, dumped, mutated, places, put, replaced, without
from tests.fuzz.readers import MATTERS, READERS
from tests.fuzz.seeds import SEEDS
from trainless.core.errors import TrainlessError

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "tests" / "fuzz" / "found"
PATIENCE = 20  # seconds in which every reader has to answer
MOST = 6 * 2**30  # bytes of memory
PLAIN = ("nothing", "folder", "pipe", "loop", "empty")
KINDS = (*PLAIN, "link")  # a link that the user names himself may be followed
SECRET = b"CANARY: nobody may read or change this\n"


class HangError(BaseException):
    """A reader did not answer in time; nobody catches it on the way."""


@dataclass(frozen=True)
class Case:
    """A mutation: which reader, which file of its seed, and the content or the kind of thing in its place."""

    reader: str
    file: str
    content: bytes = b""
    kind: str = ""

    def keep(self, what: str) -> Path:
        """Write it down to be thrown again by the tests."""
        mark = hashlib.sha256(repr(self).encode()).hexdigest()[:10]
        place = FOUND / f"{self.reader.replace(' ', '-')}-{mark}.json"
        place.parent.mkdir(exist_ok=True)
        about = {"reader": self.reader, "file": self.file, "kind": self.kind, "what": without_places(what)}
        content = base64.b64encode(self.content).decode()
        place.write_text(json.dumps({**about, "content": content}, indent=1) + "\n")
        return place


def without_places(text: str) -> str:
    """A text without the folders of this machine: those of the project, of Python and for what is temporary."""
    for place in (str(ROOT), sys.base_prefix, tempfile.gettempdir()):
        text = text.replace(f"{place}/", "")
    return text


def kept(path: Path) -> Case:
    """What :meth:`Case.keep` wrote."""
    about = json.loads(path.read_text())
    return Case(about["reader"], about["file"], base64.b64decode(about["content"]), about["kind"])


def throw(case: Case, folder: Path) -> str:
    """Throw a case at its reader in a folder of its own; what went wrong, or an empty text."""
    seed = SEEDS[READERS[case.reader].seed]()
    outside, place = folder / "outside", folder / "given" / seed.name
    outside.write_bytes(SECRET)
    place.parent.mkdir()
    (shutil.copytree if seed.is_dir() else shutil.copyfile)(seed, place)
    victim = place / case.file if case.file else place
    if case.kind:
        replaced(victim, _Only(case.kind), outside)
    else:
        victim.write_bytes(case.content)
    before = {path.name for path in folder.iterdir()}
    here = set(os.listdir())
    wrong = _called(case, place)
    if not wrong and outside.read_bytes() != SECRET:
        wrong = "it wrote outside of its folder"
    if not wrong and ({path.name for path in folder.iterdir()} != before or set(os.listdir()) != here):
        wrong = "it made files outside of its folder"
    return wrong


class _Only(random.Random):
    """Always the same choice."""

    def __init__(self, choice: str) -> None:
        super().__init__()
        self._choice = choice

    def choice(self, seq: object) -> str:  # type: ignore[override]
        return self._choice


def _called(case: Case, place: Path) -> str:
    with _in_time(PATIENCE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[case.reader].read(place)
        except TrainlessError as error:
            said = str(error)
            if "\n" in said or "CANARY" in said:
                return f"a sentence of several lines, or of what is outside: {said[:200]!r}"
        except HangError:
            return f"no answer in {PATIENCE} s"
        except BaseException as error:
            return "".join(traceback.format_exception(error))[-3000:]
    return ""


@contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    def hang(number: int, frame: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def files_of(reader: str) -> list[str]:
    """The files of a reader's seed that it may read; an empty name for a seed that is a file itself."""
    seed = SEEDS[READERS[reader].seed]()
    if not seed.is_dir():
        return [""]
    found = sorted(path.relative_to(seed).as_posix() for path in seed.rglob("*") if path.is_file())
    return [name for name in found if MATTERS.get(reader, "") in name and not name.endswith((".html", "lock"))]


def drawn(rng: random.Random, readers: list[str]) -> Case:
    """A random case."""
    reader = rng.choices(readers, [READERS[name].share for name in readers])[0]
    file = rng.choice(files_of(reader))
    seed = SEEDS[READERS[reader].seed]()
    if rng.random() < 0.05:
        return Case(reader, file, kind=rng.choice(KINDS if file else PLAIN))
    return Case(reader, file, mutated(seed / file if file else seed, rng))


def corpus() -> Iterator[Case]:
    """The fixed corpus: every value of every JSON of a run folder replaced by an odd one or left out, and more."""
    for reader, each in READERS.items():
        seed = SEEDS[each.seed]()
        for file in files_of(reader):
            for kind in KINDS if file else PLAIN:
                yield Case(reader, file, kind=kind)
            if file.endswith(".json"):
                yield from _odd_json(reader, file, (seed / file).read_bytes())
            rng = random.Random(f"{reader} {file}")
            for _ in range(2 * len(BY_ENDING.get(Path(file).suffix, (0,)))):
                yield Case(reader, file, mutated(seed / file if file else seed, rng))


def _odd_json(reader: str, file: str, data: bytes) -> Iterator[Case]:
    """Each value of a JSON file, up to the third level, replaced by an odd one in turn, or left out."""
    value = json.loads(data)
    for number, at in enumerate(at for at in places(value) if len(at) <= 3):
        yield Case(reader, file, dumped(put(value, at, ODD[number % len(ODD)])))
        if at:
            yield Case(reader, file, dumped(without(value, at)))


def fuzz(seconds: float, seed: int, most: int = 10**9, readers: list[str] | None = None) -> list[Path]:
    """Throw random cases for a time; the kept ones that did harm, one per place in the code."""
    rng, until = random.Random(seed), time.monotonic() + seconds
    found: dict[str, Path] = {}
    number = 0
    while time.monotonic() < until and number < most:
        case = drawn(rng, readers or list(READERS))
        with tempfile.TemporaryDirectory(prefix="trainless-fuzz-") as folder:
            wrong = throw(case, Path(folder))
        number += 1
        if wrong:
            mark = (
                " ".join(line.strip() for line in wrong.splitlines() if line.startswith("  File"))[-200:] + wrong[-60:]
            )
            if mark not in found:
                found[mark] = case.keep(wrong[-1500:])
                sys.stdout.write(f"\n{case.reader}, {case.file}: {wrong[-1500:]}\nkept as {found[mark]}\n")
                sys.stdout.flush()
        if number % 500 == 0:
            sys.stdout.write(f"{number} mutations, {len(found)} found\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{number} mutations of seed {seed} in {seconds - (until - time.monotonic()):.0f} s: {len(found)} found\n"
    )
    return list(found.values())


def all_of_the_corpus() -> list[Path]:
    """Throw every case of the corpus; the kept ones that did harm."""
    found, number = list[Path](), 0
    for number, case in enumerate(corpus(), start=1):  # noqa: B007 - the last is the number of them
        with tempfile.TemporaryDirectory(prefix="trainless-fuzz-") as folder:
            if wrong := throw(case, Path(folder)):
                found.append(case.keep(wrong[-1500:]))
                sys.stdout.write(f"\n{case.reader}, {case.file}: {wrong[-1500:]}\nkept as {found[-1]}\n")
    sys.stdout.write(f"{number:,} cases of the corpus: {len(found)} found\n")
    return found


def main() -> int:
    """Fuzz from the command line; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--reader", action="append", choices=sorted(READERS))
    parser.add_argument("--corpus", action="store_true", help="the whole corpus first, which takes minutes")
    given = parser.parse_args()
    os.environ["TRAINLESS_STORE"] = "none"
    resource.setrlimit(resource.RLIMIT_DATA, (MOST, MOST))
    with tempfile.TemporaryDirectory(prefix="trainless-fuzz-") as work:
        os.chdir(work)
        found = all_of_the_corpus() if given.corpus else []
        found += fuzz(given.time, given.seed, given.most, given.reader)
        os.chdir("/")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
