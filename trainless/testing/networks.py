"""A network's scores against a plain computation of the same, as a check that anyone can run on theirs.

Nothing here shares code with the probe: a deep copy in ``eval()`` whose batch norms alone are in ``train()`` is called
as it is, in double precision, and differentiated by autograd, sample by sample where a measure is about samples.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from trainless.core.errors import InputError
from trainless.scoring.evaluate import score

TOLERANCE = 1e-4
NORMS = (
    *(nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm),
    *(nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm),
)
TABLES = (nn.Embedding, nn.EmbeddingBag)
NORM_FUNCTIONS = ("batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm")
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
Adapter = Callable[[Any], Tensor]
aten = torch.ops.aten


class _NoValue(Exception):
    """The measure has no value here; the text says why."""


@dataclass(frozen=True)
class Comparison:
    """A proxy's value beside the plain one.

    Args:
        proxy: Its name.
        value: What the library says, NaN with ``reason``.
        plain: What plain autograd says, NaN with ``plain_reason``.
        reason: Why the library has no value.
        plain_reason: Why the plain computation has none.
        noise: How far the plain value may be moved by signs of rounding noise alone.
    """

    proxy: str
    value: float
    plain: float
    reason: str = ""
    plain_reason: str = ""
    noise: float = 0.0

    @property
    def deviation(self) -> float:
        """The relative difference; infinite where only one of the two has a value."""
        if math.isnan(self.value) or math.isnan(self.plain):
            return 0.0 if math.isnan(self.value) and math.isnan(self.plain) else math.inf
        return abs(self.value - self.plain) / max(abs(self.plain), abs(self.value), 1e-12)

    def agrees(self, tolerance: float = TOLERANCE) -> bool:
        """Whether both are the same but for rounding."""
        if math.isinf(self.deviation) or math.isnan(self.value):
            return self.deviation == 0
        return abs(self.value - self.plain) <= tolerance * max(abs(self.plain), abs(self.value), 1e-12) + self.noise

    def __str__(self) -> str:
        if math.isnan(self.value) and math.isnan(self.plain):
            return f"{self.proxy}: none of both ({self.reason})"
        said = f"; the library says: {self.reason}" if self.reason else ""
        said += f"; the plain computation says: {self.plain_reason}" if self.plain_reason else ""
        noise = f", signs of rounding noise ±{self.noise:.3g}" if self.noise else ""
        return f"{self.proxy}: {self.value:.9g} against {self.plain:.9g} (relative {self.deviation:.1e}{noise}){said}"


@dataclass(frozen=True)
class NetworkCheck:
    """All comparisons of one network.

    Args:
        network: Its name.
        comparisons: One per proxy.
        double: Whether both were computed in double precision; a network may insist on its own.
    """

    network: str
    comparisons: tuple[Comparison, ...]
    double: bool

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.network}{'' if self.double else ' (in its own precision)'}"]
            + [f"  {each}" for each in self.comparisons]
        )


def check_network(
    net: nn.Module, batch: tuple[Tensor, Tensor], *, adapter: Adapter | None = None, tolerance: float = TOLERANCE
) -> NetworkCheck:
    """Assert that a network is scored as what it computes; an AssertionError names the proxies that deviate.

    Args:
        net: Any network; it is not touched.
        batch: Inputs, and class indices or values.
        adapter: Picks the logits from the network's output, as in :func:`trainless.score`.
        tolerance: The largest relative difference.

    Returns:
        Value and plain value proxy by proxy; print it.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
        >>> x = torch.arange(32.0).sin().view(4, 8)
        >>> print(check_network(net, (x, torch.tensor([0, 1, 0, 1]))).comparisons[-1])
        flops: 60 against 60 (relative 0.0e+00)
    """
    found = compare(net, batch, adapter=adapter)
    wrong = [each for each in found.comparisons if not each.agrees(tolerance)]
    if wrong:
        listed = "; ".join(map(str, wrong))
        raise AssertionError(f"{found.network} is not scored as what it computes: {listed}")
    return found


def compare(net: nn.Module, batch: tuple[Tensor, Tensor], *, adapter: Adapter | None = None) -> NetworkCheck:
    """The comparisons without a verdict."""
    plain = _Plain(net, batch, adapter)
    values, reasons = _scored(plain)
    comparisons = []
    for name, measure in MEASURES.items():
        reason, noise = "", 0.0
        try:
            found = measure(plain)
            value, noise = found if isinstance(found, tuple) else (found, 0.0)
        except _NoValue as error:
            value, reason = math.nan, str(error)
        comparisons.append(Comparison(name, values[name], value, reasons.get(name, ""), reason, noise))
    return NetworkCheck(type(net).__name__, tuple(comparisons), plain.double)


def _scored(plain: _Plain) -> tuple[dict[str, float], dict[str, str]]:
    """What the library says of the same network in the same precision, and why some values are missing."""
    net = plain.fresh()
    scores = score(net, (plain.x, plain.y), proxies=list(MEASURES), adapter=plain.adapter)
    values = {record.proxy: record.value for record in scores}
    return values, {record.proxy: record.status for record in scores if record.failed}


class _Plain:
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
            raise _NoValue("no weights")
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
    return function(input, None, None, weight, bias, True, 0.0, eps)


def _grad_norm(p: _Plain) -> float:
    return sum(float(g.norm()) for _, g in p.together.values())


def _snip(p: _Plain) -> float:
    return sum(float((w * g).abs().sum()) for w, g in p.together.values())


def _gradsign(p: _Plain) -> tuple[float, float]:
    """Sample by sample; an entry whose gradient is rounding noise in some sample has no sign there."""
    sums: dict[str, Tensor] = {}
    doubtful: dict[str, Tensor] = {}
    size = torch.finfo(p.dtype).eps * 1e3
    for alone in _each_alone(p):
        for name, g in alone.items():
            sums[name] = sums.get(name, 0) + g.sign()
            doubtful[name] = doubtful.get(name, 0) + ((g != 0) & (g.abs() <= size * g.abs().max())).to(g.dtype)
    total = sum(float(each.abs().sum()) for each in sums.values())
    return total, sum(float(each.sum()) for each in doubtful.values())


def _each_alone(p: _Plain) -> Iterator[dict[str, Tensor]]:
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
    return torch.cat([function(part, None, None, weight, bias, True, 0.0, eps) for part in input.chunk(samples)])


def _zico(p: _Plain) -> float:
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


def _jacov(p: _Plain) -> float:
    if not p.x.is_floating_point():
        raise _NoValue("tokens have no gradient")
    x = p.x.clone().requires_grad_()
    outputs = p.run(p.net, x)
    found = torch.autograd.grad(outputs.sum(), x, allow_unused=True, materialize_grads=True)[0].flatten(1).double()
    if bool((found.std(1) == 0).any()):
        raise _NoValue("a gradient does not vary")
    values = np.linalg.eigvalsh(np.corrcoef(found.numpy())) + 1e-5
    return float(-(np.log(values) + 1 / values).sum())


def _naswot(p: _Plain) -> float:
    seen = _Gates()
    net = p.copy()
    for module in net.modules():
        if isinstance(module, nn.RNNBase | nn.RNNCellBase):  # what is inside a cell has no pattern
            module.register_forward_pre_hook(seen.look_away)
            module.register_forward_hook(seen.look_again)
    with seen:
        p.run(net, p.x)
    if not seen.inputs:
        raise _NoValue("no rectifying activation")
    if any(len(gate) != len(p.x) for gate in seen.inputs):
        raise _NoValue("a rectifier's first axis is not the samples'")
    bits = np.concatenate([(gate > 0).flatten(1).numpy() for gate in seen.inputs], 1)
    kernel = np.array([[float((a == b).sum()) for b in bits] for a in bits])
    sign, value = np.linalg.slogdet(kernel)
    if sign <= 0 or not math.isfinite(value):
        raise _NoValue("two samples have the same pattern")
    return float(value)


def _synflow(p: _Plain) -> float:
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
        raise _NoValue("nothing flows")
    if not math.isfinite(total):
        raise _NoValue("beyond double precision")
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


def _params(p: _Plain) -> float:
    return float(sum(tensor.numel() for tensor in p.given.parameters()))


def _flops(p: _Plain) -> float:
    """Multiply–accumulates of one sample, counted where PyTorch's kernels are called."""
    counter = _Products()
    net = p.copy()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    with _patched(DROPOUTS, lambda function, x, *args, **kwargs: x), counter:
        net(p.x[:1].clone())
    return float(counter.total)


