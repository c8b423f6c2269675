"""The training loop."""

from __future__ import annotations

import copy
import math
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, optim

from trainless.core.files import to_json
from trainless.core.opening import is_there
from trainless.core.seeds import seed_torch, seeded
from trainless.core.task import Task
from trainless.learn.batches import (
    Feed,
    GraphedStep,
    Precision,
    Step,
    augment,
    class_weights,
    in_layout,
    mixed,
    outputs,
    precision_for,
    shares_of,
    shuffled,
    smoothed_loss,
)
from trainless.learn.callbacks import Callback, told_of_errors, values_of
from trainless.learn.checkpoint import Epoch, Trained, TrainingState, load_checkpoint, save_checkpoint
from trainless.learn.paths import TrainingParts
from trainless.learn.recipe import Recipe
from trainless.learn.ridge import fit_head
from trainless.learn.trees import fit_trees
from trainless.learn.validation import validated

CLASSES = ("binary", "multiclass")
RECENT = 20  # steps over which a change of pace is noticed
MARGIN = 0.97  # of the time that is left, which steps are planned for


def train(
    net: nn.Module,
    task: Task,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    interval: float = 20.0,
    callbacks: Sequence[Callback] = (),
    precision: Precision | None = None,
    deadline: float | None = None,
) -> Trained:
    """Train a copy of a freshly initialised network on a task's training part.

    Order, augmentation and dropout of every step are drawn by the seed, the epoch and the step alone, so that
    training which is resumed from a checkpoint ends, on a CPU, with the same bits as training without a break. On CUDA
    convolutions use deterministic algorithms and images run in bfloat16; sums by atomics may still differ in the
    last bit.

    Args:
        net: The network; it stays as it is.
        task: The data; the validation part chooses among checkpoints.
        recipe: How to train.
        seed: Of order, augmentation and dropout.
        device: Where to train.
        checkpoint: A file to resume from, where it exists, and to write; none without it.
        interval: Seconds between checkpoints; 0 writes one at every step.
        callbacks: Told of each epoch and of the end; what they do changes nothing in the training.
        precision: Number type and memory layout; by default what is fastest for such inputs on such a device.
        deadline: When it has to end by ``time.time()``. The schedule is fitted to the pace of the steps as they are
            taken: it ends on time with the learning rate at zero, or after the recipe's epochs if that is earlier. How
            many steps there are then depends on the machine.

    Returns:
        The network on the CPU with the weights that the recipe keeps; its status says so where the loss was not finite.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.spaces import space
        >>> from trainless.tasks import task
        >>> net = space("nb201", channels=2, cells=1).build((1, 0, 0, 3, 0, 0), task("digits"))
        >>> train(net, task("digits"), recipe("default", epochs=1)).status
        'ok'
    """
    place = torch.device(device)
    with told_of_errors(callbacks):
        if recipe.optimiser == "ridge":
            trained = fit_head(net, task, recipe, seed=seed, device=place)
            _tell(callbacks, trained.history[-1])
        elif recipe.optimiser == "trees":
            trained = fit_trees(net, task, recipe, seed=seed)
            _tell(callbacks, trained.history[-1])
        else:
            with seeded(seed, place), _deterministic(place):
                loop = _Loop(copy.deepcopy(net), task, recipe, seed, precision or precision_for(place, task))
                if checkpoint is not None and is_there(checkpoint):
                    load_checkpoint(checkpoint, loop.state, loop.identity)
                loop.run(checkpoint, interval, callbacks, deadline)
                trained = loop.result()
    for callback in callbacks:
        callback.end(trained.status)
    return trained


def _tell(callbacks: Sequence[Callback], epoch: Epoch) -> None:
    for callback in callbacks:
        callback.log(epoch.number, values_of(epoch))


