"""What a release is made of: ranges, the lock, files, the bill of materials, the workflow and what stands beside it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import trainless

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: [Requirement(each) for each in wanted] for name, wanted in PROJECT["optional-dependencies"].items()}
CORE = [Requirement(each) for each in PROJECT["dependencies"]]
RANGES = CORE + [each for name, wanted in EXTRAS.items() if name not in ("dev", "docs") for each in wanted]
TOOLS = [each for name in ("dev", "docs") for each in EXTRAS[name] if each.name != "trainless"]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.+?))?(?: \\)?\n((?:    --hash=.*\n)*)", LOCK, re.MULTILINE)
HERE = {name: Version(version) for name, version, marker, _ in PINS if not marker or Marker(marker).evaluate()}


def fixed() -> dict[str, Version]:
    """What ``constraints.txt`` says."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_every_range_has_a_first_and_a_last_version() -> None:
    assert [each for each in RANGES if {one.operator for one in each.specifier} != {">=", "<"}] == []


@pytest.mark.parametrize("asked", [*RANGES, *TOOLS], ids=lambda asked: asked.name)
def test_the_lock_and_the_ranges_agree(asked: Requirement) -> None:
    known = {**HERE, "torch": fixed()["torch"]}
    assert known[canonicalize_name(asked.name)] in asked.specifier, "make lock"


def test_the_lock_has_every_pin_with_hashes_and_leaves_torch_out() -> None:
    assert len(PINS) == len(re.findall(r"^[\w.-]+==", LOCK, re.MULTILINE)) > 80
    assert all(re.fullmatch(r"(    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", hashes) for *_, hashes in PINS)
    by_hand = {name: version for name, version in fixed().items() if not name.startswith("torch")}
    assert {name: HERE.get(name) for name in by_hand} == by_hand, "make lock"
    assert [name for name in HERE if re.match(r"torch|nvidia|cuda|triton", name)] == []


def needs(name: str, extras: tuple[str, ...] = ()) -> set[tuple[str, tuple[str, ...]]]:
    """What an installed distribution asks for on this machine, by its own metadata."""
    found = [Requirement(each) for each in importlib.metadata.requires(name) or ()]
    environments = [{"extra": extra} for extra in ("", *extras)]
    return {
        (canonicalize_name(each.name), tuple(sorted(each.extras)))
        for each in found
        for environment in environments
        if each.marker is None or each.marker.evaluate(environment)
    }


def closure(asked: list[Requirement]) -> set[str]:
    """All that is asked for by some requirements, at any distance, by the metadata of what is installed."""
    new = {(canonicalize_name(each.name), tuple(sorted(each.extras))) for each in asked}
    found = set[tuple[str, tuple[str, ...]]]()
    while new := new - found:
        found |= new
        new = {need for name, extras in new for need in needs(name, extras)}
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What ``make dist`` made of two copies, with other times and other permissions of the files."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not in a repository")
    folders = []
    for place, mode in enumerate((0o644, 0o600)):
        folder = tmp_path_factory.mktemp("copy")
        for name in done.stdout.splitlines():
            if (ROOT / name).is_file() and not name.startswith(("results/", "docs/figures/")):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
                (folder / name).chmod(mode)
                os.utime(folder / name, (10**9 + place * 10**6, 10**9 + place * 10**6))
        subprocess.run([sys.executable, ".ci/dist.py"], cwd=folder, check=True)
        folders.append(folder)
    return [folder / "dist" for folder in folders]


def test_two_builds_have_the_same_bytes(built: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in built)
    assert first == second
    assert {Path(name).suffix for name in first} == {".whl", ".gz", ".json", ""}


