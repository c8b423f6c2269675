"""The measures themselves by plain autograd, one function each."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trainless.testing.gates import by_sample, entered
from trainless.testing.operations import Products
from trainless.testing.plain import (
    BEYOND,
    NATIVE_NORMS,
    NORM_FUNCTIONS,
    NORMS,
    TOUCHING,
    NoValue,
    PlainNetwork,
    patched,
    settled,
)


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
    constants: all samples go through side by side, each normalised alone wherever it can be. So do those of a network
    that draws numbers for each.
    """
    try:
        found = [] if _draws(p) else [p.gradients(slice(index, index + 1)) for index in range(len(p.x))]
    except ValueError:
        found = []
    if found:
        alone = torch.cat([p.run(p.copy(), sample) for sample in p.x.split(1)])
        size = p.run(p.copy(), p.x).abs().max()
        if not (alone - p.side_by_side(p.copy(), p.x)).abs().max() <= p.rounding * size:  # nor is it NaN
            raise NoValue(TOUCHING)
    else:
        net = p.copy()
        weights = p.weights(net)
        outputs = p.side_by_side(net, p.x)
        for index in range(len(p.x)):
            loss = p.loss(outputs[index : index + 1], p.y[index : index + 1])
            each = torch.autograd.grad(
                loss, list(weights.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            yield dict(zip(weights, each, strict=True))
    for gradients in found:
        yield {name: g for name, (_, g) in gradients.items()}


def _draws(p: PlainNetwork) -> bool:
    """Whether a pass draws random numbers."""
    with settled():
        before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
        p.copy()(p.x.clone())
        after = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    return not torch.equal(before[0], after[0]) or before[1:] != after[1:]


def _zico(p: PlainNetwork) -> float:
    parts = [slice(int(part[0]), int(part[-1]) + 1) for part in np.array_split(np.arange(len(p.x)), 2)]
    first, second = (p.gradients(part) for part in parts)
    total = 0.0
    for name, (_, g) in first.items():
        other = second[name][1]
        mean, spread = (g.abs() + other.abs()) / 2, (g - other).abs() / 2  # the deviation of two numbers
        moving = spread > 0
        ratio = float((mean[moving] / spread[moving]).sum())
        total += math.log(ratio) if ratio > 0 else 0.0
    return total


def _jacov(p: PlainNetwork) -> float:
    if p.x.is_floating_point():
        x = p.x.clone().requires_grad_()
        outputs = p.run(p.copy(), x)
        found = torch.autograd.grad(outputs.sum(), x, allow_unused=True, materialize_grads=True)[0].flatten(1).double()
    else:
        found = _at_embeddings(p)
    if not bool(found.isfinite().all()):
        raise NoValue("a gradient is not finite")
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
        outputs = p.run(p.copy(), p.x)
    with _Lookups() as again:
        p.run(p.copy(), p.x.roll(1, 0))
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
        with settled():
            return entered(apart, lambda: apart(x))

    before, after = changed(None), [changed(index) for index in range(len(p.x))]
    rows = []
    for place, gate in enumerate(gates):
        alike = all(len(each) == len(gates) and each[place].shape == gate.shape for each in (before, *after))
        moved = [each[place] != before[place] for each in after] if alike else []
        if moved and len(gate) != len(p.x) and not any(bool(each.any()) for each in moved):
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

    for module in _norms_by_hand(p):
        net.get_submodule(module).forward = lambda x: x.clone()
    for norm in net.modules():  # PyTorch's own modules are left out whatever they normalise, be it learned queries
        if type(norm).__module__.startswith("torch.nn.modules") and isinstance(norm, NORMS[:-1]):
            vars(norm)["forward"] = lambda x: x.clone()
    with settled(), patched(NORM_FUNCTIONS, left_out), patched(NATIVE_NORMS, _left_out_too, torch):
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


def _norms_by_hand(p: PlainNetwork) -> list[str]:
    """Modules of somebody's own that normalise: with a scale of 1 and no bias, ``f(c · x) = f(x) = f(f(x))``.

    Raises:
        NoValue: One does more than that.
    """
    net, found = p.copy(), dict[str, bool]()

    def neutral(module: nn.Module, scale: float) -> nn.Module:
        plain = copy.deepcopy(module)
        with torch.no_grad():
            for name, tensor in plain.named_parameters():
                tensor.fill_(0.0 if "bias" in name or "beta" in name else scale)
        return plain

    def look(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        x: Any = inputs[0] if len(inputs) == 1 else None
        data = isinstance(x, Tensor) and not isinstance(x, nn.Parameter) and x.is_floating_point()
        if data and not 0 < float(x.abs().max()) < math.inf:
            return
        if not data or not isinstance(output, Tensor) or output.shape != x.shape or name in found:
            return
        x, forward = x.detach() / x.detach().abs().max(), type(module).forward
        large = forward(copy.deepcopy(module), 1e5 * x)
        moved = forward(copy.deepcopy(module), 1e5 * (x + 0.01 * x.cos()))
        small = forward(copy.deepcopy(module), 0.5 * x)  # where a sigmoid is none of 0 and 1 yet
        if not _same(large, forward(copy.deepcopy(module), 3e5 * x)) or not _same(small, large, 0.1):
            return
        if (moved == large).double().mean() > 0.9:
            return
        found[name] = False
        for scale in (1.0, 0.0):
            once = forward(neutral(module, scale), 1e5 * x)
            found[name] |= bool(once.abs().max() > 0) and _same(once, forward(neutral(module, scale), 1e5 * once))

    for name, module in net.named_modules():
        small = all(tensor.numel() == max(tensor.shape, default=1) for tensor in module.parameters())
        whole = any(isinstance(inner, NORMS) for inner in module.modules())
        if small and not whole and not type(module).__module__.startswith("torch.nn.modules"):
            module.register_forward_hook(functools.partial(look, name))

    def left_out(function: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:  # noqa: A002
        return function(input, *args, **kwargs) if len(input) % len(p.x) else input.clone()

    @contextlib.contextmanager
    def without() -> Iterator[None]:
        with patched(NORM_FUNCTIONS, left_out), patched(NATIVE_NORMS, _left_out_too, torch):
            yield

    with torch.no_grad(), settled(), without():
        net(p.x.clone())
    inner = [name for name, alone in found.items() if alone]
    mixed = [name for name, alone in found.items() if not alone and not any(n.startswith(name) for n in inner)]
    if mixed:
        raise NoValue(f"{mixed[0]} normalises and does more")

    def first(others: Tensor) -> Tensor:
        """The outputs of the first sample beside others, where no norm is."""
        net = p.copy()
        for name in inner:
            net.get_submodule(name).forward = lambda x: x.clone()
        with torch.no_grad(), settled(), without():
            output = net(torch.cat([p.x[:1], others]))
        return (p.adapter(output) if p.adapter else cast(Tensor, output))[:1]

    if not _same(first(p.x[1:]), first(p.x[:1].expand(len(p.x) - 1, *p.x.shape[1:])), p.rounding):
        raise NoValue(TOUCHING)
    return inner


def _same(one: Tensor, other: Tensor, near: float = 1e-4) -> bool:
    return bool(((one - other).abs() <= near * other.abs().max()).all() or not one.isfinite().all())


def _left_out_too(function: Any, input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, None, None]:  # noqa: A002
    return input.clone(), None, None


_LOOKUP = re.compile("Embedding|Index")  # nodes by which tokens come in


def _depends(tensor: Tensor, x: Tensor) -> bool:
    """Whether a tensor comes from the input: what normalises weights is no norm layer."""
    stack, seen = [tensor.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is x or (not x.requires_grad and _LOOKUP.match(node.name())):
            return True
        stack += [following for following, _ in node.next_functions]
    return False


def _params(p: PlainNetwork) -> float:
    return float(sum(tensor.numel() for tensor in p.given.parameters()))


def _flops(p: PlainNetwork) -> float:
    """Multiply–accumulates of one sample, counted where PyTorch's kernels are called."""
    counter = Products()
    net = p.copy()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    with settled(), counter:
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
