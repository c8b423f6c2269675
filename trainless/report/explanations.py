"""Explanations of new cases, in a folder: one page, the same as JSON, and a picture of each case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import strict, write_atomic
from trainless.core.opening import make_folder, without_links
from trainless.core.task import Part
from trainless.core.types import Array, Floats, Index, Json
from trainless.learn.explain import Explanation, explain
from trainless.learn.predictor import Prediction, Predictor, class_names
from trainless.report.doubt import in_doubt
from trainless.report.explained import bands, coloured, kept_heat, looked_in_words, overlay, png_of
from trainless.report.page import Content, Section, grid, joined, page, percent, rounded, table, tag
from trainless.report.training import WIDTH, height_of, picture, tiles, trace

MOST = 20  # cases that are explained
PAGE, DATA = "explanations.html", "explanations.json"
_STYLE = "<style>.trace{fill:none;stroke:#1c2330;stroke-width:1.1}</style>"


def write_explanations(
    folder: Path,
    predictor: Predictor,
    said: Prediction,
    x: Array,
    names: Sequence[str | int],
    records: Index | None = None,
) -> int:
    """Explain the least sure cases into a folder, at most twenty; says how many.

    Args:
        folder: Where to write ``explanations.html``, ``explanations.json`` and a picture of each case.
        predictor: The ensemble.
        said: Its answers.
        x: The raw inputs.
        names: The cases' names.
        records: The recording that each input is a window of, where they are such; its first window is explained.
    """
    arrays = {name: value for name, value in vars(said).items() if value is not None}
    first = Part(x, np.zeros(len(x)), records=records).first
    cards: list[Content] = []
    told: list[Json] = []
    try:
        folder = without_links(folder)
        make_folder(folder)
        for number, case in enumerate(in_doubt(arrays, MOST).tolist()):
            sample = np.asarray(x[first[case]], np.float64)
            found = explain(predictor, sample, 0 if said.label is None else int(said.label[case]))
            about = _about(predictor, said, case, names[case], found)
            signal = sample.ndim <= 2
            about["picture"] = f"case-{number:02d}.{'svg' if signal else 'png'}"
            kept = trace(sample.reshape(-1, sample.shape[-1])) if signal else tiles(sample)
            write_atomic(folder / about["picture"], drawn_case(sample, found, str(names[case]))[1])
            cards.append(_card(predictor, about, kept, found))
            told.append(about)
        write_atomic(folder / DATA, json.dumps(strict(told), ensure_ascii=False, allow_nan=False, indent=1))
        text = f"The {len(told)} of {len(first):,} cases that it is least sure of, first the least sure."
        body = (tag("p", text), grid(*cards, size="small"))
        title, about_it = f"{predictor.task.name}: why it says so", "Where it looked, similar cases and votes"
        write_atomic(folder / PAGE, page(title, about_it, [Section("cases", "Cases", body)], ""))
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror}): give another --explain") from error
    return len(told)


def _about(predictor: Predictor, said: Prediction, case: int, name: str | int, found: Explanation) -> Json:
    """An explanation as plain data."""
    classes, kept = class_names(predictor.task.target), predictor.neighbours
    about: dict[str, Any] = {"case": name}
    if classes:
        p, votes = said.mean[case], np.bincount(said.members[:, case].argmax(1), minlength=len(classes))
        about |= {"answer": classes[found.label], "probability": float(p[found.label])}
        about["probabilities"] = dict(zip(classes, p.tolist(), strict=True))
        about["votes"] = {classes[k]: int(votes[k]) for k in np.argsort(-votes, kind="stable") if votes[k]}
    else:
        about |= {"answer": float(said.mean[case, 0]), "members": said.members[:, case, 0].tolist()}
    about["similar"] = [
        {
            "training_case": int(kept.rows[place]),
            **({"class": classes[int(kept.y[place])]} if classes else {"value": np.reshape(kept.y[place], -1)[0]}),
            "similarity": float(cosine),
        }
        for place, cosine in zip(found.similar, found.cosines, strict=True)
        if kept is not None
    ]
    return {**about, "heat_shape": list(found.heat.shape), "heat": found.heat}


def _card(predictor: Predictor, about: Json, kept: Any, found: Explanation) -> Content:
    classes = class_names(predictor.task.target)
    heat = kept_heat(found.heat)
    answer = f"{about['answer']} ({percent(about['probability'])})" if classes else rounded(about["answer"])
    facts = {"it says": answer}
    if classes:
        facts["votes"] = ", ".join(f"{name} {count}" for name, count in about["votes"].items())
    listed = joined(part for name, value in facts.items() for part in (tag("dt", name), tag("dd", value)))
    what = f"the probability of {about['answer']}" if classes else "the value"
    rows: list[list[Content]] = [
        [str(one["training_case"]), str(one.get("class", one.get("value"))), rounded(one["similarity"])]
        for one in about["similar"]
    ]
    similar = table(["similar training case", "it is", "similarity"], rows) if rows else None
    looked = tag("p", looked_in_words(float(found.heat.max()), what, bool(classes)), class_="why")
    plain = picture(kept, f"Case {about['case']}") if kept.ndim != 2 else None
    drawn = [plain, overlay(kept, heat, "Where it looked")]
    return tag("figure", tag("h3", f"Case {about['case']}"), *drawn, tag("dl", listed), looked, similar, class_="case")


def drawn_case(sample: Floats, found: Explanation, name: str) -> tuple[str, bytes]:
    """A case with its heat as a picture: its media type and its bytes, SVG of a signal and PNG of all else."""
    heat = kept_heat(found.heat)
    if sample.ndim > 2:
        return "image/png", png_of(coloured(tiles(sample), heat))
    kept = trace(sample.reshape(-1, sample.shape[-1]))
    high = height_of(len(kept))
    text = picture(kept, f"Where it looked in {name}", bands(heat, high))
    size = f'width="{WIDTH:.0f}" height="{high:.0f}"'
    opened = text.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" {size} ', 1)
    return "image/svg+xml", opened.replace(">", f">{_STYLE}", 1).encode()