MEASURES: dict[str, Callable[[_Plain], float | tuple[float, float]]] = {
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
    """Keeps what enters each activation that opens and closes."""

    KINDS = frozenset(
        (
            *(aten.relu, aten.relu_, aten.relu6, aten.relu6_, aten.hardtanh, aten.hardtanh_, aten.gelu, aten.gelu_),
            *(aten.silu, aten.silu_, aten.mish, aten.mish_, aten.hardswish, aten.hardswish_, aten.elu, aten.elu_),
            *(aten.celu, aten.celu_, aten.selu, aten.selu_, aten.leaky_relu, aten.leaky_relu_, aten._prelu_kernel),
            *(aten.softplus, aten.threshold, aten.threshold_, aten.rrelu_with_noise),
        )
    )

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs: list[Tensor] = []
        self.away = False

    def look_away(self, *event: Any) -> None:
        """Keep nothing from here on."""
        self.away = True

    def look_again(self, *event: Any) -> None:
        """Keep what comes."""
        self.away = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.away:
            return func(*args, **(kwargs or {}))
        if func.overloadpacket in self.KINDS:
            self.inputs.append(args[0].detach().clone())
        elif func.overloadpacket is aten.glu:
            self.inputs.append(args[0].detach().chunk(2, args[1] if len(args) > 1 else -1)[1].clone())
        return func(*args, **(kwargs or {}))


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
