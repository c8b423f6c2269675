"""Networks of the user's: what they must be to be scored, and what tells one from another."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trainless.core.errors import InputError
from trainless.engine.data import fingerprint


def require_plain(net: nn.Module, name: str) -> None:
    """Raise InputError where a network's layers cannot be seen, or its weights do not exist.

    Example:
        >>> require_plain(nn.LazyLinear(4), "mine")
        Traceback (most recent call last):
        trainless.core.errors.InputError: the network mine has lazy layers whose sizes are not known yet: run it once...
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in net.modules()):
        raise InputError(f"the network {name} is scripted or traced, which hides its layers: give the nn.Module before")
    if any(_compiled(module) for module in net.modules()):
        raise InputError(f"the network {name} is compiled, which hides its layers: give it before torch.compile")
    tensors = [*net.parameters(), *net.buffers()]
    if any(is_lazy(tensor) for tensor in tensors):
        raise InputError(
            f"the network {name} has lazy layers whose sizes are not known yet: run it once on a batch, net(x), before"
            " it is scored, or give the sizes"
        )
    if any(tensor.is_meta for tensor in tensors):
        raise InputError(
            f"the network {name} is on the meta device and has no weights: make it on the cpu, or give it weights by"
            " net.to_empty(device='cpu') and its initialisation"
        )


def _compiled(module: nn.Module) -> bool:
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # there once something was compiled
    wrapped = dynamo is not None and isinstance(module, dynamo.OptimizedModule)
    return wrapped or module._compiled_call_impl is not None


def require_tensor(output: object, name: str) -> None:
    """Raise InputError where a network's answer is not one tensor, and say how to choose it.

    Example:
        >>> require_tensor({"logits": 0}, "mine")
        Traceback (most recent call last):
        trainless.core.errors.InputError: the network mine returned a dict of logits; expected one tensor of logits...
    """
    if isinstance(output, Tensor):
        return
    what, remedy = type(output).__name__, "return a torch.Tensor from forward"
    if isinstance(output, Mapping) and output:
        what = f"{what} of {', '.join(map(str, output))}"
        remedy = _choice(next(iter(output)))
    elif isinstance(output, (tuple, list)) and output:
        remedy = _choice(0)
    raise InputError(f"the network {name} returned a {what}; expected one tensor of logits or values: {remedy}")


def _choice(key: object) -> str:
    return f"choose it, such as --output {key}, or adapter=lambda out: out[{key!r}]"


def network_fingerprint(net: nn.Module, outputs: Tensor) -> str:
    """A digest of structure, classes' source, parameters, buffers and what the network answers."""
    state = [part for name, tensor in net.state_dict().items() for part in (name, tensor)]
    classes = sorted({type(module) for module in net.modules()}, key=lambda kind: (kind.__module__, kind.__qualname__))
    sources = [_source(kind) for kind in classes if not kind.__module__.startswith("torch.")]
    return fingerprint(repr(net), *sources, *state, outputs)


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return kind.__qualname__
