"""The measures by plain autograd, for comparison: nothing here shares code with the probe.

A deep copy in ``eval()`` whose batch norms alone are in ``train()`` is called as it is, in double precision, and
differentiated by autograd, sample by sample where a measure is about samples.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, cast
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from trainless.core.errors import InputError

NORMS = (
    *(nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm),
    *(nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm),
)
TABLES = (nn.Embedding, nn.EmbeddingBag)
NORM_FUNCTIONS = ("batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm")
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
Adapter = Callable[[Any], Tensor]
aten = torch.ops.aten


BEYOND = "beyond double precision, not compared"


class NoValue(Exception):
    """The measure has no value here; the text says why."""


class PlainNetwork:
    """A network and its batch in double precision, or in its own where it cannot do otherwise."""

    def __init__(self, net: nn.Module, batch: tuple[Tensor, Tensor], adapter: Adapter | None) -> None:
        self.given, self.adapter = net, adapter
        self.x, self.y = batch
        self.double = True
        with torch.no_grad():
            try:
                self._widen(torch.float64)
                self.net = self.copy()
                self.run(self.net, self.x)
            except RuntimeError:
                self.double = False
                own = next((tensor.dtype for tensor in net.parameters() if tensor.is_floating_point()), torch.float32)
                self._widen(own)
                self.net = self.copy()

    def _widen(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.x = self.x.to(dtype) if self.x.is_floating_point() else self.x
        self.y = self.y.to(dtype) if self.y.is_floating_point() else self.y

    def fresh(self) -> nn.Module:
        """A copy of the network in this precision."""
        return copy.deepcopy(self.given).to(self.dtype)

    def copy(self) -> nn.Module:
        """A copy in the mode in which networks are scored: everything in evaluation, batch norms in training."""
        net = self.fresh().eval()
        for module in net.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.train()
        return net.requires_grad_()

    def run(self, net: nn.Module, x: Tensor) -> Tensor:
        """The logits."""
        with _patched(DROPOUTS, lambda function, x, *args, **kwargs: x), _patched(["batch_norm"], _by_batch):
            output = net(x.clone())
        output = self.adapter(output) if self.adapter else output
        if not isinstance(output, Tensor):
            raise InputError(
                f"the network returned a {type(output).__name__}; one tensor of logits or values is needed: "
                "choose it with the adapter argument, such as adapter=lambda out: out[0]"
            )
        return output

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
        weights = self.weights(self.net)
        loss = self.loss(self.run(self.net, self.x[samples]), self.y[samples])
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        return {name: (weights[name].detach(), g) for name, g in zip(weights, found, strict=True)}


@contextlib.contextmanager
def _patched(names: Any, instead: Callable[..., Any]) -> Iterator[None]:
    """Let functions of ``torch.nn.functional`` call ``instead(function, *args)``."""
    with contextlib.ExitStack() as stack:
        for name in names:
            if not hasattr(F, name):
                continue
            function = getattr(F, name)

            def called(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
                return instead(_function, *args, **kwargs)

            stack.enter_context(mock.patch.object(F, name, called))
        yield


def _by_batch(
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
    output = function(input, None, None, weight, bias, True, 0.0, eps)
    if output.requires_grad:  # PyTorch 2.13 misreads a transposed gradient of a single sample on the CPU
        output.register_hook(lambda gradient: gradient.contiguous())
    return output


def _grad_norm(p: PlainNetwork) -> float:
    return sum(float(g.norm()) for _, g in p.together.values())


def _snip(p: PlainNetwork) -> float:
    return sum(float((w * g).abs().sum()) for w, g in p.together.values())


def _gradsign(p: PlainNetwork) -> tuple[float, float]:
    """Sample by sample; an entry whose gradient is rounding noise in some sample has no sign there."""
    sums: dict[str, Tensor] = {}
    doubtful: dict[str, Tensor] = {}
    least = 1e3 * torch.finfo(p.dtype).eps * max(float(g.abs().max()) for _, g in p.together.values())
    for alone in _each_alone(p):
        for name, g in alone.items():
            sums[name] = sums.get(name, 0) + g.sign()
            doubtful[name] = doubtful.get(name, 0) + ((g != 0) & (g.abs() <= least)).to(g.dtype)
    total = sum(float(each.abs().sum()) for each in sums.values())
    return total, sum(float(each.sum()) for each in doubtful.values())


def _each_alone(p: PlainNetwork) -> Iterator[dict[str, Tensor]]:
    """The gradients of every sample's loss, each sample sent through as a batch of one.

    Where a batch norm then sees a single value, which has no variance, it takes the mean and variance of the batch as
    constants: all samples go through side by side, each normalised alone wherever it can be.
    """
    try:
        found = [p.gradients(slice(index, index + 1)) for index in range(len(p.x))]
    except ValueError:
        weights = p.weights(p.net)
        with _patched(["batch_norm"], functools.partial(_side_by_side, len(p.x))):
            outputs = p.net(p.x.clone())
        outputs = p.adapter(outputs) if p.adapter else outputs
        for index in range(len(p.x)):
            loss = p.loss(outputs[index : index + 1], p.y[index : index + 1])
            each = torch.autograd.grad(
                loss, list(weights.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            yield dict(zip(weights, each, strict=True))
    else:
        for gradients in found:
            yield {name: g for name, (_, g) in gradients.items()}


def _side_by_side(
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
    if input.numel() // (samples * input.shape[1]) == 1:
        rows = input.detach().flatten(1)
        return function(input, rows.mean(0), rows.var(0, correction=0), weight, bias, False, 0.0, eps)
    return torch.cat([_by_batch(function, part, weight=weight, bias=bias, eps=eps) for part in input.chunk(samples)])


def _zico(p: PlainNetwork) -> float:
    parts = [slice(int(part[0]), int(part[-1]) + 1) for part in np.array_split(np.arange(len(p.x)), 2)]
    first, second = (p.gradients(part) for part in parts)
    total = 0.0
    for name, (_, g) in first.items():
        both = torch.stack([g, second[name][1]])
        spread = both.std(0, correction=0)
        moving = spread > 0
        ratio = float((both.abs().mean(0)[moving] / spread[moving]).sum())
        total += math.log(ratio) if ratio > 0 else 0.0
    return total


def _jacov(p: PlainNetwork) -> float:
    if not p.x.is_floating_point():
        raise NoValue("tokens have no gradient")
    x = p.x.clone().requires_grad_()
    outputs = p.run(p.net, x)
    found = torch.autograd.grad(outputs.sum(), x, allow_unused=True, materialize_grads=True)[0].flatten(1).double()
    if bool((found.std(1) == 0).any()):
        raise NoValue("a gradient does not vary")
    values = np.linalg.eigvalsh(np.corrcoef(found.numpy())) + 1e-5
    return float(-(np.log(values) + 1 / values).sum())


def _naswot(p: PlainNetwork) -> float:
    seen = _Gates()
    net = p.copy()
    for module in net.modules():
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):  # what is inside a cell has no pattern
            module.register_forward_pre_hook(seen.look_away)
            module.register_forward_hook(seen.look_again)
    with seen:
        p.run(net, p.x)
    if not seen.inputs:
        raise NoValue("no rectifying activation")
    if any(len(gate) != len(p.x) for gate in seen.inputs):
        raise NoValue("a rectifier's first axis is not the samples'")
    bits = np.concatenate([(gate > 0).flatten(1).numpy() for gate in seen.inputs], 1)
    kernel = np.array([[float((a == b).sum()) for b in bits] for a in bits])
    if np.linalg.matrix_rank(kernel) < len(kernel):
        raise NoValue("the kernel is singular")
    return float(np.linalg.slogdet(kernel)[1])


def _synflow(p: PlainNetwork) -> float:
    net = p.copy()
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.abs_()
    x = torch.ones_like(p.x[:1])
    x = x.requires_grad_() if x.is_floating_point() else x

    def left_out(function: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:  # noqa: A002
        return input.clone() if _depends(input, x) else function(input, *args, **kwargs)

    with _patched(NORM_FUNCTIONS, left_out), _patched(DROPOUTS, lambda function, x, *args, **kwargs: x):
        output = net(x * 1)
    output = p.adapter(output) if p.adapter else output
    weights = list(p.weights(net).values())
    found = torch.autograd.grad(output.sum(), weights, allow_unused=True, materialize_grads=True)
    total = sum(float((w.detach() * g).abs().sum()) for w, g in zip(weights, found, strict=True))
    if total == 0:
        raise NoValue("nothing flows")
    if not math.isfinite(total):
        raise NoValue(BEYOND)
    return math.log(total)


def _depends(tensor: Tensor, x: Tensor) -> bool:
    """Whether a tensor comes from the input: what normalises weights is no norm layer."""
    if not x.requires_grad:
        return tensor.ndim < 2 or len(tensor) == len(x)
    stack, seen = [tensor.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is x:
            return True
        stack += [following for following, _ in node.next_functions]
    return False


def _params(p: PlainNetwork) -> float:
    return float(sum(tensor.numel() for tensor in p.given.parameters()))


def _flops(p: PlainNetwork) -> float:
    """Multiply–accumulates of one sample, counted where PyTorch's kernels are called."""
    counter = _Products()
    net = p.copy()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    with _patched(DROPOUTS, lambda function, x, *args, **kwargs: x), counter:
        net(p.x[:1].clone())
    return float(counter.total)


