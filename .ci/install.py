"""Install trainless and all that its tests need into the environment of this Python.

uv fetches, unpacks and compiles side by side what pip does one by one. It comes from where
pip takes packages and is told where else pip would look; where it cannot be had or does not manage, pip does the work
itself.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

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
WANTED = (
    ["-e", ".[dev]"],
    ["--no-deps", "timm"],  # it would bring torchvision, which the tests stand in for
)


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


def with_uv(settings: dict[str, str]) -> None:
    """Install with uv, from the places where pip looks."""
    places = [
        part for name, option in OPTIONS.items() for place in settings.get(name, "").split() for part in (option, place)
    ]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        places.append("--no-index")
    environment = {variable: settings[name] for name, variable in VARIABLES.items() if name in settings}
    subprocess.run([*PIP, "install", "-q", "-c", "constraints.txt", "uv"], check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "-q", *LIKE_PIP, *places, "-c", "constraints.txt"]
    for what in WANTED:
        subprocess.run([*uv, *what], check=True, env={**os.environ, **environment})


def with_pip() -> None:
    """Install with pip alone."""
    for what in WANTED:
        subprocess.run([*PIP, "install", "-q", "-c", "constraints.txt", *what], check=True)


if __name__ == "__main__":
    try:
        with_uv(settings())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no installation with uv ({error}); pip does it, which takes longer\n")
        with_pip()
