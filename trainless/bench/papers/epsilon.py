"""Epsilon: "Trainless model performance estimation based on random weights initialisations"."""

from __future__ import annotations

import dataclasses
import math

from trainless.bench.papers.definition import Definition, Figures, FigureSource, Where
from trainless.bench.papers.sources import Absent, Chance, Ours, Peers, TableColumn, TableSearch, rows

SIX = ("spearman", "spearman_top10%", "kendall", "kendall_top10%", "top10%_in_top10%", "top64_in_top5%")
HUNDRED, THOUSAND = (("best_of_100", "best_of_100_std"), ("best_of_1000", "best_of_1000_std"))
AUTHORS = Peers("epsilon", "epsilon")
_PRUNED = Absent("TE-NAS's search prunes a supernet: trainless search --searcher prune; its result is no column")
SEARCHES = {name: TableSearch(name) for name in ("evolution", "random", "reinforce", "bohb")}
SOURCES: dict[str, FigureSource] = {"authors": AUTHORS, "optimal": TableColumn(), "chance": Chance()}
LEFT_OUT = (
    "The authors' release has no score for 6,399 of 15,625 networks, and the paper leaves them out; the column"
    " 'failures last' counts them."
)
INPUTS = "Our scores are of CIFAR-10 images whatever the accuracies' dataset."

