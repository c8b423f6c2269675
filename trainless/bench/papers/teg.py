"""TEG-NAS: "Understanding and accelerating NAS with training-free and theory-grounded metrics"."""

from __future__ import annotations

from trainless.bench.papers.definition import Definition, FigureSource
from trainless.bench.papers.sources import Absent, Guided, Optimum, OurRanking, Ours, TableSearch, rows

ALL = ("ntk_condition", "linear_regions", "ntk_mse")
KAPPA, REGIONS, MSE = ALL
MEAN = ("mean", "std")
COST = "the paper's cost is of its GPU; ours is evaluations × our milliseconds where the scores were computed"

THIN = "nb201_tenas"  # the thin networks of TE-NAS with the joint kernel, on a random sample of networks
_OTHER = "not the paper's setting: 16 channels, five cells, one sample at a time"
_INDICATORS = f"""
κ | thin κ | 0.59 | the paper states −0.59: lower κ is better
κ of the full network, isolated | {KAPPA} | 0.59 | {_OTHER}
R | {REGIONS} | nan
MSE | thin MSE | nan | lower is better (the paper states −0.59 for κ); ours on 82 random classes of networks
MSE of the full network, isolated | {MSE} | nan | {_OTHER}
sum of ranks | teg-nas | nan
"""
FIGURE_1 = Definition(
    "teg-nas:figure1",
    "TEG-NAS, figure 1: Kendall's τ of κ, R and MSE with accuracy on NAS-Bench-201",
    rows(
        _INDICATORS,
        ("kendall",),
        {"thin κ": Ours(KAPPA, THIN), "thin MSE": Ours(MSE, THIN), "teg-nas": OurRanking("teg-nas")},
        tasks=("cifar10",),
    ),
    notes=(
        "Signs are turned so that positive means: the better by the indicator, the more accurate. The text states the"
        " first figure only; the others are in the picture.",
    ),
)

_SOURCES: dict[str, FigureSource] = {
    "quoted": Absent("quoted in the paper from others; a search by weight sharing or by gradients is not on a table"),
    "supernet": Absent(
        "this search works on a supernet, and its result is no column of scores: trainless search has it"
    ),
    "optimum": Optimum(),
    **{name: TableSearch(name) for name in ("reinforce", "evolution")},
    "teg_reinforce": Guided("teg_reinforce", ALL),
    "teg_evolution": Guided("teg_evolution", ALL, summed=True, evaluations=1256),
}
_SIGNAL = "12 epochs as signal within 12,000 s; the paper's signal is one epoch"
_QUOTED = """
RSPS | quoted | 87.66±1.69 58.33±4.34 31.14±3.88
ENAS, DARTS | quoted | 54.30±0.0 15.61±0.0 16.32±0.0
GDAS | quoted | 93.61±0.09 70.70±0.30 41.84±0.90
"""
_NASWOT = "NAS without training (N=100 here) | naswot | 91.78±1.45 67.05±2.89 37.07±6.39 | the paper quotes 25 samples"
_SEARCHES = f"""
TE-NAS | supernet | 93.9±0.47 71.24±0.56 42.38±0.46
TE-NAS + TEG | supernet | 93.94±0.2 71.44±0.81 44.11±0.88
REINFORCE | reinforce | 90.00±1.16 68.40±5.93 44.78±1.20 | {_SIGNAL}
REINFORCE + TEG | teg_reinforce | 90.21±0.67 70.42±0.36 44.88±0.91
Evolution | evolution | 90.92±0.31 69.32±3.31 44.33±1.81 | {_SIGNAL}
Evolution + TEG | teg_evolution | 91.00±0.33 70.10±1.47 44.45±0.75
FP-NAS | supernet | 55.38±1.52 22.30±15.45 16.96±6.43
FP-NAS + TEG | supernet | 93.73±0.50 70.36±0.44 46.03±0.10
"""
_COSTS = f"""
cost: REINFORCE + TEG | teg_reinforce | 3668.5 | {COST}
cost: Evolution + TEG | teg_evolution | 9939.5 | {COST}
"""
TABLE_2 = Definition(
    "teg-nas:table2",
    "TEG-NAS, table 2: searches on NAS-Bench-201, test accuracy",
    (
        *rows(_QUOTED, MEAN, _SOURCES),
        *rows(_NASWOT, ("best_of_100", "best_of_100_std")),
        *rows(_SEARCHES, MEAN, _SOURCES),
        *rows("Optimal | optimum | 94.37 73.51 47.31", ("mean",), _SOURCES),
        *rows(_COSTS, ("seconds",), _SOURCES, tasks=("cifar10",)),
    ),
    notes=("50 runs of each guided search, on our stored scores.",),
)

_ABLATION = """
baseline (1-epoch training) | baseline | 68.4 5.93 19786.0
R | | 69.06 2.15 254.6
κ | | 69.27 0.73 1574.0
MSE | | 69.68 0.88 2447.7
κ, R | | 69.89 0.98 1716.1
R, MSE | | 70.00 0.42 2667.4
κ, MSE | | 70.18 0.04 2704.0
κ, R, MSE | | 70.42 0.36 3668.5
"""
_PARTS = {"κ": KAPPA, "R": REGIONS, "MSE": MSE}
_GUIDED: dict[str, FigureSource] = {
    names: Guided("teg_reinforce", tuple(_PARTS[name] for name in names.split(", ")))
    for names in ("R", "κ", "MSE", "κ, R", "R, MSE", "κ, MSE", "κ, R, MSE")
}
TABLE_5 = Definition(
    "teg-nas:table5",
    "TEG-NAS, table 5: indicators in REINFORCE on NAS-Bench-201, CIFAR-100",
    rows(
        _ABLATION,
        ("mean", "std", "seconds"),
        {**_GUIDED, "baseline": Absent("accuracies after one epoch are not in the table")},
        tasks=("cifar100",),
    ),
    notes=("50 runs of each, on our stored scores.", COST + "."),
)

DEFINITIONS = (FIGURE_1, TABLE_2, TABLE_5)
