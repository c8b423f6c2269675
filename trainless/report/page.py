"""A page and its elements: everything that comes from data is escaped, and numbers are as people read them.

The page is one file that asks for nothing else, in light and dark, on paper and on small screens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from trainless.core.markup import Content as Content
from trainless.core.markup import Markup as Markup
from trainless.core.markup import document as document
from trainless.core.markup import joined as joined
from trainless.core.markup import rounded as rounded
from trainless.core.markup import safe as safe
from trainless.core.markup import short as short
from trainless.core.markup import tag as tag

FEW_COLUMNS = 4  # that fit beside each other on a telephone
_SPACE = "\u00a0"  # a line never breaks between a number and its unit


def text_width(text: str, size: float = 13) -> float:
    """A safe estimate of how wide a line of text is.

    Example:
        >>> text_width("ab", 10)
        12.0
    """
    return 0.6 * size * len(text)


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; what is not all is never rounded to all, nor what is something to nothing.

    Example:
        >>> print(percent(0.875), percent(1.0), percent(0.9999), percent(0.001, 0), percent(None))
        87.5 % 100 % >99.9 % <1 % –
    """
    if share is None or not math.isfinite(share):
        return "–"
    step = 10.0**-digits
    value = round(100 * share, digits)
    if value >= 100 and share < 1 - 1e-12:
        return f">{100 - step:.{digits}f}{_SPACE}%"
    if value <= 0 and share > 1e-12:
        return f"<{step:.{digits}f}{_SPACE}%"
    return f"{value:.{digits}f}".removesuffix("." + "0" * digits) + f"{_SPACE}%"


def duration(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> duration(4.2), duration(150), duration(4482), duration(3 * 86400)
        ('4 s', '2.5 min', '75 min', '3 days')
    """
    for unit, size, least in (("days", 86400, 2 * 86400), ("h", 3600, 2 * 3600), ("min", 60, 90)):
        if seconds >= least:
            few = seconds < 20 * size
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}" if few else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], *, caption: str = "") -> Markup:
    """A table; the first cell of a row names it. On a narrow page the cells of many columns stand below each other."""
    top = tag("tr", *(tag("th", cell or Markup(""), scope="col") for cell in head))
    many = len(head) > FEW_COLUMNS
    names = [str(cell) if many and cell and not isinstance(cell, Markup) else None for cell in head]
    body = []
    for row in rows:
        cells = (tag("td", cell or Markup(""), data_of=name) for cell, name in zip(row[1:], names[1:], strict=False))
        body.append(tag("tr", tag("th", row[0] or Markup(""), scope="row"), *cells))
    words = tag("caption", caption) if caption else None
    kind = "scroll many" if many else "scroll"
    return tag("div", tag("table", words, tag("thead", top), tag("tbody", joined(body))), class_=kind)


def code(text: str) -> Markup:
    """A notation of an architecture, whose lines break after commas.

    Example:
        >>> print(code("depth=1,pool=mean"))
        <code>depth=1,<wbr>pool=mean</code>
    """
    parts = text.split(",")
    return tag("code", *(part for each in parts[:-1] for part in (f"{each},", Markup("<wbr>"))), parts[-1])


STYLE, SCRIPT = ((files("trainless.report") / name).read_text("utf-8") for name in ("page.css", "page.js"))


@dataclass(frozen=True)
class Section:
    """One part of a page: its anchor, its heading and what stands in it; an appendix begins a sheet of paper."""

    anchor: str
    heading: str
    contents: tuple[Content, ...]
    appendix: bool = False


def drawn(heading: str, picture: Markup | None, caption: str, note: str = "") -> Markup | None:
    """A figure with a heading and a caption in plain words; None where there is no picture."""
    if picture is None:
        return None
    top = tag("h3", heading, tag("small", f" {note}") if note else None)
    return tag("figure", top, picture, tag("figcaption", caption))


def grid(*figures: Content, size: str = "") -> Markup:
    """Figures beside each other where there is room."""
    return tag("div", joined(figures), class_=f"grid {size}".strip())


def _section(one: Section) -> Markup:
    kind = "appendix" if one.appendix else None
    return tag("section", tag("h2", one.heading), joined(one.contents), id=one.anchor, class_=kind)


def page(title: str, subtitle: str, sections: Sequence[Section], footer: str, *, verdict: Markup | None = None) -> str:
    """The whole file, a verdict above all else; a policy forbids every request, and every script but its own."""
    links = [tag("li", tag("a", section.heading, href=f"#{section.anchor}")) for section in sections]
    body = [
        *([] if verdict is None else [verdict]),
        tag("header", tag("h1", title), tag("p", subtitle, class_="sub")),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *map(_section, sections)),
        tag("footer", footer),
        Markup('<div id="tip" role="status"></div>'),
    ]
    return document(title, STYLE, SCRIPT, body)
