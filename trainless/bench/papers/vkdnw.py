"""VKDNW: "Training-free neural architecture search through the variance of knowledge of deep network weights"."""

from __future__ import annotations

import itertools

from trainless.bench.papers.definition import Definition, Figures, FigureSource, Where
from trainless.bench.papers.sources import Absent, Against, Forest, OurRanking, rows
from trainless.rankings import Lexicographic, RankProduct, vkdnw_single

THREE = ("kendall", "spearman", "ndcg_1000")
IMAGENET = ("ImageNet16-120",)
OTHER_INPUTS = (
    "Our scores are of CIFAR-10 images (or noise, where the paper takes noise) on a network of 10 classes, whatever the"
    " accuracies' dataset; proxies that look at data or labels would differ a little on the other two."
)
TRUTH = "Test accuracies after 200 epochs; the paper's text says validation, its figures are met with test."
SOURCES: dict[str, FigureSource] = {
    **{name: OurRanking(name) for name in ("te-nas", "az-nas", "vkdnw-single", "vkdnw-agg")},
    "GRAF": Forest(structure=True),
    "VKDNW_m": Forest(("vkdnw", "layers", "flops")),
    "(VKDNW+ZCS)_m": Forest(everything=True),
    "(VKDNW+ZCS+GRAF)_m": Forest(everything=True, structure=True),
}
_GRADSIGN = rows("GradSign | gradsign | 0.765 0.793 0.783", ("spearman",))


def _all(text: str) -> tuple[Figures, ...]:
    """Rows of proxies and rankings on all three datasets, GradSign's in its place."""
    found = rows(text, THREE, SOURCES)
    return *found[:8], *_GRADSIGN, *found[8:]


