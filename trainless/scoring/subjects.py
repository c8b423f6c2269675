"""Subjects of scoring: a network of the user's, whatever a function makes, or an arch of a space."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trainless.core.arch import Arch, Candidate, Region, is_region
from trainless.core.errors import InputError, TrainlessError, Unscorable
from trainless.core.seeds import seeded
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.text import message, one_line
from trainless.probe.layers import removed_after
from trainless.probe.norms import normalised
from trainless.probe.points import in_precision_of
from trainless.probe.probe import private_copy
from trainless.probe.running import run
from trainless.scoring.batches import BatchSource, Shape, fingerprint
from trainless.scoring.resolvers import NamedNetwork
from trainless.spaces.protocol import (
    CellSpace,
    CellSupernet,
    Counted,
    Counts,
    Scalable,
    Space,
    Supernet,
    key,
    require_arch,
)


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
    wrapped = next((each for each in net.modules() if isinstance(each, _PARALLEL)), None)
    if wrapped is not None:
        raise InputError(
            f"the network {name} is wrapped in {type(wrapped).__name__}, whose replicas hide its layers: give the"
            " network inside, net.module"
        )
    if any(_quantised(module) for module in net.modules()):
        raise InputError(
            f"the network {name} is quantised or prepared for it, so that its weights are integers or rounded as it"
            " runs: give the floating-point network before quantisation"
        )
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


_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic", "torch.ao.nn.qat", "torch.ao.quantization", "torchao.")


def _quantised(module: nn.Module) -> bool:
    return type(module).__module__.startswith(_QUANTISED)


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
    found = output[0] if isinstance(output, (tuple, list)) and output else output
    if isinstance(found, Mapping) and any("box" in str(each) for each in found):
        raise InputError(
            f"the network {name} returned {', '.join(map(str, found))}: detection is not scored; what can be is its"
            " backbone with one answer per sample, or one tensor chosen by adapter=lambda out: …"
        )
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


Size = Literal["full", "thin", "cell"]
Adapter = Callable[[Any], Tensor]
SEVERAL = ("required positional argument", "decoder_")  # in what a network says that lacks an input
TRIALS = (2, 5)  # samples on which a network is tried
THIN = (3, 1)  # TE-NAS: channels, cells per stage
CELL_TARGET = Target("binary", 2)


class Subject(Protocol):
    """Something that gives networks to score; they are ours to keep."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        """The batches as it takes them: their device, size and target.

        Raises:
            InputError: It cannot be scored on such data at all.
        """
        ...

    def network(self, size: Size, data: BatchSource, seed: int) -> tuple[nn.Module, Target]:
        """The network, the same for the same seed, and what its outputs stand for."""
        ...

    def identity(self, data: BatchSource, seed: int) -> tuple[str, str]:
        """The first two parts of its key in a store."""
        ...

    def release(self) -> None:
        """Let go of the networks that were made or copied, so that those of many subjects are never in memory."""
        ...


@dataclass(frozen=True, eq=False)
class Given:
    """A network as it is; only a copy of its structure is ever run."""

    net: nn.Module
    adapter: Adapter | None = None
    label: str = ""
    shape: Shape | None = None

    @property
    def name(self) -> str:
        return self.label or type(self.net).__name__

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        tensor = next(self.net.parameters(), None)
        return torch.device("cpu") if tensor is None else tensor.device

    @cached_property
    def private(self) -> nn.Module:
        """The structure, sharing the parameters, with the adapter applied."""
        try:
            structure = private_copy(self.net)
        except Exception as error:
            raise InputError(f"the network {self.name} cannot be copied ({one_line(error)})") from error
        adapter = self.adapter
        if adapter is not None:
            structure.register_forward_hook(lambda module, inputs, output: adapter(output))
        return structure

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        require_plain(self.net, self.name)
        _require_precision(self.net, self.name)
        data = data.on(self.device)
        shape = self.shape or (_own_shape(self.net) if data.inputs == "own" else data.inputs.get(self.name))
        data = data.sized(shape) if shape else data
        outputs = [trial(self.private, data.sample(n)[0], self.name) for n in TRIALS]
        data = data.aimed(outputs[0])
        for each in outputs:
            data.task.target.require(each)
        return data

    def network(self, size: Size, data: BatchSource, seed: int) -> tuple[nn.Module, Target]:
        _refuse_cell(size, "this is a whole network")
        return self.private, data.task.target

    def identity(self, data: BatchSource, seed: int) -> tuple[str, str]:
        return "network", network_fingerprint(self.private, trial(self.private, data.sample()[0], self.name))

    def release(self) -> None:
        self.__dict__.pop("private", None)

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the private copy is made there."""
        return {name: value for name, value in self.__dict__.items() if name != "private"}


