"""The contract of a proxy, as a check that anyone can run on theirs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.core.seeds import generator
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Proxy

ProbeFactory = Callable[[], Probe]


@dataclass(frozen=True)
class ProxyOutcome:
    """A value, or NaN and the reason for it."""

    value: float
    reason: str = ""

    def same(self, other: ProxyOutcome) -> bool:
        """Equal bit for bit, or not there for the same reason."""
        return self.reason == other.reason and (self.value == other.value or bool(self.reason))


def check_proxy(
    proxy: Proxy, make: ProbeFactory, *, others: Sequence[Proxy] = (), net: nn.Module | None = None
) -> ProxyOutcome:
    """Assert everything that scoring relies on; the first broken promise is an AssertionError that names it.

    Documented; finite, or Unscorable with a reason; the same again, on the same probe and on a fresh one, after other
    proxies and before them; no network, input, label, random state or backend flag changed; without a use for labels,
    the same under other labels.

    Args:
        proxy: The proxy.
        make: Makes a fresh probe, always the same one.
        others: Proxies to compute on the same probe, before this one and after it.
        net: The network that the probes are made from, where it is to be looked at as well.

    Returns:
        The outcome, for further assertions.

    Example:
        >>> from trainless.core.target import Target
        >>> from trainless.proxies import registry
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> x, y = torch.arange(32.0).sin().view(4, 8), torch.tensor([0, 1, 0, 1])
        >>> check_proxy(registry["params"], lambda: Probe.of(net, (x, y), Target("binary", 2)), net=net).value
        46.0
    """
    _check_documented(proxy)
    p = make()
    before = _contents(p, net)
    state = _global_state()
    alone = _outcome(proxy, p)
    assert _equal(before, _contents(p, net)), f"{proxy.name} changed the network, its weights or the batch"
    assert _equal(state, _global_state()), f"{proxy.name} changed a random state or a backend flag"
    assert alone.same(_outcome(proxy, p)), f"{proxy.name} gives something else on the same probe the second time"
    assert alone.same(_outcome(proxy, make())), f"{proxy.name} gives something else on an equal probe"
    if others:
        _check_order(proxy, make, others, alone)
    if not proxy.labels:
        again = _outcome(proxy, _relabelled(make()))
        assert alone.same(again), f"{proxy.name} says that it needs no labels, but depends on them"
    return alone


def _check_documented(proxy: Proxy) -> None:
    assert proxy.summary, f"{proxy.name} has no docstring: one line that says what it means"
    assert proxy.paper, f"{proxy.name} names no paper"


def _outcome(proxy: Proxy, p: Probe) -> ProxyOutcome:
    value, reason = math.nan, None
    try:
        value = proxy(p)
    except Unscorable as error:
        reason = str(error)
    if reason is not None:
        assert reason.strip(), f"{proxy.name} is not scorable, but says no reason"
        assert "\n" not in reason, f"{proxy.name}: the reason {reason!r} has more than one line"
        return ProxyOutcome(math.nan, reason)
    assert math.isfinite(value), f"{proxy.name} is {value}: raise Unscorable with the reason where there is no number"
    return ProxyOutcome(value)


def _check_order(proxy: Proxy, make: ProbeFactory, others: Sequence[Proxy], alone: ProxyOutcome) -> None:
    """Before the others and after them, on one probe; and the others do not mind either."""
    apart = [_outcome(other, make()) for other in others]
    first, last = make(), make()
    assert alone.same(_outcome(proxy, first)), f"{proxy.name} gives something else on an equal probe"
    for other, expected in zip(others, apart, strict=True):
        assert expected.same(_outcome(other, first)), f"{other.name} is different after {proxy.name}"
    for other in reversed(others):
        _outcome(other, last)
    assert alone.same(_outcome(proxy, last)), f"{proxy.name} is different after {', '.join(o.name for o in others)}"


def _relabelled(p: Probe) -> Probe:
    """The same probe with other labels."""
    source = generator(p.seed + 1, "relabelled")
    if p.y.is_floating_point():
        y = torch.randn(p.y.shape, generator=source).to(p.y.device, p.y.dtype)
    else:
        y = torch.randint(max(2, p.target.outputs), p.y.shape, generator=source).to(p.y.device, p.y.dtype)
    return Probe(p.net, p.weights, p.x, y, p.target, p.seed, p.norm, p.kept_norms)


def _contents(p: Probe, net: nn.Module | None) -> list[object]:
    tensors = [*p.weights.values(), *p.net.buffers(), p.x, p.y]
    flags: list[object] = [module.training for module in p.net.modules()]
    if net is not None:
        tensors += [*net.parameters(), *net.buffers()]
        flags += [module.training for module in net.modules()]
        flags += [tensor.requires_grad for tensor in net.parameters()]
        flags += [tensor.grad is None for tensor in net.parameters()]
        flags += [len(module._forward_hooks) + len(module._backward_hooks) for module in net.modules()]
    return [tensor.detach().clone() for tensor in tensors] + flags


def _global_state() -> list[object]:
    states: list[object] = [torch.get_rng_state(), random.getstate(), str(np.random.get_state())]
    if torch.cuda.is_available():
        states += torch.cuda.get_rng_state_all()
    flags = [
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
    ]
    return [*states, *flags]


def _equal(before: Sequence[object], after: Sequence[object]) -> bool:
    return len(before) == len(after) and all(_same(a, b) for a, b in zip(before, after, strict=True))


def _same(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
    return a == b
