"""Build what a release consists of into ``dist/``: sdist, wheel, bill of materials and checksums.

The same files give the same bytes, wherever and whenever they are built. ``dist.py v0.2.0`` says that it is the release
of that tag, and refuses where the version or the changelog say otherwise.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from sbom import write_sbom

RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


def version_of(package: str) -> str:
    """The version that a package's ``__init__.py`` says."""
    found = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if found is None:
        raise SystemExit("trainless/__init__.py: no __version__")
    return found[1]


def last_release(changelog: str) -> tuple[str, str]:
    """The version and the date of the changelog's newest release."""
    found = RELEASE.search(changelog)
    if found is None:
        raise SystemExit("CHANGELOG.md: no release; expected a heading such as '## [1.2.3] - 2026-01-31'")
    return found[1], found[2]


def unreleased(changelog: str) -> list[str]:
    """The lines of the changelog that belong to no release yet."""
    part = changelog.partition("## [Unreleased]")[2].partition("\n## [")[0]
    return [line for line in part.splitlines() if line and not line.startswith("#")]


def check(tag: str | None) -> tuple[str, str]:
    """The version and its date; the package, the changelog and the tag have to agree."""
    version, changelog = version_of(Path("trainless/__init__.py").read_text()), Path("CHANGELOG.md").read_text()
    released, date = last_release(changelog)
    if version != released:
        raise SystemExit(f"trainless/__init__.py says {version}, the newest release in CHANGELOG.md is {released}")
    if tag is not None and tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, the version is {version}: expected v{version}")
    if tag is not None and (left := unreleased(changelog)):
        raise SystemExit(
            f"CHANGELOG.md: {len(left)} lines below Unreleased, such as {left[0]!r}: give them to {version}"
        )
    return version, date


def build(tag: str | None = None, target: Path = Path("dist")) -> None:
    """Build everything anew."""
    version, date = check(tag)
    shutil.rmtree(target, ignore_errors=True)
    epoch = int(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    write_sbom(target / f"trainless-{version}.cdx.json", wheel, version, date)
    files = sorted(path for path in target.iterdir() if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (target / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    build(*sys.argv[1:])
