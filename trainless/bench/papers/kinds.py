"""The kinds of sources that a paper's file can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trainless.bench.papers.clinical import (
    Clinical,
    ClinicalMetric,
    ClinicalPair,
    ClinicalRank,
    ClinicalRidge,
    ClinicalSpread,
    SettingSource,
)
from trainless.bench.papers.kept import KeptCells, KeptSearch
from trainless.bench.papers.pictures import Replaced, Selected, Toy
from trainless.bench.papers.sources import (
    Absent,
    Against,
    Chance,
    FigureSource,
    Forest,
    Guided,
    OnTable,
    Optimum,
    OurRanking,
    Ours,
    Peers,
    PredictorSource,
    RidgeWeight,
    TableColumn,
    TableSearch,
    Theory,
)
from trainless.rankings import Lexicographic, RankProduct, vkdnw_single


def _product(parts: Sequence[str]) -> OurRanking:
    """The product of ranks by proxies, and by VKDNW's own pair of them."""
    known: Mapping[str, Lexicographic] = {"vkdnw-single": vkdnw_single}
    return OurRanking(RankProduct(tuple(known.get(part, part) for part in parts)))


def _within(first: str, within: str, file: str, command: str) -> OurRanking:
    """A proxy within the ties of another, of a file of its own."""
    return OurRanking(Lexicographic(first, within), file, command)


KINDS: Mapping[str, Callable[..., FigureSource]] = {
    **{"ours": Ours, "on": OnTable, "ranking": OurRanking, "product": _product, "within": _within, "peers": Peers},
    **{"column": TableColumn, "optimum": Optimum, "chance": Chance, "against": Against, "absent": Absent},
    **{
        "search": TableSearch,
        "guided": Guided,
        "forest": Forest,
        "ridge": RidgeWeight,
        "theory": Theory,
        "predictor": PredictorSource,
    },
    **{
        "clinical": Clinical,
        "clinical-rank": ClinicalRank,
        "clinical-metric": ClinicalMetric,
        "clinical-pair": ClinicalPair,
        "clinical-ridge": ClinicalRidge,
        "clinical-spread": ClinicalSpread,
        "setting": SettingSource,
        "kept": KeptSearch,
        "kept-cells": KeptCells,
    },
    **{"toy": Toy, "selected": Selected, "replaced": Replaced},
}
