"""GradSign: "Model performance inference with theoretical insights" (the thesis's numbering)."""

from __future__ import annotations

from trainless.bench.papers.definition import Definition, Figures, Where
from trainless.bench.papers.sources import Absent, Chance, TableColumn, TableSearch, rows

RHO = ("spearman",)
BEST = ("best_of_100", "best_of_100_std")
BEST_1000 = ("best_of_1000", "best_of_1000_std")
MEAN = ("mean", "std")
INPUTS = "Our scores are of CIFAR-10 images whatever the accuracies' dataset; the paper scores each dataset on its own."
WORDS = ("validation", "test")

_NB101 = """
grad_norm | | 0.263
snip | | 0.189
grasp | | 0.315
fisher | | 0.3
Synflow | synflow | 0.363
NASWOT | naswot | 0.324
GradSign | gradsign | 0.449
"""
TABLE_1 = Definition(
    "gradsign:table5.1",
    "GradSign, table 5.1: NAS-Bench-101, Spearman's ρ",
    rows(_NB101, RHO, tasks=("cifar10",), metric="valid"),
    Where("nb101"),
    (
        "The paper: about 4,500 random networks and test accuracy. Ours: a fair sample of the 20,001 lowest hashes and"
        " validation accuracy, which is all that the sample has. The paper's grad_norm, snip and fisher are absolute"
        " values (Abdelfattah et al. find them negative).",
    ),
)

_NB201 = """
ZenNAS | zen | -0.016 -0.041 0.032
grad_norm | | 0.594 0.637 0.579
snip | | 0.595 0.637 0.579
grasp | | 0.51 0.549 0.552
fisher | | 0.36 0.386 0.328
Synflow | synflow | 0.737 0.763 0.751
NASWOT | naswot | 0.728 0.703 0.696
GradSign | gradsign | 0.765 0.793 0.783
"""
TABLE_2 = Definition(
    "gradsign:table5.2",
    "GradSign, table 5.2: NAS-Bench-201, all 15,625 networks, Spearman's ρ",
    rows(_NB201, RHO),
    Where(metric="valid"),
    notes=(
        INPUTS,
        "The paper does not say which accuracy. With CIFAR-10's validation accuracy our figure is the published one;"
        " with its test accuracy it is 0.05 higher.",
    ),
)

_FAMILIES = ("ENAS", "PNAS", "NASNet", "Amoeba")
_NDS = Absent("the trained accuracies of this family's networks are not in the data directory")


def _nds(label: str, proxy: str, darts: float, *others: float) -> tuple[Figures, ...]:
    line = f"{label}, DARTS | {proxy} | {darts} | other networks"
    rest = "\n".join(f"{label}, {name} | nds | {value}" for name, value in zip(_FAMILIES, others, strict=True))
    trained = rows(line, ("kendall",), tasks=("cifar10",), metric="valid")
    return *trained, *rows(rest, ("kendall",), {"nds": _NDS}, tasks=("cifar10",))


TABLE_3 = Definition(
    "gradsign:table5.3",
    "GradSign, table 5.3: the NDS families, Kendall's τ",
    (
        *_nds("grad_norm", "grad_norm", 0.28, -0.02, -0.01, -0.08, -0.10),
        *_nds("Synflow", "synflow", 0.37, 0.02, 0.03, -0.03, -0.06),
        *_nds("NASWOT", "naswot", 0.48, 0.34, 0.31, 0.31, 0.20),
        *_nds("GradSign", "gradsign", 0.54, 0.43, 0.40, 0.31, 0.24),
    ),
    Where("darts"),
    (
        "The DARTS rows are of the 1,000 genotypes of SWAP's release after a short training, not of NDS: the size of a"
        " difference says little.",
    ),
)

_OF_100 = """
Synflow (N=100) | synflow | 89.83±0.75 69.89±1.87 41.94±4.13 / 93.12±0.52 69.94±1.88 42.26±4.26
NASWOT (N=100) | naswot | 89.55±0.89 69.35±1.70 42.81±3.05 / 92.81±0.99 69.48±1.70 43.10±3.16
"""
_OF_1000 = "NASWOT (N=1000) | naswot | 89.69±0.73 69.98±1.22 44.44±2.10 / 92.96±0.81 69.86±1.21 43.95±2.05"
_OF_100_TOO = """
GradSign (N=100) | gradsign | 89.84±0.61 70.22±1.32 42.07±2.78 / 93.31±0.47 70.33±1.28 42.42±2.81
Random | chance | 83.20±13.28 60.70±12.55 33.34±9.39 / 86.61±13.46 60.83±12.58 33.13±9.66
Optimal (N=100) | optimal | 91.05±0.28 71.45±0.79 45.37±0.61 / 93.84±0.23 71.56±0.78 45.67±0.64
"""
TABLE_4 = Definition(
    "gradsign:table5.4",
    "GradSign, table 5.4: the best by score of N random networks of NAS-Bench-201",
    (
        *rows(_OF_100, BEST, words=WORDS),
        *rows(_OF_1000, BEST_1000, words=WORDS),
        *rows(_OF_100_TOO, BEST, {"chance": Chance(), "optimal": TableColumn()}, words=WORDS),
    ),
    notes=(
        "Ours are exact expectations over draws without replacement, not 500 draws.",
        "Optimal takes the best by each column's own accuracy.",
    ),
)


