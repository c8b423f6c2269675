"""Makes the corpus of hostile inputs again: ``python -m tests.fuzz.make``. The corpus is kept; this says what is in it.

A file that would run code if it were loaded carelessly makes a file called ``pwned`` in the working directory;
``evil.code`` is called ``evil.py`` where it is thrown at a command, and not here, where tests are looked for.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
SPACE = "nb201(channels=2, cells=1)"
EVIL = "open('pwned', 'w').close()\nMine = None\n"


class Evil:
    """What a careless unpickling would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (EVIL,)


def npy(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    """An array as the bytes of a file."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def header(text: str, data: bytes = b"") -> bytes:
    """An array file with any header at all."""
    line = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(line)) + line + data


def archive(members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    """A zip with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as made:
        for name, data in members.items():
            made.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, how)
    return file.getvalue()


def arrays() -> dict[str, bytes]:
    """Files that claim to be ``.npz`` and ``.npy``."""
    x, y = npy(np.zeros((8, 3, 4, 4), np.float32)), npy(np.arange(8) % 2)
    good = archive({"x.npy": x, "y.npy": y})
    objects = npy(np.array([Evil()], dtype=object), allow_pickle=True)
    huge = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", b"\0" * 64)
    called = header("{'descr': '<f8', 'fortran_order': False, 'shape': (__import__('os').mkdir('pwned'),), }")
    return {
        "empty.npz": b"",
        "text.npz": b"not a zip at all",
        "cut.npz": good[: len(good) // 2],
        "no-directory.npz": good[:-30],
        "flipped.npz": bytes(value ^ 0x55 if 200 < place < 260 else value for place, value in enumerate(good)),
        "pickle.npz": pickle.dumps(Evil()),
        "pickled-objects.npz": archive({"x.npy": objects, "y.npy": y}),
        "pickled-member.npz": archive({"x": pickle.dumps(Evil()), "y.npy": y}),
        "traversal.npz": archive({"../../pwned.npy": x, "/pwned.npy": x, "x.npy": x, "y.npy": y}),
        "traversal-only.npz": archive({"../../pwned": b"x", "..\\..\\pwned.npy": x}),
        "bomb.npz": archive({"x.npy": npy(np.zeros(60_000_000, np.uint8)), "y.npy": y}, zipfile.ZIP_DEFLATED),
        "huge-claim.npz": archive({"x.npy": huge, "y.npy": y}),
        "nested.npz": archive({"x.npy": good, "y.npy": good}),
        "no-members.npz": archive({}),
        "odd-names.npz": archive({"": x, "x.npy/y": y, "\n": x, "x\0y.npy": x}),
        "twice.npz": good + good,
        "structured.npz": archive({"x.npy": npy(np.zeros(8, [("a", "f8"), ("b", "S4")])), "y.npy": y}),
        "times.npz": archive({"x.npy": npy(np.zeros((8, 4), "M8[s]")), "y.npy": y}),
        "complex.npz": archive({"x.npy": npy(np.zeros((8, 3, 4, 4), complex)), "y.npy": y}),
        "strings.npz": archive({"x.npy": npy(np.array(["a"] * 8)), "y.npy": y}),
        "scalars.npz": archive({"x.npy": npy(np.array(1.0)), "y.npy": npy(np.array(1))}),
        "nan-labels.npz": archive({"x.npy": x, "y.npy": npy(np.full(8, np.nan))}),
        "negative-labels.npz": archive({"x.npy": x, "y.npy": npy(np.arange(8) - 4)}),
        "vast-labels.npz": archive({"x.npy": x, "y.npy": npy(np.arange(8) * 2**60)}),
        "uneven.npz": archive({"x.npy": x, "y.npy": npy(np.arange(5) % 2)}),
        "no-samples.npz": archive({"x.npy": npy(np.zeros((0, 3, 4, 4))), "y.npy": npy(np.zeros(0, int))}),
        "nan.npz": archive({"x.npy": npy(np.full((8, 3, 4, 4), np.nan)), "y.npy": y}),
        "wide-class-names.npz": archive({"x.npy": x, "y.npy": y, "class_names.npy": npy(np.array(["../a", "<b>"]))}),
        "empty.npy": b"",
        "cut.npy": npy(np.zeros((8, 5)))[:-40],
        "huge-claim.npy": huge,
        "called.npy": called,
        "unclosed.npy": header("{'descr': '<f8', 'fortran_order': False, 'shape': (8, 5"),
        "deep.npy": header("(" * 100),
        "negative-shape.npy": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-8, 5), }", b"\0" * 64),
        "objects.npy": objects,
        "pickle.npy": pickle.dumps(Evil()),
        "version-9.npy": b"\x93NUMPY\x09\x00" + b"\0" * 40,
    }


