"""Mutations: what is changed in a good file so that a reader may stumble, by what kind of file it is."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

Mutation = Callable[[bytes, random.Random], bytes]
ODD: list[Any] = [
    *(None, True, -1, 0, 7, 2**63, 10**400, -(10**30), 1e308, float("nan"), float("inf"), 0.5),
    *(
        "",
        "x",
        "ok",
        "../../other",
        "/etc/passwd",
        "evil.py:Mine",
        "\x00",
        "\u202e\x1b[2J",
        "é\ud800",
        "9" * 5000,
        "nb101()",
    ),
    *([], {}, [[]], [None], {"": 0}, [0] * 300, {"a": {"a": {"a": []}}}, [[0, [1]], "x"]),
]
LINES = [
    b"\x00" * 40,
    b"[" * 60_000,
    b"\xff\xfe\xfd",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b'{"state": ',
    b'{"state": {}, "step": 1}',
    b",,,,,,,",
]
TEXTS = [
    "",
    "nan",
    "inf",
    "1e999",
    "-1",
    "x",
    "\x00",
    '"',
    "=1+1",
    "9" * 400,
    "é" * 50,
    "../../other",
    "1" * 200_000,
    "\u202e",
    "0x10",
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values within a value."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*at, key))


def put(value: Any, at: tuple[Any, ...], odd: Any) -> Any:
    """The value with another one in a place."""
    if not at:
        return odd
    inside = value[at[0]]
    changed = put(inside, at[1:], odd)
    if isinstance(value, dict):
        return {**value, at[0]: changed}
    return [*value[: at[0]], changed, *value[at[0] + 1 :]]


def without(value: Any, at: tuple[Any, ...]) -> Any:
    """The value without what is in a place."""
    if len(at) == 1:
        if isinstance(value, dict):
            return {key: part for key, part in value.items() if key != at[0]}
        return [*value[: at[0]], *value[at[0] + 1 :]]
    return put(value, at[:1], without(value[at[0]], at[1:]))


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def in_json(data: bytes, rng: random.Random) -> bytes:
    """Put something odd somewhere into JSON, or leave something out."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return in_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.choice(list(places(value)))
        if at and rng.random() < 0.2:
            value = without(value, at)
        elif rng.random() < 0.1:
            value = put(value, at, rng.choice(list(places(value))))
        else:
            value = put(value, at, rng.choice(ODD))
    return dumped(value)


def in_lines(data: bytes, rng: random.Random) -> bytes:
    """Change, double, drop, exchange or invent lines."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(6)
    if how < 2:
        lines[at] = in_json(lines[at], rng) if lines[at][:1] in (b"{", b"[") else in_cells(lines[at], rng)
    elif how == 2:
        lines.insert(at, rng.choice(LINES))
    elif how == 3:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 4:
        lines.insert(at, lines[other])
    else:
        del lines[at]
    return b"\n".join(lines)


def in_journal(data: bytes, rng: random.Random) -> bytes:
    """Change the entry of a line and have its checksum say that it is right."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    text = in_json(lines[at].partition(b" ")[2], rng)
    lines[at] = hashlib.blake2b(text, digest_size=8).hexdigest().encode() + b" " + text
    return b"\n".join(lines)


def in_cells(data: bytes, rng: random.Random) -> bytes:
    """Change, drop or add a cell of a line."""
    cells = data.split(b",")
    at = rng.randrange(len(cells))
    how = rng.randrange(4)
    if how < 2:
        cells[at] = rng.choice(TEXTS).encode("utf-8", "replace")
    elif how == 2:
        del cells[at]
    else:
        cells.insert(at, rng.choice(TEXTS).encode("utf-8", "replace"))
    return b",".join(cells)