_ALIVE = """
FLOPs | flops | 0.623 0.799 0.745  0.586 0.763 0.576  0.545 0.718 0.403
GradNorm | grad_norm | 0.328 0.438 0.509  0.341 0.451 0.278  0.310 0.418 0.265
GraSP | grasp | 0.352 0.505 0.518  0.349 0.498 0.284  0.359 0.502 0.281 | a random sample of classes, each counted once
SNIP | snip | 0.431 0.591 0.513  0.440 0.597 0.286  0.389 0.521 0.286
SynFlow | synflow | 0.561 0.758 0.709  0.553 0.750 0.594  0.531 0.719 0.511
Jacov | jacov | 0.616 0.800 0.540  0.639 0.820 0.402  0.602 0.779 0.356
NASWOT | naswot | 0.571 0.762 0.607  0.607 0.799 0.475  0.605 0.794 0.490
ZenNAS | zen | 0.102 0.103 0.120  0.079 0.072 0.115  0.091 0.109 0.073
ZiCo | zico | 0.607 0.802 0.751  0.614 0.809 0.607  0.587 0.779 0.523
TE-NAS | te-nas | 0.536 0.722 0.602  0.537 0.723 0.327  0.523 0.709 0.330
AZ-NAS | az-nas | 0.712 0.892 0.749  0.696 0.880 0.549  0.673 0.859 0.534
ℵ (trainable layers) | layers | 0.626 0.767 0.671  0.646 0.787 0.525  0.623 0.764 0.497
VKDNW_single | vkdnw-single | 0.618 0.815 0.751  0.634 0.829 0.617  0.622 0.814 0.608
VKDNW_agg | vkdnw-agg | 0.750 0.919 0.785  0.753 0.919 0.636  0.743 0.906 0.664
GRAF | | 0.820 0.953 0.935  0.809 0.948 0.858  0.796 0.941 0.828
VKDNW_m | | 0.647 0.831 0.750  0.636 0.821 0.602  0.611 0.798 0.575 | ENTROPY
(VKDNW+ZCS)_m | | 0.840 0.963 0.922  0.834 0.960 0.884  0.830 0.958 0.843 | all stored proxies
(VKDNW+ZCS+GRAF)_m | | 0.859 0.971 0.946  0.847 0.966 0.895  0.842 0.963 0.867 | all stored proxies
"""
_EVERY = """
FLOPs | flops | 0.578 0.753 0.729  0.551 0.727 0.565  0.517 0.691 0.386
GradNorm | grad_norm | 0.356 0.483 0.407  0.359 0.489 0.202  0.322 0.441 0.192
GraSP | grasp | 0.315 0.454 0.439  0.322 0.461 0.224  0.333 0.470 0.207 | a random sample of classes, each counted once
SNIP | snip | 0.454 0.615 0.433  0.462 0.620 0.221  0.403 0.539 0.212
SynFlow | synflow | 0.571 0.769 0.691  0.565 0.761 0.584  0.555 0.747 0.504
Jacov | jacov | 0.545 0.712 0.362  0.554 0.720 0.249  0.537 0.701 0.240
NASWOT | naswot | 0.556 0.742 0.572  0.579 0.768 0.449  0.583 0.768 0.459
ZenNAS | zen | 0.244 0.321 0.110  0.232 0.300 0.110  0.250 0.344 0.065
ZiCo | zico | 0.590 0.785 0.732  0.600 0.794 0.597  0.594 0.787 0.516
TE-NAS | te-nas | 0.489 0.676 0.481  0.481 0.664 0.214  0.459 0.641 0.143
AZ-NAS | az-nas | 0.739 0.912 0.702  0.722 0.899 0.473  0.694 0.876 0.482
ℵ (trainable layers) | layers | 0.580 0.723 0.631  0.594 0.737 0.491  0.574 0.716 0.483
VKDNW_single | vkdnw-single | 0.606 0.800 0.724  0.613 0.807 0.592  0.605 0.795 0.583
VKDNW_agg | vkdnw-agg | 0.740 0.911 0.743  0.736 0.906 0.578  0.723 0.893 0.614
GRAF | | 0.832 0.957 0.921  0.818 0.952 0.859  0.812 0.946 0.832
VKDNW_m | | 0.682 0.864 0.757  0.655 0.840 0.573  0.642 0.826 0.506 | ENTROPY
(VKDNW+ZCS)_m | | 0.865 0.973 0.906  0.859 0.970 0.861  0.863 0.971 0.828
(VKDNW+ZCS+GRAF)_m | | 0.878 0.978 0.927  0.869 0.975 0.871  0.874 0.975 0.856
"""
_ENTROPY = "the entropy in place of the FIM's eigenvalues, which are not stored"
TABLE_1 = Definition(
    "vkdnw:table1",
    "VKDNW, table I: NAS-Bench-201, the 9,445 networks without dead edges",
    _all(_ALIVE.replace("ENTROPY", _ENTROPY)),
    Where(population="no-dead-edges"),
    (TRUTH, OTHER_INPUTS, "GradSign's published figures are of all 15,625 networks."),
)
TABLE_6 = Definition(
    "vkdnw:table6",
    "VKDNW, table VI: NAS-Bench-201, all 15,625 networks",
    _all(_EVERY.replace("ENTROPY", _ENTROPY)),
    Where(),
    (
        TRUTH,
        OTHER_INPUTS,
        "Where only canonical networks are stored, twins have their canonical form's score: parts that do nothing are"
        " not counted, as they are in the paper's figures.",
    ),
)