def tables() -> dict[str, bytes]:
    """Files that claim to be CSV, or text."""
    return {
        "empty.csv": b"",
        "bytes.csv": bytes(range(256)),
        "header.csv": b"a,b,label\n",
        "ragged.csv": b"a,b,label\n1,2,0\n1\n1,2,3,4,5\n",
        "nul.csv": b"a,b,label\n1,\0,0\n2,3,1\n",
        "quote.csv": b'a,b,label\n"1,2,0\n2,3,1\n',
        "formula.csv": b"a,b,label\n=cmd|' /C calc'!A0,2,0\n1,2,1\n",
        "words.csv": b"a,b,label\nx,y,z\nx,y,w\n",
        "vast.csv": b"a,b,label\n1e999,2,0\n1,2,1\n",
        "no-label.csv": b"a,b\n1,2\n3,4\n",
        "same-names.csv": b"label,label,label\n1,2,0\n1,2,1\n",
        "utf16.csv": "a,b,label\n1,2,0\n".encode("utf-16"),
        "not-gzip.csv.gz": b"a,b,label\n1,2,0\n",
        "cut-gzip.csv.gz": gzip.compress(b"a,b,label\n" + b"1,2,0\n" * 500, mtime=0)[:-12],
        "empty.txt": b"",
        "bytes.txt": bytes(range(256)) * 4,
        "one.txt": b"a",
    }


def png(size: tuple[int, int] = (4, 4)) -> bytes:
    """A good picture."""
    file = io.BytesIO()
    Image.new("L", size, 7).save(file, "PNG")
    return file.getvalue()


def pictures() -> dict[str, bytes]:
    """Folders of images by class, each with something wrong."""
    good = png()
    vast = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + vast
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + good[33:]
    cases = {
        "empty": {"a/1.png": b"", "b/1.png": good},
        "cut": {"a/1.png": good[:40], "b/1.png": good},
        "text": {"a/1.jpg": b"<svg onload='x'>", "b/1.png": good},
        "bomb": {"a/1.png": bomb, "b/1.png": good},
        "one-class": {"a/1.png": good},
        "sizes": {"a/1.png": good, "b/1.png": png((5, 4))},
        "postscript": {
            "a/1.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n(pwned) (w) file\n",
            "b/1.png": good,
        },
        "not-volumes": {"a.nii.gz": b"no", "labels.csv": b"file,label\n../../../pwned.nii.gz,0\na.nii.gz,1\n"},
        "volume-cut": {
            "a.nii": b"\x5c\x01\0\0" + b"\0" * 100,
            "b.nii": b"",
            "labels.csv": b"file,label\na.nii,0\nb.nii,1\n",
        },
    }
    return {f"{case}/{name}": data for case, files in cases.items() for name, data in files.items()}


