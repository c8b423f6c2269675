"""Growing trees for a network of :mod:`trainless.spaces.trees`."""

from __future__ import annotations

import copy
import math
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.task import PartName, Task
from trainless.core.types import Array, Floats
from trainless.learn.checkpoint import Epoch, Trained
from trainless.learn.recipe import Recipe
from trainless.learn.validation import validated
from trainless.spaces.trees import STEPS, TreesNetwork

ROWS = 20_000  # samples that trees are grown on, at most
PRIOR = 1.0  # samples at the training prior that each leaf has seen beside its own


def fit_trees(net: nn.Module, task: Task, recipe: Recipe, *, seed: int = 0) -> Trained:
    """Grow the trees of a copy of a network on the training part.

    A leaf tells the shares of the classes that it has seen, with one sample at the training prior beside them, so that
    probabilities are at that prior and no answer is certain; or the mean value.

    Args:
        net: A network of the space ``trees``.
        task: The data; the validation part is only looked at.
        recipe: The recipe ``trees``.
        seed: Of thresholds, of columns, and of samples where there are very many.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.spaces.trees import Trees
        >>> from trainless.tasks import task
        >>> net = Trees().build(Trees().plain(task("digits")), task("digits"))
        >>> fit_trees(net, task("digits"), recipe("trees")).history[0].valid_accuracy > 0.9
        True
    """
    if not isinstance(net, TreesNetwork):
        raise InputError(f"the recipe trees grows networks of the space trees; {type(net).__name__} was given")
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    started, grown, classes = time.monotonic(), copy.deepcopy(net), task.target.classes
    x, y = _values(task, "train", seed)
    kind = ExtraTreesClassifier if classes else ExtraTreesRegressor
    forest: Any = kind(
        grown.trees,
        max_leaf_nodes=grown.leaves,
        max_depth=STEPS,
        max_features="sqrt" if classes else 1.0,
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        forest.fit(x, y[:, 0] if y.ndim > 1 and y.shape[1] == 1 else y)
    prior = np.bincount(y, minlength=classes) / len(y) if classes else None
    for place, one in enumerate(forest.estimators_):
        _put(grown, place, one.tree_, None if prior is None else (forest.classes_, prior))
    valid_x, valid_y = task.tensors("valid")
    with torch.inference_mode():
        answers = grown.eval()(valid_x)
    loss, accuracy = validated(task, answers, valid_y)
    epoch = Epoch(0, recipe.lr, math.nan, loss, accuracy, time.monotonic() - started)
    return Trained(grown, (epoch,))


def _values(task: Task, name: PartName, seed: int) -> tuple[Array, Array]:
    """The values of samples side by side, and the labels."""
    size = len(task.part(name))
    rows = np.sort(np.random.default_rng([seed, size]).permutation(size)[:ROWS])
    x, y = task.tensors(name, rows)
    return x.flatten(1).numpy(), y.numpy()


def _put(net: TreesNetwork, place: int, tree: Any, shares: tuple[Array, Floats] | None) -> None:
    """Write one tree into the tables of a network."""
    count, leaf = tree.node_count, tree.children_left < 0
    here = np.arange(count)
    net.column[place, :count] = torch.from_numpy(np.where(leaf, 0, tree.feature))
    net.threshold[place, :count] = torch.from_numpy(_at_most(np.where(leaf, 0.0, tree.threshold)))
    for way, child in (("below", tree.children_left), ("above", tree.children_right)):
        net.get_buffer(way)[place, :count] = torch.from_numpy(np.where(leaf, here, child))
    told = np.asarray(tree.value, np.float64)
    if shares is None:
        net.told[place, :count] = torch.from_numpy(told[:, :, 0]).float()
        return
    there, prior = shares
    seen = np.zeros((count, len(prior)))
    seen[:, there] = told[:, 0] / told[:, 0].sum(1, keepdims=True) * tree.weighted_n_node_samples[:, None]
    smoothed = (seen + PRIOR * prior) / (seen.sum(1, keepdims=True) + PRIOR)
    net.told[place, :count] = torch.from_numpy(smoothed).float()


def _at_most(threshold: Floats) -> Array:
    """The largest single-precision numbers that are not above some: of such values, as many are at most either."""
    found = threshold.astype(np.float32)
    return np.where(found > threshold, np.nextafter(found, np.float32(-np.inf)), found)
