"""Every package says what it is, what it may import and where to begin."""

from __future__ import annotations

import re

import pytest

from tests.test_layers import LEVEL, LOOKED_UP, PACKAGE, imports, part_of

PACKAGES = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_package_has_a_readme(folder) -> None:  # type: ignore[no-untyped-def]
    text = (folder / "README.md").read_text()
    assert text.startswith(f"# trainless.{folder.name}\n")
    assert 8 <= len(text.splitlines()) <= 16
    begin = re.findall(r"^- `([\w./]+)`: .+", text.partition("Begin with:")[2], re.MULTILINE)
    assert len(begin) >= 2
    for name in begin:
        assert (folder / name).exists(), f"{folder.name} has no {name}"


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_package_imports_what_its_readme_says(folder) -> None:  # type: ignore[no-untyped-def]
    said = re.search(r"^It may import: (.+)\.$", (folder / "README.md").read_text(), re.MULTILINE)
    assert said is not None
    named = {name for name in LEVEL if re.search(rf"\b{name}\b", said[1])}
    assert all(LEVEL[name] < LEVEL[folder.name] for name in named)
    if said[1] == "everything":
        return
    if said[1].endswith("below them") or said[1].endswith("below it"):
        named |= {name for name in LEVEL if any(LEVEL[name] < LEVEL[other] for other in named)}
    found = {name for path in folder.rglob("*.py") for name in imports(path) if (folder.name, name) not in LOOKED_UP}
    found = {part_of(name) for name in found} - {folder.name}
    assert found <= named, f"{folder.name} imports {sorted(found - named)} too"
