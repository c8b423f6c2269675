"""VKDNW: "Training-free neural architecture search through the variance of knowledge of deep network weights"."""

from __future__ import annotations

from trainless.bench.papers.definition import Definition, Figures, Where, by_task
from trainless.bench.papers.fits import Forest
from trainless.bench.papers.sources import Absent, Against, Ours, Ranked
from trainless.rankings import Lexicographic, RankProduct, vkdnw_single

THREE = ("kendall", "spearman", "ndcg_1000")
IMAGENET = ("ImageNet16-120",)
OTHER_INPUTS = (
    "Our scores are of CIFAR-10 images (or noise, where the paper takes noise) on a network of 10 classes, whatever the"
    " accuracies' dataset; proxies that look at data or labels would differ a little on the other two."
)
TRUTH = "Test accuracies after 200 epochs; the paper's text says validation, its figures are met with test."


_FEW = "a random sample of classes, each counted once"


def _row(label: str, source: Ours | Ranked | Forest | Absent, *values: float, note: str = "") -> Figures:
    return Figures(label, source, by_task(THREE, *values), note=note)


TABLE_1 = Definition(
    "vkdnw:table1",
    "VKDNW, table I: NAS-Bench-201, the 9,445 networks without dead edges",
    (
        _row("FLOPs", Ours("flops"), 0.623, 0.799, 0.745, 0.586, 0.763, 0.576, 0.545, 0.718, 0.403),
        _row("GradNorm", Ours("grad_norm"), 0.328, 0.438, 0.509, 0.341, 0.451, 0.278, 0.310, 0.418, 0.265),
        _row("GraSP", Ours("grasp"), 0.352, 0.505, 0.518, 0.349, 0.498, 0.284, 0.359, 0.502, 0.281, note=_FEW),
        _row("SNIP", Ours("snip"), 0.431, 0.591, 0.513, 0.440, 0.597, 0.286, 0.389, 0.521, 0.286),
        _row("SynFlow", Ours("synflow"), 0.561, 0.758, 0.709, 0.553, 0.750, 0.594, 0.531, 0.719, 0.511),
        _row("Jacov", Ours("jacov"), 0.616, 0.800, 0.540, 0.639, 0.820, 0.402, 0.602, 0.779, 0.356),
        _row("NASWOT", Ours("naswot"), 0.571, 0.762, 0.607, 0.607, 0.799, 0.475, 0.605, 0.794, 0.490),
        _row("ZenNAS", Ours("zen"), 0.102, 0.103, 0.120, 0.079, 0.072, 0.115, 0.091, 0.109, 0.073),
        Figures("GradSign", Ours("gradsign"), by_task(("spearman",), 0.765, 0.793, 0.783)),
        _row("ZiCo", Ours("zico"), 0.607, 0.802, 0.751, 0.614, 0.809, 0.607, 0.587, 0.779, 0.523),
        _row("TE-NAS", Ranked("te-nas"), 0.536, 0.722, 0.602, 0.537, 0.723, 0.327, 0.523, 0.709, 0.330),
        _row("AZ-NAS", Ranked("az-nas"), 0.712, 0.892, 0.749, 0.696, 0.880, 0.549, 0.673, 0.859, 0.534),
        _row("ℵ (trainable layers)", Ours("layers"), 0.626, 0.767, 0.671, 0.646, 0.787, 0.525, 0.623, 0.764, 0.497),
        _row("VKDNW_single", Ranked("vkdnw-single"), 0.618, 0.815, 0.751, 0.634, 0.829, 0.617, 0.622, 0.814, 0.608),
        _row("VKDNW_agg", Ranked("vkdnw-agg"), 0.750, 0.919, 0.785, 0.753, 0.919, 0.636, 0.743, 0.906, 0.664),
        _row("GRAF", Forest(structure=True), 0.820, 0.953, 0.935, 0.809, 0.948, 0.858, 0.796, 0.941, 0.828),
        _row(
            "VKDNW_m",
            Forest(("vkdnw", "layers", "flops")),
            *(0.647, 0.831, 0.750, 0.636, 0.821, 0.602, 0.611, 0.798, 0.575),
            note="the entropy in place of the FIM's eigenvalues, which are not stored",
        ),
        _row(
            "(VKDNW+ZCS)_m",
            Forest(everything=True),
            *(0.840, 0.963, 0.922, 0.834, 0.960, 0.884, 0.830, 0.958, 0.843),
            note="all stored proxies",
        ),
        _row(
            "(VKDNW+ZCS+GRAF)_m",
            Forest(everything=True, structure=True),
            *(0.859, 0.971, 0.946, 0.847, 0.966, 0.895, 0.842, 0.963, 0.867),
            note="all stored proxies",
        ),
    ),
    Where(population="no-dead-edges"),
    (TRUTH, OTHER_INPUTS, "GradSign's published figures are of all 15,625 networks."),
)

