"""Why the ensemble says so, drawn: where it looks, in red what speaks for its answer, and similar training cases.

What is kept of an explanation is small: ``cases_heat`` in the pixels that are shown, or by stretches of a signal,
``cases_top`` the greatest fall of the answer, and of similar training cases their rows, labels, cosines and pictures.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.task import Task
from trainless.core.types import Bytes, Floats
from trainless.learn.explain import Explanation, explain
from trainless.learn.predictor import Predictor
from trainless.report.page import Content, Markup, joined, percent, rounded, short, tag
from trainless.report.training import WIDTH, cuts_of, height_of, picture, reduced, thinned

BANDS = 96  # of a signal
SECONDS = 15.0  # that the explanations of a report may take, unless its design had less time
STRENGTH = 0.65  # of the strongest colour
UP, DOWN = (214, 39, 40), (31, 95, 168)
LEAST = 1e-3  # of a probability, below which no place matters


def kept_heat(heat: Floats) -> Floats:
    """The heat of a case as it is drawn: ``(bands,)`` of a signal, ``(tiles, height, width)`` of images and volumes.

    Example:
        >>> kept_heat(np.ones(500)).shape, kept_heat(np.ones((8, 9))).shape, kept_heat(np.ones((16, 8, 8))).shape
        ((96,), (1, 8, 9), (5, 8, 8))
    """
    if heat.ndim == 1:
        ends = np.linspace(0, len(heat), min(BANDS, len(heat)) + 1).astype(int)
        return np.asarray(np.add.reduceat(heat, ends[:-1]) / np.diff(ends))
    stack = heat[None] if heat.ndim == 2 else heat[cuts_of(len(heat))]
    return thinned(stack[..., None])[..., 0]


def explained(
    predictor: Predictor, task: Task, cases: npt.NDArray[np.integer], labels: Any, seconds: float = SECONDS
) -> dict[str, npt.NDArray[Any]]:
    """Explain some test cases, in their order as many as the time allows; the others have NaN for their heat."""
    part, end, found = task.part("test"), time.monotonic() + seconds, list[Explanation]()
    for case in cases.tolist():
        if found and time.monotonic() > end:
            break
        x = np.asarray(part.x[part.first[np.array([case])]])[0]
        found.append(explain(predictor, x, 0 if labels is None else int(labels[case])))
    if not found:
        return {}
    heats = [kept_heat(one.heat) for one in found]
    missing = [np.full_like(heats[0], np.nan)] * (len(cases) - len(heats))
    arrays = {"cases_heat": np.stack([*heats, *missing]), "cases_top": np.array([one.heat.max() for one in found])}
    kept = predictor.neighbours
    if kept is not None and len(found[0].similar):
        places = np.stack([one.similar for one in found])
        arrays |= {"similar_rows": kept.rows[places], "similar_y": kept.y[places]}
        arrays["similar_cosines"] = np.stack([one.cosines for one in found])
        train = task.part("train")
        arrays["similar_x"] = reduced(train, kept.rows[places].reshape(-1), task.dims)
        if train.names is not None:
            arrays["similar_names"] = np.asarray(train.names)[kept.rows[places]].astype(str)
    return arrays


def overlay(kept: npt.NDArray[Any], heat: Floats, words: str) -> Markup:
    """A kept sample with its heat: red speaks for the answer, blue against it; the strongest place is the deepest."""
    if kept.ndim == 2:
        return picture(kept, words, bands(heat, height_of(len(kept))))
    return picture(coloured(kept, heat), words)


def coloured(kept: Bytes, heat: Floats) -> Bytes:
    """Tiles in colour, red where the heat is above zero and blue where it is below."""
    top = float(np.abs(heat).max()) or 1.0
    share = (STRENGTH * np.abs(heat) / top)[..., None]
    plain = np.broadcast_to(kept, (*kept.shape[:3], 3)).astype(np.float64)
    shade = np.where(heat[..., None] > 0, np.array(UP), np.array(DOWN))
    return ((1 - share) * plain + share * shade).round().astype(np.uint8)


def bands(heat: Floats, high: float) -> Markup:
    """Coloured bands behind a signal."""
    top, wide = float(np.abs(heat).max()) or 1.0, (WIDTH - 4) / len(heat)
    marks = []
    for place, value in enumerate(heat.tolist()):
        share = STRENGTH * abs(value) / top
        if share > 0.02:
            fill = "#{:02x}{:02x}{:02x}".format(*(UP if value > 0 else DOWN))
            box = {"x": 2 + place * wide, "y": 0.0, "width": wide + 0.2, "height": high}
            marks.append(tag("rect", **box, fill=fill, fill_opacity=short(share)))
    return joined(marks)


def why(shown: Mapping[str, npt.NDArray[Any]], place: int, names: Sequence[str], label: int) -> list[Content]:
    """What a card says of where the ensemble looked and of similar training cases; nothing where it is not known."""
    heat = shown.get("cases_heat")
    if heat is None or np.isnan(heat[place]).any():
        return []
    what = f"the probability of {names[label]}" if names else "the value"
    parts: list[Content] = [
        overlay(shown["cases_x"][place], heat[place], "Where it looked"),
        tag("p", looked_in_words(float(shown["cases_top"][place]), what, bool(names)), class_="why"),
    ]
    if "similar_rows" in shown:
        rows, labels, cosines = (shown[f"similar_{kind}"][place] for kind in ("rows", "y", "cosines"))
        pictures = shown["similar_x"].reshape(len(shown["similar_rows"]), len(rows), *shown["similar_x"].shape[1:])
        figures = []
        for number, (row, y, cosine) in enumerate(zip(rows, labels, cosines, strict=True)):
            named = names[int(y)] if names else rounded(float(np.reshape(y, -1)[0]))
            case = shown["similar_names"][place][number] if "similar_names" in shown else int(row)
            words = f"{named}, training case {case}, similarity {cosine:.2f}"
            kept = pictures[place][number]
            middle = kept if kept.ndim == 2 else kept[len(kept) // 2 : len(kept) // 2 + 1]
            figures.append(tag("div", picture(middle, words), tag("span", words)))
        parts.append(tag("h4", "The most similar training cases"))
        parts.append(tag("div", joined(figures), class_="grid similar"))
    return parts


def looked_in_words(top: float, what: str, classes: bool) -> str:
    """How much the answer hangs on the deepest place.

    Example:
        >>> looked_in_words(0.25, "the probability of a", True).replace(chr(160), " ")
        'Covering the reddest place lowers the probability of a by 25 %; blue speaks against it.'
        >>> looked_in_words(-3.0, "the value", False)
        'No place speaks for the value being so high: covering any one raises it.'
    """
    if classes and top < LEAST:
        return f"No place matters by itself: covering any one hardly lowers {what}."
    if top <= 0:
        return f"No place speaks for {what} being so high: covering any one raises it."
    by = percent(top, 0) if classes else rounded(top)
    return f"Covering the reddest place lowers {what} by {by}; blue speaks against it."


def png_of(tiles: Bytes) -> bytes:
    """Tiles beside each other as one picture, small ones enlarged."""
    from PIL import Image

    wide = np.concatenate(list(tiles), axis=1)
    times = max(1, 224 // wide.shape[0])
    file = io.BytesIO()
    Image.fromarray(np.kron(wide, np.ones((times, times, 1), np.uint8))).save(file, "PNG")
    return file.getvalue()
