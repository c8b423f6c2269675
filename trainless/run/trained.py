"""Real training as the signal of a search."""

from __future__ import annotations

import dataclasses
import math

import torch

from trainless.core.arch import Arch
from trainless.core.errors import Unscorable
from trainless.core.task import Task
from trainless.engine.measures import ByFunction
from trainless.learn.loop import train
from trainless.learn.recipe import Recipe
from trainless.spaces.protocol import Space


def by_training(space: Space, task: Task, recipe: Recipe, *, seed: int = 0, store: str = "") -> ByFunction:
    """Measure archs by training them: the best validation accuracy, or minus the least loss where values are predicted.

    A proposal's fidelity is the share of the recipe's epochs. Give it to ``search(..., measure=...)``.

    Args:
        space: The space of the archs.
        task: The data; its validation part is what is measured on.
        recipe: How to train.
        seed: Of the weights and of the training.
        store: Path of the store; empty keeps nothing.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.search.searcher import Proposal
        >>> from trainless.spaces import space
        >>> from trainless.tasks import task
        >>> measure = by_training(space("nb201", channels=2, cells=1), task("digits"), recipe("default", epochs=1))
        >>> 0 <= measure(Proposal((1, 0, 0, 3, 0, 0))).values["trained"] <= 1
        True
    """

    def trained(arch: Arch, fidelity: float) -> float:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            net = space.build(arch, task)
        epochs = max(1, round(recipe.epochs * fidelity))
        result = train(net, task, dataclasses.replace(recipe, epochs=epochs), seed=seed)
        if result.failed:
            raise Unscorable(result.status)
        if task.target.kind == "regression":
            return -min(epoch.valid_loss for epoch in result.history)
        return max(epoch.valid_accuracy for epoch in result.history if not math.isnan(epoch.valid_accuracy))

    return ByFunction("trained", trained, space, task=f"{task.fingerprint} {recipe!r}", seed=seed, store=store)