class _Loop:
    """One training under way."""

    def __init__(self, net: nn.Module, task: Task, recipe: Recipe, seed: int, precision: Precision) -> None:
        self.task, self.recipe, self.seed, self.precision = task, recipe, seed, precision
        self.train, self.valid = Feed(task, "train", precision.device), Feed(task, "valid", precision.device)
        self.weights = class_weights(task, recipe.class_weights, precision.device)
        if self.weights is not None and not _ends_linear(net, task):
            self.weights = None
        self.source = torch.Generator(precision.device)
        self.steps = len(shuffled(self.train.size, recipe.batch, seed, 0, recipe.samples))
        self.horizon = recipe.average * self.steps * recipe.epochs
        self.parts = TrainingParts(net, recipe, task) if recipe.drop_path or recipe.auxiliary else None
        net = self.parts or net
        self.state = TrainingState(precision.place(net), _optimiser(net, recipe, precision.device), self.horizon > 0)
        self.identity = {"recipe": to_json(recipe), "seed": seed, "task": task.fingerprint}
        self.update: Step = GraphedStep(self._update) if precision.device.type == "cuda" else self._update
        self.status = "ok"

    def run(
        self, checkpoint: Path | None, interval: float, callbacks: Sequence[Callback], deadline: float | None = None
    ) -> None:
        saved, pace = time.monotonic(), StepPace(deadline, self.precision.device)
        while self.state.epoch < self.recipe.epochs and not self._finished():
            started = time.monotonic()
            for _ in self._epoch(pace):
                if checkpoint is not None and time.monotonic() - saved >= interval:
                    save_checkpoint(checkpoint, self.state, self.identity)
                    saved = time.monotonic()
            self._validate(time.monotonic() - started)
            _tell(callbacks, self.state.history[-1])

    def _epoch(self, pace: StepPace) -> Iterator[None]:
        """Train from the next step to the end of the epoch, or of the time that there is."""
        state = self.state
        chunks = shuffled(self.train.size, self.recipe.batch, self.seed, state.epoch, self.recipe.samples)
        state.net.train()
        for x, y in self.train.batches(chunks[state.step :]):
            self._step(x, y)
            state.step += 1
            left = self.steps * (self.recipe.epochs - state.epoch) - state.step
            state.done += (1 - state.done) / (1 + pace.steps_left(left))
            yield
            if state.done >= 1:
                return

    def _step(self, x: Tensor, y: Tensor) -> None:
        state = self.state
        _seed_step(self.source, self.seed, state.epoch, state.step)
        _set_rate(state.optimiser, learning_rate(self.recipe, state.done))
        if self.parts is not None:
            self.parts.begin(state.done)
        x = augment(x, self.recipe.augmentation, self.source)
        if self.task.target.kind in CLASSES:
            y = shares_of(y, self.task.target.classes, self.weights)
        if self.recipe.mixup and y.is_floating_point():
            x, y = mixed(x, y, self.recipe.mixup, self.source)
        state.total += self.update(self.precision.arrange(x), y) * len(x)
        state.seen += len(x)
        state.follow(1 / min(self.horizon, state.epoch * self.steps + state.step + 1) if self.horizon else 1.0)

    def _update(self, x: Tensor, y: Tensor) -> Tensor:
        state = self.state
        state.optimiser.zero_grad(set_to_none=True)
        with self.precision.autocast():
            answers = state.net(x).float()
        loss = self._loss(answers, y)
        if self.parts is not None and self.parts.heard is not None:
            loss = loss + self.recipe.auxiliary * self._loss(self.parts.heard.float(), y)
        loss.backward()
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(state.net.parameters(), self.recipe.clip)
        state.optimiser.step()
        return loss.detach()

    def _loss(self, answers: Tensor, y: Tensor) -> Tensor:
        target = self.task.target
        if target.kind in CLASSES:
            return smoothed_loss(target, answers, y, self.recipe.smoothing)
        return target.losses(answers, y).mean()

    def _validate(self, seconds: float) -> None:
        state = self.state
        train_loss = float(state.total) / state.seen
        with state.averaged():
            answers, y = outputs(state.net, self.valid, self.precision)
        if self.weights is not None:
            answers = answers + prior_of(self.task, answers.shape[1])
        valid_loss, accuracy = validated(self.task, answers, y)
        rate = state.optimiser.param_groups[0]["lr"]
        state.close(Epoch(state.epoch, float(rate), train_loss, valid_loss, accuracy, seconds))
        if not math.isfinite(train_loss):
            self.status = (
                f"diverged: the training loss is {train_loss} in epoch {state.epoch}; lower lr={self.recipe.lr}"
            )

    def _finished(self) -> bool:
        last = self.state.history[-1:]
        patience = self.recipe.patience
        waited = self.state.epoch - 1 - self.state.best_epoch
        return self.status != "ok" or self.state.done >= 1 or bool(last and patience and waited >= patience)

    def result(self) -> Trained:
        state = self.state
        if self.recipe.keep == "best" and state.best:
            state.net.load_state_dict(state.best)
        elif self.horizon:
            state.net.load_state_dict(state.mean)
        kept = state.best_loss if self.recipe.keep == "best" else state.history[-1].valid_loss
        if self.status == "ok" and not math.isfinite(kept):
            self.status = f"diverged: the validation loss of the kept weights is {kept}; lower lr={self.recipe.lr}"
        net = in_layout((state.net if self.parts is None else self.parts.left()).to("cpu"), torch.contiguous_format)
        if self.weights is not None:
            add_to_bias(net, prior_of(self.task, _width(net)))
        return Trained(net.eval(), tuple(state.history), self.status)


