"""Epsilon: "Trainless model performance estimation based on random weights initialisations"."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trainless.bench.papers.definition import Definition, Figures, Source, Where, by_task
from trainless.bench.papers.sources import Absent, Chance, Known, Ours, Peers, Searched

SIX = ("spearman", "spearman_top10%", "kendall", "kendall_top10%", "top10%_in_top10%", "top64_in_top5%")
AUTHORS = Peers("epsilon", "epsilon")
LEFT_OUT = (
    "The authors' release has no score for 6,399 of 15,625 networks, and the paper leaves them out; the column"
    " 'failures last' counts them."
)
INPUTS = "Our scores are of CIFAR-10 images whatever the accuracies' dataset."


def _six(task: str, *values: float) -> dict[str, dict[str, float]]:
    """Figures as printed; the share of the top tenth is printed in percent."""
    figures = dict(zip(SIX, values, strict=True))
    figures["top10%_in_top10%"] /= 100
    return {task: figures}


def _rows(task: str, printed: Mapping[str, tuple[float, ...]]) -> tuple[Figures, ...]:
    return tuple(Figures(name, Ours(name), _six(task, *values)) for name, values in printed.items())


TABLE_1 = Definition(
    "epsilon:table1",
    "Epsilon, table 1: NAS-Bench-201",
    (
        *_rows(
            "cifar10",
            {
                "synflow": (0.74, 0.18, 0.54, 0.12, 45.75, 29),
                "grad_norm": (0.59, -0.36, 0.43, -0.21, 30.26, 1),
                "grasp": (0.51, -0.35, 0.36, -0.21, 30.77, 3),
                "snip": (0.60, -0.36, 0.44, -0.21, 30.65, 1),
                "fisher": (0.36, -0.38, 0.26, -0.24, 4.99, 0),
                "jacov": (-0.73, 0.15, 0.55, -0.10, 24.72, 11),
                "epsilon": (0.87, 0.55, 0.70, 0.40, 67.39, 59),
            },
        ),
        Figures("epsilon, the authors' scores", AUTHORS, _six("cifar10", 0.87, 0.55, 0.70, 0.40, 67.39, 59)),
        *_rows(
            "cifar100",
            {
                "synflow": (0.76, 0.42, 0.57, 0.29, 49.71, 45),
                "grad_norm": (0.64, -0.09, 0.47, -0.05, 35.00, 0),
                "grasp": (0.55, -0.10, 0.39, -0.06, 35.32, 3),
                "snip": (0.64, -0.08, 0.47, -0.05, 35.25, 0),
                "fisher": (0.39, -0.15, 0.28, -0.10, 4.22, 0),
                "jacov": (-0.70, 0.07, 0.54, 0.05, 22.11, 7),
                "epsilon": (0.90, 0.59, 0.72, 0.43, 81.24, 62),
            },
        ),
        *_rows(
            "ImageNet16-120",
            {
                "synflow": (0.75, 0.55, 0.56, 0.39, 43.57, 26),
                "grad_norm": (0.58, 0.12, 0.43, 0.09, 31.29, 0),
                "grasp": (0.55, 0.10, 0.39, 0.07, 31.61, 2),
                "snip": (0.58, 0.13, 0.43, 0.09, 31.16, 0),
                "fisher": (0.33, 0.02, 0.25, 0.01, 4.61, 0),
                "jacov": (0.70, 0.08, 0.53, 0.05, 29.63, 10),
                "epsilon": (0.85, 0.53, 0.67, 0.37, 71.51, 59),
            },
        ),
        Figures("epsilon, the authors' scores", AUTHORS, _six("ImageNet16-120", 0.85, 0.53, 0.67, 0.37, 71.51, 59)),
        Figures("grad_sign", Ours("gradsign"), by_task(("spearman",), 0.77, 0.79, 0.78)),
    ),
    notes=(LEFT_OUT, INPUTS, "Two of the paper's jacov figures are printed with a minus sign of the raw correlation."),
)

_PRINTED_HEADLINE = {
    "cifar10": {"spearman": 0.87, "kendall": 0.70, "top10%_in_top10%": 0.6739, "best_of_1000": 93.86},
    "ImageNet16-120": {"spearman": 0.85, "kendall": 0.67, "top10%_in_top10%": 0.7151, "best_of_1000": 45.42},
}
HEADLINE = Definition(
    "epsilon:headline",
    "Epsilon's headline, and what is left of it when networks without a score count",
    (
        Figures("epsilon, the authors' scores", AUTHORS, _PRINTED_HEADLINE),
        Figures("epsilon, ours in double precision", Ours("epsilon"), _PRINTED_HEADLINE),
    ),
    notes=(LEFT_OUT,),
)


def _selected(label: str, source: Source, count: int, valid: str, test: str) -> tuple[Figures, ...]:
    names = (f"best_of_{count}", f"best_of_{count}_std")
    rows = []
    for metric, text in (("valid", valid), ("test", test)):
        numbers = [float(part) for pair in text.split() for part in pair.split("±")]
        rows.append(Figures(f"{label}, {metric}", source, by_task(names, *numbers), metric=metric))
    return tuple(rows)


_PRINTED = {
    "naswot": ("89.69±0.73 69.86±1.21 43.95±2.05", "92.96±0.81 69.98±1.22 44.44±2.10"),
    "synflow": ("89.91±0.83 70.35±2.25 41.73±3.91", "90.12±0.78 70.37±2.08 42.11±4.02"),
    "grad_norm": ("88.13±2.35 66.35±5.45 33.88±11.46", "88.42±2.28 66.48±5.32 33.90±11.74"),
    "grasp": ("87.85±2.12 65.36±5.57 32.23±10.95", "88.17±2.04 65.45±5.48 32.20±11.23"),
    "snip": ("87.47±2.19 64.61±5.52 30.65±11.32", "87.81±2.12 64.74±5.43 30.55±11.55"),
    "fisher": ("87.01±2.31 63.54±5.69 26.70±10.83", "87.36±2.23 63.67±5.62 29.56±10.83"),
    "jacov": ("88.17±1.67 67.73±2.69 31.58±10.65", "88.45±1.69 67.90±2.77 31.44±10.83"),
    "epsilon": ("91.03±0.42 71.76±0.90 45.11±0.99", "93.86±0.43 71.79±0.86 45.42±1.21"),
}
_OPTIMAL = ("91.34±0.18 72.53±0.53 45.93±0.51", "94.20±0.13 72.84±0.41 46.59±0.34")
_RANDOM = ("84.11±11.71 61.57±11.305 33.97±8.68", "87.40±11.94 61.67±11.35 33.67±8.98")
TABLE_2 = Definition(
    "epsilon:table2",
    "Epsilon, table 2: the best by score of N random networks of NAS-Bench-201",
    (
        *_selected("Optimal (N=1000)", Known(), 1000, *_OPTIMAL),
        *_selected("Random", Chance(), 1000, *_RANDOM),
        *(row for name, text in _PRINTED.items() for row in _selected(f"{name} (N=1000)", Ours(name), 1000, *text)),
        *_selected("epsilon, the authors' scores (N=1000)", AUTHORS, 1000, *_PRINTED["epsilon"]),
        *_selected(
            *("grad_sign (N=100)", Ours("gradsign"), 100),
            *("89.84±0.61 70.22±1.32 42.07±2.78", "93.31±0.47 70.33±1.28 42.42±2.81"),
        ),
        *_selected(
            *("epsilon (N=100)", Ours("epsilon"), 100),
            *("90.44±0.97 70.85±1.30 44.03±2.02", "93.39±0.82 71.00±1.26 44.20±2.04"),
        ),
        *_selected(
            *("epsilon, the authors' scores (N=100)", AUTHORS, 100),
            *("90.44±0.97 70.85±1.30 44.03±2.02", "93.39±0.82 71.00±1.26 44.20±2.04"),
        ),
        Figures("REA", Searched("evolution"), by_task(("mean", "std"), 93.92, 0.3, 71.84, 0.99, 45.54, 1.03)),
        Figures("Random search", Searched("random"), by_task(("mean", "std"), 93.92, 0.31, 71.04, 1.07, 44.57, 1.25)),
        Figures("REINFORCE", Searched("reinforce"), by_task(("mean", "std"), 93.92, 0.32, 71.71, 1.09, 45.24, 1.18)),
        Figures("BOHB", Searched("bohb"), by_task(("mean", "std"), 93.92, 0.33, 70.85, 1.28, 44.42, 1.49)),
        Figures(
            "tenas",
            Absent("TE-NAS's search prunes a supernet: trainless search --searcher prune; its result is no column"),
            by_task(("mean",), 93.9, 71.24, 42.38),
        ),
    ),
    notes=(
        LEFT_OUT,
        INPUTS,
        "Ours are exact expectations over draws without replacement. Random and Optimal are of all 15,625 networks; the"
        " paper's random baseline seems to be of networks with an epsilon score.",
        "The paper prints 93.92 for the test accuracy of all four searches on CIFAR-10.",
    ),
)

_NB101 = {
    "synflow": (0.37, 0.14, 0.25, 0.10, 22.67, 4),
    "grad_norm": (-0.20, -0.05, -0.14, -0.03, 1.98, 0),
    "grasp": (0.45, -0.01, 0.31, -0.01, 25.60, 0),
    "snip": (-0.16, 0.01, -0.11, 0.00, 3.43, 0),
    "fisher": (-0.26, -0.07, -0.18, -0.05, 2.65, 0),
    "jacov": (0.38, -0.08, -0.05, 0.05, 1.66, 0),
    "epsilon": (0.62, 0.12, 0.44, 0.08, 40.33, 10),
}
TABLE_3 = Definition(
    "epsilon:table3",
    "Epsilon, table 3: NAS-Bench-101",
    (
        *_rows("cifar10", _NB101),
        *(
            Figures(f"{name}, Suite-Zero's scores", Peers("nb101-suite-zero", name), _six("cifar10", *_NB101[name]))
            for name in ("synflow", "grad_norm", "grasp", "snip", "fisher", "jacov")
        ),
        Figures("grad_sign", Ours("gradsign"), {"cifar10": {"spearman": 0.45}}),
    ),
    Where("nb101", metric="valid"),
    (
        "The paper: 423,624 networks and test accuracy. Ours: a fair sample and validation accuracy; counts of the top"
        " 64 depend on the number of networks. Suite-Zero's 500 networks are few of them in the sample.",
    ),
)


_NLP = "scores of recurrent cells need their recipes, which the data directory has for 345 of 14,322 networks"


def _nlp(name: str, *values: float) -> Figures:
    figures = dict(zip(("spearman", "spearman_top10%", "top10%_in_top10%"), values, strict=True))
    figures["top10%_in_top10%"] /= 100
    return Figures(name, Absent(_NLP), {"ptb": figures})


TABLE_4 = Definition(
    "epsilon:table4",
    "Epsilon, table 4: NAS-Bench-NLP, perplexity on PTB",
    (
        _nlp("synflow", 0.34, 0.10, 22),
        _nlp("grad_norm", -0.21, 0.03, 10),
        _nlp("grasp", 0.16, 0.55, 4),
        _nlp("snip", -0.19, -0.02, 10),
        _nlp("epsilon", -0.34, -0.12, 24.87),
        Figures(
            "jacov, another study's scores",
            Peers("nbnlp-metrics", "jacov"),
            {"ptb": {"spearman": 0.38, "spearman_top10%": 0.04, "top10%_in_top10%": 0.38}},
            note="of 10,032 networks with a finite perplexity",
        ),
    ),
    Where("nbnlp", task="ptb", metric="perplexity"),
    ("Lower perplexity is better: it is turned, so that a good score has a positive correlation.",),
)


def _curve(label: str, searcher: str, proxy: str = "", peer: str = "", task: str = "cifar10") -> Figures:
    source = Searched(searcher, proxy, peer, task, math.inf, 300)
    return Figures(f"{label}, {task}", source, {task: {"mean": math.nan, "std": math.nan}})


FIGURE_SEARCH = Definition(
    "epsilon:warmup",
    "Epsilon's integration figures: test accuracy after 300 trained networks, 100 rounds",
    tuple(
        row
        for task in ("cifar10", "ImageNet16-120")
        for row in (
            _curve("random search", "random", task=task),
            _curve("random search, warm-up", "warm_random", "epsilon", "epsilon", task),
            _curve("ageing evolution", "evolution", task=task),
            _curve("ageing evolution, warm-up", "warm_evolution", "epsilon", "epsilon", task),
            _curve("ageing evolution, move", "move_evolution", "epsilon", "epsilon", task),
        )
    ),
    Where(runs=100),
    (
        "The paper shows curves and prints no figures. Scores are the authors' own; the signal is the 12-epoch"
        " validation accuracy. A network without a score is ranked last in a warm-up pool.",
    ),
)

DEFINITIONS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, HEADLINE, FIGURE_SEARCH)
