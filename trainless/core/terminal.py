"""The terminal: what comes from data is drawn without signs that move its cursor, colour it or turn text around."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trainless.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """The terminal for tables, drawings and bars; where the output is a pipe, wide enough for a table."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class Plain(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            if isinstance(renderable, str):
                renderable = self.render_str(renderable)
            if isinstance(renderable, Text):
                renderable = renderable.copy()
                renderable.plain = "\n".join(map(printable, renderable.plain.split("\n")))
            return super().render(renderable, options)

    terminal = Plain(highlight=False, stderr=stderr)
    return terminal if terminal.is_terminal else Plain(highlight=False, stderr=stderr, width=120)
