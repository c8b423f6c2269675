"""The tutorials run from their first cell to their last, and say and draw something."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from docs.hooks.tutorials import NOTEBOOKS, missing, run


def test_there_are_six_without_outputs() -> None:
    assert len(NOTEBOOKS) >= 6
    for notebook in NOTEBOOKS:
        cells = nbformat.read(notebook, as_version=4).cells
        assert cells[0].cell_type == "markdown"
        assert cells[0].source.startswith("# "), notebook.name
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), (
            f"{notebook.name}: clear it"
        )


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_tutorial_runs(notebook: Path, tmp_path: Path) -> None:
    if lacking := missing(notebook):
        pytest.skip(f"there is no {lacking} in TRAINLESS_DATA")
    cells = run(notebook, tmp_path).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
