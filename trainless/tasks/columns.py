"""A table's columns as numbers: words that repeat become zeros and ones, and what is to be left out is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from trainless.core.errors import InputError
from trainless.core.task import valued
from trainless.core.types import Array

MOST_WORDS = 12  # different words of a column
Words: TypeAlias = tuple[tuple[str, ...], ...]
"""Columns of words: the name of each, and then its different words in order."""


def shown(names: Sequence[object] | pd.Index) -> str:
    """The first names of a list, for a message."""
    return ", ".join(str(name) for name in names[:6]) + (f", … ({len(names)} in all)" if len(names) > 6 else "")


def without(table: pd.DataFrame, ignored: Sequence[str], path: Path) -> pd.DataFrame:
    """A table without the columns that are to be left out."""
    missing = [name for name in ignored if name not in map(str, table.columns)]
    if missing:
        raise InputError(f"{path.name} has no column {missing[0]!r} to ignore; it has {shown(table.columns)}")
    return table[[name for name in table.columns if str(name) not in set(ignored)]]


def words_in(table: pd.DataFrame, path: Path) -> Words:
    """The columns of words with their different words; one with too many, such as names and dates, is refused.

    Example:
        >>> words_in(pd.DataFrame({"age": [61, 54], "sex": ["m", "f"]}), Path("a.csv"))
        (('sex', 'f', 'm'),)
    """
    found = {str(name): _texts(table[name]) for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])}
    many = {name: texts for name, texts in found.items() if len(texts) > MOST_WORDS}
    if many:
        name, texts = next(iter(many.items()))
        raise InputError(
            f"{path.name} has columns that are not numbers: {shown(list(many))} (in {name} {len(texts)} different"
            f" words, such as {texts[0]!r}); leave them out with --ignore {shlex.quote(','.join(many))} (in Python"
            f" ignore=…), write them as numbers or as at most {MOST_WORDS} different words, or name the label and the"
            " group (--label, --group)"
        )
    return tuple((name, *texts) for name, texts in found.items())


def _texts(values: pd.Series) -> list[str]:
    return sorted({str(value) for value in values.dropna()})


def values_of(table: pd.DataFrame, words: Words, path: Path) -> Array:
    """Numbers ``(rows, values)``: a column of two words is 1 for the second, one of more has a value for each.

    Example:
        >>> table = pd.DataFrame({"age": [61, 54], "sex": ["m", "f"], "ward": ["a", "c"]})
        >>> values_of(table, (("sex", "f", "m"), ("ward", "a", "b", "c")), Path("a.csv")).tolist()
        [[61.0, 1.0, 1.0, 0.0, 0.0], [54.0, 0.0, 0.0, 0.0, 1.0]]
    """
    known = {name: texts for name, *texts in words}
    odd = [str(name) for name in table.columns if str(name) not in known and not _is_numbers(table[name])]
    if odd:
        raise InputError(f"{path.name} has columns that are not numbers: {shown(odd)}; expected numbers there")
    with np.errstate(over="ignore"):  # infinite values are refused later
        if not words:
            return table.to_numpy(np.float32)
        found = []
        for name, values in table.items():
            texts = known.get(str(name))
            found.append(values.to_numpy(np.float32)[:, None] if texts is None else _coded(values, texts, path))
    return np.concatenate(found, 1)


def _is_numbers(values: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values))


def _coded(values: pd.Series, texts: Sequence[str], path: Path) -> Array:
    given = values.dropna().astype(str)
    unknown = sorted(set(given) - set(texts))
    if unknown:
        raise InputError(
            f"{path.name} has {unknown[0]!r} in the column {values.name}; expected one of {', '.join(texts)}, as in the"
            " training data"
        )
    return np.stack([(values.astype(str) == text).to_numpy(np.float32) for text in valued(texts)], 1)


def notes_of(words: Words) -> list[str]:
    """How each column of words was read.

    Example:
        >>> notes_of((("sex", "f", "m"),))
        ["column 'sex' was read as 1 for m and 0 for f"]
    """
    return [f"column {name!r} was read as {_read_as(texts)}" for name, *texts in words]


def _read_as(texts: Sequence[str]) -> str:
    return f"1 for {texts[1]} and 0 for {texts[0]}" if len(texts) == 2 else f"0 or 1 for each of {', '.join(texts)}"
