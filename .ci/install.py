"""Install trainless and all that its tests need into the environment of this Python.

Everything comes from ``requirements.lock``, checked by hash, but for torch, whose version alone is fixed (see
``lock.py``). uv fetches, unpacks and compiles side by side what pip does one by one; it is told where pip would look.
Where it cannot be had or does not manage, pip does the work itself.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = "requirements.lock"
TOOLS = ("timm", "uv")  # of the tests and of this script, beside what pyproject.toml names
PIP = [sys.executable, "-m", "pip"]
LIKE_PIP = [  # compiled, and the best version of all indexes
    *("--python", sys.executable, "--compile-bytecode"),
    *("--index-strategy", "unsafe-best-match"),
]
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}
LOCKED = ["--no-deps", "--require-hashes", "-r"]
REST = ["--no-build-isolation", "-c", "constraints.txt", "-e", "."]  # torch and trainless itself


def settings() -> dict[str, str]:
    """What pip's files and environment say; the environment has the last word."""
    said = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True).stdout
    pairs = [line.split("=", 1) for line in said.splitlines() if "=" in line]
    sections = ("global.", "install.", ":env:.")
    return {
        name.removeprefix(section): str(ast.literal_eval(value))
        for section in sections
        for name, value in pairs
        if name.startswith(section)
    }


def places(settings: dict[str, str]) -> list[str]:
    """Where pip looks, as options of uv."""
    found = [
        part for name, option in OPTIONS.items() for place in settings.get(name, "").split() for part in (option, place)
    ]
    return [*found, "--no-index"] if settings.get("no-index", "").lower() in ("1", "true", "yes", "on") else found


def locked(name: str, lock: str) -> str:
    """The lines of a lock that pin one package."""
    lines = lock.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{name}=="))
    rest = (number for number, line in enumerate(lines[first + 1 :], first + 1) if not line.startswith("    --hash"))
    return "".join(lines[first : next(rest, len(lines))])


def with_uv(settings: dict[str, str]) -> None:
    """Install with uv, from the places where pip looks."""
    environment = {variable: settings[name] for name, variable in VARIABLES.items() if name in settings}
    with tempfile.TemporaryDirectory() as folder:
        only_uv = Path(folder) / LOCK
        only_uv.write_text(locked("uv", Path(LOCK).read_text()))
        subprocess.run([*PIP, "install", "-q", *LOCKED, str(only_uv)], check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "-q", *LIKE_PIP, *places(settings)]
    for what in ([*LOCKED, LOCK], REST):
        subprocess.run([*uv, *what], check=True, env={**os.environ, **environment})


def with_pip() -> None:
    """Install with pip alone."""
    for what in ([*LOCKED, LOCK], REST):
        subprocess.run([*PIP, "install", "-q", *what], check=True)


if __name__ == "__main__":
    try:
        with_uv(settings())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no installation with uv ({error}); pip does it, which takes longer\n")
        with_pip()
