"""Modes of normalisation layers at a probe.

Batch norm makes "the gradient of one sample" ambiguous, so its mode is always explicit:

- ``batch``: the batch is normalised together, as in training;
- ``isolated``: every sample is normalised alone, as if it were a batch of one. Where a norm sees a single value per
  channel and sample (vectors, maps of 1 × 1) that is impossible: there the batch's mean and variance are taken, as
  constants, so that no gradient passes from one sample to another;
- ``fresh``: by the running statistics of an untrained network, mean 0 and variance 1;
- ``off``: nothing is normalised; layer, group and instance norms are left out too.

The forward of PyTorch's own norm modules is replaced, because it is known. Any other module runs its own code, and the
norm functions that it calls are met where they are called. Dropout functions give back their input.
"""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function_unary

from trainless.core.errors import Unscorable
from trainless.probe.layers import is_ours, modules, removed_after
from trainless.probe.second_order import batch_norm

Norm: TypeAlias = Literal["batch", "isolated", "fresh", "off"]
Rule: TypeAlias = Norm | Literal["elementary", "twice"]
"""A norm's mode; or as ``batch``, ``elementary`` in operations that can be differentiated forwards, even twice, and
``twice`` in one whose second derivative costs little."""

SAMPLE_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _InstanceNorm)
Observer: TypeAlias = Callable[[Tensor | None, Tensor | None, Tensor, Tensor, Tensor], Tensor]
"""Called with a batch norm's scale, bias, input, standardised input and output; returns what goes on."""
Statistics: TypeAlias = list[tuple[Tensor, Tensor]]
"""Mean and variance over the batch at each norm that sees a single value per channel and sample, in order."""
BY_HAND: WeakKeyDictionary[nn.Module, list[nn.Module]] = WeakKeyDictionary()
"""Modules of a private network that were found to be norms of somebody's own arithmetic."""
_PLAIN = ("View", "Reshape", "UnsafeView", "Mul", "Div", "Add", "Sub", "T", "Permute", "Unsqueeze", "Clone")
_FAR = 8  # steps of a graph within which what comes of parameters alone shows it
_KNOWN: dict[type, Callable[..., Any]] = {
    kind: kind.forward
    for kind in (
        *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm),
        *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    )
}


def channel_variances(x: Tensor) -> Tensor:
    """The biased variance of every channel over samples and positions, ``(C,)``.

    Example:
        >>> channel_variances(torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])).tolist()
        [1.0]
    """
    count = x.numel() // x.shape[1]
    rows = x.flatten(2) if x.ndim > 2 else x[:, :, None]
    rows = rows - (rows.sum(2).sum(0) / count)[:, None]
    squares: Tensor = torch.linalg.vecdot(rows, rows).sum(0)
    return squares / count


def _trivial(weight: Tensor, bias: Tensor | None) -> bool:
    """Whether scale and bias change nothing, as at initialisation; then they need not be applied."""
    ones, zeros = _constants(len(weight), weight.dtype, weight.device)
    return torch.equal(weight, ones) and (bias is None or torch.equal(bias, zeros))


def _alike(tensor: Tensor | None, other: Tensor) -> bool:
    return tensor is not None and (tensor.device, tensor.dtype) == (other.device, other.dtype)


def _all_trivial(pairs: Sequence[tuple[Tensor, Tensor | None]]) -> dict[tuple[int, int], bool]:
    """The same of many, by identity, with one answer from their device.

    Example:
        >>> ones, zeros = torch.ones(2), torch.zeros(2)
        >>> list(_all_trivial([(ones, zeros), (ones, ones), (zeros, None), (ones, None)]).values())
        [True, False, False, True]
    """
    scales = torch.stack(torch._foreach_norm(torch._foreach_sub([scale for scale, _ in pairs], 1), torch.inf))
    biases = [bias for _, bias in pairs if bias is not None]
    both = torch.cat([scales, torch.stack(torch._foreach_norm(biases, torch.inf))]) if biases else scales
    changes = (both != 0).tolist()
    of_biases = dict(zip(map(id, biases), changes[len(pairs) :], strict=True))
    return {
        (id(scale), id(bias)): not (changed or of_biases.get(id(bias), False))
        for (scale, bias), changed in zip(pairs, changes, strict=False)
    }