def stores() -> dict[str, bytes]:
    """Files that claim to be a store."""
    made: dict[str, bytes] = {
        "empty.sqlite": b"",
        "text.sqlite": b"no database" * 50,
        "header.sqlite": b"SQLite format 3\0" + b"\xff" * 200,
    }
    for name, script in {
        "other-program.sqlite": "CREATE TABLE scores (a)",
        "newer.sqlite": "PRAGMA application_id = 1953655923; PRAGMA user_version = 9999",
        "older.sqlite": "PRAGMA application_id = 1953655923; PRAGMA user_version = -5",
        "no-tables.sqlite": "PRAGMA application_id = 1953655923; PRAGMA user_version = 1",
        "other-columns.sqlite": "CREATE TABLE scores (space, arch); PRAGMA application_id = 1953655923;"
        " PRAGMA user_version = 1",
        "view.sqlite": "CREATE VIEW scores AS SELECT 1; PRAGMA application_id = 1953655923; PRAGMA user_version = 1",
    }.items():
        path = HERE / "made.sqlite"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.executescript(script)
        database.close()
        made[name] = path.read_bytes()
        path.unlink()
    made["cut.sqlite"] = made["other-columns.sqlite"][:5000]
    return made


def archs() -> dict[str, bytes]:
    """One notation a line."""
    lines = [
        "",
        " ",
        "0",
        "-1",
        "|",
        "|||+|||+|||",
        "|nor_conv_3x3~0|",
        "|nor_conv_3x3~9|+|none~0|none~1|+|x~0|x~1|x~2|",
        "a" * 5000,
        "(" * 2000,
        "[" * 3000,
        "{" * 3000,
        "__import__('os').mkdir('pwned')",
        "../../pwned",
        "'; DROP TABLE scores;--",
        "%s%n%x",
        "\u202e\u0000",
        "1e999",
        "nan",
        "Genotype(normal=[], reduce=[])",
        "Genotype(normal=__import__('os').mkdir('pwned'))",
        '{"f": {"op": "linear"}}',
        '{"f": {"op": "linear", "input": ["f"]}}',
        "null",
        "[]",
        '{"a": 1}',
        "[[0,1],[0,0]]|a,b",
        "9" * 400,
        "64:64:64:64:64",
        "8:8:8:8:99",
        "depth=1",
        "=,=",
        "layers=-1,heads=0",
        "random\n",
        "e3_d2_k9",
        "-",
    ]
    return {"archs.json": json.dumps(lines, indent=1).encode()}


