"""The section for an engineer: exact numbers, settings and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainless.report.about_search import searches_table
from trainless.report.contents import Contents
from trainless.report.markup import Content, figure, table, tag
from trainless.report.page import Section


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
