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
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trainless.core.errors import InputError
from trainless.testing.gates import by_sample, entered

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
    if p.x.is_floating_point():
        x = p.x.clone().requires_grad_()
        outputs = p.run(p.net, x)
        found = torch.autograd.grad(outputs.sum(), x, allow_unused=True, materialize_grads=True)[0].flatten(1).double()
    else:
        found = _at_embeddings(p)
    if bool((found.std(1) == 0).any()):
        raise NoValue("a gradient does not vary")
    values = np.linalg.eigvalsh(np.corrcoef(found.numpy())) + 1e-5
    return float(-(np.log(values) + 1 / values).sum())


def _at_embeddings(p: PlainNetwork) -> Tensor:
    """The gradient of the sum of outputs at what tokens are looked up as, one row per sample.

    A lookup is one of tokens if every sample's indices are its own tokens, or a single other one such as a start; where
    there is none, if its indices are others when the samples change places.
    """
    with _Lookups() as seen:
        outputs = p.run(p.net, p.x)
    with _Lookups() as again:
        p.run(p.net, p.x.roll(1, 0))
    own: list[tuple[Tensor, int]] = []
    made: list[tuple[Tensor, int]] = []
    for (indices, output), (others, _) in zip(seen.found, again.found, strict=True):
        for axis in (axis for axis, size in enumerate(indices.shape) if size == len(p.x)):
            rows = zip(indices.movedim(axis, 0), p.x, strict=True)
            strange = set[int]().union(*(set(row.flatten().tolist()) - set(x.flatten().tolist()) for row, x in rows))
            if len(strange) <= 1 and len(indices.unique()) > 1:
                own.append((output, axis))
                break
        else:
            if not torch.equal(indices, others):
                made.append((output, 0))
    chosen = own or made
    if not chosen:
        raise NoValue("tokens are not looked up")
    found = torch.autograd.grad(
        outputs.sum(), [output for output, _ in chosen], allow_unused=True, materialize_grads=True
    )
    parts = [each.movedim(axis, 0).flatten(1) for each, (_, axis) in zip(found, chosen, strict=True)]
    return torch.cat(parts, 1).double()


class _Lookups(TorchFunctionMode):
    """Keeps indices and rows of every lookup in a table, with their graph."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (F.embedding, F.embedding_bag, torch.embedding):
            tensors = [each for each in (*args, *(kwargs or {}).values()) if isinstance(each, Tensor)]
            self.found.append((next(each for each in tensors if not each.is_floating_point()), result))
        elif func is Tensor.__getitem__ and isinstance(args[0], nn.Parameter) and isinstance(args[1], Tensor):
            self.found.append((args[1], result))
        return result


def _naswot(p: PlainNetwork) -> float:
    net = p.copy()
    gates = entered(net, lambda: p.run(net, p.x))
    if not gates:
        raise NoValue("no rectifying activation")
    apart = p.copy().eval()  # where samples do not touch one another, unless by code of its own

    def changed(index: int | None) -> list[Tensor]:
        x = p.x.clone()
        if index is not None:
            x[index] = p.x[index - 1]
        with _patched(DROPOUTS, lambda function, x, *args, **kwargs: x):
            return entered(apart, lambda: apart(x))

    before, after = changed(None), [changed(index) for index in range(len(p.x))]
    rows = []
    for place, gate in enumerate(gates):
        alike = all(len(each) == len(gates) and each[place].shape == gate.shape for each in (before, *after))
        moved = [each[place] != before[place] for each in after] if alike else []
        if moved and not any(bool(each.any()) for each in moved):
            continue  # it does not depend on the input
        found = by_sample(gate, moved)
        if found is None:
            raise NoValue("samples and positions are mixed")
        rows.append((found.flatten(1) > 0).numpy())
    if not rows:
        raise NoValue("no rectifying activation")
    bits = np.concatenate(rows, 1)
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
