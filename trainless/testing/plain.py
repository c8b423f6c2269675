"""The measures by plain autograd, for comparison: nothing here shares code with the probe.

A deep copy in ``eval()`` whose batch norms alone are in ``train()`` is called as it is, in double precision, and
differentiated by autograd, sample by sample where a measure is about samples. Every pass has a copy of its own and the
same random numbers, so that nothing that a network remembers or draws differs between two of them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, cast
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError

NORMS = (
    *(nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm),
    *(nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm),
)
TABLES = (nn.Embedding, nn.EmbeddingBag)
NATIVE_NORMS = ("native_batch_norm", "native_layer_norm", "native_group_norm")
NORM_FUNCTIONS = ("batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm")
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
TORCH_DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
Adapter = Callable[[Any], Tensor]


BEYOND = "beyond double precision, not compared"


TOUCHING = "samples touch one another by the network's own code"


class NoValue(Exception):
    """The measure has no value here; the text says why."""


class PlainNetwork:
    """A network and its batch in double precision, or in its own where it cannot do otherwise."""

    def __init__(self, net: nn.Module, batch: tuple[Tensor, Tensor], adapter: Adapter | None) -> None:
        if any(tensor.is_complex() for tensor in net.parameters()):
            raise InputError(f"the network {type(net).__name__} has complex weights; expected real ones")
        self.given, self.adapter = net, adapter
        self.x, self.y = batch
        self.double = True
        with torch.no_grad():
            try:
                self._widen(torch.float64)
                self.run(self.copy(), self.x)
            except RuntimeError:
                self.double = False
                own = next((tensor.dtype for tensor in net.parameters() if tensor.is_floating_point()), torch.float32)
                self._widen(own)

    def _widen(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.x = self.x.to(dtype) if self.x.is_floating_point() else self.x
        self.y = self.y.to(dtype) if self.y.is_floating_point() else self.y

    @property
    def rounding(self) -> float:
        """What outputs may deviate by where the order of additions differs, relative to their size."""
        return 1e-9 if self.dtype == torch.float64 else 1e-3

    def fresh(self) -> nn.Module:
        """A copy of the network in this precision."""
        known: dict[int, Any] = {id(value): type(value)() for value in self._empty}
        return copy.deepcopy(self.given, known | {id(tensor): tensor.detach() for tensor in self._graph}).to(self.dtype)

    @functools.cached_property
    def _empty(self) -> list[Any]:
        """Dictionaries that are made anew: a module has a dozen, and copying these takes longer than all else."""
        return [each for each in self._held if type(each) in (dict, OrderedDict) and not each]

    @functools.cached_property
    def _graph(self) -> list[Tensor]:
        """What a pass has left behind, which belongs to its graph and cannot be copied."""
        return [each for each in self._held if isinstance(each, Tensor) and each.grad_fn is not None]

    @property
    def _held(self) -> Iterator[Any]:
        return (value for module in self.given.modules() for value in vars(module).values())

    def copy(self) -> nn.Module:
        """A copy in the mode in which networks are scored: everything in evaluation, batch norms in training."""
        net = self.fresh()
        net = net if net.training else net.train()
        frozen = [module for module in tracking(net) if not module.training]  # in training: its author means it
        net.eval()
        for module in tracking(net):
            module.training = all(module is not each for each in frozen)
        return net.requires_grad_()

    def run(self, net: nn.Module, x: Tensor) -> Tensor:
        """The logits."""
        with settled(), patched(["batch_norm"], functools.partial(by_batch, means_at_work(net))):
            output = net(x.clone())
        output = self.adapter(output) if self.adapter else output
        if not isinstance(output, Tensor):
            raise InputError(
                f"the network returned a {type(output).__name__}; one tensor of logits or values is needed: "
                "choose it with the adapter argument, such as adapter=lambda out: out[0]"
            )
        return output

    def side_by_side(self, net: nn.Module, x: Tensor) -> Tensor:
        """The logits of samples that go through together, each normalised alone by every batch norm."""
        with settled(), patched(["batch_norm"], functools.partial(_side_by_side, means_at_work(net), len(x))):
            output = net(x.clone())
        return self.adapter(output) if self.adapter else cast(Tensor, output)

    def weights(self, net: nn.Module) -> dict[str, Tensor]:
        """Matrices and kernels: parameters of two axes or more that belong to no norm and no embedding."""
        skipped = {
            id(tensor)
            for module in net.modules()
            if isinstance(module, NORMS + TABLES)
            for tensor in module.parameters(recurse=False)
        }
        found: dict[str, Tensor] = {n: t for n, t in net.named_parameters() if t.ndim > 1 and id(t) not in skipped}
        if not found:
            raise NoValue("no weights")
        return found

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The mean loss of some samples."""
        if y.is_floating_point():
            return (outputs - y.reshape(outputs.shape)).square().mean()
        if outputs.ndim == 3:
            return F.cross_entropy(outputs.flatten(0, 1), y.flatten())
        if outputs.shape[1] == 1:
            return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype))
        return F.cross_entropy(outputs, y)

    @functools.cached_property
    def together(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Every weight with the gradient of the mean loss of the whole batch."""
        return self.gradients(slice(None))

    def gradients(self, samples: slice) -> dict[str, tuple[Tensor, Tensor]]:
        """Every weight with the gradient of the mean loss of some samples, normalised among themselves."""
        net = self.copy()
        weights = self.weights(net)
        loss = self.loss(self.run(net, self.x[samples]), self.y[samples])
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        return {name: (weights[name].detach(), g) for name, g in zip(weights, found, strict=True)}


def tracking(net: nn.Module) -> list[nn.Module]:
    """The modules that keep a running mean and variance, whoever wrote them."""
    return [
        module
        for module in net.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        or {"running_mean", "running_var"} <= {name for name, _ in module.named_buffers(recurse=False)}
    ]


def means_at_work(net: nn.Module) -> list[Any]:
    """The running means of the norms that are at work; one that uses its own though it is in training means to."""
    at_work: list[Any] = []

    def begin(module: nn.Module, inputs: Any) -> None:
        at_work.append(module.running_mean)

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        at_work.pop()

    for module in tracking(net):
        module.register_forward_pre_hook(begin)
        module.register_forward_hook(end)
    return at_work


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Leave dropout out, and begin with the same random numbers."""
    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    try:
        with (
            patched(DROPOUTS, lambda function, x, *args, **kwargs: x),
            patched(TORCH_DROPOUTS, lambda function, x, *args, **kwargs: x, torch),
            patched(["native_dropout"], lambda function, x, *args, **kwargs: (x, torch.ones_like(x)), torch),
        ):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(own)


@contextlib.contextmanager
def patched(names: Any, instead: Callable[..., Any], home: Any = F) -> Iterator[None]:
    """Let functions of ``torch.nn.functional`` call ``instead(function, *args)``."""
    with contextlib.ExitStack() as stack:
        for name in names:
            if not hasattr(home, name):
                continue
            function = getattr(home, name)

            def called(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
                return instead(_function, *args, **kwargs)

            stack.enter_context(mock.patch.object(home, name, called))
        yield


def by_batch(
    frozen: list[Any],
    function: Any,
    input: Tensor,  # noqa: A002 - torch's own keyword
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalise by the batch, unless a norm that is at work uses its own mean."""
    if not training and running_mean is not None and any(running_mean is each for each in frozen):
        return function(input, running_mean, running_var, weight, bias, False, 0.0, eps)
    output = function(input, None, None, weight, bias, True, 0.0, eps)
    if output.requires_grad:  # PyTorch 2.13 misreads a transposed gradient of a single sample on the CPU
        output.register_hook(lambda gradient: gradient.contiguous())
    return output


def _side_by_side(
    frozen: list[Any],
    samples: int,
    function: Any,
    input: Tensor,  # noqa: A002 - torch's own keyword
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if len(input) % samples:  # a kernel that is standardised
        return function(input, None, None, weight, bias, True, 0.0, eps)
    if not training and running_mean is not None and any(running_mean is each for each in frozen):
        return function(input, running_mean, running_var, weight, bias, False, 0.0, eps)
    if input.numel() // (samples * input.shape[1]) == 1:
        rows = input.detach().flatten(1)
        return function(input, rows.mean(0), rows.var(0, correction=0), weight, bias, False, 0.0, eps)
    return torch.cat([by_batch([], function, part, weight=weight, bias=bias, eps=eps) for part in input.chunk(samples)])
