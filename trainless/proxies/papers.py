"""The papers behind the proxies: who, what, where and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A publication.

    Args:
        authors: Family names, in the paper's order.
        title: Its title.
        venue: Where it appeared.
        year: When.
    """

    authors: tuple[str, ...]
    title: str
    venue: str
    year: int

    def __str__(self) -> str:
        """The short form, as in running text."""
        if len(self.authors) > 2:
            return f"{self.authors[0]} et al., {self.year}"
        return f"{' & '.join(self.authors)}, {self.year}"

    @property
    def reference(self) -> str:
        """The long form, as in a list of references.

        Example:
            >>> PAPERS["lee2024aznas"].reference
            'Lee, Ham. AZ-NAS: Assembling Zero-Cost Proxies for Network Architecture Search. CVPR 2024.'
        """
        return f"{', '.join(self.authors)}. {self.title}. {self.venue} {self.year}."


PAPERS = {
    "abdelfattah2021zerocost": Paper(
        ("Abdelfattah", "Mehrotra", "Dudziak", "Lane"), "Zero-Cost Proxies for Lightweight NAS", "ICLR", 2021
    ),
    "chen2021tenas": Paper(
        ("Chen", "Gong", "Wang"),
        "Neural Architecture Search on ImageNet in Four GPU Hours: A Theoretically Inspired Perspective",
        "ICLR",
        2021,
    ),
    "chen2023tegnas": Paper(
        ("Chen", "Gong", "Wei", "Shi", "Yan", "Yang", "Wang"),
        "Understanding and Accelerating Neural Architecture Search with Training-Free and Theory-Grounded Metrics",
        "IEEE TPAMI",
        2023,
    ),
    "gracheva2022epsilon": Paper(
        ("Gracheva",),
        "Neural Architecture Search: Two Constant Shared Weights Initialisations",
        "arXiv:2302.04406",
        2023,
    ),
    "jiang2023meco": Paper(
        ("Jiang", "Wang", "Bie"),
        "MeCo: Zero-Shot NAS with One Data and Single Forward Pass via Minimum Eigenvalue of Correlation",
        "NeurIPS",
        2023,
    ),
    "kadlecova2024graf": Paper(
        ("Kadlecová", "Lukasik", "Pilát", "Vidnerová", "Safari", "Neruda", "Hutter"),
        "Surprisingly Strong Performance Prediction with Neural Graph Features",
        "ICML",
        2024,
    ),
    "lee2019snip": Paper(
        ("Lee", "Ajanthan", "Torr"),
        "SNIP: Single-shot Network Pruning based on Connection Sensitivity",
        "ICLR",
        2019,
    ),
    "lee2024aznas": Paper(
        ("Lee", "Ham"), "AZ-NAS: Assembling Zero-Cost Proxies for Network Architecture Search", "CVPR", 2024
    ),
    "li2023zico": Paper(
        ("Li", "Yang", "Bhardwaj", "Marculescu"),
        "ZiCo: Zero-shot NAS via Inverse Coefficient of Variation on Gradients",
        "ICLR",
        2023,
    ),
    "lin2021zennas": Paper(
        ("Lin", "Wang", "Sun", "Chen", "Sun", "Qian", "Li", "Jin"),
        "Zen-NAS: A Zero-Shot NAS for High-Performance Image Recognition",
        "ICCV",
        2021,
    ),
    "lopes2021epenas": Paper(
        ("Lopes", "Alirezazadeh", "Alexandre"),
        "EPE-NAS: Efficient Performance Estimation Without Training for Neural Architecture Search",
        "ICANN",
        2021,
    ),
    "mellor2021naswot": Paper(
        ("Mellor", "Turner", "Storkey", "Crowley"), "Neural Architecture Search without Training", "ICML", 2021
    ),
    "peng2024swap": Paper(
        ("Peng", "Song", "Fayek", "Ciesielski", "Chang"),
        "SWAP-NAS: Sample-Wise Activation Patterns for Ultra-fast NAS",
        "ICLR",
        2024,
    ),
    "tanaka2020synflow": Paper(
        ("Tanaka", "Kunin", "Yamins", "Ganguli"),
        "Pruning neural networks without any data by iteratively conserving synaptic flow",
        "NeurIPS",
        2020,
    ),
    "teacup2024": Paper(
        ("Wu", "Wu", "Zhang", "Chen"),
        "Training-free Design of Deep Networks as Ensembles of Clinical Experts",
        "medRxiv",
        2024,
    ),
    "turner2020blockswap": Paper(
        ("Turner", "Crowley", "O'Boyle", "Storkey", "Gray"),
        "BlockSwap: Fisher-guided Block Substitution for Network Compression on a Budget",
        "ICLR",
        2020,
    ),
    "tybl2025vkdnw": Paper(
        ("Týbl", "Neumann"),
        "Training-free Neural Architecture Search through Variance of Knowledge of Deep Network Weights",
        "CVPR",
        2025,
    ),
    "wang2020grasp": Paper(
        ("Wang", "Zhang", "Grosse"), "Picking Winning Tickets Before Training by Preserving Gradient Flow", "ICLR", 2020
    ),
    "zhang2022gradsign": Paper(
        ("Zhang", "Jia"), "GradSign: Model Performance Inference with Theoretical Insights", "ICLR", 2022
    ),
}
"""Publications by citation key."""

BASELINE = "baseline"
"""The key of measures that no paper proposed."""

OWN = "trainless"
"""The key of measures that were first proposed here."""


def cite(key: str) -> str:
    """What a citation key stands for, in its short form; a key of somebody else's proxy stands for itself.

    Example:
        >>> cite("zhang2022gradsign"), cite("li2023zico"), cite("baseline")
        ('Zhang & Jia, 2022', 'Li et al., 2023', 'baseline')
    """
    return str(PAPERS[key]) if key in PAPERS else key
