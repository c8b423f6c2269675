"""Look at what ``dist.py`` built as its users will: metadata, contents, and real commands from a clean environment.

``package.py contents`` looks into the files alone; ``package.py`` installs the wheel as well. It needs the places where
pip looks for packages, and torch's CPU build there or at PyTorch's own index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parent))
from install import VARIABLES, places, settings

LARGEST = {".whl": 2**21, ".gz": 3 * 2**20}
SOURCES = ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "requirements.lock", "tests/conftest.py")
TINY = "--evaluations 2 --members 2 --epochs 1 --space nb201 --space-args channels=2,cells=1 --ranking az-nas"
COMMANDS = (  # what needs the files that are no modules: tables of papers, the report's page, the picture of a cell
    "demo --count 3 --out demo",
    f"design digits {TINY} --out runs/design",
    "report runs/design",
    "bench paper list",
)


def require(holds: object, mistake: str) -> None:
    """End with what is wrong, unless it holds."""
    if not holds:
        raise SystemExit(mistake)


def check_metadata(wheel: Path) -> None:
    """The metadata are valid by the standard, and every dependency has a first and a last version."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(archive.read(name), validate=True)
    require(found.description and found.description_content_type == "text/markdown", f"{wheel.name}: no README")
    require({"Homepage", "Changelog", "Issues", "Source"} <= set(found.project_urls or ()), f"{wheel.name}: no links")
    require(found.classifiers and found.keywords and found.author, f"{wheel.name}: no classifiers, keywords or authors")
    for asked in found.requires_dist or ():
        open_ended = not ends(asked) and "extra == 'dev'" not in str(asked.marker).replace('"', "'")
        require(not open_ended, f"{wheel.name}: {asked} has no last version")


def ends(asked: Requirement) -> bool:
    """Whether a requirement has both a first and a last version."""
    signs = {each.operator for each in asked.specifier}
    return bool(signs & {">=", "=="}) and bool(signs & {"<", "<=", "=="})


def check_contents(wheel: Path, source: Path, tracked: list[str]) -> None:
    """The wheel has all files of the package and no others; the sdist has its tests and no results of size."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {name for name in tracked if name.startswith("trainless/")}
    require(inside == expected, f"{wheel.name}: {sorted(inside ^ expected)} is in it or in the repository alone")
    with tarfile.open(source) as archive:
        files = {each.name.partition("/")[2]: each.size for each in archive.getmembers() if each.isfile()}
    wanted = {*SOURCES, *expected, *(name for name in tracked if re.fullmatch(r"tests/.+\.py", name))}
    require(wanted <= set(files), f"{source.name} lacks {sorted(wanted - set(files))}")
    results = [name for name in files if name.startswith(("results/", "benchmarks/results/"))]
    require(not results, f"{source.name} has results: {results}")
    for path in (wheel, source):
        size, most = path.stat().st_size, LARGEST[path.suffix]
        require(size <= most, f"{path.name} has {size} bytes; at most {most} are expected")


def tracked_files() -> list[str]:
    """The files that belong to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.splitlines() if Path(name).is_file()]


def install(wheel: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Install a wheel with its extra ``ui`` into a new environment; the environment's programs and variables."""
    given = settings()
    where = places(given) if "find-links" in given else ["--torch-backend", "cpu"]
    proxies = {variable: given[name] for name, variable in VARIABLES.items() if name in given}
    variables = {**os.environ, **proxies, "TRAINLESS_STORE": str(folder / "scores.sqlite"), "PYTHONPATH": ""}
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(folder / "env")], check=True, env=variables)
    python = folder / "env" / "bin" / "python"
    how = ["-q", "--python", str(python), "--index-strategy", "unsafe-best-match", *where, "-c", "constraints.txt"]
    subprocess.run([*uv, "pip", "install", *how, f"{wheel.resolve()}[ui]"], check=True, env=variables)
    return python.parent, variables


def try_out(wheel: Path) -> None:
    """Run real commands of an installed wheel, away from the repository."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        programs, variables = install(wheel, folder)
        trainless = str(programs / "trainless")

        def said(*arguments: str) -> str:
            command = [trainless, *arguments]
            done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
            require(done.returncode == 0, f"trainless {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
            return done.stdout

        require(said("--version").split()[1] == wheel.name.split("-")[1], "trainless --version is not the wheel's")
        for command in COMMANDS:
            said(*command.split())
        require("vkdnw:table1" in said("bench", "paper", "list"), "trainless bench paper list: no tables of papers")
        page = (folder / "runs" / "design" / "report.html").read_text()
        require("<style>" in page and "<script" in page, "the report has no style or no script")
        check_ui(trainless, folder, variables)


def check_ui(trainless: str, folder: Path, variables: dict[str, str]) -> None:
    """The page of runs is served with its script and its style."""
    command = [trainless, "ui", "runs", "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True)
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline() if server.stdout else "")
        require(found, "trainless ui says no address")
        for name in ("", "app.js", "style.css"):
            with urllib.request.urlopen(f"{found[0] if found else ''}{name}", timeout=60) as answer:  # noqa: S310
                require(answer.status == 200 and answer.read(), f"trainless ui does not serve {name or 'its page'}")
    finally:
        server.terminate()
        server.wait()


def check(folder: Path = Path("dist"), *, run: bool = True) -> None:
    """Check everything that was built."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_metadata(wheel)
    check_contents(wheel, source, tracked_files())
    if run:
        try_out(wheel)


if __name__ == "__main__":
    check(run=sys.argv[1:] != ["contents"])