class StepPace:
    """How many steps fit into the time that is left, by the mean of all steps and of the last ones."""

    def __init__(self, deadline: float | None, device: torch.device) -> None:
        self.deadline, self.device = deadline, device
        self.start = self.last = time.monotonic()
        self.taken, self.recent = 0, 0.0

    def steps_left(self, most: int) -> float:
        """Steps that fit after one more was taken, at most so many; all of them without a deadline."""
        if self.deadline is None:
            return most
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.monotonic()
        self.taken += 1
        self.recent += (now - self.last - self.recent) / min(self.taken, RECENT)
        self.last = now
        mean = (now - self.start) / self.taken
        left = MARGIN * (self.deadline - time.time())
        return max(0.0, min(float(most), left / max(self.recent, mean, 1e-9)))


def learning_rate(recipe: Recipe, done: float) -> float:
    """Linear warm-up from a 25th, then half a cosine down to zero; ``done`` is the share of all steps.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> [round(learning_rate(recipe("nb201", warmup=0.5), done), 3) for done in (0, 0.25, 0.5, 0.75, 1)]
        [0.004, 0.052, 0.1, 0.05, 0.0]
    """
    if done < recipe.warmup:
        return recipe.lr * (1 / 25 + 24 / 25 * done / recipe.warmup)
    return recipe.lr * (1 + math.cos(math.pi * (done - recipe.warmup) / (1 - recipe.warmup))) / 2


def prior_of(task: Task, outputs: int) -> Tensor:
    """The logarithms of the classes' shares of the training part; for a single logit that of their odds.

    A class without samples has half a sample. Example:
        >>> from trainless.tasks import task
        >>> round(float(prior_of(task("digits"), 10).exp().sum()), 6)
        1.0
    """
    counts = np.bincount(np.asarray(task.part("train").y, np.int64), minlength=task.target.classes)
    shares = torch.from_numpy(np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum()).log().float()
    return (shares[1] - shares[0])[None] if outputs == 1 else shares


def last_linear(net: nn.Module) -> nn.Linear | None:
    """The last linear layer, where it has a bias."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    return layers[-1] if layers and layers[-1].bias is not None else None


def add_to_bias(net: nn.Module, values: Tensor) -> None:
    """Add to the bias of the last linear layer, which is what a network answers with."""
    layer = last_linear(net)
    if layer is not None:
        with torch.no_grad():
            layer.bias.add_(values.to(layer.bias))


def _width(net: nn.Module) -> int:
    layer = last_linear(net)
    return 0 if layer is None else layer.out_features


def _ends_linear(net: nn.Module, task: Task) -> bool:
    """Whether a network's answers move by what is added to its last linear layer's bias; classes weigh alike if not."""
    if _width(net) not in (task.target.outputs, 1):
        return False
    moved, values = copy.deepcopy(net).eval(), torch.arange(1.0, _width(net) + 1)
    x, _ = task.tensors("train", slice(0, 2))
    with torch.inference_mode():
        before = moved(x)
        add_to_bias(moved, values)
        return torch.allclose(moved(x), before + values, rtol=1e-4, atol=1e-4)


def _optimiser(net: nn.Module, recipe: Recipe, device: torch.device) -> optim.Optimizer:
    fused = device.type == "cuda"
    rate = torch.tensor(recipe.lr, device=device) if fused else recipe.lr
    momentum, decay = recipe.momentum, recipe.weight_decay
    kernels = [weight for weight in net.parameters() if weight.ndim > 1 or recipe.decayed == "all"]
    others = [weight for weight in net.parameters() if weight.ndim <= 1 and recipe.decayed == "weights"]
    weights: list[dict[str, Any]] = [
        {"params": kernels},
        *([{"params": others, "weight_decay": 0.0}] if others else []),
    ]
    if recipe.optimiser == "adamw":
        return optim.AdamW(weights, rate, (momentum, 0.999), weight_decay=decay, fused=fused, capturable=fused)
    nesterov = recipe.nesterov and momentum > 0
    return optim.SGD(weights, rate, momentum, weight_decay=decay, nesterov=nesterov, fused=fused)


def _set_rate(optimiser: optim.Optimizer, rate: float) -> None:
    """Set the learning rate; in place where a recorded step reads it from a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _seed_step(source: torch.Generator, seed: int, epoch: int, step: int) -> None:
    """Give augmentation and dropout of one step their own random numbers."""
    number = zlib.crc32(f"{seed}/{epoch}/{step}".encode())
    source.manual_seed(number)
    seed_torch(number, source.device)


def _deterministic(device: torch.device) -> AbstractContextManager[None]:
    """Let convolutions on a GPU use deterministic algorithms alone."""
    if device.type != "cuda":
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