_PARTS: dict[str, Lexicographic | str] = {
    "V": vkdnw_single,
    "J": "jacov",
    "E": "expressivity",
    "T": "trainability",
    "F": "flops",
}
_COMBINED = {
    "+".join(letters): OurRanking(RankProduct(tuple(_PARTS[letter] for letter in letters)))
    for count in range(1, 6)
    for letters in itertools.combinations(_PARTS, count)
}
_LETTERS = "V: VKDNW_single, J: jacov, E: expressivity, T: trainability, F: FLOPs."
ABLATION = Where(population="no-dead-edges", task="ImageNet16-120")
_ONE = """
V | | 0.622 0.814 0.608
J | | 0.603 0.781 0.339
E | | 0.588 0.779 0.274
T | | 0.353 0.517 0.233
F | | 0.545 0.718 0.403
"""
_FEW = """
V+J | | 0.677 0.851 0.565
V+E | | 0.675 0.851 0.489
V+T | | 0.622 0.821 0.552
V+F | | 0.619 0.811 0.557
J+E | | 0.630 0.815 0.349
J+T | | 0.621 0.818 0.505
J+F | | 0.695 0.863 0.574 | UNREADABLE
E+T | | 0.616 0.818 0.463 | UNREADABLE
E+F | | 0.642 0.818 0.434
T+F | | 0.617 0.815 0.580
V+J+T | | 0.698 0.879 0.632
V+J+E | | 0.686 0.858 0.515
V+J+F | | 0.696 0.868 0.616
V+E+T | | 0.698 0.882 0.612
V+E+F | | 0.672 0.848 0.512
V+T+F | | 0.681 0.870 0.675
J+E+T | | 0.674 0.862 0.527
J+E+F | | 0.695 0.859 0.484
J+T+F | | 0.726 0.899 0.673 | UNREADABLE
E+T+F | | 0.702 0.883 0.630 | UNREADABLE
"""
_MOST = """
V+J+E+T | | 0.717 0.891 0.623
V+J+E+F | | 0.706 0.871 0.553
V+J+T+F | | 0.736 0.905 0.695
V+E+T+F | | 0.722 0.896 0.658
J+E+T+F | | 0.735 0.901 0.646
V+J+E+T+F | | 0.743 0.906 0.664
"""
_UNREADABLE = "the printed check marks of this row are the same as another row's; which parts it has follows by order"
_SINGLE, _SEVERAL, _MANY = (
    rows(text.replace("UNREADABLE", _UNREADABLE), THREE, _COMBINED, tasks=IMAGENET) for text in (_ONE, _FEW, _MOST)
)
TABLE_3 = Definition(
    "vkdnw:table3",
    "VKDNW, table III: components of the aggregate on ImageNet16-120",
    (*_SINGLE, *_MANY),
    ABLATION,
    (TRUTH, OTHER_INPUTS, _LETTERS),
)
TABLE_9 = Definition(
    "vkdnw:table9",
    "VKDNW, table IX: all combinations of the aggregate's components on ImageNet16-120",
    (*_SINGLE, *_SEVERAL, *_MANY),
    ABLATION,
    (TRUTH, OTHER_INPUTS, _LETTERS),
)

_LAYERS = """
vkdnw | | 0.041 -0.090 -0.107
trainability | | 0.220 0.220 0.253
expressivity | | 0.539 0.539 0.539
progressivity | | 0.398 0.398 0.385
"""
TABLE_4 = Definition(
    "vkdnw:table4",
    "VKDNW, table IV: Kendall's τ with the number of trainable layers",
    rows(
        _LAYERS,
        ("kendall",),
        {name: Against(name, "layers") for name in ("vkdnw", "trainability", "expressivity", "progressivity")},
    ),
    Where(population="no-dead-edges"),
    ("No accuracy plays a part. Ours are of one dataset, so the three columns have the same figure of ours.",),
)


def _having(options: str, *, real: bool) -> OurRanking:
    """VKDNW with other options than the paper's own: ℵ first, and within it the entropy with these."""
    proxy, file = f"vkdnw/{options}", "nb201_vkdnw_real" if real else "nb201_vkdnw"
    inputs = "--archs sample:150 --task cifar10 --init own" if real else "--archs sample:150"
    batch = max(64, int(options.partition("=")[2].partition("/")[0]))
    sweep = f"--proxies {proxy} {inputs} --batch {batch} --out FOLDER"
    return OurRanking(Lexicographic("layers", proxy), file, sweep)


