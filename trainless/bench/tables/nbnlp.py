"""NAS-Bench-NLP: recurrent cells with their perplexities."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from trainless.bench.tables.files import DataFile, columns_of
from trainless.bench.tables.table import ColumnKey, Table, own_notation
from trainless.core.types import Floats

METRICS = DataFile(
    "nbnlp/nbnlp_ptb_params_metrics.csv.gz",
    "NAS-Bench-NLP's perplexities on PTB and parameter counts of 12,342 recurrent cells",
    "https://github.com/fmsnew/nas-bench-nlp-release",
    ("recepie_id", "log name"),
)
RECIPES = DataFile(
    "nbnlp/nbnlp_recipes_345.json",
    "the full recipes of 345 recurrent cells of NAS-Bench-NLP, with losses on WikiText-2",
    "https://github.com/fmsnew/nas-bench-nlp-release",
)
_PTB = {ColumnKey("ptb", "perplexity", 50): "perplexity", ColumnKey("ptb", "params"): "total paramters"}
_WT2 = {
    ColumnKey("wikitext2", "valid_loss", 50): "wt2_best_val_loss",
    ColumnKey("wikitext2", "test_loss", 50): "wt2_best_test_loss",
    ColumnKey("wikitext2", "params"): "num_params_wt2",
    ColumnKey("wikitext2", "train_time", 50): "wall_time_s",
}


def open_nbnlp() -> Table:
    """Every cell with a perplexity or a recipe: its recipe as JSON where it is known, else its number.

    Losses and perplexities are the lower the better; ``params`` are in millions. A cell is found by its number too.
    """
    columns, recipes = columns_of(METRICS), recipe_entries()
    numbers = dict.fromkeys(columns.strings("recepie_id")) | dict.fromkeys(str(e["recepie_id"]) for e in recipes)
    written = {str(entry["recepie_id"]): notation(entry["recepie"]) for entry in recipes}
    rows = {number: row for row, number in enumerate(numbers)}
    archs = tuple(written.get(number, number) for number in numbers)
    groups = {frozenset(_PTB): partial(_perplexities, rows), frozenset(_WT2): partial(_losses, rows)}
    return Table("nbnlp", "recurrent", archs, groups, key=_key, numbers=rows)


def recipe_entries() -> list[dict[str, Any]]:
    """The recipes with everything that is known of them."""
    entries: list[dict[str, Any]] = json.loads(RECIPES.locate().read_text())
    return entries


def notation(recipe: Mapping[str, Any]) -> str:
    """A recipe as one line of JSON in the order of its nodes."""
    return json.dumps(recipe, separators=(",", ":"))


def _key(text: str) -> str:
    """JSON whose nodes come in another order is the same cell."""
    if not text.lstrip().startswith("{"):
        return own_notation(text)
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True)
    except json.JSONDecodeError:
        return own_notation(text)


def _perplexities(rows: Mapping[str, int]) -> Mapping[ColumnKey, Floats]:
    columns = columns_of(METRICS)
    places = [rows[number] for number in columns.strings("recepie_id")]
    found = {key: np.full(len(rows), np.nan) for key in _PTB}
    for key, name in _PTB.items():
        found[key][places] = columns.floats(name)
    for entry in recipe_entries():
        place, known = rows[str(entry["recepie_id"])], found[ColumnKey("ptb", "perplexity", 50)]
        if np.isnan(known[place]) and entry["ptb_perplexity"] is not None:
            known[place] = entry["ptb_perplexity"]
    found[ColumnKey("ptb", "params")] /= 1e6
    return found


def _losses(rows: Mapping[str, int]) -> Mapping[ColumnKey, Floats]:
    found = {key: np.full(len(rows), np.nan) for key in _WT2}
    for entry in recipe_entries():
        for key, name in _WT2.items():
            if entry[name] is not None:
                found[key][rows[str(entry["recepie_id"])]] = entry[name]
    found[ColumnKey("wikitext2", "params")] /= 1e6
    return found