TABLE_6 = Definition(
    "vkdnw:table6",
    "VKDNW, table VI: NAS-Bench-201, all 15,625 networks",
    (
        _row("FLOPs", Ours("flops"), 0.578, 0.753, 0.729, 0.551, 0.727, 0.565, 0.517, 0.691, 0.386),
        _row("GradNorm", Ours("grad_norm"), 0.356, 0.483, 0.407, 0.359, 0.489, 0.202, 0.322, 0.441, 0.192),
        _row("GraSP", Ours("grasp"), 0.315, 0.454, 0.439, 0.322, 0.461, 0.224, 0.333, 0.470, 0.207, note=_FEW),
        _row("SNIP", Ours("snip"), 0.454, 0.615, 0.433, 0.462, 0.620, 0.221, 0.403, 0.539, 0.212),
        _row("SynFlow", Ours("synflow"), 0.571, 0.769, 0.691, 0.565, 0.761, 0.584, 0.555, 0.747, 0.504),
        _row("Jacov", Ours("jacov"), 0.545, 0.712, 0.362, 0.554, 0.720, 0.249, 0.537, 0.701, 0.240),
        _row("NASWOT", Ours("naswot"), 0.556, 0.742, 0.572, 0.579, 0.768, 0.449, 0.583, 0.768, 0.459),
        _row("ZenNAS", Ours("zen"), 0.244, 0.321, 0.110, 0.232, 0.300, 0.110, 0.250, 0.344, 0.065),
        Figures("GradSign", Ours("gradsign"), by_task(("spearman",), 0.765, 0.793, 0.783)),
        _row("ZiCo", Ours("zico"), 0.590, 0.785, 0.732, 0.600, 0.794, 0.597, 0.594, 0.787, 0.516),
        _row("TE-NAS", Ranked("te-nas"), 0.489, 0.676, 0.481, 0.481, 0.664, 0.214, 0.459, 0.641, 0.143),
        _row("AZ-NAS", Ranked("az-nas"), 0.739, 0.912, 0.702, 0.722, 0.899, 0.473, 0.694, 0.876, 0.482),
        _row("ℵ (trainable layers)", Ours("layers"), 0.580, 0.723, 0.631, 0.594, 0.737, 0.491, 0.574, 0.716, 0.483),
        _row("VKDNW_single", Ranked("vkdnw-single"), 0.606, 0.800, 0.724, 0.613, 0.807, 0.592, 0.605, 0.795, 0.583),
        _row("VKDNW_agg", Ranked("vkdnw-agg"), 0.740, 0.911, 0.743, 0.736, 0.906, 0.578, 0.723, 0.893, 0.614),
        _row("GRAF", Forest(structure=True), 0.832, 0.957, 0.921, 0.818, 0.952, 0.859, 0.812, 0.946, 0.832),
        _row(
            "VKDNW_m",
            Forest(("vkdnw", "layers", "flops")),
            *(0.682, 0.864, 0.757, 0.655, 0.840, 0.573, 0.642, 0.826, 0.506),
            note="the entropy in place of the FIM's eigenvalues, which are not stored",
        ),
        _row("(VKDNW+ZCS)_m", Forest(everything=True), 0.865, 0.973, 0.906, 0.859, 0.970, 0.861, 0.863, 0.971, 0.828),
        _row(
            "(VKDNW+ZCS+GRAF)_m",
            Forest(everything=True, structure=True),
            *(0.878, 0.978, 0.927, 0.869, 0.975, 0.871, 0.874, 0.975, 0.856),
        ),
    ),
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


def _parts(letters: str, *values: float, note: str = "") -> Figures:
    ranking = RankProduct(tuple(_PARTS[letter] for letter in letters))
    return Figures("+".join(letters), Ranked(ranking), by_task(THREE, *values, tasks=IMAGENET), note=note)


SINGLE_PARTS = (
    _parts("V", 0.622, 0.814, 0.608),
    _parts("J", 0.603, 0.781, 0.339),
    _parts("E", 0.588, 0.779, 0.274),
    _parts("T", 0.353, 0.517, 0.233),
    _parts("F", 0.545, 0.718, 0.403),
)
MOST_PARTS = (
    _parts("VJET", 0.717, 0.891, 0.623),
    _parts("VJEF", 0.706, 0.871, 0.553),
    _parts("VJTF", 0.736, 0.905, 0.695),
    _parts("VETF", 0.722, 0.896, 0.658),
    _parts("JETF", 0.735, 0.901, 0.646),
    _parts("VJETF", 0.743, 0.906, 0.664),
)
ABLATION = Where(population="no-dead-edges", task="ImageNet16-120")

TABLE_3 = Definition(
    "vkdnw:table3",
    "VKDNW, table III: components of the aggregate on ImageNet16-120",
    (*SINGLE_PARTS, *MOST_PARTS),
    ABLATION,
    (TRUTH, OTHER_INPUTS, "V: VKDNW_single, J: jacov, E: expressivity, T: trainability, F: FLOPs."),
)

_UNREADABLE = "the printed check marks of this row are the same as another row's; which parts it has follows by order"
TABLE_9 = Definition(
    "vkdnw:table9",
    "VKDNW, table IX: all combinations of the aggregate's components on ImageNet16-120",
    (
        *SINGLE_PARTS,
        _parts("VJ", 0.677, 0.851, 0.565),
        _parts("VE", 0.675, 0.851, 0.489),
        _parts("VT", 0.622, 0.821, 0.552),
        _parts("VF", 0.619, 0.811, 0.557),
        _parts("JE", 0.630, 0.815, 0.349),
        _parts("JT", 0.621, 0.818, 0.505),
        _parts("JF", 0.695, 0.863, 0.574, note=_UNREADABLE),
        _parts("ET", 0.616, 0.818, 0.463, note=_UNREADABLE),
        _parts("EF", 0.642, 0.818, 0.434),
        _parts("TF", 0.617, 0.815, 0.580),
        _parts("VJT", 0.698, 0.879, 0.632),
        _parts("VJE", 0.686, 0.858, 0.515),
        _parts("VJF", 0.696, 0.868, 0.616),
        _parts("VET", 0.698, 0.882, 0.612),
        _parts("VEF", 0.672, 0.848, 0.512),
        _parts("VTF", 0.681, 0.870, 0.675),
        _parts("JET", 0.674, 0.862, 0.527),
        _parts("JEF", 0.695, 0.859, 0.484),
        _parts("JTF", 0.726, 0.899, 0.673, note=_UNREADABLE),
        _parts("ETF", 0.702, 0.883, 0.630, note=_UNREADABLE),
        *MOST_PARTS,
    ),
    ABLATION,
    (TRUTH, OTHER_INPUTS, "V: VKDNW_single, J: jacov, E: expressivity, T: trainability, F: FLOPs."),
)


def _against(proxy: str, *values: float) -> Figures:
    return Figures(proxy, Against(proxy, "layers"), by_task(("kendall",), *values))


TABLE_4 = Definition(
    "vkdnw:table4",
    "VKDNW, table IV: Kendall's τ with the number of trainable layers",
    (
        _against("vkdnw", 0.041, -0.090, -0.107),
        _against("trainability", 0.220, 0.220, 0.253),
        _against("expressivity", 0.539, 0.539, 0.539),
        _against("progressivity", 0.398, 0.398, 0.385),
    ),
    Where(population="no-dead-edges"),
    ("No accuracy plays a part. Ours are of one dataset, so the three columns have the same figure of ours.",),
)


def _needs(label: str, *values: float) -> Figures:
    reason = "our proxy takes the first weight of a tensor, and no other"
    return Figures(label, Absent(reason), by_task(THREE, *values, tasks=IMAGENET))


def _single(label: str, *values: float) -> Figures:
    return Figures(label, Ranked("vkdnw-single"), by_task(THREE, *values, tasks=IMAGENET))


NOISE = "--archs sample:150"
REAL = "--archs sample:150 --task cifar10 --init own"


def _having(label: str, options: str, *values: float, real: bool = False, batch: int = 64) -> Figures:
    """A row of other options than the paper's own: ℵ first, and within it the entropy with these."""
    proxy, file = f"vkdnw/{options}", "nb201_vkdnw_real" if real else "nb201_vkdnw"
    sweep = f"--proxies {proxy} {REAL if real else NOISE} --batch {batch} --out FOLDER"
    source = Ranked(Lexicographic("layers", proxy), file, sweep)
    note = "" if batch == 64 else f"a sweep of its own, at batch {batch}"
    return Figures(label, source, by_task(THREE, *values, tasks=IMAGENET), note=note)


SAMPLED = (
    "Rows of few networks are of a random sample of classes, each counted once: to be compared with one another ('on"
    " the sample' is the paper's own setting on it) and not with the published figures, least of all nDCG."
)

TABLE_5 = Definition(
    "vkdnw:table5",
    "VKDNW, table V: batch size, random or real input, on ImageNet16-120",
    (
        _having("8, random", "samples=8", 0.615, 0.808, 0.617),
        _having("16, random", "samples=16", 0.614, 0.808, 0.604),
        _having("32, random", "samples=32", 0.619, 0.812, 0.611),
        _single("64, random", 0.621, 0.814, 0.617),
        _having("64, random, on the sample", "samples=64", 0.621, 0.814, 0.617),
        _having("128, random", "samples=128", 0.621, 0.814, 0.616, batch=128),
        _having("8, real", "samples=8", 0.614, 0.805, 0.599, real=True),
        _having("16, real", "samples=16", 0.608, 0.800, 0.595, real=True),
        _having("32, real", "samples=32", 0.612, 0.804, 0.594, real=True),
        _having("64, real", "samples=64", 0.614, 0.806, 0.595, real=True),
        _having("128, real", "samples=128", 0.615, 0.806, 0.591, real=True, batch=128),
    ),
    ABLATION,
    (TRUTH, SAMPLED, "Real inputs are CIFAR-10's, at PyTorch's initialisation; noise is at the paper's."),
)

TABLE_7 = Definition(
    "vkdnw:table7",
    "VKDNW, table VII: size of the Fisher information matrix, on ImageNet16-120",
    (
        _having("8", "samples=64/tensors=8", 0.590, 0.782, 0.579),
        _having("16", "samples=64/tensors=16", 0.619, 0.810, 0.592),
        _having("32", "samples=64/tensors=32", 0.621, 0.813, 0.600),
        _having("64", "samples=64/tensors=64", 0.621, 0.814, 0.607),
        _single("128", 0.619, 0.812, 0.611),
        _having("128, on the sample", "samples=64", 0.619, 0.812, 0.611),
        _having("256", "samples=64/tensors=256", 0.619, 0.812, 0.606),
    ),
    ABLATION,
    (TRUTH, SAMPLED),
)

TABLE_8 = Definition(
    "vkdnw:table8",
    "VKDNW, table VIII: which weights of a layer, on ImageNet16-120",
    (
        _needs("one, random", 0.618, 0.811, 0.586),
        _single("one, at 0", 0.622, 0.814, 0.608),
        _needs("one, at 0.2", 0.622, 0.815, 0.602),
        _needs("one, at 0.4", 0.625, 0.817, 0.606),
        _needs("one, at 0.6", 0.623, 0.814, 0.598),
        _needs("one, at 0.8", 0.622, 0.814, 0.609),
        _needs("one, at 1", 0.621, 0.813, 0.608),
        _having("32 layers, 1 each", "samples=64/tensors=32", 0.621, 0.813, 0.600),
        _needs("32 layers, 2 each", 0.634, 0.824, 0.608),
        _needs("32 layers, 4 each", 0.626, 0.817, 0.600),
        _needs("32 layers, 8 each", 0.605, 0.797, 0.594),
    ),
    ABLATION,
    (TRUTH, SAMPLED),
)

DEFINITIONS = (TABLE_1, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_8, TABLE_9)
