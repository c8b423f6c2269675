"""The bill of materials of a release in CycloneDX 1.6: the packages that it was tested with, and who needs which.

It is made of the lock, so that it names all packages of all systems. What trainless needs itself is ``required``, what
only its extras need is ``optional``; what only its developers need is left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))?(?: \\)?$")
FOR_DEVELOPERS = ("dev", "docs")  # extras
URL = "https://github.com/trainless/trainless"


def normal(name: str) -> str:
    """A distribution's name as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    """The name in a requirement such as ``psycopg[binary]>=3``."""
    found = NAME.match(requirement)
    if found is None:
        raise SystemExit(f"not a requirement: {requirement!r}")
    return normal(found[0])


def pins_of(lock: str) -> dict[str, list[str]]:
    """The versions of each package in a lock; several where they differ between versions of Python."""
    pins: dict[str, list[str]] = {}
    for line in lock.splitlines():
        if found := PIN.match(line):
            pins.setdefault(found[1], []).append(found[2])
    return pins


def users_of(lock: str) -> dict[str, set[str]]:
    """Who needs each package, by a lock's comments."""
    users: dict[str, set[str]] = {}
    package = ""
    for line in lock.splitlines():
        if found := PIN.match(line):
            package = found[1]
        elif package and (user := re.match(r"^    #(?: via|  )\s*(\S+)", line)):
            users.setdefault(package, set()).add(user[1])
    return users


def reached(first: Iterable[str], needs: Mapping[str, set[str]]) -> set[str]:
    """Packages and all that they need, at any distance."""
    found, new = set[str](), set(first)
    while new:
        found |= new
        new = {other for name in new for other in needs.get(name, set())} - found
    return found


def sbom_of(project: Mapping[str, Any], lock: str, torch: str, version: str) -> dict[str, Any]:
    """The bill of materials of a project, its lock and a version of torch; nothing of the wheel yet."""
    pins, needs = pins_of(lock) | {"torch": [torch]}, dict[str, set[str]]()
    for package, users in users_of(lock).items():
        for user in users:
            needs.setdefault(user, set()).add(package)
    direct = {named(each) for each in project["dependencies"]}
    extras = project["optional-dependencies"]
    asked = {named(each) for extra, wanted in extras.items() if extra not in FOR_DEVELOPERS for each in wanted} - {
        "trainless"
    }
    required = reached(direct, needs)
    names = sorted(reached(direct | asked, needs) & set(pins))
    refs = {name: [f"pkg:pypi/{name}@{each}" for each in pins[name]] for name in names}
    scope = {name: "required" if name in required else "optional" for name in names}
    own = f"pkg:pypi/trainless@{version}"
    edges = {own: direct | asked} | {ref: needs.get(name, set()) for name in names for ref in refs[name]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{URL}/releases/{version}')}",
        "version": 1,
        "components": [
            {"type": "library", "bom-ref": ref, "name": name, "version": each, "scope": scope[name], "purl": ref}
            for name in names
            for ref, each in zip(refs[name], pins[name], strict=True)
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(each for name in wanted & set(refs) for each in refs[name])}
            for ref, wanted in edges.items()
        ],
    }


def write_sbom(path: Path, wheel: Path, version: str, date: str) -> None:
    """Write the bill of materials of a wheel that was released at a date."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    torch = re.search(r"^torch==(\S+)$", Path("constraints.txt").read_text(), re.MULTILINE)
    if torch is None:
        raise SystemExit("constraints.txt: no torch==…")
    document = sbom_of(project, Path("requirements.lock").read_text(), torch[1], version)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    document["metadata"] = {
        "timestamp": f"{date}T00:00:00Z",
        "component": {
            "type": "library",
            "bom-ref": f"pkg:pypi/trainless@{version}",
            "name": "trainless",
            "version": version,
            "description": project["description"],
            "hashes": [{"alg": "SHA-256", "content": digest}],
            "licenses": [{"license": {"id": project["license"]}}],
            "purl": f"pkg:pypi/trainless@{version}",
            "externalReferences": [{"type": "vcs", "url": URL}],
        },
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
