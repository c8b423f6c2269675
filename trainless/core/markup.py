"""Markup of pages and of what notebooks show: everything that comes from data is escaped."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape


class Markup(str):
    """Text that is markup already and is put into a page as it is; any other text is escaped on its way."""

    __slots__ = ()


Content = str | Markup | None
_BIDI = "\u202a-\u202e\u2066-\u2069"  # would turn the text after it around
_FORBIDDEN = re.compile(f"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{_BIDI}]")


def safe(text: str) -> str:
    """Text that stands as itself in SVG and HTML, also within quotes.

    Example:
        >>> safe("<b>")
        '&lt;b&gt;'
    """
    return escape(_FORBIDDEN.sub("�", text), {'"': "&quot;", "'": "&#39;"})


def tag(name: str, *contents: Content, **attributes: str | float | None) -> Markup:
    """One element; ``class_`` is class, ``data_tip`` is data-tip, an attribute of None is left out.

    Example:
        >>> tag("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
        >>> tag("rect", x=1.0, width=2.25)
        '<rect x="1" width="2.25"/>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    parts = [f' {key}="{safe(each) if isinstance(each, str) else short(each)}"' for key, each in given.items()]
    end = f">{joined(contents)}</{name}>" if contents else "/>"
    return Markup(f"<{name}{''.join(parts)}{end}")


def document(title: str, style: str, script: str, body: Iterable[Markup]) -> str:
    """A whole page: one file, whose policy forbids every request, and every script but its own.

    Example:
        >>> "default-src 'none'" in document("Title", "", "", [tag("p", "Text")])
        True
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    ]
    whole = [*body, Markup(f"<script>{script}</script>")]
    return "\n".join(
        ["<!DOCTYPE html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", *whole, "</body>", "</html>\n"]
    )


def joined(parts: Iterable[Content]) -> Markup:
    """Parts after each other.

    Example:
        >>> joined(["<", tag("b", "x")])
        '&lt;<b>x</b>'
    """
    return Markup("".join(part if isinstance(part, Markup) else safe(part) for part in parts if part))


def short(value: float) -> str:
    """A coordinate: two decimals at most.

    Example:
        >>> short(2.0), short(1 / 3), short(-0.001)
        ('2', '0.33', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def rounded(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none.

    Example:
        >>> rounded(0.98765), rounded(None), rounded(1234567.0), rounded(0.0000123), rounded(-math.inf)
        ('0.988', '–', '1,234,567', '1.23e-05', '−∞')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1e6 and float(value).is_integer() else f"{value:.{digits - 1}e}"
    if float(value).is_integer() and abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.1f}"


MOST_ROWS = 12  # of a table in a notebook
_ALARM = "color:var(--jp-error-color1,#b3261e);font-weight:600"
_LEFT, _RIGHT = "text-align:left", "text-align:right;font-variant-numeric:tabular-nums"


def card(
    title: str,
    *facts: str,
    alarms: Sequence[str] = (),
    head: Sequence[str] = (),
    rows: Sequence[Sequence[Content]] = (),
    total: int | None = None,
    below: Content = None,
) -> str:
    """What a notebook shows of an object: what is wrong first, then a line or two, then a small table.

    Args:
        title: What it is, in a word or two.
        facts: Lines below the title.
        alarms: What is wrong.
        head: The names of a table's columns.
        rows: Its rows, of which the first are shown.
        total: How many rows there are, where ``rows`` are not all.
        below: Markup below the table.

    Example:
        >>> "2 failed" in card("Scores", alarms=["2 failed"])
        True
    """
    parts: list[Content] = [tag("div", line, style=_ALARM) for line in alarms]
    parts.append(tag("div", tag("b", title), *(f" · {fact}" for fact in facts[:1])))
    parts += [tag("div", fact) for fact in facts[1:]]
    if rows:
        parts.append(_rows(head, rows[:MOST_ROWS]))
        hidden = (len(rows) if total is None else total) - len(rows[:MOST_ROWS])
        if hidden > 0:
            parts.append(tag("div", f"… and {hidden:,} more", style="opacity:0.7"))
    return str(tag("div", *parts, below, style="overflow-x:auto"))


def _rows(head: Sequence[str], rows: Sequence[Sequence[Content]]) -> Markup:
    columns = [[row[at] for row in rows] for at in range(len(head))]
    sides = [_RIGHT if at and all(map(_numeric, column)) else _LEFT for at, column in enumerate(columns)]

    def line(kind: str, cells: Sequence[Content]) -> Markup:
        return tag("tr", *(tag(kind, cell or Markup(" "), style=at) for cell, at in zip(cells, sides, strict=True)))

    return tag("table", tag("thead", line("th", head)), tag("tbody", *(line("td", row) for row in rows)))


def _numeric(cell: Content) -> bool:
    return not cell or isinstance(cell, Markup) or cell == "–" or cell.lstrip("−-")[:1].isdigit()


def failed_cell(reason: str) -> Markup:
    """A cell of what failed, with the reason where the pointer rests."""
    return tag("span", "failed", title=reason, style=_ALARM)
