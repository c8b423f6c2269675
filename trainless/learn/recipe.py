"""Recipes: how a network is trained, as data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from trainless.core.errors import InputError
from trainless.core.registry import Registry
from trainless.core.task import Task


@dataclass(frozen=True)
class Augmentation:
    """Random changes of the training inputs; zero means none of that kind. Vectors and tokens are never changed.

    Args:
        flip: The axes that are mirrored with probability 1/2 each, counted from the first spatial one: ``(1,)`` mirrors
            images left to right.
        shift: The largest shift along each axis as a share of its length, filled with zeros (the channel mean).
        zoom: Lengths are multiplied by 1 ± this; a signal's time by as much.
        rotate: The largest angle in degrees, in the plane of the last two axes of images and volumes.
        scale: Amplitudes are multiplied by 1 ± this.
        noise: Deviation of added Gaussian noise, in deviations of the training data.
        mask: The largest share of each axis that a zeroed block spans.
        cutout: The side of a zeroed block around any place of the input, over whose edge it may hang; 0 for none.
    """

    flip: tuple[int, ...] = ()
    shift: float = 0.0
    zoom: float = 0.0
    rotate: float = 0.0
    scale: float = 0.0
    noise: float = 0.0
    mask: float = 0.0
    cutout: int = 0


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, regularisation and when to stop.

    The learning rate rises linearly over the ``warmup`` and then follows half a cosine to zero, step by step: a
    schedule fits however long a training is planned to be.

    Args:
        name: What it is called.
        summary: What it is for, in one line.
        optimiser: ``"sgd"``, ``"adamw"``, or no steps at all: ``"ridge"`` for the last linear layer in closed form
            (:mod:`trainless.learn.ridge`), ``"trees"`` for trees that are grown (:mod:`trainless.learn.trees`).
        lr: The highest learning rate.
        momentum: Of SGD; Adam's first beta.
        nesterov: Whether SGD looks ahead.
        weight_decay: On all parameters, or on ``decayed`` ones; decoupled with AdamW.
        decayed: ``"all"`` parameters, or ``"weights"``: kernels and matrices, but neither biases nor norms' gains.
        epochs: The budget.
        samples: Samples of an epoch at most; of larger sets an epoch draws as many anew.
        batch: Samples per step.
        warmup: The share of the training with a rising learning rate.
        keep: ``"best"`` ends with the weights of the lowest validation loss, ``"last"`` with the last ones.
        patience: Epochs without a lower validation loss after which training stops; 0 never stops early.
        class_weights: ``"balanced"`` weighs every class by N / (K · n_k), so that rare ones teach as much; the prior
            n_k / N is put back into the last layer's bias at the end, so that probabilities are those of the training
            data. Papers' recipes have none.
        smoothing: The share of a label that is spread over all classes.
        mixup: The parameter of the Beta distribution by which pairs of samples are mixed; 0 for none.
        average: The weights at the end are an exponential mean over this share of all steps; 0 for the last ones.
        clip: The largest gradient norm; 0 for any.
        drop_path: The probability, which rises up to this in the course of the training, of leaving out each operation
            of a cell for a sample; for networks of cells (:mod:`trainless.learn.paths`).
        auxiliary: The weight of the loss of a second head after two thirds of the cells, which training alone uses.
        augmentation: Random changes of the inputs.
    """

    name: str
    summary: str = ""
    optimiser: Literal["sgd", "adamw", "ridge", "trees"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    decayed: Literal["all", "weights"] = "all"
    epochs: int = 200
    samples: int = 2**20
    batch: int = 256
    warmup: float = 0.0
    keep: Literal["best", "last"] = "last"
    patience: int = 0
    class_weights: Literal["none", "balanced"] = "none"
    smoothing: float = 0.0
    mixup: float = 0.0
    average: float = 0.0
    clip: float = 0.0
    drop_path: float = 0.0
    auxiliary: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        least_of = {"epochs": 1, "samples": 2, "batch": 2, "patience": 0, "mixup": 0, "auxiliary": 0}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise InputError(
                    f"recipe {self.name}: {name}={getattr(self, name)} was given; expected {least} or more"
                )
        for name in ("warmup", "smoothing", "average", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"recipe {self.name}: {name}={getattr(self, name)} was given; expected a share from 0 to below 1"
                )
        if not self.lr > 0:
            raise InputError(f"recipe {self.name}: lr={self.lr} was given; expected a positive number")
        if self.augmentation.cutout < 0:
            raise InputError(f"recipe {self.name}: cutout={self.augmentation.cutout} was given; expected 0 or more")
        if self.patience and self.keep == "last":
            raise InputError(f"recipe {self.name}: patience={self.patience} needs keep='best'; keep='last' was given")


registry: Registry[Recipe] = Registry("recipe", "recipes")
DEFAULT, PAPER = "default", "paper"

for _recipe in (
    Recipe(
        "default",
        "unknown data: AdamW, one cycle, rare classes teach as much as frequent ones, light augmentation",
        optimiser="adamw",
        lr=0.003,
        weight_decay=0.05,
        decayed="weights",
        epochs=60,
        batch=32,
        warmup=0.3,
        class_weights="balanced",
        smoothing=0.05,
        clip=5.0,
        augmentation=Augmentation(shift=0.08, scale=0.1, noise=0.02),
    ),
    Recipe("ridge", "fixed features: the last layer in closed form", optimiser="ridge", epochs=1),
    Recipe("trees", "extremely randomised trees: grown, not trained", optimiser="trees", epochs=1),
    Recipe(
        "nb201", "NAS-Bench-201's own: 200 epochs, flips and crops", augmentation=Augmentation(flip=(1,), shift=0.125)
    ),
    Recipe(
        "darts",
        "cells of DARTS on CIFAR-10: 600 epochs, cutout, dropped paths, a second head",
        lr=0.025,
        nesterov=False,
        weight_decay=3e-4,
        epochs=600,
        batch=96,
        clip=5.0,
        drop_path=0.3,
        auxiliary=0.4,
        augmentation=Augmentation(flip=(1,), shift=0.125, cutout=16),
    ),
    Recipe(
        "darts-imagenet",
        "cells of DARTS on ImageNet: 250 epochs, label smoothing, a second head",
        lr=0.5,
        nesterov=False,
        weight_decay=3e-5,
        epochs=250,
        batch=1024,
        warmup=0.02,
        smoothing=0.1,
        clip=5.0,
        auxiliary=0.4,
        augmentation=Augmentation(flip=(1,), shift=0.125),
    ),
    Recipe(
        "teacup-ecg2017",
        "TEACUP on ECG2017: 10 epochs, early stopping on validation loss",
        lr=0.01,
        weight_decay=1e-7,
        epochs=10,
        keep="best",
        patience=3,
        augmentation=Augmentation(shift=0.05, scale=0.1, noise=0.02),
    ),
    Recipe(
        "teacup-breastmnist",
        "TEACUP on BreastMNIST: 200 epochs, momentum 0.99",
        lr=0.001,
        momentum=0.99,
        weight_decay=0.001,
        batch=64,
        augmentation=Augmentation(flip=(1,), shift=0.125),
    ),
    Recipe(
        "teacup-nodulemnist3d",
        "TEACUP on NoduleMNIST3D: 100 epochs",
        weight_decay=0.005,
        epochs=100,
        batch=64,
        augmentation=Augmentation(flip=(0, 1, 2)),
    ),
):
    registry.add(_recipe.name, _recipe)


def recipe(name: str, **changes: Any) -> Recipe:
    """A registered recipe, with changes.

    TEACUP's three follow its supplementary table 1 (learning rate, momentum, weight decay, epochs, early stopping;
    SGD with cosine annealing). The table gives neither batch size, augmentation nor patience: it says "similar to
    NAS-Bench-201", so momentum is Nesterov's and batches are 256 for ECG2017, but 64 for the two small sets (256
    would be three steps an epoch); the light augmentation and the patience of 3 are ours.

    The two for cells of DARTS are TEG-NAS's: cutout of 16, paths dropped with 0.3, a second head of weight 0.4 and a
    rate of 0.025 on CIFAR-10, label smoothing and 0.5 on ImageNet. Epochs, batches, decay and the bound on gradients,
    which it does not state, are DARTS' own and PC-DARTS' on ImageNet; shifts stand for ImageNet's crops.

    Example:
        >>> recipe("nb201").lr, recipe("nb201", epochs=12).epochs
        (0.1, 12)
    """
    found = registry[name]
    known = [entry.name for entry in dataclasses.fields(Recipe)]
    for change in changes:
        if change not in known:
            raise InputError(f"a recipe has no {change!r}; it has: {', '.join(known)}")
    return dataclasses.replace(found, **changes) if changes else found


def recipe_for(task: Task, name: str = "") -> Recipe:
    """A recipe by its name; ``"paper"`` is that of a task's own paper where there is one, and empty the default.

    Example:
        >>> recipe_for(Task.noise((1, 28, 28), 2), "paper").name
        'default'
    """
    own = {
        "cinc2017": "teacup-ecg2017",
        "breastmnist": "teacup-breastmnist",
        "nodulemnist3d": "teacup-nodulemnist3d",
        "cifar10": "nb201",
    }
    return recipe(own.get(task.name, DEFAULT) if name == PAPER else name or DEFAULT)


def augmentation_for(dims: int, *, strong: bool = False) -> Augmentation:
    """The changes of inputs that helped in cross-validation on all sets that we have (docs/recipes.md).

    Small shifts, amplitudes and a little noise for everything; where signals are trained ``strong``, that is for many
    epochs, they are stretched and masked too. Flips and turns made images and volumes worse.
    """
    if dims == 1 and strong:
        return Augmentation(shift=0.1, zoom=0.1, scale=0.2, noise=0.05, mask=0.1)
    return Augmentation(shift=0.08, scale=0.1, noise=0.02)
