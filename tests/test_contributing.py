"""CONTRIBUTING's recipes are followed word by word, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```(?:py|md)\n(?:# |<!-- )(\S+?)(?:, (after: |below: )?(.+?))?(?: -->)?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
RECIPES = {
    part.partition("\n")[0]: BLOCK.findall(part)
    for part in (ROOT / "CONTRIBUTING.md").read_text().split("\n## ")
    if part.startswith("Add a")
}


def test_a_recipe_is_one_file_one_export_one_test_and_one_changelog_line() -> None:
    assert len(RECIPES) == 6
    for name, ((file, _, new, _), (export, _, _, line), (test, *_), (changelog, how, _, said)) in RECIPES.items():
        assert file.startswith("trainless/"), name
        assert new == ("at the end" if (ROOT / file).exists() else ""), name
        assert (ROOT / export).exists(), name
        assert len(line.splitlines()) == 1, name
        assert re.fullmatch(r"tests/\w+/test_\w+\.py", test), name
        assert (changelog, how) == ("CHANGELOG.md", "below: "), name
        assert said.startswith("- "), name


@pytest.mark.slow
def test_following_all_recipes_works(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "trainless", tmp_path / "trainless", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    tests = []
    for blocks in RECIPES.values():
        for path, how, after, text in blocks:
            file = tmp_path / path
            if after == "at the end":
                file.write_text(file.read_text() + text)
            elif after:
                lines = file.read_text().splitlines(keepends=True)
                places = [place for place, line in enumerate(lines) if line.rstrip("\n").endswith(after)]
                assert places, f"{path} has no line {after!r}"
                place = places[0] + (2 if how == "below: " else 1)  # below a heading there is an empty line
                assert how != "below: " or lines[place - 1] == "\n"
                file.write_text("".join([*lines[:place], text, *lines[place:]]))
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
                tests += [path] if path.startswith("tests/") else []
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TRAINLESS_DATA": str(tmp_path / "data")}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