_CIFAR10 = """
synflow | | 0.74 0.18 0.54 0.12 45.75% 29
grad_norm | | 0.59 -0.36 0.43 -0.21 30.26% 1
grasp | | 0.51 -0.35 0.36 -0.21 30.77% 3
snip | | 0.60 -0.36 0.44 -0.21 30.65% 1
fisher | | 0.36 -0.38 0.26 -0.24 4.99% 0
jacov | | -0.73 0.15 0.55 -0.10 24.72% 11
epsilon | | 0.87 0.55 0.70 0.40 67.39% 59
epsilon, the authors' scores | authors | 0.87 0.55 0.70 0.40 67.39% 59
"""
_CIFAR100 = """
synflow | | 0.76 0.42 0.57 0.29 49.71% 45
grad_norm | | 0.64 -0.09 0.47 -0.05 35.00% 0
grasp | | 0.55 -0.10 0.39 -0.06 35.32% 3
snip | | 0.64 -0.08 0.47 -0.05 35.25% 0
fisher | | 0.39 -0.15 0.28 -0.10 4.22% 0
jacov | | -0.70 0.07 0.54 0.05 22.11% 7
epsilon | | 0.90 0.59 0.72 0.43 81.24% 62
"""
_IMAGENET = """
synflow | | 0.75 0.55 0.56 0.39 43.57% 26
grad_norm | | 0.58 0.12 0.43 0.09 31.29% 0
grasp | | 0.55 0.10 0.39 0.07 31.61% 2
snip | | 0.58 0.13 0.43 0.09 31.16% 0
fisher | | 0.33 0.02 0.25 0.01 4.61% 0
jacov | | 0.70 0.08 0.53 0.05 29.63% 10
epsilon | | 0.85 0.53 0.67 0.37 71.51% 59
epsilon, the authors' scores | authors | 0.85 0.53 0.67 0.37 71.51% 59
"""
TABLE_1 = Definition(
    "epsilon:table1",
    "Epsilon, table 1: NAS-Bench-201",
    (
        *rows(_CIFAR10, SIX, SOURCES, tasks=("cifar10",)),
        *rows(_CIFAR100, SIX, tasks=("cifar100",)),
        *rows(_IMAGENET, SIX, SOURCES, tasks=("ImageNet16-120",)),
        *rows("grad_sign | gradsign | 0.77 0.79 0.78", ("spearman",)),
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

_OF_1000 = """
Optimal (N=1000) | optimal | 91.34±0.18 72.53±0.53 45.93±0.51 / 94.20±0.13 72.84±0.41 46.59±0.34
Random | chance | 84.11±11.71 61.57±11.305 33.97±8.68 / 87.40±11.94 61.67±11.35 33.67±8.98
naswot (N=1000) | naswot | 89.69±0.73 69.86±1.21 43.95±2.05 / 92.96±0.81 69.98±1.22 44.44±2.10
synflow (N=1000) | synflow | 89.91±0.83 70.35±2.25 41.73±3.91 / 90.12±0.78 70.37±2.08 42.11±4.02
grad_norm (N=1000) | grad_norm | 88.13±2.35 66.35±5.45 33.88±11.46 / 88.42±2.28 66.48±5.32 33.90±11.74
grasp (N=1000) | grasp | 87.85±2.12 65.36±5.57 32.23±10.95 / 88.17±2.04 65.45±5.48 32.20±11.23
snip (N=1000) | snip | 87.47±2.19 64.61±5.52 30.65±11.32 / 87.81±2.12 64.74±5.43 30.55±11.55
fisher (N=1000) | fisher | 87.01±2.31 63.54±5.69 26.70±10.83 / 87.36±2.23 63.67±5.62 29.56±10.83
jacov (N=1000) | jacov | 88.17±1.67 67.73±2.69 31.58±10.65 / 88.45±1.69 67.90±2.77 31.44±10.83
epsilon (N=1000) | epsilon | 91.03±0.42 71.76±0.90 45.11±0.99 / 93.86±0.43 71.79±0.86 45.42±1.21
epsilon, the authors' scores (N=1000) | authors | 91.03±0.42 71.76±0.90 45.11±0.99 / 93.86±0.43 71.79±0.86 45.42±1.21
"""
_OF_100 = """
grad_sign (N=100) | gradsign | 89.84±0.61 70.22±1.32 42.07±2.78 / 93.31±0.47 70.33±1.28 42.42±2.81
epsilon (N=100) | epsilon | 90.44±0.97 70.85±1.30 44.03±2.02 / 93.39±0.82 71.00±1.26 44.20±2.04
epsilon, the authors' scores (N=100) | authors | 90.44±0.97 70.85±1.30 44.03±2.02 / 93.39±0.82 71.00±1.26 44.20±2.04
"""
_SEARCHES = """
REA | evolution | 93.92±0.3 71.84±0.99 45.54±1.03
Random search | random | 93.92±0.31 71.04±1.07 44.57±1.25
REINFORCE | reinforce | 93.92±0.32 71.71±1.09 45.24±1.18
BOHB | bohb | 93.92±0.33 70.85±1.28 44.42±1.49
"""
TABLE_2 = Definition(
    "epsilon:table2",
    "Epsilon, table 2: the best by score of N random networks of NAS-Bench-201",
    (
        *rows(_OF_1000, THOUSAND, SOURCES),
        *rows(_OF_100, HUNDRED, SOURCES),
        *rows(_SEARCHES, ("mean", "std"), SEARCHES),
        *rows("tenas | tenas | 93.9 71.24 42.38", ("mean",), {"tenas": _PRUNED}),
    ),
    notes=(
        LEFT_OUT,
        INPUTS,
        "Ours are exact expectations over draws without replacement. Random and Optimal are of all 15,625 networks; the"
        " paper's random baseline seems to be of networks with an epsilon score.",
        "The paper prints 93.92 for the test accuracy of all four searches on CIFAR-10.",
    ),
)

_NB101 = """
synflow | | 0.37 0.14 0.25 0.10 22.67% 4
grad_norm | | -0.20 -0.05 -0.14 -0.03 1.98% 0
grasp | | 0.45 -0.01 0.31 -0.01 25.60% 0
snip | | -0.16 0.01 -0.11 0.00 3.43% 0
fisher | | -0.26 -0.07 -0.18 -0.05 2.65% 0
jacov | | 0.38 -0.08 -0.05 0.05 1.66% 0
epsilon | | 0.62 0.12 0.44 0.08 40.33% 10
"""
_OURS = rows(_NB101, SIX, tasks=("cifar10",))
_THEIRS = tuple(
    dataclasses.replace(row, label=f"{row.label}, Suite-Zero's scores", source=Peers("nb101-suite-zero", row.label))
    for row in _OURS[:-1]
)
TABLE_3 = Definition(
    "epsilon:table3",
    "Epsilon, table 3: NAS-Bench-101",
    (*_OURS, *_THEIRS, *rows("grad_sign | gradsign | 0.45", ("spearman",), tasks=("cifar10",))),
    Where("nb101", metric="valid"),
    (
        "The paper: 423,624 networks and test accuracy. Ours: a fair sample and validation accuracy; counts of the top"
        " 64 depend on the number of networks. Suite-Zero's 500 networks are few of them in the sample.",
    ),
)

_NLP = """
synflow | recipes | 0.34 0.10 22%
grad_norm | recipes | -0.21 0.03 10%
grasp | recipes | 0.16 0.55 4%
snip | recipes | -0.19 -0.02 10%
epsilon | recipes | -0.34 -0.12 24.87%
jacov, another study's scores | study | 0.38 0.04 38% | of 10,032 networks with a finite perplexity
"""
_NLP_SOURCES: dict[str, FigureSource] = {
    "recipes": Absent(
        "scores of recurrent cells need their recipes, which the data directory has for 345 of 14,322 networks"
    ),
    "study": Peers("nbnlp-metrics", "jacov"),
}
TABLE_4 = Definition(
    "epsilon:table4",
    "Epsilon, table 4: NAS-Bench-NLP, perplexity on PTB",
    rows(_NLP, ("spearman", "spearman_top10%", "top10%_in_top10%"), _NLP_SOURCES, tasks=("ptb",)),
    Where("nbnlp", task="ptb", metric="perplexity"),
    ("Lower perplexity is better: it is turned, so that a good score has a positive correlation.",),
)

_HELP = {
    "random search": ("random", ""),
    "random search, warm-up": ("warm_random", "epsilon"),
    "ageing evolution": ("evolution", ""),
    "ageing evolution, warm-up": ("warm_evolution", "epsilon"),
    "ageing evolution, move": ("move_evolution", "epsilon"),
}
FIGURE_SEARCH = Definition(
    "epsilon:warmup",
    "Epsilon's integration figures: test accuracy after 300 trained networks, 100 rounds",
    tuple(
        Figures(
            f"{label}, {task}",
            TableSearch(searcher, proxy, proxy, task, math.inf, 300),
            {task: {"mean": math.nan, "std": math.nan}},
        )
        for task in ("cifar10", "ImageNet16-120")
        for label, (searcher, proxy) in _HELP.items()
    ),
    Where(runs=100),
    (
        "The paper shows curves and prints no figures. Scores are the authors' own; the signal is the 12-epoch"
        " validation accuracy. A network without a score is ranked last in a warm-up pool.",
    ),
)

DEFINITIONS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, HEADLINE, FIGURE_SEARCH)