def _searches(text: str, task: str) -> tuple[Figures, ...]:
    """Rows of searches on a task; those whose names begin with g_ have GradSign's help."""
    helped = {name: TableSearch(name, "gradsign", task=task) for name in ("g_rea", "g_rs", "g_reinforce", "g_hb")}
    alone = {name: TableSearch(name, task=task) for name in ("evolution", "random", "reinforce", "bohb")}
    lacking = Absent("the variant with NASWOT's initial population is of another paper, and is not built")
    return rows(text, MEAN, {**helped, **alone, "A-REA": lacking}, words=WORDS)


_BUDGET = (
    "500 runs of 12,000 simulated seconds; the signal is the 12-epoch validation accuracy of the dataset searched on.",
)
_ON_CIFAR10 = """
REA | evolution | 91.08±0.45 71.59±1.33 44.90±1.20 / 93.85±0.44 71.64±1.25 45.25±1.41
A-REA | | 91.20±0.27 71.95±0.99 45.70±1.05 / nan±nan nan±nan nan±nan
G-REA | g_rea | 91.27±0.58 72.64±1.57 45.69±1.33 / 94.10±0.52 72.70±1.50 45.7±1.32
RS | random | 90.93±0.37 70.96±1.12 44.47±1.08 / 93.72±0.38 71.07±1.07 44.61±1.22
G-RS | g_rs | 91.24±0.21 72.15±0.77 45.38±0.79 / 94.02±0.21 72.20±0.76 45.77±0.79
REINFORCE | reinforce | 90.32±0.89 70.03±1.75 43.57±2.09 / 93.21±0.82 70.14±1.73 43.64±2.24
G-REINFORCE | g_reinforce | 90.47±0.55 70.00±1.20 44.33±1.25 / 93.37±0.47 70.20±1.29 44.05±1.48
BOHB | bohb | 90.84±0.49 70.82±1.29 44.36±1.37 / 93.64±0.49 70.92±1.26 44.50±1.50
G-HB | g_hb | 91.18±0.26 71.92±0.92 45.29±0.84 / 93.96±0.25 71.99±0.85 45.53±0.92
"""
TABLE_5 = Definition(
    "gradsign:table5.5",
    "GradSign, table 5.5: searches on CIFAR-10 with and without GradSign's help",
    _searches(_ON_CIFAR10, "cifar10"),
    notes=_BUDGET,
)

_PREDICTORS = """
MLP | predictor | 0.5388
LSTM | predictor | 0.6407
GATES-1 | predictor | 0.45
GATES-2 | predictor | 0.7401
GradSign | gradsign | 0.6016
"""
_PREDICTOR = Absent("a predictor learned from trained networks, quoted from another paper; not built here")
TABLE_A1 = Definition(
    "gradsign:tableA.1",
    "GradSign, table A.1: Kendall's τ on NAS-Bench-201, the mean of three datasets",
    rows(_PREDICTORS, ("kendall",), {"predictor": _PREDICTOR}, tasks=("mean",)),
    notes=(INPUTS,),
)

_RELEASES = """
NAS-Bench-201 | gradsign | 0.765 0.793 0.783
NATS-Bench | gradsign | 0.760 0.792 0.784
"""
TABLE_A2 = Definition(
    "gradsign:tableA.2",
    "GradSign, table A.2: Spearman's ρ on the two releases of the benchmark",
    rows(_RELEASES, RHO),
    notes=("There is one table of accuracies here, so both rows have the same figure of ours.", INPUTS),
)

_ON_CIFAR100 = """
REA | evolution | 91.06±0.49 71.53±1.31 44.82±1.23 / 93.84±0.45 71.60±1.27 45.18±1.37
G-REA | g_rea | 91.35±0.35 72.67±1.05 45.55±0.96 / 94.15±0.32 72.65±0.97 45.99±0.93
RS | random | 90.95±0.28 71.01±0.97 44.58±0.95 / 93.77±0.26 71.15±0.95 44.73±1.10
G-RS | g_rs | 91.23±0.22 72.12±0.82 45.43±0.74 / 94.02±0.22 72.15±0.78 45.83±0.80
REINFORCE | reinforce | 90.92±0.38 71.04±1.02 44.56±0.97 / 93.71±0.37 71.17±1.12 44.80±1.18
G-REINFORCE | g_reinforce | 91.20±0.23 71.93±0.91 45.28±0.77 / 93.98±0.23 72.05±0.89 45.64±0.86
"""
TABLE_A3 = Definition(
    "gradsign:tableA.3",
    "GradSign, table A.3: searches on CIFAR-100 with and without GradSign's help",
    _searches(_ON_CIFAR100, "cifar100"),
    notes=(*_BUDGET, "The paper searches NATS-Bench's own recordings; these are NAS-Bench-201's."),
)

DEFINITIONS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_A1, TABLE_A2, TABLE_A3)