def _own_shape(net: nn.Module) -> Shape | None:
    """The input shape that a network says it was made for, as timm's do."""
    for name in ("pretrained_cfg", "default_cfg"):
        told = getattr(net, name, None)
        if isinstance(told, Mapping) and told.get("input_size"):
            return tuple(told["input_size"])
    return None


@dataclass(frozen=True, eq=False)
class Made:
    """Whatever a function of no arguments makes; every seed makes a new network."""

    make: Callable[[], object]
    name: str
    adapter: Adapter | None = None
    shape: Shape | None = None
    _made: dict[int, Given] = field(default_factory=dict, repr=False)

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        return self._given(data, seed).fitted(data, seed)

    def network(self, size: Size, data: BatchSource, seed: int) -> tuple[nn.Module, Target]:
        _refuse_cell(size, "this is a whole network")
        return self._given(data, seed).private, data.task.target

    def identity(self, data: BatchSource, seed: int) -> tuple[str, str]:
        return self._given(data, seed).identity(data, seed)

    def release(self) -> None:
        self._made.clear()

    def _called(self, data: BatchSource) -> object:
        return self.make()

    def _given(self, data: BatchSource, seed: int) -> Given:
        if seed in self._made:
            return self._made[seed]
        try:
            with seeded(seed):
                net = self._called(data)
        except (TrainlessError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise InputError(
                f"{self.name} raised {one_line(error)}: expected a function without arguments that makes an nn.Module"
            ) from error
        if inspect.iscoroutine(net):
            net.close()
            raise InputError(f"{self.name} made a coroutine; expected an nn.Module: make it in a plain def, not async")
        if not isinstance(net, nn.Module):
            raise InputError(f"{self.name} made a {type(net).__name__}; expected an nn.Module")
        require_plain(net, self.name)
        given = Given(net, self.adapter, self.name, self.shape)
        net.to(data.device)
        self._made.clear()
        self._made[seed] = given
        return given

    def __getstate__(self) -> dict[str, Any]:
        """For another process: it makes the network itself."""
        return {**self.__dict__, "_made": {}}


class MadeByName(Made):
    """A network of a library, made for the inputs and classes that it is scored on."""

    make: NamedNetwork

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        return super().fitted(self._suited(data), seed)

    def _suited(self, data: BatchSource) -> BatchSource:
        """The batches with the inputs that it is to take: as told, its own where asked, else what it can take."""
        told = self.shape or (None if data.inputs == "own" else data.inputs.get(self.name))
        suited = data.sized(told) if told else data
        return self.make.suited(suited, own=data.inputs == "own" and not self.shape)

    def _called(self, data: BatchSource) -> object:
        return self.make(data.task)


@dataclass(frozen=True, eq=False)
class ArchSubject:
    """An arch or region of a space."""

    space: Space
    candidate: Candidate
    label: str = ""

    @property
    def name(self) -> str:
        if self.label:
            return self.label
        if is_region(self.candidate):
            return _region_text(self.candidate)
        return self.space.format(_arch(self.candidate))

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        told = None if data.inputs == "own" else data.inputs.get(self.name)
        data = data.sized(told) if told else data
        self.space.check(data.task)
        if is_region(self.candidate):
            if not isinstance(self.space, Supernet):
                raise InputError(f"the space {self.space.name} builds no supernets: give an arch, not a region")
        else:
            require_arch(self.space, _arch(self.candidate))
        return data

    def network(self, size: Size, data: BatchSource, seed: int) -> tuple[nn.Module, Target]:
        """The network, built by PyTorch's rules from the seed; thin, or a cell alone, where the space can."""
        with seeded(seed):
            space = self.space
            if size == "cell" and isinstance(space, CellSpace) and not is_region(self.candidate):
                return space.build_cell(_arch(self.candidate), data.task.dims).to(data.device), CELL_TARGET
            if size == "cell" and isinstance(space, CellSupernet) and is_region(self.candidate):
                return space.build_cell_region(self.candidate, data.task.dims).to(data.device), CELL_TARGET
            _refuse_cell(size, f"cells of {space.name} cannot stand alone")
            if size != "full" and isinstance(space, Scalable):
                space = space.scaled(*THIN)
            return self._build(space, data.task).to(data.device), data.task.target

    def _build(self, space: Space, task: Task) -> nn.Module:
        if is_region(self.candidate) and isinstance(space, Supernet):
            return space.build_region(self.candidate, task)
        return space.build(_arch(self.candidate), task)

    def counts(self, task: Task) -> Counts | None:
        """What a space of ours knows of a network without building it; nothing of regions."""
        ours = type(self.space).__module__.partition(".")[0] == __name__.partition(".")[0]
        if not ours or is_region(self.candidate) or not isinstance(self.space, Counted):
            return None
        return self.space.counts(_arch(self.candidate), task)

    def identity(self, data: BatchSource, seed: int) -> tuple[str, str]:
        if is_region(self.candidate):
            return key(self.space), _region_text(self.candidate)
        return key(self.space), ",".join(map(str, self.candidate))

    def release(self) -> None:
        return


def _refuse_cell(size: Size, why: str) -> None:
    if size == "cell":
        raise Unscorable(f"the paper's setting is a single cell of one channel, but {why}: score it in the own setting")


def _require_precision(net: nn.Module, name: str) -> None:
    for tensor in net.parameters():
        if tensor.is_complex():
            raise InputError(
                f"the network {name} has complex weights; expected real ones, since signs and sizes of gradients are"
                " looked at: keep their real and imaginary parts as one real parameter (torch.view_as_complex)"
            )
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"the network {name} has weights of type {tensor.dtype}; expected torch.float32 or torch.float64,"
                " without which scores are rounding: call net.float() first"
            )