def test_what_was_built_has_what_it_should(built: list[Path]) -> None:
    """Metadata by the standard; every tracked file of the package; the tests; no results of size."""
    folder = built[0].parent
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    done = subprocess.run([sys.executable, ".ci/package.py", "contents"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "trainless" / "forgotten.css").touch()
    done = subprocess.run([sys.executable, ".ci/package.py", "contents"], cwd=folder, capture_output=True, text=True)
    assert "trainless/forgotten.css" in done.stderr
    (folder / "trainless" / "forgotten.css").unlink()


def test_the_bill_of_materials_is_one_and_names_what_is_installed(built: list[Path]) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = next(built[0].glob("*.cdx.json")).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    parts: dict[str, list[Any]] = {}
    for part in document["components"]:
        parts.setdefault(part["name"], []).append(part)
    required = closure(CORE)
    asked = closure(RANGES)
    assert asked <= set(parts)
    assert {name for name in asked if parts[name][0]["scope"] == "required"} == required
    assert not {"pytest", "mypy", "ruff", "hatchling"} & set(parts)
    versions = {each["version"] for part in parts.values() for each in part}
    assert {str(HERE.get(name, fixed().get(name))) for name in asked} <= versions
    refs = {part["bom-ref"] for part in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in document["dependencies"]} == refs
    assert {ref for each in document["dependencies"] for ref in each["dependsOn"]} <= refs


def changed(tmp_path: Path, *changes: tuple[str, str, str], tag: str = "") -> str:
    """What ``dist.py`` says of a package and a changelog with changes."""
    for name in (".ci/dist.py", ".ci/sbom.py", "trainless/__init__.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name, old, new in changes:
        text = (tmp_path / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new, 1))
    command = [sys.executable, ".ci/dist.py", *([tag] if tag else [])]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr


def test_version_changelog_and_tag_agree(tmp_path: Path) -> None:
    version = trainless.__version__
    other = ("trainless/__init__.py", f'"{version}"', '"9.9.9"')
    assert f"trainless/__init__.py says 9.9.9, the newest release in CHANGELOG.md is {version}" in changed(
        tmp_path, other
    )
    assert f"the tag is v9.9.9, the version is {version}: expected v{version}" in changed(tmp_path, tag="v9.9.9")
    late = ("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- Late.\n")
    assert "lines below Unreleased, such as '- Late.': give them to" in changed(tmp_path, late, tag=f"v{version}")


def test_the_citation_is_of_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(found)  # what CFF 1.2.0 requires
    assert (found["cff-version"], found["type"], found["license"]) == ("1.2.0", "software", PROJECT["license"])
    assert found["version"] == trainless.__version__
    assert f"## [{found['version']}] - {found['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert [author["name"] for author in found["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert found["repository-code"] == PROJECT["urls"]["Source"]


WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_may_only_read_and_name_actions_by_commit(name: str) -> None:
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each)] == []
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    commands = " ".join(step.get("run", "") for step in steps)
    assert "${{" not in commands.replace("${{ matrix.", ""), "what others write must not become part of a command"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = set(re.findall(r"\bmake ([a-z]+)", commands))
    assert called <= set(targets)


def test_a_release_is_built_twice_tried_out_attested_and_published_without_a_token() -> None:
    release = WORKFLOWS["release"]
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the word on as true
    jobs = release["jobs"]
    order = {name: job.get("needs") for name, job in jobs.items()}
    assert order == {"build": None, "try": "build", "attest": "try", "publish": "attest", "announce": "publish"}
    built = " ".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert built.count("make dist") == 2
    assert "cmp first dist/SHA256SUMS" in built
    said = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    assert set(jobs["try"]["strategy"]["matrix"]["python"]) == said
    assert jobs["attest"]["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert any("attest-build-provenance" in step.get("uses", "") for step in jobs["attest"]["steps"])
    assert (jobs["publish"]["permissions"], jobs["publish"]["environment"]) == ({"id-token": "write"}, "pypi")
    upload = next(step for step in jobs["publish"]["steps"] if "pypi-publish" in step.get("uses", ""))
    assert not {"password", "user"} & set(upload["with"])
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def copied(line: str, root: Path) -> None:
    """Do what a COPY of the Dockerfile does, below a folder."""
    *sources, target = line.split()[1:]
    for source in sources:
        place = root / target.lstrip("/") / (source if target.endswith("/") else "")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, place)


def test_the_dockerfile_copies_all_that_its_build_needs(tmp_path: Path) -> None:
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            copied(line, tmp_path)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(build, cwd=tmp_path / "source", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "source" / "dist").iterdir()
    assert wheel.name == f"trainless-{trainless.__version__}-py3-none-any.whl"


TINY = "--evaluations 2 --members 2 --epochs 1 --space nb201 --space-args channels=2,cells=1 --ranking az-nas"


@pytest.mark.slow
def test_uvx_runs_the_wheel(built: list[Path], tmp_path: Path) -> None:
    """Nothing but uv and the wheel; packages come from where pip looks, which is mostly uv's cache."""
    (wheel,) = built[0].glob("*.whl")
    find = "import sys; sys.path.insert(0, '.ci'); from install import *; print(*places(settings()), sep='\\n')"
    found = subprocess.run([sys.executable, "-c", find], cwd=ROOT, check=True, capture_output=True, text=True)
    where = [
        *found.stdout.split("\n")[:-1],
        "--index-strategy",
        "unsafe-best-match",
        "-c",
        str(ROOT / "constraints.txt"),
    ]
    uvx = [sys.executable, "-m", "uv", "tool", "run", "--python", sys.executable, *where, "--from", str(wheel)]

    def said(*arguments: str) -> str:
        command = [*uvx, "trainless", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        if re.search("Failed to fetch|error sending request|Connection refused|dns error", done.stderr):
            pytest.skip(f"an index of packages cannot be reached: {done.stderr[-200:]}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("--version") == f"trainless {trainless.__version__}\n"
    said("design", "digits", *TINY.split(), "--out", "run")
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