MEASURES: dict[str, Callable[[PlainNetwork], float | tuple[float, float]]] = {
    "grad_norm": _grad_norm,
    "snip": _snip,
    "gradsign": _gradsign,
    "zico": _zico,
    "jacov": _jacov,
    "naswot": _naswot,
    "synflow": _synflow,
    "params": _params,
    "flops": _flops,
}


class _Gates(TorchDispatchMode):
    """Keeps what enters each activation that opens and closes, also where it is written out in simpler operations.

    Written out are: a clamp from zero; ``1 + tanh(u)`` and ``1 + erf(u)``, as in GELU; ``x · sigmoid(c · x)``, as in
    SiLU; ``relu6(x + 3)``, a hard sigmoid of ``x``.
    """

    KINDS = frozenset(
        (
            *(aten.relu, aten.relu_, aten.relu6, aten.relu6_, aten.gelu, aten.gelu_, aten.hardsigmoid),
            *(aten.silu, aten.silu_, aten.mish, aten.mish_, aten.hardswish, aten.hardswish_, aten.elu, aten.elu_),
            *(aten.celu, aten.celu_, aten.selu, aten.selu_, aten.leaky_relu, aten.leaky_relu_, aten._prelu_kernel),
            *(aten.softplus, aten.threshold, aten.threshold_, aten.rrelu_with_noise, aten.hardsigmoid_),
        )
    )
    CLIPPED = frozenset((aten.hardtanh, aten.hardtanh_, aten.clamp, aten.clamp_, aten.clamp_min, aten.clamp_min_))
    SQUASHED = frozenset((aten.tanh, aten.erf, aten.special_erf, aten.sigmoid))

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs: list[Tensor] = []
        self.away = False
        self.made: dict[int, tuple[Any, list[Any], Tensor]] = {}  # operation, arguments and result, by the result

    def look_away(self, *event: Any) -> None:
        """Keep nothing from here on."""
        self.away = True

    def look_again(self, *event: Any) -> None:
        """Keep what comes."""
        self.away = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, given = func.overloadpacket, list(args)
        if not self.away:
            entered = self._entered(kind, given)
            if entered is not None:
                self.inputs.append(entered.detach().clone())
        result = func(*args, **(kwargs or {}))
        if kind in self.SQUASHED or kind in (aten.add, aten.mul):
            self.made[id(result)] = kind, given, result  # the result is held, so that its id stays its own
        return result

    def _from(self, tensor: Any, *kinds: Any) -> list[Any]:
        """The arguments that a tensor was made from by one of these operations."""
        kind, given, _ = self.made.get(id(tensor), (None, [], None))
        return given if kind in kinds else []

    def _entered(self, kind: Any, given: list[Any]) -> Tensor | None:
        """What entered the activation that this call is or completes."""
        if kind in self.KINDS:
            entered: Tensor = given[0]
            return entered
        if kind is aten.glu:
            gate: Tensor = given[0].chunk(2, given[1] if len(given) > 1 else -1)[1]
            return gate
        if kind in self.CLIPPED:
            return self._clipped(kind in (aten.hardtanh, aten.hardtanh_), given)
        if kind is aten.add and _is(given[1], 1):
            return next(iter(self._from(given[0], aten.tanh, aten.erf, aten.special_erf)), None)
        if kind in (aten.mul, aten.mul_):
            for x, other in (given[:2], given[1::-1]):
                inside = next(iter(self._from(other, aten.sigmoid)), None)
                if inside is not None and any(x is each for each in (inside, *self._from(inside, aten.mul))):
                    return cast(Tensor, x)
        return None

    def _clipped(self, symmetric: bool, given: list[Any]) -> Tensor | None:
        limits: list[Any] = [-1.0, 1.0] if symmetric else [None, None]
        x, low, high = [*given, *limits[len(given) - 1 :]]
        if low != 0:
            return cast(Tensor, x) if symmetric else None
        shifted = self._from(x, aten.add)
        return shifted[0] if high == 6 and shifted and _is(shifted[1], 3) else cast(Tensor, x)


def _is(value: Any, number: float) -> bool:
    """Whether an argument is this number; scalars may come as tensors."""
    return bool(value == number) if not isinstance(value, Tensor) or value.ndim == 0 else False


class _Products(TorchDispatchMode):
    """Adds up multiply–accumulates: convolutions, matrix products and attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = func.overloadpacket
        if kind is aten.convolution:
            x, weight, transposed = args[0], args[1], args[6]
            self.total += (x if transposed else result).numel() * math.prod(weight.shape[1:])
        elif kind in (aten.mm, aten.bmm, aten.mv, aten.dot):
            self.total += result.numel() * args[0].shape[-1]
        elif kind in (aten.addmm, aten.baddbmm, aten.addmv):
            self.total += result.numel() * args[1].shape[-1]
        elif "scaled_dot_product" in str(kind):
            query, key, value = args[:3]
            self.total += math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        return result
