"""A pace by hand."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import nbclient
import nbformat
import pytest

from trainless.core.progress import Pace


def test_a_pace_is_units_per_second() -> None:
    pace = Pace()
    for second in range(5):
        pace.at(2 * second, float(second))
    assert pace.rate == 2.0


CELL = """
import time
from trainless.core.progress import tracked
for item in tracked(range({count}), {count}, "counting"):
    time.sleep({pause})
"""


@pytest.mark.slow
def test_a_notebook_has_one_output_that_is_replaced() -> None:
    began = time.monotonic()
    nb, messages = run_cells(CELL.format(count=3500, pause=0.001), CELL.format(count=3, pause=0.001))
    shown = nb.cells[0].outputs
    assert [each.output_type for each in shown] == ["display_data"]
    assert "counting" in shown[0].data["text/html"]
    assert "3500/3500" in shown[0].data["text/plain"]
    assert nb.cells[1].outputs == []  # what is over within two seconds shows nothing
    assert 2 <= messages["update_display_data"] <= time.monotonic() - began  # one a second, however slow it is
    assert messages["stream"] == 0


def run_cells(*sources: str) -> tuple[Any, Counter[str]]:
    """A notebook that a kernel of its own has run, and how many messages of each type there were."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=120, kernel_name="python3")
    messages: Counter[str] = Counter()
    take = client.process_message

    def counted(message: Any, *others: Any) -> Any:
        messages[message["msg_type"]] += 1
        return take(message, *others)

    client.process_message = counted
    return client.execute(), messages
