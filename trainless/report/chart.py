"""Charts as SVG: scales, ticks, axes and marks; colours come from the page's palette, so that they suit light and dark.

A mark's colour is a class ``c0`` … ``c7`` (of the palette) or ``cn`` (neutral); what it says when pointed at is its
``data-tip``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trainless.report.page import Markup, joined, short, tag, text_width

COLOURS = 8
_RIGHT, _TOP, _BOTTOM = 14.0, 12.0, 46.0
WIDE = 560.0  # of a figure that stands alone
_SIZE = 12.0
Words = Callable[[float], str]
Values = Sequence[float]


@dataclass(frozen=True)
class AxisScale:
    """From values to coordinates, in proportion or by logarithm.

    Example:
        >>> AxisScale(0, 10, 100, 200)(5), AxisScale(1, 100, 0, 10, log=True)(10)
        (150.0, 5.0)
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        low, high = self._of(self.low), self._of(self.high)
        return self.start + (self._of(value) - low) / (high - low) * (self.stop - self.start)

    def _of(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value


def bounds(values: Iterable[float], pad: float = 0.05, *, log: bool = False) -> tuple[float, float]:
    """The range of an axis that shows all finite values.

    Example:
        >>> bounds([1, 2, math.nan], pad=0.5)
        (0.5, 2.5)
    """
    found = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not found:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(found), max(found)
    if log:
        return low / 1.2, high * 1.2
    if low == high:
        reach = abs(low) * 0.1 or 1.0
        return low - reach, high + reach
    return low - pad * (high - low), high + pad * (high - low)


def ticks(low: float, high: float, count: int = 6, *, log: bool = False) -> list[float]:
    """Round values within a range, about as many as asked for.

    Example:
        >>> ticks(0, 1), ticks(0.5, 2000, log=True)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 10.0, 100.0, 1000.0])
    """
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        if last - first >= 1:
            apart = max(1, math.ceil((last - first) / count))
            return [10.0**power for power in range(first, last + 1, apart)]
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
    digits = max(0, 1 - math.floor(math.log10(step)))
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, digits) + 0.0 for place in range(first, math.floor(high / step + 1e-9) + 1)]


def plain(value: float) -> str:
    """A tick's words.

    Example:
        >>> plain(0.2), plain(1000.0), plain(1e7), plain(-3.0)
        ('0.2', '1,000', '1e7', '−3')
    """
    text = f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-") if value and abs(value) >= 1e6 else f"{value:,.6g}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Plot:
    """The plane of a chart: two scales in a box of a size, with what is written at the axes."""

    x: AxisScale
    y: AxisScale
    width: float
    height: float
    x_title: str = ""
    y_title: str = ""
    x_words: Words = plain
    y_words: Words = plain


def frame(
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    x_title: str = "",
    y_title: str = "",
    width: float = 480,
    height: float = 300,
    x_log: bool = False,
    y_log: bool = False,
    x_words: Words = plain,
    y_words: Words = plain,
    left: float | None = None,
) -> Plot:
    """A plane for two ranges; y goes upward. The left margin fits the ticks where it is not given."""
    if left is None:
        left = 32 + max((text_width(y_words(value), _SIZE) for value in ticks(*y, log=y_log)), default=0.0)
    across = AxisScale(*x, left, width - _RIGHT, x_log)
    upward = AxisScale(*y, height - _BOTTOM, _TOP, y_log)
    return Plot(across, upward, width, height, x_title, y_title, x_words, y_words)


def axes(plane: Plot) -> Markup:
    """Grid lines, ticks and titles."""
    x, y = plane.x, plane.y
    marks = []
    for value in ticks(y.low, y.high, log=y.log):
        if said := plane.y_words(value):
            marks.append(tag("line", x1=x.start, x2=x.stop, y1=y(value), y2=y(value), class_="grid"))
            marks.append(words(x.start - 7, y(value), said, anchor="end"))
    for value in ticks(x.low, x.high, log=x.log):
        if said := plane.x_words(value):
            marks.append(tag("line", x1=x(value), x2=x(value), y1=y.start, y2=y.start + 4, class_="axis"))
            marks.append(words(x(value), y.start + 15, said))
    marks.append(tag("line", x1=x.start, x2=x.stop, y1=y.start, y2=y.start, class_="axis"))
    marks.append(words((x.start + x.stop) / 2, plane.height - 9, plane.x_title, class_="title"))
    middle = (y.start + y.stop) / 2
    marks.append(words(13, middle, plane.y_title, class_="title", transform=f"rotate(-90 13 {short(middle)})"))
    return joined(marks)