def in_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert, repeat or zero bytes."""
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(raw) + 1)
        size = rng.choice((1, 2, 4, 16, 100))
        how = rng.randrange(6)
        if how == 0 and raw:
            raw[min(at, len(raw) - 1)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del raw[at:]
        elif how == 2:
            raw[at:at] = rng.randbytes(size)
        elif how == 3:
            raw[at : at + size] = b"\0" * size
        elif how == 4:
            raw[at : at + size] = struct.pack("<q", rng.choice((-1, 0, 2**31, 2**62, 255)))
        else:
            raw[at:at] = raw[max(0, at - size) : at]
    return bytes(raw)


def in_archive(data: bytes, rng: random.Random) -> bytes:
    """Change one array of an ``.npz``: its kind, shape or values; or leave it out, or call it otherwise."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except Exception:
        return in_bytes(data, rng)
    name = rng.choice(list(arrays))
    array, how = arrays[name], rng.randrange(8)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[rng.choice(("", "../x", "x y", "archs"))] = arrays.pop(name)
    elif how == 2:
        arrays[name] = array.reshape(-1)[: rng.randrange(array.size + 1)]
    elif how == 3:
        arrays[name] = np.array(rng.choice((0, -1, 2**62, "x", "", float("nan"), 1j, b"\xff", True)))
    elif how == 4:
        arrays[name] = array[None] if rng.random() < 0.5 else array.reshape(*array.shape, 1)
    elif how == 5:
        with suppress(ValueError, TypeError, OverflowError):
            arrays[name] = array.astype(rng.choice(("f2", "f8", "i1", "u8", "U3", "S2", "?", "c8", "M8[s]")))
    elif how == 6 and array.size and array.dtype.kind in "fiu":
        flat = array.reshape(-1).copy()
        flat[rng.randrange(flat.size)] = {"f": rng.choice((np.nan, np.inf, -1e30)), "i": -(2**6), "u": 200}[
            array.dtype.kind
        ]
        arrays[name] = flat.reshape(array.shape)
    elif array.dtype.kind == "U" and array.ndim == 0:
        arrays[name] = np.array(in_json(str(array).encode(), rng).decode("utf-8", "replace"))
    else:
        arrays[name] = np.zeros((0, *array.shape[1:]), array.dtype)
    kept = io.BytesIO()
    with suppress(ValueError):
        (np.savez if rng.random() < 0.5 else np.savez_compressed)(kept, **arrays)
    return kept.getvalue()


def in_zip(data: bytes, rng: random.Random) -> bytes:
    """Write the members of a zip again with wrong checksums, sizes, flags or names."""
    raw = bytearray(data)
    signs = [at for at in range(len(raw) - 4) if raw[at : at + 4] in (b"PK\x01\x02", b"PK\x03\x04")]
    if not signs:
        return in_bytes(data, rng)
    at = rng.choice(signs)
    fields = {b"PK\x03\x04": (6, 8, 14, 18, 22, 26), b"PK\x01\x02": (8, 10, 16, 20, 24, 28, 42)}[
        bytes(raw[at : at + 4])
    ]
    place = at + rng.choice(fields)
    raw[place : place + 2] = rng.randbytes(2)
    return bytes(raw)


def in_tensors(data: bytes, rng: random.Random) -> bytes:
    """Change the header of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    if size > len(data):
        return in_bytes(data, rng)
    header = in_json(data[8 : 8 + size], rng)
    length = len(header) if rng.random() < 0.9 else rng.choice((0, 2**40, len(data)))
    return length.to_bytes(8, "little") + header + data[8 + size :]


def in_store(data: bytes, rng: random.Random) -> bytes:
    """Put odd values into the tables of a database, or change the tables."""
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.deserialize(data)
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = rng.choice(tables)
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            column = rng.choice(columns)
            odd = rng.choice(
                (None, -1, 2**62, 1e308, "x", "", b"\xff\xfe", "\x00", "9" * 300, float("inf"), "[]", "{}")
            )
            how = rng.randrange(8)
            if how < 5:
                database.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE random() % 2', (odd,))  # noqa: S608
            elif how == 5:
                database.execute(f'DROP TABLE "{table}"')
            elif how == 6:
                database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "odd"')
            else:
                database.execute(f"PRAGMA user_version = {rng.randrange(-3, 9)}")
            database.commit()
            return database.serialize()
        except (sqlite3.Error, IndexError):
            return in_bytes(data, rng)


BY_ENDING: dict[str, tuple[Mutation, ...]] = {
    ".json": (in_json, in_json, in_json, in_bytes),
    ".jsonl": (in_lines, in_lines, in_lines, in_bytes),
    ".csv": (in_lines, in_lines, in_bytes),
    ".tsv": (in_lines, in_bytes),
    ".npz": (in_archive, in_archive, in_zip, in_bytes),
    ".safetensors": (in_tensors, in_tensors, in_bytes),
    ".sqlite": (in_store, in_store, in_store, in_bytes),
    ".parquet": (in_bytes,),
}
BY_FOLDER: dict[str, tuple[Mutation, ...]] = {  # of a store
    "journals": (in_journal, in_journal, in_journal, in_lines, in_bytes),
    "claims": (in_json, in_json, in_bytes),
}
ANY: tuple[Mutation, ...] = (in_bytes, in_lines)


def mutated(path: Path, rng: random.Random) -> bytes:
    """A file's content, mutated in a way or two that suit its kind."""
    data = path.read_bytes()
    for _ in range(rng.choice((1, 1, 1, 2))):
        data = rng.choice(BY_FOLDER.get(path.parent.name) or BY_ENDING.get(path.suffix, ANY))(data, rng)
    return data


def replaced(path: Path, rng: random.Random, outside: Path) -> str:
    """Put something that is no plain file into the place of one; what it is."""
    path.unlink()
    kind = rng.choice(("nothing", "folder", "pipe", "link", "loop", "empty"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(outside)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "empty":
        path.touch()
    return kind
