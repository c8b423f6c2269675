"""The section on the search: how it went, what it found, what the winners are made of, where it walked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from trainless.core.arch import Arch, is_region
from trainless.proxies import registry as proxies
from trainless.report.contents import Contents, SearchRecord
from trainless.report.draw import svg as draw_svg
from trainless.report.figures_search import (
    best_so_far_figure,
    in_words,
    landscape,
    landscape_figure,
    method_legend,
    methods,
    operations,
    operations_figure,
    pruning_figure,
    standings,
    wanted,
)
from trainless.report.markup import Content, Markup, figure, joined, table, tag
from trainless.report.page import Section, drawn, grid
from trainless.spaces.protocol import Counted

MOST_CELLS, MOST_PANELS = 12, 6
ASPECTS = MappingProxyType(
    {
        "loss_ntk": "trainability",
        "ntk_condition": "trainability",
        "trainability": "trainability",
        "isometry": "trainability",
        "length": "expressivity",
        "linear_regions": "expressivity",
        "expressivity": "expressivity",
        "ntk_mse": "generalisation",
        "zico": "convergence and generalisation",
        "loss_synflow": "saliency",
        "synflow": "saliency",
    }
)


def search_section(contents: Contents) -> Section:
    """How the architectures were found."""
    searches = contents.searches
    what = _signal(searches[0])
    judge = what if len(searches[0].directions) == 1 else f"the {what}"
    standing = standings(searches)
    names = ", ".join(in_words(method) for method in methods(searches))
    text = (
        f"{len(searches)} {'search' if len(searches) == 1 else 'searches'} ({names}) looked at candidates of the space"
        f" {contents.summary['plan']['space'] if contents.summary else contents.settings['space']}. A candidate is"
        f" built, looked at on a few samples as it is before any training, and judged by {judge}; higher is better."
    )
    steps = drawn(
        "Best so far",
        best_so_far_figure(searches, standing, what),
        _steps_words(searches),
    )
    pruned = drawn(
        "Pruning",
        pruning_figure(searches),
        "Pruning starts from a supernet with every option and takes away what matters least, until one is left.",
    )
    parts: list[Content] = [
        tag("p", text),
        grid(steps, pruned),
        tag("h3", "What the winners look like"),
        _cells(contents),
    ]
    parts.append(_operations(contents))
    return Section("search", "The search", (*parts, *_landscape(contents)))


def _steps_words(searches: Sequence[SearchRecord]) -> str:
    text = "The best that was seen so far; a dot is the winner at the end. What lies lower is drawn at the edge."
    if any(is_region(candidate) for one in searches for candidate in one.candidates[:1]):
        text += " Pruning has no single network before its end."
    return text + (" Seeds differ between searches and shift the scores a little." if len(searches) > 1 else "")


def _signal(one: SearchRecord) -> str:
    if one.ranking:
        return f"{one.ranking} composite"
    return next(iter(one.directions)) if len(one.directions) == 1 else "sum of ranks"


def chosen(contents: Contents) -> list[tuple[Arch, str]]:
    """The architectures that were chosen, each once, and where they come from."""
    found: dict[Arch, list[str]] = {}
    if contents.summary and contents.space is not None:
        for member in contents.summary["members"]:
            if member["search"] != "single":
                arch = contents.space.parse(member["arch"])
                found.setdefault(arch, []).append(f"member {member['name']}, {member['search']}")
    elif not contents.summary:
        for one in contents.searches:
            for place, arch in enumerate(one.best[:6]):
                found.setdefault(arch, []).append(f"number {place + 1} of {one.name}")
    return [(arch, "; ".join(who)) for arch, who in found.items()]


def _cells(contents: Contents) -> Markup:
    cells = chosen(contents)
    if contents.space is None or not cells:
        texts = [member["arch"] for member in contents.summary.get("members", ())]
        return tag("ul", *(tag("li", tag("code", text)) for text in dict.fromkeys(texts)))
    figures = []
    for arch, who in cells[:MOST_CELLS]:
        picture = tag("div", Markup(draw_svg(contents.space, arch, compact=True)), class_="cell")
        figures.append(tag("figure", picture, tag("figcaption", who, _counts(contents, arch))))
    more = len(cells) - MOST_CELLS
    rest = tag("p", f"{more} more are in the tables at the end.", class_="sub") if more > 0 else None
    return joined([grid(*figures), rest])


def _counts(contents: Contents, arch: Arch) -> str:
    if contents.task is None or not isinstance(contents.space, Counted):
        return ""
    counts = contents.space.counts(arch, contents.task)
    return f" – {counts.params:,} parameters, {counts.flops / 1e6:,.2f} M multiply–accumulates"


def _operations(contents: Contents) -> Markup | None:
    groups: dict[str, Counter[str]] = {}
    looked = [c for one in contents.searches for c in one.candidates if not is_region(c)]
    groups["all that was looked at"] = _tally(looked, contents)  # type: ignore[arg-type]
    for method in origins(contents):
        archs = _winners(contents, method)
        if archs:
            groups[f"{in_words(method)} ({len(archs)})"] = _tally(archs, contents)
    groups = {name: counts for name, counts in groups.items() if counts}
    total = sum(groups.values(), Counter[str]())
    order = list(
        dict.fromkeys(option for options in contents.decisions.values() for option in options if total[option])
    )
    order += sorted(set(total) - set(order))
    if not groups or len(order) < 2:
        return None
    order = sorted(order, key=lambda name: -total[name])[:7] if len(order) > 7 else order
    picture = operations_figure(groups, [*order, *(name for name in total if name not in order)])
    return drawn(
        "What the winners are made of",
        picture,
        "Shares of operations in the chosen architectures of each method (how many in brackets), and in everything"
        " that was looked at (after TEACUP, fig. 5). A share that grows from the first bar is what these data prefer.",
    )


def origins(contents: Contents) -> list[str]:
    """What found members: the methods of the searches in their order, then any other origin."""
    members = [member["search"].partition("-")[0] for member in contents.summary.get("members", ())]
    return list(dict.fromkeys([*methods(contents.searches), *(name for name in members if name != "single")]))


def _winners(contents: Contents, method: str) -> list[Arch]:
    """The members that come from a method, or the first ten of a search alone."""
    if not contents.summary:
        return [arch for one in contents.searches if one.method == method for arch in one.best[:10]]
    if contents.space is None:
        return [one.best[0] for one in contents.searches if one.method == method and one.best]
    members = contents.summary["members"]
    return [contents.space.parse(m["arch"]) for m in members if m["search"].partition("-")[0] == method]


def _tally(archs: Sequence[Arch], contents: Contents) -> Counter[str]:
    return operations(archs, contents.space, contents.decisions)


def _landscape(contents: Contents) -> list[Content]:
    searches = [one for one in contents.searches if one.best]
    sizes = [len(options) for options in contents.decisions.values()]
    plane = landscape(searches, sizes) if searches else None
    if plane is None:
        return []
    panels = []
    scores = sorted(wanted(searches[0]).items(), key=lambda each: each[0] not in ASPECTS)
    for name, higher in scores[:MOST_PANELS]:
        aspect = ASPECTS.get(name, "")
        drawing = landscape_figure(
            plane, name, plane.values[name], higher=higher, searches=searches, title=f"Landscape of {name}"
        )
        caption = f"{_meaning(name)} Here {'higher' if higher else 'lower'} is better."
        panels.append(drawn(aspect.capitalize() or name, drawing, caption, name if aspect else ""))
    text = (
        f"All {len(plane.archs):,} different architectures on the plane on which they differ most (principal components"
        " of their choices, after TEG-NAS). The stronger the colour of the ground, the better the score is there. Lines"
        " are the ways of the searches from their start (ring) to their winner (star): the mean of what they looked at."
    )
    return [tag("h3", "The landscape"), tag("p", text), method_legend(searches), grid(*panels)]


def _meaning(name: str) -> str:
    return f"{proxies[name].summary.rstrip('.')}." if name in proxies else f"{name}."


def searches_table(contents: Contents) -> tuple[Sequence[str], list[Sequence[Content]]]:
    """Every search with its winner and its scores."""
    names = list(contents.searches[0].directions)
    head = ["search", "searcher", "seed", "candidates", "seconds", *names, "winner"]
    rows: list[Sequence[Content]] = []
    for one in contents.searches:
        values: Mapping[str, float] = one.best_values[0] if one.best_values else {}
        text = contents.space.format(one.best[0]) if contents.space and one.best else str(list(one.best[:1]))
        scores = [figure(values.get(name)) for name in names]
        counts = [str(one.seed), f"{one.evaluations:,}", f"{one.seconds:.1f}"]
        rows.append([one.name, one.searcher, *counts, *scores, tag("code", text)])
    return head, rows


def settings_section(contents: Contents) -> Section:
    """What it takes to do it again, and to check it."""
    head, rows = searches_table(contents)
    parts: list[Content] = [table(head, rows, caption="Searches and the scores of their winners")]
    if contents.summary:
        parts.append(_members(contents))
        parts.append(_details("Calibration", contents.ensemble, ("task",)))
        parts.append(_details("Plan", contents.summary["plan"], ("searches", "version")))
    else:
        parts.append(_leaderboard(contents))
    parts.append(_details("Settings and versions", contents.settings, ("decisions", "format")))
    return Section("exact", "Exact numbers", tuple(parts))


def _members(contents: Contents) -> Content:
    rows: list[Sequence[Content]] = []
    test = contents.test
    names = contents.ensemble["members"]
    for member in contents.summary["members"]:
        value = None
        if test is not None and member["folder"] in names and member["search"] != "single":
            value = test["members"][test["main"]][names.index(member["folder"])]
        rows.append(
            [
                member["name"],
                member["search"],
                str(member["seed"]),
                str(member["epochs"]),
                figure(member["valid_loss"]),
                figure(value),
                f"{member['seconds']:.1f}",
                tag("code", member["arch"]),
            ]
        )
    main = "test" if test is None else f"test {test['main'].replace('_', ' ')}"
    head = ["member", "search", "seed", "epochs", "validation loss", main, "seconds", "architecture"]
    return table(head, rows, caption="Trained members")


def _leaderboard(contents: Contents) -> Content:
    one = contents.searches[0]
    names = list(one.directions)
    rows: list[Sequence[Content]] = []
    for place, (arch, values) in enumerate(zip(one.best, one.best_values, strict=True), start=1):
        text = contents.space.format(arch) if contents.space else str(list(arch))
        rows.append([str(place), *(figure(values.get(name)) for name in names), tag("code", text)])
    return table(["rank", *names, "architecture"], rows, caption="The best candidates")


def _details(title: str, data: Mapping[str, object], without: Sequence[str]) -> Content:
    rows = [[name, tag("code", value)] for name, value in _flat(data) if name.partition(".")[0] not in without]
    return tag("details", tag("summary", title), table(["setting", "value"], rows))


def _flat(data: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names and values.

    Example:
        >>> list(_flat({"a": {"b": 1}, "c": None}))
        [('a.b', '1'), ('c', '–')]
    """
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            text = "–" if value is None or value in ("", {}, []) else str(value)
            yield f"{prefix}{name}", text if len(text) <= 400 else text[:400] + "…"
