"""The search: how it went, what it found and what the winners are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.core.types import Floats
from trainless.rankings import RankSum, registry
from trainless.report.chart import WIDE, bar, bounds, chart, clipped, colour, dot, frame, legend, line, svg, words
from trainless.report.contents import Contents, SearchRecord, report_part
from trainless.report.draw import svg as draw_svg
from trainless.report.page import Content, Markup, code, drawn, grid, joined, percent, rounded, tag, text_width
from trainless.report.words import space_in_words
from trainless.runs.signals import scores_of
from trainless.spaces.protocol import Counted, Space
from trainless.spaces.sketch import Drawable, Graph, Sketch

MOST_CELLS = 12
METHODS: Mapping[str, str] = {
    **{"rl": "reinforcement learning", "genetic": "genetic algorithm", "prune": "pruning"},
    **{"learned": "learning from the first members", "plain": "plain networks", "rocket": "random convolutions"},
    "pretrained": "pretrained backbones",
}


@report_part()
def search_words(contents: Contents) -> Content:
    """The number of searches, and the score by which candidates were judged."""
    searches = contents.searches
    what = _signal(searches[0])
    judge = what if len(searches[0].directions) == 1 else f"the {what}"
    names = ", ".join(in_words(method) for method in methods(searches))
    text = (
        f"{len(searches)} {'search' if len(searches) == 1 else 'searches'} ({names}) looked at candidates of the space"
        f" {space_in_words(contents.summary['plan']['space'] if contents.summary else contents.settings['space'])}."
        " A candidate is"
        f" built, looked at on a few samples as it is before any training, and judged by {judge}; higher is better."
    )
    return tag("p", text)


@report_part(beside=True)
def best_values(contents: Contents) -> Content:
    """The best value that each search had seen."""
    searches = contents.searches
    text = "The best that was seen so far; a dot is the winner at the end. What lies lower is drawn at the edge."
    if any(is_region(candidate) for one in searches for candidate in one.candidates[:1]):
        text += " Pruning has no single network before its end."
    if len(searches) > 1:
        text += (
            " Here the candidates of all searches are ranked together, which may put others first than a search's own"
            " leaderboard does; seeds differ between searches and shift the scores a little."
        )
    return drawn("Best so far", best_so_far_figure(searches, standings(searches), _signal(searches[0])), text)


@report_part(beside=True)
def pruning(contents: Contents) -> Content:
    """The networks that pruning left open."""
    text = "Pruning starts from a supernet with every option and takes away what matters least, until one is left."
    return drawn("Pruning", pruning_figure(contents.searches), text)


def _signal(one: SearchRecord) -> str:
    if one.ranking:
        return f"{one.ranking} composite"
    return next(iter(one.directions)) if len(one.directions) == 1 else "sum of ranks"


def chosen(contents: Contents) -> list[tuple[Arch, str]]:
    """The architectures that were chosen, each once, and where they come from."""
    found: dict[Arch, list[str]] = {}
    if contents.summary and contents.space is not None:
        for member in contents.summary["members"]:
            if member["folder"] and member["search"] != "single" and member["space"] == contents.space.name:
                arch = contents.space.parse(member["arch"])
                found.setdefault(arch, []).append(f"member {member['name']}, {member['search']}")
    elif not contents.summary:
        for one in contents.searches:
            for place, arch in enumerate(one.best[:6]):
                found.setdefault(arch, []).append(f"number {place + 1} of {one.name}")
    return [(arch, "; ".join(who)) for arch, who in found.items()]


@report_part()
def winners(contents: Contents) -> list[Content]:
    """Drawings of the architectures that were chosen."""
    head, cells = tag("h3", "What the winners look like"), chosen(contents)
    if contents.space is None or not cells:
        texts = [member["arch"] for member in contents.summary.get("members", ())]
        return [head, tag("ul", *(tag("li", code(text)) for text in dict.fromkeys(texts)))]
    figures = []
    for arch, who in cells[:MOST_CELLS]:
        picture = tag("div", Markup(draw_svg(contents.space, arch, compact=True)), class_="cell")
        figures.append(tag("figure", picture, tag("figcaption", who, _counts(contents, arch))))
    more = len(cells) - MOST_CELLS
    rest = tag("p", f"{more} more are in the tables at the end.", class_="sub") if more > 0 else None
    return [head, grid(*figures), rest]


def _counts(contents: Contents, arch: Arch) -> str:
    if contents.task is None or not isinstance(contents.space, Counted):
        return ""
    counts = contents.space.counts(arch, contents.task)
    return f" – {counts.params:,} parameters, {counts.flops / 1e6:,.2f} M multiply–accumulates"


@report_part()
def winning_operations(contents: Contents) -> Content:
    """Shares of operations in the winners."""
    looked = [c for one in contents.searches for c in one.candidates if not is_region(c)]
    kinds = {"all that was looked at": cast(list[Arch], looked)}
    for method in origins(contents):
        archs = _winners(contents, method)
        kinds[f"{in_words(method)} ({len(archs)})"] = archs
    tallies = {name: operations(archs, contents.space, contents.decisions) for name, archs in kinds.items()}
    groups = {name: counts for name, counts in tallies.items() if counts}
    total = sum(groups.values(), Counter[str]())
    known = [(name, each) for name, options in contents.decisions.items() for each in options]
    texts = dict.fromkeys(text for name, each in known for text in (each, _named(name, each)))
    order = [text for text in texts if total[text]]
    order += sorted(set(total) - set(order))
    if not groups or len(order) < 2:
        return None
    order = sorted(order, key=lambda name: -total[name])[:7] if len(order) > 7 else order
    picture = operations_figure(groups, [*order, *(name for name in total if name not in order)])
    text = (
        "Shares of operations in the chosen architectures of each method (how many in brackets), and in everything"
        " that was looked at (after TEACUP, fig. 5). A share that grows from the first bar is what these data prefer."
    )
    return drawn("What the winners are made of", picture, text)


def origins(contents: Contents) -> list[str]:
    """Origins of the members: the methods of the searches in their order, then any other."""
    members = [member["search"].partition("-")[0] for member in contents.summary.get("members", ())]
    return list(dict.fromkeys([*methods(contents.searches), *(name for name in members if name != "single")]))


def _winners(contents: Contents, method: str) -> list[Arch]:
    """The members that come from a method, or the first ten of a search alone."""
    if not contents.summary:
        return [arch for one in contents.searches if one.method == method for arch in one.best[:10]]
    if contents.space is None:
        return [one.best[0] for one in contents.searches if one.method == method and one.best]
    members = [one for one in contents.summary["members"] if one["folder"]]
    mine = [one for one in members if one["search"].partition("-")[0] == method]
    return [contents.space.parse(one["arch"]) for one in mine if one["space"] == contents.space.name]


def standings(searches: Sequence[SearchRecord]) -> list[Floats]:
    """One number per candidate of each search and then per arch of its leaderboard, higher is better.

    It is the ranking over all of them together, each once, so that searches can be compared; regions, whose scores are
    those of a supernet, have none (NaN). Without a ranking it is the only score with its sign, or the sum of the ranks.
    """
    rows: dict[str, Mapping[str, float]] = {}
    for number, one in enumerate(searches):
        for place, candidate in enumerate(one.candidates):
            if not is_region(candidate):
                values = {name: float(column[place]) for name, column in one.values.items()}
                rows.setdefault(f"{number}/{candidate}", values)
        for arch, best in zip(one.best, one.best_values, strict=True):
            rows.setdefault(f"{number}/{arch}", best)
    if not rows:
        return [np.full(len(one.candidates), np.nan) for one in searches]
    found = dict(zip(rows, _ranked(searches[0], rows), strict=True))
    return [
        np.array([found.get(f"{number}/{key}", np.nan) for key in (*one.candidates, *one.best)])
        for number, one in enumerate(searches)
    ]


def _ranked(one: SearchRecord, rows: Mapping[str, Mapping[str, float]]) -> Floats:
    directions = {name: up for name, up in one.directions.items() if all(name in row for row in rows.values())}
    scores = scores_of(rows, directions)
    if one.ranking in registry and set(registry[one.ranking].proxies) <= set(directions):
        values = np.asarray(registry[one.ranking](scores), np.float64)
    elif len(directions) == 1:
        (name, up), *_ = directions.items()
        values = scores.column(name) if up else -scores.column(name)
    else:
        values = np.asarray(RankSum(tuple(directions))(scores), np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def best_so_far(values: Floats) -> Floats:
    """The highest of all values up to each; NaN until there is one.

    Example:
        >>> best_so_far(np.array([np.nan, 1.0, 0.5, 2.0])).tolist()
        [nan, 1.0, 1.0, 2.0]
    """
    best = np.maximum.accumulate(np.where(np.isnan(values), -np.inf, values)) if len(values) else values
    return np.where(np.isfinite(best), best, np.nan)


def networks_left(one: SearchRecord) -> Floats:
    """The number of networks that a pruning still had open at each evaluation; NaN for archs.

    Example:
        >>> regions = ((frozenset({0, 1}), frozenset({0, 1})), (frozenset({0}), frozenset({0, 1})))
        >>> one = SearchRecord("prune-00", "prune", "", {}, regions, (1, 2), {}, (), (), 2, 0.0, 0)
        >>> networks_left(one).tolist()
        [4.0, 2.0]
    """
    sizes = [np.prod([len(part) for part in c], dtype=float) if is_region(c) else np.nan for c in one.candidates]
    most: dict[int, float] = {}
    for step, size in zip(one.steps, sizes, strict=True):
        most[step] = max(most.get(step, size), size)
    return np.array([most[step] for step in one.steps])


def operations(archs: Sequence[Arch], space: Space | None, decisions: Mapping[str, Sequence[str]]) -> Counter[str]:
    """Count each operation in archs: on edges or nodes of their cells, or else as options of decisions.

    Where decisions have different options, an option is called with its decision, such as ``depth=2``.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> sorted(operations([(3, 0, 1, 0, 0, 1)], NasBench201(), {}).items())
        [('none', 3), ('nor_conv_3x3', 1), ('skip_connect', 2)]
    """
    found: Counter[str] = Counter()
    for arch in archs:
        sketch: Sketch = space.sketch(arch) if isinstance(space, Drawable) else ()
        graphs = [part for part in sketch if isinstance(part, Graph)]
        for graph in graphs:
            found.update(edge.label for edge in (*graph.edges, *graph.absent) if edge.label)
            found.update(node.label for node in graph.nodes if node.role == "operation")
        if not graphs:
            options = zip(decisions.items(), arch, strict=True)
            called = (lambda _, option: option) if len(set(decisions.values())) < 2 else _named
            found.update(called(name, texts[option]) for (name, texts), option in options)
    return found


def _named(decision: str, option: str) -> str:
    """An option beside the decision that it answers: ``2`` alone could be of any."""
    return f"{decision}={option}"


def methods(searches: Sequence[SearchRecord]) -> list[str]:
    """The methods in their order; each has the colour of its place."""
    return list(dict.fromkeys(one.method for one in searches))


def in_words(method: str) -> str:
    """A method's full name.

    Example:
        >>> in_words("rl"), in_words("evolution")
        ('reinforcement learning', 'evolution')
    """
    return METHODS.get(method, method)


def method_legend(searches: Sequence[SearchRecord]) -> Markup:
    """Which colour is which method."""
    return legend((colour(place), in_words(name)) for place, name in enumerate(methods(searches)))


def best_so_far_figure(searches: Sequence[SearchRecord], standing: Sequence[Floats], what: str) -> Markup:
    """The best value that each search had seen after so many evaluations; its winner is the dot at the end."""
    names = methods(searches)
    curves = [best_so_far(values[: len(one.candidates)]) for one, values in zip(searches, standing, strict=True)]
    firsts = [values[len(one.candidates) :] for one, values in zip(searches, standing, strict=True)]
    ends = [float(values[0]) if len(values) else math.nan for values in firsts]  # NaN: no leaderboard yet
    span = (0.0, float(max((len(one.candidates) for one in searches), default=1)) or 1.0)
    floor = bounds([*_finite([curve[len(curve) // 10 :] for curve in curves]), *filter(math.isfinite, ends)])
    curves = [np.maximum(curve, floor[0]) for curve in curves]
    plane = frame(span, floor, x_title="candidates looked at", y_title=f"best {what}")
    marks = []
    for one, curve, end in zip(searches, curves, ends, strict=True):
        shade, count = colour(names.index(one.method)), len(one.candidates)
        if np.isfinite(curve).any():
            marks.append(line(plane, list(range(1, count + 1)), curve.tolist(), shade, step=True, tip=one.name))
        if math.isfinite(end):
            tip = f"{one.name}: its winner, {what} {rounded(end)}, after {count} candidates"
            marks.append(dot(plane, count, end, shade, tip=tip))
    key = method_legend(searches) if len(searches) > 1 else None
    return joined([chart(plane, f"Best {what} against candidates looked at", *marks), key])


def _finite(columns: Sequence[Floats]) -> list[float]:
    return [float(value) for column in columns for value in column if np.isfinite(value)]


def pruning_figure(searches: Sequence[SearchRecord]) -> Markup | None:
    """The number of networks that each pruning had left, from the whole space to one; None where nothing was pruned."""
    columns = [(one, networks_left(one)) for one in searches]
    columns = [(one, left) for one, left in columns if np.isfinite(left).any()]
    if not columns:
        return None
    names = methods(searches)
    span = (0.0, float(max(len(left) for _, left in columns)))
    top = max(_finite([left for _, left in columns]))
    plane = frame(span, (0.8, top * 1.6), y_log=True, x_title="supernets looked at", y_title="networks left")
    marks = []
    for one, left in columns:
        xs, ys = [*range(1, len(left) + 1), len(left) + 0.5], [*left.tolist(), 1.0]
        shade = colour(names.index(one.method))
        marks.append(line(plane, xs, ys, shade, step=True, tip=f"{one.name}: from {top:,.0f} networks to one"))
        marks.append(dot(plane, xs[-1], 1.0, shade))
    return chart(plane, "Networks left in the supernet while it is pruned", *marks)


def operations_figure(groups: Mapping[str, Counter[str]], order: Sequence[str]) -> Markup:
    """Shares of operations as one bar per group (TEACUP, fig. 5); ``order`` gives each operation its colour."""
    shown = list(order[:7])
    rest = len(order) > len(shown)
    names = [*shown, *(["others"] if rest else [])]
    width, row, left = WIDE, 34.0, 16 + max(min(text_width(name, 12), 200) for name in groups)
    marks = []
    for place, (group, counts) in enumerate(groups.items()):
        total = sum(counts.values()) or 1
        x, y = left, 8 + row * place
        marks.append(words(left - 8, y + 11, clipped(group, 202), anchor="end"))
        for number, name in enumerate(names):
            count = counts[name] if name in shown else total - sum(counts[each] for each in shown)
            size = (width - left - 8) * count / total
            tip = f"{group}: {name} {percent(count / total)} ({count} of {total})"
            marks.append(bar(x, y, size, 22, _shade(name, number), tip=tip))
            if size > 46:
                marks.append(words(x + size / 2, y + 11, percent(count / total, 0), class_="on"))
            x += size
    height = 8 + row * len(groups)
    drawn = svg(width, height, "Shares of operations in each group", *marks, class_="chart wide")
    return joined([drawn, legend((f"thick {_shade(name, number)}", name) for number, name in enumerate(names))])


def _shade(name: str, place: int) -> str:
    return "cn" if name in ("none", "others", "zero") else colour(place)
