"""The last linear layer in closed form: ridge regression on features that stay as they were drawn.

Exact leave-one-out answers cost nothing beyond the fit itself; they choose the penalty, and then the scale and offsets
by which decision values become probabilities.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.seeds import generator, seeded
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.types import Array, Floats, Index, Labels
from trainless.learn.batches import Feed, Precision, class_weights, in_order, outputs
from trainless.learn.checkpoint import Epoch, Trained
from trainless.learn.recipe import Recipe
from trainless.learn.validation import validated

PENALTIES = tuple(10.0 ** (half / 2) for half in range(-6, 13))  # 0.001 to 1,000,000
HELD_BYTES = 2**31  # features of at most so many bytes are held; of more samples some are drawn
LOOKED_AT = 1024  # training samples at most from which a network's own numbers are set
BATCH = 64
NOTHING = 1e-6  # a feature with a smaller deviation, beside its mean or one, is constant
SCALES = (1e-3, 1e3)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@runtime_checkable
class Preparable(Protocol):
    """A network with numbers that are set from training inputs before anything is learnt."""

    def prepare(self, x: Tensor) -> None:
        """Set them from some training inputs, drawing by torch's own random state."""
        ...


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A linear map, its penalty, and what each sample would have been told had it been left out."""

    weights: Tensor
    intercept: Tensor
    penalty: float
    left_out: Tensor


def ridge(
    features: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    penalties: Sequence[float] = PENALTIES,
    together: Array | None = None,
) -> RidgeFit:
    """Ridge regression with an intercept that is not penalised, and the penalty of least leave-one-out error.

    Minimises Σ wᵢ ‖tᵢ − b − Wᵀxᵢ‖² + λ‖W‖². The errors of samples that are left out together are exactly (I − H)⁻¹ r,
    where r are their residuals and H their part of the hat matrix; all penalties share one eigendecomposition, of the
    Gram matrix or of the covariance, whichever is smaller.

    Args:
        features: ``(N, P)``; standardise them, because one penalty is for all.
        targets: ``(N, K)``.
        weights: One positive number per sample; all alike without.
        penalties: Those to choose from.
        together: The recording or patient of each sample: samples of one are left out together. Without, each alone.

    Example:
        >>> x = torch.arange(4.0).reshape(4, 1)
        >>> found = ridge(x, 2 * x + 1)
        >>> found.penalty, round(float(found.weights), 2), round(float(found.intercept), 2)
        (0.001, 2.0, 1.0)
    """
    x, t = features.double(), targets.double()
    share = torch.ones(len(x), dtype=x.dtype, device=x.device) if weights is None else weights.to(x)
    root = share.sqrt().unsqueeze(1)
    middle, centre = (share @ x) / share.sum(), (share @ t) / share.sum()
    x, t = (x - middle) * root, (t - centre) * root  # both are now orthogonal to the roots of the weights
    spread = _Gram(x, t, root) if len(x) <= x.shape[1] else _Covariance(x, t, root)
    blocks = [torch.from_numpy(block).to(x.device) for block in _blocks(len(x), together)]
    errors = [float(spread.left_out(penalty, blocks).square().sum()) for penalty in penalties]
    penalty = float(penalties[int(np.nanargmin(errors))])
    slope = spread.slope(penalty)
    left_out = targets.double() - spread.left_out(penalty, blocks) / root
    return RidgeFit(slope, centre - middle @ slope, penalty, left_out)


def _blocks(n: int, together: Array | None) -> list[Index]:
    """Rows that are left out together, as arrays ``(groups, size)``, one for every size."""
    found = [np.arange(n)[:, None]]
    if together is not None:
        _, which, sizes = np.unique(together, return_inverse=True, return_counts=True)
        if len(sizes) > 1:
            order, starts = np.argsort(which, kind="stable"), np.cumsum(sizes) - sizes
            found = [
                np.stack([order[start : start + size] for start in starts[sizes == size]]) for size in np.unique(sizes)
            ]
    return found


class _Spread:
    """A decomposition: of every penalty it gives residuals, their part of the hat matrix, and coefficients."""

    def left_out(self, penalty: float, blocks: Sequence[Tensor]) -> Tensor:
        """The error of each sample when it is left out with those of its block."""
        rest = self.rest(penalty)
        errors = torch.empty_like(rest)
        for block in blocks:
            errors[block] = torch.linalg.solve(self.free(penalty, block), rest[block])
        return errors

    def rest(self, penalty: float) -> Tensor:
        raise NotImplementedError

    def free(self, penalty: float, block: Tensor) -> Tensor:
        raise NotImplementedError

    def slope(self, penalty: float) -> Tensor:
        raise NotImplementedError


class _Gram(_Spread):
    """The eigenvectors of X Xᵀ without the one of the intercept; residuals and hat are divided by the penalty."""

    def __init__(self, x: Tensor, t: Tensor, root: Tensor) -> None:
        gram = x @ x.T
        ahead = 2 * gram.trace() + 1  # puts the intercept's direction last, apart from all others
        values, vectors = torch.linalg.eigh(gram + ahead * (root @ root.T) / root.square().sum())
        self.x, self.values, self.vectors = x, values[:-1].clamp_min(0), vectors[:, :-1]
        self.seen = self.vectors.T @ t

    def rest(self, penalty: float) -> Tensor:
        return torch.mm(self.vectors, self.seen / (self.values + penalty).unsqueeze(1))

    def free(self, penalty: float, block: Tensor) -> Tensor:
        return _products(self.vectors, 1 / (self.values + penalty), block)

    def slope(self, penalty: float) -> Tensor:
        return torch.mm(self.x.T, self.rest(penalty))


class _Covariance(_Spread):
    """The eigenvectors of Xᵀ X."""

    def __init__(self, x: Tensor, t: Tensor, root: Tensor) -> None:
        values, self.axes = torch.linalg.eigh(x.T @ x)
        self.values = values.clamp_min(0)
        self.t, self.scores, self.seen = t, x @ self.axes, self.axes.T @ (x.T @ t)
        self.root = root / root.square().sum().sqrt()

    def rest(self, penalty: float) -> Tensor:
        return self.t - torch.mm(self.scores, self.seen / (self.values + penalty).unsqueeze(1))

    def free(self, penalty: float, block: Tensor) -> Tensor:
        own = self.root[block]
        rest = torch.eye(block.shape[1], dtype=own.dtype, device=own.device) - own @ own.mT
        return rest - _products(self.scores, 1 / (self.values + penalty), block)

    def slope(self, penalty: float) -> Tensor:
        return torch.mm(self.axes, self.seen / (self.values + penalty).unsqueeze(1))


def _products(rows: Tensor, factors: Tensor, block: Tensor) -> Tensor:
    """Of each group of rows all products within it, columns weighed by factors."""
    if block.shape[1] == 1:
        squares = torch.mv(rows.square(), factors)
        return squares[block].unsqueeze(2)
    own = rows[block]
    return torch.matmul(own * factors, own.mT)


def calibrate(decisions: Floats, y: Labels, prior: Floats) -> tuple[float, float]:
    """The factors of decision values and of the prior's logarithm for which the softmax of their sum loses least.

    By log-loss with labels that allow for half a mistake among N + 1 samples, so that answers without any mistake do
    not make the next one certain. A prior of ones has no factor: it is zero.

    Example:
        >>> scale, _ = calibrate(np.array([[1.0, -1.0], [-1.0, 1.0]] * 8), np.array([0, 1] * 8), np.ones(2))
        >>> round(float(softmax(scale * np.array([1.0, -1.0]))[1]), 3) == round(0.5 / 17, 3)
        True
    """
    n, k = decisions.shape
    wrong = 0.5 / (n + 1)
    shares = np.where(np.arange(k) == y[:, None], 1 - wrong, wrong / max(1, k - 1))
    logs = np.log(prior)

    def loss(at: Floats) -> tuple[float, Floats]:
        logits = at[0] * decisions + at[1] * logs
        excess = softmax(logits, axis=1) - shares
        value = -(shares * log_softmax(logits, axis=1)).sum()
        return float(value) / n, np.array([(excess * decisions).sum(), (excess * logs).sum()]) / n

    found = minimize(
        loss, np.array([1.0, float(logs.any())]), jac=True, method="L-BFGS-B", bounds=[SCALES, (None, None)]
    )
    return float(found.x[0]), float(found.x[1])


def fit_head(
    net: nn.Module, task: Task, recipe: Recipe, *, seed: int = 0, device: torch.device | str = "cpu"
) -> Trained:
    """Fit the last linear layer of a copy of a network; everything before it stays as it was drawn.

    A network with a method ``prepare`` first sets its own numbers from training inputs, and batch norms take their
    statistics from the training part. Features are standardised, which ends up in the layer's weights. Classes are
    fitted as targets ±1, every class as much as another with ``class_weights="balanced"``, and scaled so that the
    softmax gives probabilities at the training data's own prior; values are fitted as they are. Samples of one patient
    or recording are left out together.

    Args:
        net: The network, whose output is that of a linear layer; it stays as it is.
        task: The data; the validation part is only looked at.
        recipe: Of which ``class_weights`` counts here.
        seed: Of what is drawn.
        device: Where to compute.

    Returns:
        The network on the CPU, and one epoch: its training loss is that of samples left out.

    Example:
        >>> from trainless.tasks import task
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> fit_head(net, task("digits"), Recipe("closed form")).history[0].valid_accuracy > 0.9
        True
    """
    if task.target.kind == "tokens":
        raise InputError("the last layer of tokens has no closed form: choose another recipe than ridge")
    started, place = time.monotonic(), torch.device(device)
    with seeded(seed, place):
        net = copy.deepcopy(net).to(place).eval()
        train, valid = Feed(task, "train", place), Feed(task, "valid", place)
        if train.size < 2:
            raise InputError(f"{train.size} training samples were given; expected at least 2: add samples")
        x, y = next(train.batches([_drawn(train.size, LOOKED_AT, seed)]))
        head = last_linear(net, x[:2])
        if isinstance(net, Preparable):
            net.prepare(x)
        chosen = _drawn(train.size, max(2, HELD_BYTES // (4 * head.in_features)), seed)
        _settle(net, train, chosen)
        features, y = _features(net, head, train, chosen)
        if not torch.isfinite(features).all():
            lost = Epoch(0, recipe.lr, math.nan, math.nan, math.nan, time.monotonic() - started)
            return Trained(net.cpu(), (lost,), "diverged: the features are not finite at the initial weights")
        balance, part = class_weights(task, recipe.class_weights, place), task.part("train")
        owners = part.records if part.groups is None else part.groups
        together = None if owners is None else np.asarray(owners)[chosen]
        fit = fit_linear(features, y, task.target, balance, together)
        _put_into(head, fit)
        answers, labels = outputs(net, valid, Precision(place))
    loss, accuracy = validated(task, answers, labels)
    epoch = Epoch(0, recipe.lr, fit.loss, loss, accuracy, time.monotonic() - started)
    return Trained(net.cpu(), (epoch,))


def last_linear(net: nn.Module, x: Tensor) -> nn.Linear:
    """The linear layer whose output is the network's output; an InputError where there is none."""
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    seen: dict[nn.Linear, Tensor] = {}
    hooks = [module.register_forward_hook(lambda own, _, output: seen.update({own: output})) for module in linear]
    try:
        with torch.no_grad():
            answers = net(x)
    finally:
        for hook in hooks:
            hook.remove()
    for module, output in seen.items():
        if output is answers:
            return module
    raise InputError(
        f"the output of {type(net).__name__} is not that of a linear layer, so that there is nothing to fit in closed"
        " form: choose another recipe than ridge"
    )