@functools.lru_cache(maxsize=64)
def _kept_constants(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.ones(count, dtype=dtype, device=device), torch.zeros(count, dtype=dtype, device=device)


def _constants(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ones and zeros; what is made within a function transform must not outlive it and is not kept."""
    inside = torch._C._functorch.peek_interpreter_stack() is not None
    make = _kept_constants.__wrapped__ if inside else _kept_constants
    return make(count, dtype, device)


def is_known(module: nn.Module) -> bool:
    """Whether a module is exactly one of PyTorch's norms: no subclass, and neither it nor its class is patched.

    Example:
        >>> is_known(nn.BatchNorm2d(3)), is_known(type("Mine", (nn.BatchNorm2d,), {})(3))
        (True, False)
    """
    own = _KNOWN.get(type(module))
    return own is not None and "forward" not in vars(module) and type(module).forward is own


def leaves_buffers(module: nn.Module) -> bool:
    """Whether a module is a batch norm of PyTorch's, whose forward is replaced whenever a network is run here."""
    own = vars(module).get("forward")
    replaced = isinstance(own, functools.partial) and getattr(own.func, "__func__", None) is NormRules.forward
    return isinstance(module, _BatchNorm) and (replaced or is_known(module))


def has_statistics(module: nn.Module) -> bool:
    """Whether a module is a norm of batches, whoever wrote it: it keeps running statistics."""
    return isinstance(module, _BatchNorm) or {"running_mean", "running_var"} <= module._buffers.keys()


class Inside:
    """Knows which norm that keeps statistics is running: one that uses them, though told to see the batch, means it."""

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._running: list[nn.Module] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow the modules of the network that keep statistics until the end of the block."""
        hooks = []
        for _, module in modules(self._net):
            if has_statistics(module):
                hooks += [module.register_forward_pre_hook(self._enter)]
                hooks += [module.register_forward_hook(self._leave, always_call=True)]
        with removed_after(hooks):
            yield

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._running.append(module)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._running.pop()

    def uses(self, running_mean: Tensor | None) -> bool:
        """Whether a norm that is running uses its own mean."""
        return bool(self._running) and running_mean is self._running[-1]._buffers.get("running_mean")


class AsInTraining(TorchFunctionMode):
    """Lets batch norm functions see the batch, and dropout functions do nothing; all else runs as it is."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.inside = Inside(net)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _RULES.get(func) in (NormRules._dropout, NormRules._native_dropout):
            x = args[0] if args else kwargs["input"]
            return x if _RULES[func] is NormRules._dropout else (x, torch.ones_like(x, dtype=torch.bool))
        if func is F.batch_norm and not (args[5] if len(args) > 5 else kwargs.get("training")):
            named = dict(zip(("input", "running_mean", "running_var", "weight", "bias"), args, strict=False)) | kwargs
            eps = args[7] if len(args) > 7 else kwargs.get("eps", 1e-5)
            if named.get("running_mean") is None or not self.inside.uses(named["running_mean"]):
                return func(named["input"], None, None, named.get("weight"), named.get("bias"), True, 0.0, eps)
        return func(*args, **kwargs)


def _lone(output: Tensor) -> Tensor:
    """Give a norm of one sample its gradient in plain order: PyTorch misreads one that lies channels last on a CPU."""
    if output.ndim > 3 and len(output) == 1 and output.requires_grad and not output.is_cuda:
        output.register_hook(Tensor.contiguous)
    return output


def batch_norm_of(x: Tensor, mode: Rule, module: _BatchNorm, rules: NormRules) -> Tensor:
    """What one of PyTorch's batch norms gives in a mode: to those who watch the network's calls a single one."""
    if has_torch_function_unary(x):
        found: Tensor = handle_torch_function(batch_norm_of, (x,), x, mode, module, rules)
        return found
    return rules.normalised(mode, x, module.weight, module.bias, module.eps)


class NormRules(TorchFunctionMode):
    """Lets norms behave as told, wherever they are called, and dropouts do nothing.

    Args:
        net: The network.
        mode: See the module's text.
        observe: See ``Observer``.
        statistics: Those of a whole batch, for a pass of one of its samples.
        samples: How many there are in the pass.
    """

    def __init__(
        self,
        net: nn.Module,
        mode: Rule,
        observe: Observer | None = None,
        statistics: Statistics | None = None,
        samples: int | None = None,
    ) -> None:
        super().__init__()
        self.net, self.samples = net, samples
        self.mode: Rule = mode
        self.observe = observe
        self.statistics: Statistics = []
        self._given = None if statistics is None else iter(statistics)
        self._kept = 0
        self.silenced = False  # whether a dropout was met that would not be off in evaluation
        self._own: set[int] | None = None
        self.inside = Inside(net)
        self._trivial: dict[tuple[int, int], bool] | None = None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = _RULES.get(func)
        if rule is None:
            return func(*args, **(kwargs or {}))
        return rule(self, func, *args, **(kwargs or {}))

    def forward(self, mode: Rule, module: _BatchNorm, x: Tensor) -> Tensor:
        """The forward of one of PyTorch's own batch norms."""
        return batch_norm_of(x, mode, module, self)

    def keep(self, more: int, *_: Any) -> None:
        """Normalise by the batch from now on, whatever the mode, or no longer: a hook around a module's call."""
        self._kept += more

    def normalised(self, mode: Rule, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        """What a batch norm gives in a mode."""
        observe = self.observe
        if mode == "off":
            return x.clone()  # what follows may work in place
        if mode == "batch" and x.numel() == x.shape[1] and self._given is not None:
            return F.batch_norm(x, *next(self._given), weight, bias, False, 0.0, eps)
        if mode in ("batch", "twice") and x.numel() == x.shape[1]:
            raise Unscorable(
                "batch norm sees a single value per channel here: this batch is too small to be normalised"
            )
        if mode == "batch" and observe is None:
            return _lone(F.batch_norm(x, None, None, weight, bias, True, 0.0, eps))
        if mode == "twice":
            return batch_norm(x, weight, bias, eps)
        standard = self._standardised(mode, x, eps)
        aligned = self.samples is None or len(x) == self.samples  # else what comes of the scale is read off the graph
        read = observe is not None or not torch.is_grad_enabled()  # nobody differentiates by what is left out
        if weight is None or (aligned and read and self._is_trivial(weight, bias)):
            result = standard
        else:
            shape = (1, -1, *[1] * (x.ndim - 2))
            scale = weight.view(shape)
            result = standard * scale if bias is None else bias.view(shape).addcmul(standard, scale)
        return result if observe is None else observe(weight, bias, x, standard, result)

    def _is_trivial(self, weight: Tensor, bias: Tensor | None) -> bool:
        """Whether scale and bias change nothing; on a GPU all of the network's are looked at together, at the first."""
        if not weight.is_cuda:
            return _trivial(weight, bias)
        if self._trivial is None:  # within the pass, so that these are the tensors that it works with
            norms = [module for _, module in modules(self.net) if isinstance(module, _BatchNorm)]
            pairs = [(norm.weight, norm.bias) for norm in norms if _alike(norm.weight, weight)]
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._trivial = _all_trivial(pairs)
        known = self._trivial.get((id(weight), id(bias)))
        return _trivial(weight, bias) if known is None else known

    def _standardised(self, mode: Rule, x: Tensor, eps: float) -> Tensor:
        """The input with mean 0 and variance 1 by the statistics of the mode, before scale and bias."""
        if mode == "fresh":
            return x * (1 / math.sqrt(1 + eps))
        if mode == "batch":
            return _lone(F.batch_norm(x, None, None, None, None, True, 0.0, eps))
        if mode == "elementary":
            axes = [0, *range(2, x.ndim)]
            centred = x - x.mean(axes, keepdim=True)
            return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)
        if self.samples and len(x) > self.samples and len(x) % self.samples == 0:  # a sample has several rows
            rows = x.unflatten(0, (self.samples, -1)).movedim(2, 1)
            return F.group_norm(rows, rows.shape[1], None, None, eps).movedim(1, 2).flatten(0, 1)
        if x.ndim == 2 or x[0, 0].numel() == 1:
            return F.batch_norm(x, *self._of_the_batch(x), None, None, False, 0.0, eps)
        # a third to an eighth of batch norm's time on a processor, but slow for channels last
        return F.group_norm(x.contiguous(), x.shape[1], None, None, eps)

    def _of_the_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the batch, which samples that are run alone are told."""
        if self._given is not None:
            return next(self._given)
        if len(x) == 1:
            raise Unscorable("batch norm sees a single value per channel of the only sample: give a larger batch")
        rows = x.detach().flatten(1)
        found = rows.mean(0), rows.var(0, correction=0)
        self.statistics.append(found)
        return found

    def _batch_norm(
        self,
        func: Callable[..., Any],
        input: Tensor,  # noqa: A002 - torch's own keyword
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        as_it_is = running_mean is None and self._of_parameters(input)
        if running_mean is not None and not training and self.mode != "off":
            as_it_is = self.inside.uses(running_mean)
        if as_it_is:
            return cast(Tensor, func(input, running_mean, running_var, weight, bias, training, momentum, eps))
        return self.normalised("batch" if self._kept else self.mode, input, weight, bias, eps)

    def _plain_batch_norm(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """The same by the function whose arguments are in another order."""
        names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        given.pop("cudnn_enabled", None)
        return self._batch_norm(F.batch_norm, **given)

    def _native_batch_norm(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The same by the function that gives the statistics too."""
        return self._plain_batch_norm(func, *args, **kwargs), *func(*args, **kwargs)[1:]

    def _native_sample_norm(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = func(*args, **kwargs)
        return self._sample_norm(lambda *_, **__: given[0], *args, **kwargs), *given[1:]

    def _sample_norm(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs["input"]
        return x.clone() if self.mode == "off" and not self._of_parameters(x) else _lone(func(*args, **kwargs))

    def _dropout(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        on = args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", func in _ON_UNLESS_TOLD))
        self.silenced |= bool(on)
        return args[0] if args else kwargs["input"]

    def _native_dropout(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.silenced = True
        x = args[0] if args else kwargs["input"]
        return x, torch.ones_like(x, dtype=torch.bool)

    def _attention(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
        return func(*args, **({**kwargs, "dropout_p": 0.0} if "dropout_p" in kwargs else kwargs))

    def _of_parameters(self, tensor: Tensor) -> bool:
        """Whether a tensor comes of parameters alone, such as a kernel that is standardised: that is no norm layer."""
        if self._own is None:  # within the pass, so that these are the tensors that it works with
            self._own = {id(held) for _, module in modules(self.net) for held in module._parameters.values()}
        if tensor.grad_fn is None:
            base = tensor if tensor._base is None else tensor._base
            return isinstance(base, nn.Parameter) or not self._own.isdisjoint((id(tensor), id(base)))
        waiting, seen = [tensor.grad_fn], 0
        while waiting:
            node = waiting.pop()
            seen += 1
            leaf = getattr(node, "variable", None)
            plain = leaf is not None or node.name().startswith(_PLAIN)
            if seen > _FAR or not plain or (leaf is not None and id(leaf) not in self._own):
                return False
            waiting += [after for after, _ in node.next_functions if after is not None]
        return True


_RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    F.batch_norm: NormRules._batch_norm,
    torch.batch_norm: NormRules._plain_batch_norm,
    **dict.fromkeys((F.layer_norm, F.group_norm, F.rms_norm, F.instance_norm), NormRules._sample_norm),
    **dict.fromkeys((torch.layer_norm, torch.group_norm, torch.rms_norm, torch.instance_norm), NormRules._sample_norm),
    **dict.fromkeys((F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout), NormRules._dropout),
    **dict.fromkeys((F.feature_alpha_dropout, torch.dropout, torch.dropout_, torch.alpha_dropout), NormRules._dropout),
    **dict.fromkeys((torch.feature_dropout, torch.feature_alpha_dropout, torch.alpha_dropout_), NormRules._dropout),
    torch.native_dropout: NormRules._native_dropout,
    torch.native_batch_norm: NormRules._native_batch_norm,
    **dict.fromkeys((torch.native_layer_norm, torch.native_group_norm), NormRules._native_sample_norm),
    F.scaled_dot_product_attention: NormRules._attention,
}


_ON_UNLESS_TOLD = frozenset((F.dropout, F.dropout1d, F.dropout2d, F.dropout3d))


def _identity(x: Tensor) -> Tensor:
    return x.clone()


def _give_back(before: list[tuple[nn.Module, Any]]) -> None:
    for module, forward in before:
        if forward is None:
            del module.forward
        else:
            module.forward = forward


@contextmanager
def normalised(
    net: nn.Module,
    mode: Rule,
    kept: tuple[str, ...] = (),
    observe: Observer | None = None,
    statistics: Statistics | None = None,
    samples: int | None = None,
) -> Iterator[NormRules]:
    """Let the norm layers of a private network behave as told until the end of the block.

    Args:
        net: The network; its norm layers are given back their own behaviour in the end.
        mode: See the module's text.
        kept: Patterns of module names that are normalised by the batch whatever the mode.
        observe: See ``Observer``.
        statistics: Those of a whole batch, for a pass of one of its samples.
        samples: How many there are in the pass; where a norm sees several rows of each, they are kept together.
    """
    before: list[tuple[nn.Module, Any]] = []
    by_hand = BY_HAND.get(net, ()) if mode == "off" else ()
    ours = is_ours(net)  # asked before anything is replaced
    rules = NormRules(net, mode, observe, statistics, samples)
    ours = is_ours(net)  # asked while no forward is replaced
    with ExitStack() as after:
        after.callback(_give_back, before)
        for name, module in modules(net):
            by_batch = any(fnmatch.fnmatch(name, pattern) for pattern in kept)
            if mode == "off" and module in by_hand and not by_batch:
                before.append((module, vars(module).get("forward")))
                module.forward = _identity
            elif not is_known(module):
                if by_batch:
                    hooks = module.register_forward_pre_hook(functools.partial(rules.keep, 1))
                    done = module.register_forward_hook(functools.partial(rules.keep, -1), always_call=True)
                    after.enter_context(removed_after((hooks, done)))
            elif isinstance(module, _BatchNorm) and (module.training or mode == "off"):  # else it is frozen
                own: Rule = "batch" if by_batch else mode
                module.forward = functools.partial(rules.forward, own, module)  # type: ignore[method-assign]
                before.append((module, None))
            elif mode == "off":
                module.forward = _identity
                before.append((module, None))
        if not ours:  # whose norms are modules and nothing else
            after.enter_context(rules.inside.watched())
            after.enter_context(rules)
        yield rules
