"""TEACUP: training-free metrics for clinical tasks."""

from __future__ import annotations

from trainless.bench.papers.definition import Definition, Figures
from trainless.bench.papers.sources import Absent, Against, OurRanking, RidgeWeight, TableColumn, rows

FOUR = ("length", "loss_ntk", "loss_synflow", "zico")
LENGTH, NTK, SYNFLOW, ZICO = FOUR
_TRAINED = Absent("needs the 150 networks trained on this clinical task, which the paper does not publish")
CLINICAL = ("ECG2017", "BreastMNIST", "NoduleMNIST3D")
ELSEWHERE = (
    "The rows on NAS-Bench-201 are ours on another task, with no published figure: the same metrics, the same space,"
    " whole population, CIFAR-10 test accuracy."
)
SIGNS = (
    "Our length, NTK and SynFlow are turned to 'higher is better' by the signs of TEACUP's combination: a negative"
    " figure means that on this task the opposite holds."
)


def _clinical(label: str, *values: float) -> tuple[Figures, ...]:
    return tuple(
        Figures(label, _TRAINED, {task: {"spearman": value}}) for task, value in zip(CLINICAL, values, strict=True)
    )


_ELSEWHERE = f"""
TEACUP, NAS-Bench-201 | teacup | nan
Length, NAS-Bench-201 | {LENGTH} | nan
NTK, NAS-Bench-201 | {NTK} | nan
SynFlow, NAS-Bench-201 | {SYNFLOW} | nan
ZiCo, NAS-Bench-201 | {ZICO} | nan
"""
FIGURE_2 = Definition(
    "teacup:figure2",
    "TEACUP, figure 2: Spearman's ρ of the metrics with the test reward",
    (
        *_clinical("TEACUP", 0.471, 0.298, 0.442),
        *_clinical("Length", 0.307, 0.248, 0.435),
        *_clinical("NTK", 0.362, 0.256, 0.487),
        *_clinical("SynFlow", 0.016, 0.235, 0.265),
        *_clinical("ZiCo", 0.437, 0.384, 0.063),
        *rows(_ELSEWHERE, ("spearman",), {"teacup": OurRanking("teacup")}, tasks=("cifar10",)),
    ),
    notes=(ELSEWHERE, SIGNS),
)

_BETWEEN = {
    (NTK, LENGTH): (0.920, 0.887, 0.866),
    (SYNFLOW, LENGTH): (0.591, 0.247, 0.666),
    (SYNFLOW, NTK): (0.567, 0.219, 0.624),
    (ZICO, LENGTH): (0.477, 0.470, 0.417),
    (ZICO, NTK): (0.452, 0.421, 0.352),
    (ZICO, SYNFLOW): (0.170, 0.050, 0.187),
}
TABLE_2 = Definition(
    "teacup:table2",
    "TEACUP, supplementary table 2: Spearman's ρ between the metrics",
    tuple(
        Figures(f"{one} and {other}", Against(one, other), {task: {"spearman": value}}, note="ours on CIFAR-10 images")
        for (one, other), values in _BETWEEN.items()
        for task, value in zip(CLINICAL, values, strict=True)
    ),
    notes=(
        "No accuracy plays a part, so ours are of NAS-Bench-201's networks on CIFAR-10 images beside the published"
        " figures of 150 networks on each clinical task: another task, the same question.",
    ),
)


def _held_out(label: str, proxies: tuple[str, ...], ecg: float, nodule: float) -> Figures:
    figures = {"cifar10": {"held_out_cifar10": ecg, "held_out_ImageNet16-120": nodule}}
    return Figures(label, RidgeWeight(proxies), figures)


TABLE_3 = Definition(
    "teacup:table3",
    "TEACUP, supplementary table 3: held-out Spearman's ρ of ridge fits (B = 2,000)",
    (
        _held_out("Length + NTK + SynFlow + ZiCo", FOUR, 0.41, 0.43),
        _held_out("NTK + SynFlow + ZiCo", (NTK, SYNFLOW, ZICO), 0.38, 0.44),
        _held_out("Length + SynFlow + ZiCo", (LENGTH, SYNFLOW, ZICO), 0.35, 0.28),
        _held_out("Length + NTK + ZiCo", (LENGTH, NTK, ZICO), 0.45, 0.38),
        _held_out("Length + NTK + SynFlow", (LENGTH, NTK, SYNFLOW), 0.35, 0.48),
    ),
    notes=(
        "Published: ECG2017 and NoduleMNIST3D, 150 networks. Ours: CIFAR-10 and ImageNet16-120 accuracies of 150 random"
        " networks of NAS-Bench-201: the procedure is the paper's, the tasks are not.",
    ),
)

RIDGE = Definition(
    "teacup:ridge",
    "TEACUP, section 7.4: weights of the ridge fit over the smallest",
    tuple(
        Figures(proxy, RidgeWeight(FOUR, proxy), {"cifar10": {"weight": value}})
        for proxy, value in zip(FOUR, (-1.0, 2.0, 2.0, 2.0), strict=True)
    ),
    notes=(
        "The paper states −0.5, 1, 1, 1 for the logarithms, which is −1, 2, 2, 2 over the smallest; its NTK and SynFlow"
        " enter with a plus in the text and a minus in its program. Ours are fitted on CIFAR-10 and ImageNet16-120"
        " accuracies of 150 random networks of NAS-Bench-201.",
    ),
)

_EARLY = TableColumn("valid", 12)
FIGURE_3 = Definition(
    "teacup:figure3",
    "TEACUP, figure 3: partial training against the metric",
    (
        *_clinical("TEACUP", 0.471, 0.298, 0.442),
        *rows("12 epochs of training, NAS-Bench-201 | early | nan nan nan", ("spearman",), {"early": _EARLY}),
        *rows("TEACUP, NAS-Bench-201 | teacup | nan nan nan", ("spearman",), {"teacup": OurRanking("teacup")}),
    ),
    notes=(
        "Spearman's ρ with the final test accuracy. The table has validation accuracies after 12 of 200 epochs, 6 % of"
        " the training; no earlier ones, so the crossing that the figure shows cannot be placed before them.",
    ),
)

DEFINITIONS = (FIGURE_2, TABLE_2, TABLE_3, RIDGE, FIGURE_3)