_OPTIONS = (
    *(f"samples={count}" for count in (8, 16, 32, 64, 128)),
    *(f"samples=64/tensors={count}" for count in (8, 16, 32, 64, 256)),
)
_SAMPLED: dict[str, FigureSource] = {
    **{options: _having(options, real=False) for options in _OPTIONS},
    **{f"real {options}": _having(options, real=True) for options in _OPTIONS},
    "single": OurRanking("vkdnw-single"),
    "needs": Absent("our proxy takes the first weight of a tensor, and no other"),
}
SAMPLED = (
    "Rows of few networks are of a random sample of classes, each counted once: to be compared with one another ('on"
    " the sample' is the paper's own setting on it) and not with the published figures, least of all nDCG."
)
_BATCHES = """
8, random | samples=8 | 0.615 0.808 0.617
16, random | samples=16 | 0.614 0.808 0.604
32, random | samples=32 | 0.619 0.812 0.611
64, random | single | 0.621 0.814 0.617
64, random, on the sample | samples=64 | 0.621 0.814 0.617
128, random | samples=128 | 0.621 0.814 0.616 | a sweep of its own, at batch 128
8, real | real samples=8 | 0.614 0.805 0.599
16, real | real samples=16 | 0.608 0.800 0.595
32, real | real samples=32 | 0.612 0.804 0.594
64, real | real samples=64 | 0.614 0.806 0.595
128, real | real samples=128 | 0.615 0.806 0.591 | a sweep of its own, at batch 128
"""
TABLE_5 = Definition(
    "vkdnw:table5",
    "VKDNW, table V: batch size, random or real input, on ImageNet16-120",
    rows(_BATCHES, THREE, _SAMPLED, tasks=IMAGENET),
    ABLATION,
    (TRUTH, SAMPLED, "Real inputs are CIFAR-10's, at PyTorch's initialisation; noise is at the paper's."),
)

_SIZES = """
8 | samples=64/tensors=8 | 0.590 0.782 0.579
16 | samples=64/tensors=16 | 0.619 0.810 0.592
32 | samples=64/tensors=32 | 0.621 0.813 0.600
64 | samples=64/tensors=64 | 0.621 0.814 0.607
128 | single | 0.619 0.812 0.611
128, on the sample | samples=64 | 0.619 0.812 0.611
256 | samples=64/tensors=256 | 0.619 0.812 0.606
"""
TABLE_7 = Definition(
    "vkdnw:table7",
    "VKDNW, table VII: size of the Fisher information matrix, on ImageNet16-120",
    rows(_SIZES, THREE, _SAMPLED, tasks=IMAGENET),
    ABLATION,
    (TRUTH, SAMPLED),
)

_WEIGHTS = """
one, random | needs | 0.618 0.811 0.586
one, at 0 | single | 0.622 0.814 0.608
one, at 0.2 | needs | 0.622 0.815 0.602
one, at 0.4 | needs | 0.625 0.817 0.606
one, at 0.6 | needs | 0.623 0.814 0.598
one, at 0.8 | needs | 0.622 0.814 0.609
one, at 1 | needs | 0.621 0.813 0.608
32 layers, 1 each | samples=64/tensors=32 | 0.621 0.813 0.600
32 layers, 2 each | needs | 0.634 0.824 0.608
32 layers, 4 each | needs | 0.626 0.817 0.600
32 layers, 8 each | needs | 0.605 0.797 0.594
"""
TABLE_8 = Definition(
    "vkdnw:table8",
    "VKDNW, table VIII: which weights of a layer, on ImageNet16-120",
    rows(_WEIGHTS, THREE, _SAMPLED, tasks=IMAGENET),
    ABLATION,
    (TRUTH, SAMPLED),
)

DEFINITIONS = (TABLE_1, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, TABLE_9)