def trial(net: nn.Module, x: Tensor, name: str) -> Tensor:
    """Run a private network once without gradients, or say why it cannot be run."""
    weights = {key: tensor.detach() for key, tensor in net.named_parameters()}
    x = in_precision_of(weights.values(), x)
    try:
        with seeded(0), torch.no_grad(), normalised(net, "fresh"):
            hook = net.register_forward_hook(lambda module, inputs, output: require_tensor(output, name))
            with removed_after([hook]):
                outputs = run(net, weights, x)
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:
        shape = ", ".join(map(str, x.shape[1:]))
        remedy = "give the inputs that it takes, by batch=, task= or inputs= (--task or --input)"
        if any(word in message(error) for word in SEVERAL):
            remedy = (
                "networks of several inputs (sequences to sequences, pairs) are not scored; wrap it in a module that"
                " makes the others from one"
            )
        raise InputError(
            f"the network {name} cannot run on inputs of shape (N, {shape}) ({one_line(error)}): {remedy}"
        ) from error
    if outputs.ndim < 2 or len(outputs) != len(x):
        raise InputError(
            f"the network {name} returned a tensor of shape {tuple(outputs.shape)} for {len(x)} samples; expected one"
            " row of logits or values per sample"
        )
    return outputs


def _arch(candidate: Candidate) -> Arch:
    return tuple(int(option) for option in candidate if isinstance(option, int))


def _region_text(region: Region) -> str:
    return ",".join("+".join(map(str, sorted(part))) for part in region)
