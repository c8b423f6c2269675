"""TEG-NAS: "Understanding and accelerating NAS with training-free and theory-grounded metrics"."""

from __future__ import annotations

import math

from trainless.bench.papers.definition import Definition, Figures, by_task
from trainless.bench.papers.sources import Absent, Guided, Optimum, Ours, Ranked, Searched

ALL = ("ntk_condition", "linear_regions", "ntk_mse")
KAPPA, REGIONS, MSE = ALL
MEAN = ("mean", "std")
COST = "the paper's cost is of its GPU; ours is evaluations × our milliseconds where the scores were computed"

THIN = "nb201_tenas"  # the thin networks of TE-NAS with the joint kernel, on a random sample of networks
_SAMPLE = "lower is better (the paper states −0.59 for κ); ours on 82 random classes of networks"
_OTHER = "not the paper's setting: 16 channels, five cells, one sample at a time"

FIGURE_1 = Definition(
    "teg-nas:figure1",
    "TEG-NAS, figure 1: Kendall's τ of κ, R and MSE with accuracy on NAS-Bench-201",
    (
        Figures(
            "κ", Ours(KAPPA, THIN), {"cifar10": {"kendall": 0.59}}, note="the paper states −0.59: lower κ is better"
        ),
        Figures("κ of the full network, isolated", Ours(KAPPA), {"cifar10": {"kendall": 0.59}}, note=_OTHER),
        Figures("R", Ours(REGIONS), {"cifar10": {"kendall": math.nan}}),
        Figures("MSE", Ours(MSE, THIN), {"cifar10": {"kendall": math.nan}}, note=_SAMPLE),
        Figures("MSE of the full network, isolated", Ours(MSE), {"cifar10": {"kendall": math.nan}}, note=_OTHER),
        Figures("sum of ranks", Ranked("teg-nas"), {"cifar10": {"kendall": math.nan}}),
    ),
    notes=(
        "Signs are turned so that positive means: the better by the indicator, the more accurate. The text states the"
        " first figure only; the others are in the picture.",
    ),
)


def _guided(label: str, searcher: str, proxies: tuple[str, ...], *values: float) -> Figures:
    return Figures(label, Guided(searcher, proxies), by_task(MEAN, *values))


_NOT_BUILT = "quoted in the paper from others; a search by weight sharing or by gradients is not on a table"
_SUPERNET = "this search works on a supernet, and its result is no column of scores: trainless search has it"
TABLE_2 = Definition(
    "teg-nas:table2",
    "TEG-NAS, table 2: searches on NAS-Bench-201, test accuracy",
    (
        Figures("RSPS", Absent(_NOT_BUILT), by_task(MEAN, 87.66, 1.69, 58.33, 4.34, 31.14, 3.88)),
        Figures("ENAS, DARTS", Absent(_NOT_BUILT), by_task(MEAN, 54.30, 0.0, 15.61, 0.0, 16.32, 0.0)),
        Figures("GDAS", Absent(_NOT_BUILT), by_task(MEAN, 93.61, 0.09, 70.70, 0.30, 41.84, 0.90)),
        Figures(
            "NAS without training (N=100 here)",
            Ours("naswot"),
            by_task(("best_of_100", "best_of_100_std"), 91.78, 1.45, 67.05, 2.89, 37.07, 6.39),
            note="the paper quotes 25 samples",
        ),
        Figures("TE-NAS", Absent(_SUPERNET), by_task(MEAN, 93.9, 0.47, 71.24, 0.56, 42.38, 0.46)),
        Figures("TE-NAS + TEG", Absent(_SUPERNET), by_task(MEAN, 93.94, 0.2, 71.44, 0.81, 44.11, 0.88)),
        Figures(
            "REINFORCE",
            Searched("reinforce"),
            by_task(MEAN, 90.00, 1.16, 68.40, 5.93, 44.78, 1.20),
            note="12 epochs as signal within 12,000 s; the paper's signal is one epoch",
        ),
        _guided("REINFORCE + TEG", "teg_reinforce", ALL, 90.21, 0.67, 70.42, 0.36, 44.88, 0.91),
        Figures(
            "Evolution",
            Searched("evolution"),
            by_task(MEAN, 90.92, 0.31, 69.32, 3.31, 44.33, 1.81),
            note="12 epochs as signal within 12,000 s; the paper's signal is one epoch",
        ),
        _guided("Evolution + TEG", "teg_evolution", ALL, 91.00, 0.33, 70.10, 1.47, 44.45, 0.75),
        Figures("FP-NAS", Absent(_SUPERNET), by_task(MEAN, 55.38, 1.52, 22.30, 15.45, 16.96, 6.43)),
        Figures("FP-NAS + TEG", Absent(_SUPERNET), by_task(MEAN, 93.73, 0.50, 70.36, 0.44, 46.03, 0.10)),
        Figures("Optimal", Optimum(), by_task(("mean",), 94.37, 73.51, 47.31)),
        Figures("cost: REINFORCE + TEG", Guided("teg_reinforce", ALL), {"cifar10": {"seconds": 3668.5}}, note=COST),
        Figures("cost: Evolution + TEG", Guided("teg_evolution", ALL), {"cifar10": {"seconds": 9939.5}}, note=COST),
    ),
    notes=("50 runs of each guided search, on our stored scores.",),
)


def _ablation(label: str, proxies: tuple[str, ...], mean: float, std: float, seconds: float) -> Figures:
    figures = {"cifar100": {"mean": mean, "std": std, "seconds": seconds}}
    return Figures(label, Guided("teg_reinforce", proxies), figures)


TABLE_5 = Definition(
    "teg-nas:table5",
    "TEG-NAS, table 5: indicators in REINFORCE on NAS-Bench-201, CIFAR-100",
    (
        Figures(
            "baseline (1-epoch training)",
            Absent("accuracies after one epoch are not in the table"),
            {"cifar100": {"mean": 68.4, "std": 5.93, "seconds": 19786.0}},
        ),
        _ablation("R", (REGIONS,), 69.06, 2.15, 254.6),
        _ablation("κ", (KAPPA,), 69.27, 0.73, 1574.0),
        _ablation("MSE", (MSE,), 69.68, 0.88, 2447.7),
        _ablation("κ, R", (KAPPA, REGIONS), 69.89, 0.98, 1716.1),
        _ablation("R, MSE", (REGIONS, MSE), 70.00, 0.42, 2667.4),
        _ablation("κ, MSE", (KAPPA, MSE), 70.18, 0.04, 2704.0),
        _ablation("κ, R, MSE", ALL, 70.42, 0.36, 3668.5),
    ),
    notes=("50 runs of each, on our stored scores.", COST + "."),
)

DEFINITIONS = (FIGURE_1, TABLE_2, TABLE_5)