def words(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "middle",
    size: float = _SIZE,
    class_: str = "label",
    transform: str | None = None,
) -> Markup:
    """A line of text with its middle at ``y``."""
    place: dict[str, str | float] = {"x": x, "y": y, "text_anchor": anchor, "font_size": size}
    text = text or Markup("")
    return tag("text", text, **place, dominant_baseline="central", class_=class_, transform=transform)


def path(plane: Plot, xs: Values, ys: Values, *, step: bool = False) -> str:
    """The way through points: straight, or level until the next; values that are not finite leave a gap.

    Example:
        >>> path(frame((0, 1), (0, 1), width=172, height=158, left=58), [0, 1], [0, 1])
        'M58 112L158 12'
    """
    parts, pen, last = [], "M", 0.0
    for x, y in zip(xs, ys, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = "M"
            continue
        across, up = plane.x(x), plane.y(y)
        if step and pen == "L":
            parts.append(f"L{short(across)} {short(last)}")
        parts.append(f"{pen}{short(across)} {short(up)}")
        pen, last = "L", up
    return "".join(parts)


def line(
    plane: Plot, xs: Values, ys: Values, colour: str, *, tip: str = "", step: bool = False, kind: str = ""
) -> Markup:
    """A line; ``kind`` is ``thin``, ``dashed`` or both."""
    return tag("path", d=path(plane, xs, ys, step=step), class_=f"line {colour} {kind}".strip(), data_tip=tip or None)


def dot(plane: Plot, x: float, y: float, colour: str, *, tip: str = "", radius: float = 4, kind: str = "") -> Markup:
    """A point."""
    place = {"cx": plane.x(x), "cy": plane.y(y), "r": radius}
    return tag("circle", class_=f"dot {colour} {kind}".strip(), data_tip=tip or None, **place)


def whisker(plane: Plot, x: float, low: float, high: float, colour: str) -> Markup:
    """An upright interval."""
    ends = {"x1": plane.x(x), "x2": plane.x(x), "y1": plane.y(low), "y2": plane.y(high)}
    return tag("line", class_=f"whisker {colour}", **ends)


def bar(x: float, y: float, width: float, height: float, colour: str, *, tip: str = "", share: float = 1) -> Markup:
    """A rectangle in coordinates; ``share`` is how strong its colour is."""
    size = {"x": x, "y": y, "width": max(width, 0), "height": max(height, 0)}
    strength = None if share == 1 else f"{share:.3f}"
    return tag("rect", class_=f"bar {colour}", fill_opacity=strength, data_tip=tip or None, **size)


def colour(place: int) -> str:
    """The palette's class for the first, second, … series; after the last one it begins again."""
    return f"c{place % COLOURS}"


def svg(
    width: float, height: float, title: str, *marks: Markup, class_: str = "chart", most: float | None = None
) -> Markup:
    """A drawing that is as wide as its place, or ``most`` pixels; the title is for those who cannot see it."""
    inside = joined([tag("title", title), *marks])
    limit = None if most is None else f"max-width:{most:.0f}px"
    return tag("svg", inside, viewBox=f"0 0 {short(width)} {short(height)}", role="img", class_=class_, style=limit)


def chart(plane: Plot, title: str, *marks: Markup) -> Markup:
    """A drawing of a plane with marks."""
    return svg(plane.width, plane.height, title, axes(plane), *marks)


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Names of colours: pairs of a class, such as ``c0 dashed``, and words."""
    swatch = tag("line", x1=1.0, x2=21.0, y1=6.0, y2=6.0, class_="line")
    items = []
    for kind, text in entries:
        drawn = Markup(swatch.replace('class="line"', f'class="line {kind}"'))
        items.append(tag("li", tag("svg", drawn, viewBox="0 0 22 12", width=22, height=12, aria_hidden="true"), text))
    return tag("ul", *items, class_="legend")


def clipped(text: str, width: float, size: float = _SIZE) -> str:
    """Text that fits into a width, its end left out where it is too long.

    Example:
        >>> clipped("pneumonia", 40)
        'pneu…'
    """
    room = max(2, int(width / (text_width("x", size))))
    return text if len(text) <= room else text[: room - 1] + "…"
