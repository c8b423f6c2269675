"""Imports point only downward, also those that a string says and a registry makes later."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "trainless"
ROWS = (
    {"core"},
    {"spaces", "tasks", "store", "execution"},
    {"probe"},  # its counts are the spaces' counts
    {"proxies"},
    {"stack"},
    {"rankings"},  # what a proxy looks at and its scale are the proxy's own
    {"searchers"},
    {"scoring"},
    {"learn"},
    {"runs"},
    {"bench", "report"},
    {"designs"},
    {"catalogue", "testing", "estimators", "ui"},
    {"cli"},
    {"__init__", "__main__"},
)
LEVEL = {part: level for level, row in enumerate(ROWS) for part in row}
SAID = re.compile(r"trainless\.([a-z]\w*)(\.\w+)*(:\w+)?")  # "trainless.spaces.nb201:NasBench201", "trainless.tasks"
LOOKED_UP = {("execution", "trainless.cli")}  # asked of sys.modules, never imported


def part_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports(path: Path) -> set[str]:
    """What a file imports by a statement, and the modules of ours that its strings name."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SAID.fullmatch(node.value):
            names.add(node.value)
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):  # f"trainless.proxies.{…}"
            begun = SAID.match(str(node.values[0].value))
            names |= {begun.group()} if begun else set()
    return {name for name in names if name.startswith("trainless.")}


def own_part(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_imports_point_downward() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        own = own_part(path)
        for name in imports(path):
            other = part_of(name)
            if own != other and LEVEL[other] >= LEVEL[own] and (own, name) not in LOOKED_UP:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert not wrong


def test_strings_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "hidden.py"
    file.write_text(
        "import importlib\n"
        "importlib.import_module('trainless.cli.app')\n"
        "registry.add('mine', 'trainless.spaces.nb201:NasBench201')\n"
        "registry.add('ours', f'trainless.proxies.{module}:{name}')\n"
        "print('trainless.cli is a package')\n"
    )
    assert imports(file) == {"trainless.cli.app", "trainless.spaces.nb201:NasBench201", "trainless.proxies"}


def test_every_package_has_its_row() -> None:
    there = {own_part(path) for path in PACKAGE.rglob("*.py")}
    assert there <= set(LEVEL), "add it to ROWS"


def test_searchers_never_imports_torch() -> None:
    for path in (PACKAGE / "searchers").rglob("*.py"):
        text = path.read_text()
        assert "import torch" not in text, path.name
        assert "from torch" not in text, path.name
