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
        flip: ``"last"`` mirrors along the last axis with probability 1/2, ``"all"`` along each axis.
        shift: The largest shift along each axis as a share of its length, filled with zeros (the channel mean).
        scale: Amplitudes are multiplied by 1 ± this.
        noise: Deviation of added Gaussian noise, in deviations of the training data.
    """

    flip: Literal["none", "last", "all"] = "none"
    shift: float = 0.0
    scale: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, regularisation and when to stop.

    The learning rate rises linearly over ``warmup`` epochs and then follows half a cosine to zero, step by step.

    Args:
        name: What it is called.
        summary: What it is for, in one line.
        optimiser: ``"sgd"`` or ``"adam"`` (with decoupled weight decay).
        lr: The highest learning rate.
        momentum: Of SGD; Adam's first beta.
        nesterov: Whether SGD looks ahead.
        weight_decay: On all parameters.
        epochs: The budget; one sees a million samples (``batches.EPOCH``) at most.
        batch: Samples per step.
        warmup: Epochs of linear warm-up.
        keep: ``"best"`` ends with the weights of the lowest validation loss, ``"last"`` with the last ones.
        patience: Epochs without a lower validation loss after which training stops; 0 never stops early.
        class_weights: ``"balanced"`` weighs every class by N / (K · n_k), so that rare ones count as much: the network
            answers as if all were equally frequent, and does not pass over a rare disease. Papers' recipes have none.
        clip: The largest gradient norm; 0 for any.
        augmentation: Random changes of the inputs.
    """

    name: str
    summary: str = ""
    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    epochs: int = 200
    batch: int = 256
    warmup: int = 0
    keep: Literal["best", "last"] = "last"
    patience: int = 0
    class_weights: Literal["none", "balanced"] = "none"
    clip: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 2), ("warmup", 0), ("patience", 0)):
            if getattr(self, name) < least:
                raise InputError(
                    f"recipe {self.name}: {name}={getattr(self, name)} was given; expected {least} or more"
                )
        if not self.lr > 0:
            raise InputError(f"recipe {self.name}: lr={self.lr} was given; expected a positive number")
        if self.patience and self.keep == "last":
            raise InputError(f"recipe {self.name}: patience={self.patience} needs keep='best'; keep='last' was given")


registry: Registry[Recipe] = Registry("recipe", "recipes")

for _recipe in (
    Recipe(
        "default",
        "unknown data: SGD, short warm-up, early stopping, rare classes weigh as much as frequent ones, small shifts",
        lr=0.05,
        epochs=60,
        batch=64,
        warmup=2,
        keep="best",
        patience=12,
        class_weights="balanced",
        clip=5.0,
        augmentation=Augmentation(shift=0.06, scale=0.1, noise=0.02),
    ),
    Recipe(
        "nb201", "NAS-Bench-201's own: 200 epochs, flips and crops", augmentation=Augmentation(flip="last", shift=0.125)
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
        augmentation=Augmentation(flip="last", shift=0.125),
    ),
    Recipe(
        "teacup-nodulemnist3d",
        "TEACUP on NoduleMNIST3D: 100 epochs",
        weight_decay=0.005,
        epochs=100,
        batch=64,
        augmentation=Augmentation(flip="all"),
    ),
):
    registry.add(_recipe.name, _recipe)


def recipe(name: str, **changes: Any) -> Recipe:
    """A registered recipe, with changes.

    TEACUP's three follow its supplementary table 1 (learning rate, momentum, weight decay, epochs, early stopping;
    SGD with cosine annealing). The table gives neither batch size, augmentation nor patience: it says "similar to
    NAS-Bench-201", so momentum is Nesterov's and batches are 256 for ECG2017, but 64 for the two small sets (256
    would be three steps an epoch); the light augmentation and the patience of 3 are ours.

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


def recipe_for(task: Task) -> Recipe:
    """The recipe of a task's own paper where there is one, and the default otherwise."""
    own = {
        "cinc2017-windows": "teacup-ecg2017",
        "breastmnist": "teacup-breastmnist",
        "nodulemnist3d": "teacup-nodulemnist3d",
        "cifar10": "nb201",
    }
    return recipe(own.get(task.name, "default"))