def _drawn(size: int, most: int, seed: int) -> Index:
    """All indices in order, or so many of them that are drawn by a seed."""
    if size <= most:
        return np.arange(size)
    return np.sort(torch.randperm(size, generator=generator(seed, "ridge"))[:most].numpy())


def _settle(net: nn.Module, feed: Feed, chosen: Index) -> None:
    """Give batch norms the mean statistics of all batches, in one pass."""
    norms = [module for module in net.modules() if isinstance(module, _NORMS) and module.track_running_stats]
    if not norms:
        return
    kept = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    whole = [part for part in _batches(chosen) if len(part) > 1]
    with torch.no_grad():
        for x, _ in feed.batches(whole):
            net(x)
    for norm, momentum in zip(norms, kept, strict=True):
        norm.momentum = momentum
        norm.eval()


def _batches(chosen: Index) -> list[Index]:
    return [chosen[part] for part in in_order(len(chosen), BATCH)]


def _features(net: nn.Module, head: nn.Linear, feed: Feed, chosen: Index) -> tuple[Tensor, Tensor]:
    """What goes into the last layer, sample by sample, and the labels."""
    found, labels = [], []
    with torch.inference_mode(), _watched(head) as inputs:
        for x, y in feed.batches(_batches(chosen)):
            net(x)
            found.append(inputs.pop())
            labels.append(y)
        return torch.cat(found), torch.cat(labels)


