"""The page around a report: one file that asks for nothing else, in light and dark, on paper and on small screens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from trainless.report.markup import Content, Markup, joined, tag

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
