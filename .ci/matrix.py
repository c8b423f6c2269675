"""Test both ends of the ranges in ``pyproject.toml``, in environments with the oldest and the newest allowed versions.

``matrix.py oldest newest`` builds each in ``.matrix/`` and runs the quick tests there. What trainless and its extras
need is as old or as new as the ranges allow; what the tests themselves need is as the lock has it. The networks of
strangers (transformers, monai, timm) are left out, and their tests skip.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from install import LOCK, VARIABLES, places, settings
from sbom import named, pins_of

RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
NOT_NEEDED = ("trainless", "monai", "transformers", "mypy", "pandas-stubs", "ruff")


def wanted() -> list[str]:
    """The ranges of trainless and all its extras, and the locked versions of what tests are run with."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ranges = [*project["dependencies"], *(each for extra in extras if extra != "dev" for each in extras[extra])]
    pins, known = pins_of(Path(LOCK).read_text()), {named(each) for each in ranges}
    tools = [name for each in extras["dev"] if (name := named(each)) not in (*NOT_NEEDED, *known)]
    return [*ranges, *(f"{name}=={pins[name][0]}" for name in tools)]


def build(end: str) -> Path:
    """The Python of a new environment at one end of the ranges."""
    given, folder = settings(), Path(".matrix") / end
    where = places(given) if "find-links" in given else ["--torch-backend", "cpu"]
    variables = {**os.environ, **{variable: given[name] for name, variable in VARIABLES.items() if name in given}}
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder)], check=True, env=variables)
    python = folder / "bin" / "python"
    how = ["--python", str(python), "--resolution", RESOLUTIONS[end], "--index-strategy", "unsafe-best-match", *where]
    install = [*uv, "pip", "install", "-q", *how]
    subprocess.run([*install, "-r", "-"], check=True, env=variables, input="\n".join(wanted()).encode())
    subprocess.run([*install, "--no-deps", "--no-build-isolation", "-e", "."], check=True, env=variables)
    return python


def run(end: str) -> None:
    """Build one environment, say what it has, and run the quick tests in it."""
    python = build(end)
    sys.stdout.write(f"{end}:\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "uv", "pip", "list", "--python", str(python)], check=True)
    warned = ["-W", "default"]  # what an old package says of a newer one is no mistake of ours
    tests = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "quick", *warned, "-p", "no:cacheprovider"]
    subprocess.run(tests, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    for each in sys.argv[1:] or list(RESOLUTIONS):
        run(each)