@contextmanager
def _watched(head: nn.Linear) -> Iterator[list[Tensor]]:
    inputs: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, given: inputs.append(given[0].flatten(1)))
    try:
        yield inputs
    finally:
        hook.remove()


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Logits of classes, or values, as a linear map of features; and the loss of samples that are left out."""

    slope: Tensor
    intercept: Tensor
    loss: float


def fit_linear(
    features: Tensor, y: Tensor, target: Target, balance: Tensor | None = None, together: Array | None = None
) -> LinearFit:
    """The linear map of features ``(N, P)`` by ridge regression on standardised ones, with calibrated probabilities.

    Args:
        features: As they are; one that does not vary has no part.
        y: Class indices, or values.
        target: What they are.
        balance: A weight for each class; the prior is put back afterwards.
        together: The recording or patient of each sample, if several may have the same.
    """
    mean, std = features.double().mean(0), features.double().std(0, correction=0)
    std = torch.where(std <= NOTHING * mean.abs().clamp_min(1), torch.inf, std)
    standard = (features - mean) / std
    if target.kind == "regression":
        values = y.reshape(len(y), -1).double()
        found = ridge(standard, values, together=together)
        slope, intercept = found.weights, found.intercept
        loss = float((found.left_out - values).square().mean())
    else:
        signs = 2 * nn.functional.one_hot(y, target.classes).double() - 1
        found = ridge(standard, signs, None if balance is None else balance[y], together=together)
        scale, offsets, loss = _probable(found.left_out.cpu().numpy(), y.cpu().numpy(), balance is not None)
        slope, intercept = scale * found.weights, scale * found.intercept + offsets.to(found.intercept)
    return LinearFit(slope / std.unsqueeze(1), intercept - (mean / std) @ slope, loss)


def _put_into(head: nn.Linear, fit: LinearFit) -> None:
    """Give a layer the fitted map; where it has one logit of two classes, their difference."""
    if head.bias is None:
        raise InputError("the last linear layer has no bias, which a fit in closed form needs: give it one")
    slope, intercept = fit.slope, fit.intercept
    if head.out_features == 1 and slope.shape[1] == 2:
        slope, intercept = slope[:, 1:] - slope[:, :1], intercept[1:] - intercept[:1]
    with torch.no_grad():
        head.weight.copy_(slope.T)
        head.bias.copy_(intercept)


def _probable(decisions: Floats, y: Labels, balanced: bool) -> tuple[float, Tensor, float]:
    """Scale, offsets and log-loss of calibrated decision values; balanced ones have the prior to be put back."""
    counts = np.bincount(y, minlength=decisions.shape[1]) + 1.0
    prior = counts / counts.sum() if balanced else np.ones(len(counts))
    scale, share = calibrate(decisions, y, prior)
    offsets = share * np.log(prior)
    loss = -log_softmax(scale * decisions + offsets, axis=1)[np.arange(len(y)), y].mean()
    return scale, torch.from_numpy(offsets), float(loss)
