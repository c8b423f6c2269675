"""Imports point only downward."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "trainless"
ROWS = (
    {"core"},
    {"spaces", "tasks", "store"},
    {"probe"},  # its counts are the spaces' counts
    {"proxies", "rankings"},
    {"searchers"},
    {"scoring"},
    {"execution"},
    {"runs", "learn"},
    {"bench", "report"},  # a report is given data, and the design reads folders for it
    {"designs", "catalogue"},
    {"testing", "estimators", "ui"},
    {"cli"},
    {"__init__", "__main__"},
)
LEVEL = {part: level for level, row in enumerate(ROWS) for part in row}


def part_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in names if name.startswith("trainless.")}


def test_imports_point_downward() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        own = part_of(".".join(("trainless", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for name in imports(path):
            other = part_of(name)
            if own != other and LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert not wrong


def test_searchers_never_imports_torch() -> None:
    for path in (PACKAGE / "searchers").rglob("*.py"):
        text = path.read_text()
        assert "import torch" not in text, path.name
        assert "from torch" not in text, path.name