def folders() -> dict[str, bytes]:
    """Run folders and folders of sweeps, each with something wrong."""
    run: dict[str, Any] = {
        "format": 1,
        "environment": {},
        "verb": "search",
        "task": {"name": "digits", "fingerprint": "0"},
        "space": SPACE,
        "decisions": {},
        "searcher": "random",
        "searcher_args": {},
        "proxies": ["params v1"],
        "ranking": "",
        "seed": 0,
        "higher_is_better": {"params": True},
        "assist": "",
        "limits": {},
        "costs": [],
        "objectives": [],
        "score_seed": 0,
        "init": "own",
        "batch": 4,
        "device": "cpu",
        "ahead": 1,
        "parent": None,
        "budget": {"evaluations": 1},
    }
    design = {**run, "verb": "design", "space": "evil.py:Mine", "space_args": {}}
    ensemble: dict[str, Any] = {
        "version": 1,
        "members": ["00"],
        "weights": [1.0],
        "temperature": 1.0,
        "drift": False,
        "sets": None,
        "intervals": None,
        "deferral": None,
        "task": {
            "name": "t",
            "input_shape": [1, 8, 8],
            "mean": [],
            "std": [],
            "vocabulary": 0,
            "fingerprint": "0",
            "target": {"kind": "multiclass", "outputs": 10, "names": []},
        },
    }
    member = {
        "version": 1,
        "status": "ok",
        "history": [],
        "task": ensemble["task"],
        "member": {"space": "evil.py:Mine", "parameters": {}, "arch": [0] * 6, "seed": 0, "recipe": {}},
    }

    def text(value: Any) -> bytes:
        return json.dumps(value, indent=1).encode()

    step = '{"step": 1, "candidates": [[0, 0, 0, 0, 0, 0]], "scores": {"params": [1.0]}, "told": {"params": [1.0]}'
    cases: dict[str, dict[str, bytes]] = {
        "nothing": {"run.json": b""},
        "not-json": {"run.json": b"{"},
        "deep-json": {"run.json": b"[" * 100_000},
        "list": {"run.json": b"[]"},
        "null": {"run.json": b"null"},
        "bytes": {"run.json": bytes(range(256))},
        "format-only": {"run.json": b'{"format": 1}'},
        "numbers": {"run.json": text(dict.fromkeys(run, 7) | {"format": 1})},
        "search": {"run.json": text(run), "trajectory.jsonl": b""},
        "torn": {"run.json": text(run), "trajectory.jsonl": step.encode()},
        "steps-of-nothing": {"run.json": text(run), "trajectory.jsonl": b'{"step": 1}\n'},
        "steps-of-text": {"run.json": text(run), "trajectory.jsonl": b'"step"\n[]\n'},
        "steps-elsewhere": {"run.json": text(run), "trajectory.jsonl": (step + ', "spent": "x"}\n').encode()},
        "state-of-nothing": {"run.json": text(run), "trajectory.jsonl": b'{"state": {}, "step": 1}\n'},
        "bad-store": {"run.json": text(run), "scores.sqlite": b"no database" * 50},
        "own-space": {"run.json": text(design), "ensemble.json": text(ensemble), "evil.code": EVIL.encode()},
        "own-member": {
            "run.json": text({**design, "space": "nb201"}),
            "ensemble.json": text(ensemble),
            "members/00/member.json": text(member),
            "evil.code": EVIL.encode(),
        },
        "elsewhere-member": {
            "run.json": text({**design, "space": "nb201"}),
            "ensemble.json": text({**ensemble, "members": ["../../../pwned"]}),
        },
        "odd-member": {
            "run.json": text({**design, "space": "nb201"}),
            "ensemble.json": text({**ensemble, "members": [7, {}]}),
        },
        "odd-ensemble": {"run.json": text({**design, "space": "nb201"}), "ensemble.json": b'{"version": 1}'},
        "odd-summary": {
            "run.json": text({**design, "space": "nb201"}),
            "ensemble.json": text(ensemble),
            "summary.json": b'{"version": 1}',
        },
        "pickled-weights": {
            "run.json": text({**design, "space": "nb201"}),
            "ensemble.json": text(ensemble),
            "members/00/member.json": text({**member, "member": {**member["member"], "space": "nb201"}}),
            "members/00/weights.safetensors": pickle.dumps(Evil()),
        },
        "sweep-settings": {"settings.json": b"[]", "journal-w1-0.csv": b"\xff\xfe\n"},
        "sweep-journal": {"journal-w1-0.csv": b"arch,proxy,seed,value,status,ms\na,params,x,y,ok,z\n"},
        "sweep-runs": {"runs.json": b"{"},
        "sweep-scores": {
            "scores.npz": archive({"archs.npy": npy(np.array([Evil()], dtype=object), allow_pickle=True)})
        },
        "sweep-shapes": {
            "scores.npz": archive(
                {
                    f"{name}.npy": npy(np.zeros(3))
                    for name in (
                        "archs",
                        "proxies",
                        "seeds",
                        "values",
                        "codes",
                        "reasons",
                        "ms",
                        "settings",
                        "environment",
                    )
                }
            )
        },
    }
    return {f"{case}/{name}": data for case, files in cases.items() for name, data in files.items()}


KINDS = {"arrays": arrays, "tables": tables, "pictures": pictures, "stores": stores, "archs": archs}
KINDS[".folders"] = folders  # hidden: a list of the runs below this project does not show them


def main() -> None:
    """Write everything again."""
    for kind, make in KINDS.items():
        shutil.rmtree(HERE / kind, ignore_errors=True)
        for name, data in make().items():
            path = HERE / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


if __name__ == "__main__":
    main()
