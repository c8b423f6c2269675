"""MedMNIST's own names of its classes (Yang et al. 2023), for its files by their name and shape."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from trainless.core.task import PartName
from trainless.tasks.reading import Samples

SIDES = (28, 64, 128, 224)
ORGANS = (
    *("bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right", "liver"),
    *("lung-left", "lung-right", "pancreas", "spleen"),
)
CLASSES: Mapping[str, tuple[str, ...]] = {
    "pathmnist": (
        *("adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle", "normal colon mucosa"),
        *("cancer-associated stroma", "colorectal adenocarcinoma epithelium"),
    ),
    "dermamnist": (
        *("actinic keratoses and intraepithelial carcinoma", "basal cell carcinoma", "benign keratosis-like lesions"),
        *("dermatofibroma", "melanoma", "melanocytic nevi", "vascular lesions"),
    ),
    "octmnist": ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
    "pneumoniamnist": ("normal", "pneumonia"),
    "breastmnist": ("malignant", "normal, benign"),
    "bloodmnist": (
        *("basophil", "eosinophil", "erythroblast"),
        "immature granulocytes(myelocytes, metamyelocytes and promyelocytes)",
        *("lymphocyte", "monocyte", "neutrophil", "platelet"),
    ),
    "tissuemnist": (
        *("Collecting Duct, Connecting Tubule", "Distal Convoluted Tubule", "Glomerular endothelial cells"),
        *("Interstitial endothelial cells", "Leukocytes", "Podocytes", "Proximal Tubule Segments"),
        "Thick Ascending Limb",
    ),
    "organamnist": ORGANS,
    "organcmnist": ORGANS,
    "organsmnist": ORGANS,
    "organmnist3d": (
        *("liver", "kidney-right", "kidney-left", "femur-right", "femur-left", "bladder", "heart"),
        *("lung-right", "lung-left", "spleen", "pancreas"),
    ),
    "nodulemnist3d": ("benign", "malignant"),
    "adrenalmnist3d": ("normal", "hyperplasia"),
    "fracturemnist3d": ("buckle rib fracture", "nondisplaced rib fracture", "displaced rib fracture"),
    "vesselmnist3d": ("vessel", "aneurysm"),
    "synapsemnist3d": ("inhibitory synapse", "excitatory synapse"),
}


def class_names(name: str, given: Mapping[PartName, Samples]) -> tuple[str, ...]:
    """The names of a set's classes; none where the name or the arrays are not a MedMNIST set's.

    Example:
        >>> x, y = np.zeros((4, 28, 28), np.uint8), np.array([[0], [1], [1], [0]])
        >>> class_names("breastmnist", {"train": Samples(x, y)}), class_names("own", {"train": Samples(x, y)})
        (('malignant', 'normal, benign'), ())
    """
    names = CLASSES.get(re.sub(r"_(rebuilt|\d+)$", "", re.sub(r"_rebuilt$", "", name.lower())), ())
    solid = "3d" in name.lower()
    for samples in given.values():
        sides = set(samples.x.shape[1 : 4 if solid else 3])
        if samples.x.dtype != np.uint8 or len(sides) != 1 or not sides <= set(SIDES):
            return ()
        if samples.y.dtype.kind not in "iu" or samples.y.size != len(samples.x) or samples.y.max() >= len(names):
            return ()
    return names
