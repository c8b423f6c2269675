"""Tasks from text: predict the next token at every position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, PartName, Task
from trainless.core.types import Array
from trainless.tasks.numpy_files import SPELLINGS
from trainless.tasks.weigh import open_text, require_text

LEVELS = ("words", "tokens", "characters")
SUFFIXES = (".txt", ".text", ".tokens")
UNKNOWN, END = "<unk>", "<eos>"
SHARES = (0.7, 0.85)  # a text without parts is cut here into train, valid and test


def tokenise(text: str, level: str) -> list[str]:
    """Split text: ``words`` and punctuation, ``tokens`` between blanks (made already), or ``characters``.

    The ends of lines become ``<eos>``, except for characters.
    """
    if level not in LEVELS:
        raise InputError(f"level={level!r} was given; expected one of {', '.join(LEVELS)}")
    if level == "characters":
        return list(text)
    pattern = r"\S+" if level == "tokens" else r"<\w+>|\w+|[^\w\s]"
    lines = (re.findall(pattern, line) for line in text.splitlines())
    return [token for line in lines if line for token in (*line, END)]


def from_text(path: Path, *, level: str = "", length: int = 32, vocabulary: int = 0) -> Task:
    """A task from a text file, or from a folder with one file each for train, valid and test.

    ``.tokens`` files hold tokens between blanks. The ``level`` is by the file's ending unless given; windows of
    ``length`` tokens follow each other without overlap. A ``vocabulary`` keeps only so many of the most frequent
    tokens.
    """
    files: dict[PartName, Path] = text_files(path) if path.is_dir() else {"train": path}
    level = level or ("tokens" if files["train"].suffix == ".tokens" else "words")
    tokens = {part: tokenise(_read(file), level) for part, file in files.items()}
    return from_tokens(path.stem, tokens, length=length, vocabulary=vocabulary)


def from_tokens(
    name: str, tokens: Mapping[PartName, Sequence[str]], *, length: int, vocabulary: int = 0, notes: Sequence[str] = ()
) -> Task:
    """A task from tokens; those that training lacks become ``<unk>``, and missing parts are cut off training's end."""
    if length < 1:
        raise InputError(f"length={length} was given; expected at least 1 token per window")
    parts = _cut(tokens)
    known = _vocabulary(parts, vocabulary)
    code = {token: index for index, token in enumerate(known)}
    coded = {
        part: np.array([code.get(t, code.get(UNKNOWN, 0)) for t in words], np.int32) for part, words in parts.items()
    }
    train, valid, test = (_windows(part, coded[part], length) for part in SPELLINGS)
    target = Target("tokens", len(known), known)
    return Task(name, (length,), target, train, valid, test, vocabulary=len(known), notes=tuple(notes))


def text_files(folder: Path) -> dict[PartName, Path]:
    """The text files of a folder whose names say train, valid (or val) and test; empty where there are none."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and path.is_file()]
    found: dict[PartName, Path] = {}
    for part, spellings in SPELLINGS.items():
        for file in files:
            if set(re.split(r"[^a-z]+", file.name.lower())) & set(spellings):
                found.setdefault(part, file)
    return found if "train" in found else {}


def _read(path: Path) -> str:
    require_text(path)
    try:
        with open_text(path) as stream:
            text = stream.read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read as UTF-8 text: convert it first") from error
    if not text.strip():
        raise InputError(f"{path.name} has no text in it")
    return text


def _cut(tokens: Mapping[PartName, Sequence[str]]) -> dict[PartName, Sequence[str]]:
    """All three parts, cut in order so that no window is in two of them."""
    whole = tokens["train"]
    missing = [part for part in SPELLINGS if part not in tokens]
    if not missing:
        return dict(tokens)
    if len(missing) == 1:
        end = int(SHARES[1] * len(whole))
        return {**tokens, "train": whole[:end], missing[0]: whole[end:]}
    one, two = (int(share * len(whole)) for share in SHARES)
    return {"train": whole[:one], "valid": whole[one:two], "test": whole[two:]}


def _vocabulary(parts: Mapping[PartName, Sequence[str]], limit: int) -> tuple[str, ...]:
    """Training's tokens from the most frequent down, with ``<unk>`` where a part has a token that is not kept."""
    counts = Counter(parts["train"])
    known = sorted(counts, key=lambda token: (-counts[token], token))
    if limit and len(known) > limit:
        known = known[:limit]
    if len(known) < 2:
        raise InputError(f"the text has {len(known)} different tokens in its training part; expected at least 2")
    outside = any(token not in set(known) for words in parts.values() for token in set(words))
    if outside and UNKNOWN not in known:
        known = [*known[: limit - 1 if limit else None], UNKNOWN]
    return tuple(known)


def _windows(part: PartName, tokens: Array, length: int) -> Part:
    count = (len(tokens) - 1) // length
    if count < 1:
        raise InputError(
            f"the {part} part of the text has {len(tokens)} tokens; expected more than length={length}: give a shorter"
            " length or a longer text"
        )
    end = count * length
    return Part(tokens[:end].reshape(count, length), tokens[1 : end + 1].reshape(count, length))
