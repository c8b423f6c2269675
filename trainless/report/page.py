"""A page and its elements: everything that comes from data is escaped, and numbers are as people read them.

The page is one file that asks for nothing else, in light and dark, on paper and on small screens.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape


class Markup(str):
    """Text that is markup already and is put into a page as it is; any other text is escaped on its way."""

    __slots__ = ()


Content = str | Markup | None
_BIDI = "\u202a-\u202e\u2066-\u2069"  # would turn the text after it around
_FORBIDDEN = re.compile(f"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{_BIDI}]")
_SPACE = "\u00a0"  # a line never breaks between a number and its unit


def safe(text: str) -> str:
    """Text that stands as itself in SVG and HTML, also within quotes.

    Example:
        >>> safe("<b>")
        '&lt;b&gt;'
    """
    return escape(_FORBIDDEN.sub("�", text), {'"': "&quot;", "'": "&#39;"})


def text_width(text: str, size: float = 13) -> float:
    """A safe estimate of how wide a line of text is.

    Example:
        >>> text_width("ab", 10)
        12.0
    """
    return 0.6 * size * len(text)


def tag(name: str, *contents: Content, **attributes: str | float | None) -> Markup:
    """One element; ``class_`` is class, ``data_tip`` is data-tip, an attribute of None is left out.

    Example:
        >>> tag("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
        >>> tag("rect", x=1.0, width=2.25)
        '<rect x="1" width="2.25"/>'
    """
    parts = [f' {_attribute(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None]
    inside = "".join(content if isinstance(content, Markup) else safe(content) for content in contents if content)
    if not contents:
        return Markup(f"<{name}{''.join(parts)}/>")
    return Markup(f"<{name}{''.join(parts)}>{inside}</{name}>")


def _attribute(key: str) -> str:
    return "viewBox" if key == "viewBox" else key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return safe(value) if isinstance(value, str) else short(value)


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


def figure(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none.

    Example:
        >>> figure(0.98765), figure(None), figure(1234567.0), figure(0.0000123), figure(-math.inf)
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
            return (
                f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
                if seconds < 20 * size
                else (f"{seconds / size:,.0f} {unit}")
            )
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], *, caption: str = "") -> Markup:
    """A table that scrolls by itself where it is too wide; the first cell of a row names it."""
    top = tag("tr", *(tag("th", cell or Markup(""), scope="col") for cell in head))
    body = [
        tag("tr", tag("th", row[0] or Markup(""), scope="row"), *(tag("td", cell or Markup("")) for cell in row[1:]))
        for row in rows
    ]
    words = tag("caption", caption) if caption else None
    return tag("div", tag("table", words, tag("thead", top), tag("tbody", joined(body))), class_="scroll")


STYLE = """
:root{--paper:#fbfbf9;--card:#fff;--ink:#1c2330;--soft:#5a6475;--rule:#e3e5ea;--accent:#1f5fa8;--good:#1e7a4c;
--bad:#b3263f;--wash:#eef3fa;--ground:#2a6fbb;--on:#fff;--c0:#2a6fbb;--c1:#d2690b;--c2:#2e8b57;--c3:#7d4fc0;
--c4:#c2374f;--c5:#128391;--c6:#8a6d3b;--c7:#c2559d;--cn:#8b94a3}
@media (prefers-color-scheme:dark){:root{--paper:#12161d;--card:#1a2029;--ink:#e6e9ef;--soft:#a0a9b8;--rule:#2e3643;
--accent:#7fb4f2;--good:#62cc95;--bad:#f2849a;--wash:#1f2a3a;--ground:#5f9fe6;--on:#0e1218;--c0:#6aa9f0;--c1:#f0a04b;
--c2:#5cc48c;--c3:#b79af0;--c4:#f07f92;--c5:#4fc4d0;--c6:#cbb07a;--c7:#ea93cb;--cn:#8a94a5}}
*{box-sizing:border-box}html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
header,main,footer{max-width:1080px;margin:0 auto;padding:0 20px}header{padding-top:36px}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:1.35rem;margin:0 0 6px;letter-spacing:-.005em}h3{font-size:1.02rem;margin:22px 0 8px}
figure h3{margin-top:0}
p{margin:0 0 12px;max-width:76ch}.sub{color:var(--soft)}
nav{position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--rule);margin-top:16px}
nav ul{max-width:1080px;margin:0 auto;padding:8px 20px;display:flex;gap:4px 18px;flex-wrap:wrap;list-style:none}
nav a{color:var(--soft);text-decoration:none;font-size:.92rem}nav a:hover,nav a:focus{color:var(--accent)}
section{padding:30px 0 6px;scroll-margin-top:44px}section+section{border-top:1px solid var(--rule)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,210px),1fr));gap:14px;margin:18px 0}
.fact{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:14px 16px}
.fact b{display:block;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.fact span{display:block;font-size:.9rem}.fact i{font-style:normal;display:block;color:var(--soft);font-size:.84rem}
.good{color:var(--good)}.bad{color:var(--bad)}
.cautions{background:var(--wash);border-left:4px solid var(--accent);border-radius:0 10px 10px 0;padding:12px 18px;
margin:14px 0}.cautions ul{margin:0;padding-left:18px}.cautions li{margin:3px 0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:18px;margin:14px 0;
align-items:start}.grid.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,310px),1fr))}
.grid.tiny{grid-template-columns:repeat(auto-fill,minmax(86px,1fr));gap:10px}.tiny figure{padding:8px}
.grid>figure:only-child{max-width:680px}
.grid.few{grid-template-columns:repeat(auto-fill,minmax(170px,1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:14px 16px;min-width:0}
section>figure{margin-bottom:18px}
figcaption{color:var(--soft);font-size:.88rem;margin-top:8px}figure h3 small{font-weight:400;color:var(--soft)}
svg.chart{display:block;width:100%;height:auto;max-width:640px;overflow:visible}svg.matrix{margin:0 auto}
svg.wide{max-width:760px}
svg.signal{display:block;width:100%;height:auto;background:var(--card)}
.tiles{display:grid;gap:3px;grid-auto-flow:column;grid-auto-columns:1fr}
.tiles img{width:100%;height:auto;display:block;image-rendering:pixelated;border-radius:4px}
.tiles.t1 img{max-width:220px;margin:0 auto}
.chart text{fill:var(--soft);font-family:inherit}.chart text.title{fill:var(--ink)}
.chart text.on{fill:var(--on);font-weight:600}
line.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--cn);stroke-width:1}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}.line.thin{stroke-width:1.3}
.line.thick{stroke-width:9;stroke-linecap:butt}.dashed{stroke-dasharray:6 4}.faint{opacity:.45}
.line.halo{stroke:var(--card)!important;stroke-width:5}.whisker{stroke-width:1.4}.trace{fill:none;stroke:var(--ink);
stroke-width:1.1;stroke-linejoin:round}.dot.ringed{stroke:var(--card);stroke-width:1.5}
.dot.hollow{fill:var(--card)!important;stroke-width:2}.bar.ground{fill:var(--ground);shape-rendering:crispEdges}
[data-tip]:hover{filter:brightness(1.12)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:8px 0 0;padding:0;font-size:.86rem;
color:var(--soft)}.legend svg{vertical-align:middle;margin-right:6px}
.cell{background:#fff;border-radius:8px;padding:4px;overflow-x:auto}.cell svg{display:block;width:100%;height:auto;
min-width:440px;max-height:520px}
.scroll{overflow-x:auto;margin:8px 0 14px}table{border-collapse:collapse;font-size:.88rem;min-width:60%;
font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--soft);padding:0 0 6px}
th,td{padding:5px 14px 5px 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:top;white-space:nowrap}
thead th{color:var(--soft);font-weight:600}tbody th{font-weight:500}td.long,th.long{white-space:normal}
code{font:.86em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;white-space:normal}
td code{display:inline-block;min-width:30ch}
.case h3{display:flex;justify-content:space-between;gap:8px}.case dl{display:grid;grid-template-columns:auto 1fr;
gap:2px 12px;margin:10px 0;font-size:.9rem}.case dt{color:var(--soft)}.case dd{margin:0}
.case table{width:100%;font-size:.82rem}.case th,.case td{padding:3px 6px 3px 0;white-space:normal}
.votes td{position:relative}.chip{display:inline-block;border-radius:99px;padding:1px 9px;font-size:.8rem;
background:var(--wash);color:var(--ink);margin:0 4px 4px 0}.chip.bad{background:var(--bad);color:var(--on)}
.chip.good{background:var(--good);color:var(--on)}
details{margin:10px 0 16px}summary{cursor:pointer;color:var(--accent)}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--ink);color:var(--paper);font-size:.82rem;
padding:4px 9px;border-radius:6px;max-width:300px;opacity:0;transition:opacity .1s}
footer{padding:26px 20px 50px;color:var(--soft);font-size:.88rem;border-top:1px solid var(--rule);margin-top:24px}
@media (max-width:560px){header{padding-top:20px}h1{font-size:1.5rem}nav{position:static}figure{padding:12px 10px}
header,main,footer,nav ul{padding-left:14px;padding-right:14px}
.chart:not(.matrix) text{font-size:14px}.wide.chart text{font-size:15px}}
@media print{nav,#tip{display:none}figure,.fact{break-inside:avoid}body{font-size:11pt}}
""" + "".join(
    f".line.c{n},.whisker.c{n},.dot.c{n}.hollow{{stroke:var(--c{n})}}.dot.c{n},.bar.c{n}{{fill:var(--c{n})}}"
    for n in [*range(8), "n"]
)

SCRIPT = """
(function(){var tip=document.getElementById('tip');
function show(e){var m=e.target.closest?e.target.closest('[data-tip]'):null;
if(!m){tip.style.opacity=0;return}
tip.textContent=m.getAttribute('data-tip');tip.style.opacity=1;
var x=Math.min(e.clientX+14,window.innerWidth-tip.offsetWidth-8),y=e.clientY+16;
if(y+tip.offsetHeight>window.innerHeight-6){y=e.clientY-tip.offsetHeight-10}
tip.style.left=Math.max(4,x)+'px';tip.style.top=y+'px'}
document.addEventListener('pointermove',show);document.addEventListener('pointerdown',show);
document.addEventListener('scroll',function(){tip.style.opacity=0},true)})();
"""


@dataclass(frozen=True)
class Section:
    """One part of a page: its anchor, its heading and what stands in it."""

    anchor: str
    heading: str
    contents: tuple[Content, ...]


def drawn(heading: str, picture: Markup | None, caption: str, note: str = "") -> Markup | None:
    """A figure with a heading and a caption in plain words; None where there is no picture."""
    if picture is None:
        return None
    top = tag("h3", heading, tag("small", f" {note}") if note else None)
    return tag("figure", top, picture, tag("figcaption", caption))


def grid(*figures: Content, size: str = "") -> Markup:
    """Figures beside each other where there is room."""
    return tag("div", joined(figures), class_=f"grid {size}".strip())


def page(title: str, subtitle: str, sections: Sequence[Section], footer: str) -> str:
    """The whole file. A policy in its head forbids every request, and every script but its own."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", title),
        Markup(f"<style>{STYLE}</style>"),
    ]
    links = [tag("li", tag("a", section.heading, href=f"#{section.anchor}")) for section in sections]
    body = [
        tag("header", tag("h1", title), tag("p", subtitle, class_="sub")),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *(_section(section) for section in sections)),
        tag("footer", footer),
        Markup('<div id="tip" role="status"></div>'),
        Markup(f"<script>{SCRIPT}</script>"),
    ]
    inside = f"<head>\n{_lines(head)}\n</head>\n<body>\n{_lines(body)}\n</body>"
    return f'<!DOCTYPE html>\n<html lang="en">\n{inside}\n</html>\n'


def _lines(parts: Sequence[Markup]) -> str:
    return "\n".join(parts)


def _section(section: Section) -> Markup:
    return tag("section", tag("h2", section.heading), joined(section.contents), id=section.anchor)
