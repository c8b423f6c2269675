"""The contract of a search space, as a check that anyone can run on theirs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, region_of
from trainless.core.errors import InputError
from trainless.core.seeds import generator
from trainless.core.task import Task
from trainless.probe.counts import count
from trainless.probe.norms import normalised
from trainless.probe.points import Constant
from trainless.probe.probe import private_copy
from trainless.spaces.moves import sample
from trainless.spaces.protocol import CellSpace, Counted, Scalable, Space, Supernet

_NONSENSE = "?!"
ALIKE = 0.1  # the one number of all weights when twins are compared


def check_space(space: Space, task: Task, *, archs: Sequence[Arch] = (), samples: int = 6, seed: int = 0) -> None:
    """Assert everything that scoring and searching rely on; the first broken promise is an AssertionError.

    Decisions have names and options; notation goes both ways, up to options that a network does not use; the
    canonical form is valid, its own canonical form and computes the same function (shown with all weights equal,
    because twins need not name theirs alike); networks run on the task and give its outputs; counts are those of the
    built network; a region of singletons is the arch; archs and notation that make no sense are refused.

    Args:
        space: The space.
        task: What its networks are for; small inputs make the check quick.
        archs: Archs to check, besides those that are drawn.
        samples: How many to draw.
        seed: Where they are drawn from.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> check_space(NasBench201(channels=4, cells=1), Task.noise((3, 8, 8), classes=3), samples=2)
    """
    _check_decisions(space)
    space.check(task)
    rng = np.random.default_rng(seed)
    for arch in [*archs, *(sample(space, rng) for _ in range(samples))]:
        _check_arch(space, arch)
        _check_network(space, arch, task)
    _check_refusals(space)


def _check_decisions(space: Space) -> None:
    assert isinstance(space, Space), f"{type(space).__name__} lacks a method of trainless.spaces.protocol.Space"
    assert space.name, "the space has no name"
    assert space.decisions, f"{space.name} has no decisions"
    names = [decision.name for decision in space.decisions]
    assert len(set(names)) == len(names), f"two decisions of {space.name} have the same name: {names}"
    for decision in space.decisions:
        assert decision.options, f"{space.name}: {decision.name!r} has no options"
        assert len(set(decision.options)) == len(decision.options), f"{space.name}: {decision.name!r} repeats an option"


def _check_arch(space: Space, arch: Arch) -> None:
    assert space.valid(arch), f"{space.name}: {arch} is not valid"
    key = space.canonical(arch)
    assert all(type(option) is int for option in key), (
        f"{space.name}: the canonical form {key} has other than plain ints"
    )
    assert space.valid(key), f"{space.name}: the canonical form {key} of {arch} is not valid"
    again = space.canonical(key)
    assert again == key, f"{space.name}: canonical is not idempotent: {arch} → {key} → {again}"
    for each in (arch, key):
        back = space.parse(space.format(each))
        assert space.canonical(back) == key, (
            f"{space.name}: {each} is written as {space.format(each)!r}, which is {back}"
        )


def _check_refusals(space: Space) -> None:
    assert not space.valid(()), f"{space.name} takes an arch without entries for valid"
    beyond = tuple(len(decision) for decision in space.decisions)
    assert not space.valid(beyond), f"{space.name} takes options beyond the last for valid: {beyond}"
    try:
        space.parse(_NONSENSE)
    except InputError:
        return
    except Exception as error:
        raise AssertionError(
            f"{space.name}: parse({_NONSENSE!r}) raises {type(error).__name__}; expected an InputError that says what"
            " is allowed"
        ) from error
    raise AssertionError(f"{space.name}: parse takes {_NONSENSE!r} for an architecture")


def _check_network(space: Space, arch: Arch, task: Task) -> None:
    x, _ = task.batch(3, seed=0)
    try:
        net = space.build(arch, task)
        with torch.no_grad():
            outputs = net(x)
    except Exception as error:
        raise AssertionError(
            f"{space.name}: the network of {space.format(arch)} cannot be built and run on {task.name}:"
            f" {type(error).__name__}: {error}"
        ) from error
    assert isinstance(outputs, Tensor), f"{space.name}: a network gives a {type(outputs).__name__}, not one tensor"
    task.target.require(outputs)
    for name in getattr(net, "block_names", ()):
        net.get_submodule(name)
    key = space.canonical(arch)
    if key != arch:
        ours, theirs = (_response(space.build(each, task), x) for each in (arch, key))
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-8), (
            f"{space.name}: {arch} and its canonical form {key} differ with all weights equal:"
            f" {ours.flatten()[:3].tolist()} and {theirs.flatten()[:3].tolist()}"
        )
    if isinstance(space, Counted):
        said, found = space.counts(arch, task), count(net, task.input_shape, x.dtype)
        assert said == found, f"{space.name}: {arch} is said to have {said}, its network has {found}"
    if isinstance(space, Supernet):
        region = space.build_region(region_of(arch), task)
        assert _shapes(region) == _shapes(net), f"{space.name}: a region of {arch} alone has other parameters"
    if isinstance(space, Scalable):
        thin = space.scaled(8, 1)
        assert thin.decisions == space.decisions, f"{space.name}: a thin variant has other decisions"
    if isinstance(space, CellSpace) and task.dims:
        alone = space.build_cell(arch, task.dims)(torch.zeros(3, 1, *[3] * task.dims))
        assert alone.shape == (3, 2), f"{space.name}: a cell alone gives {tuple(alone.shape)}, not (3, 2)"


def _response(net: nn.Module, x: Tensor) -> Tensor:
    """What a network gives in double precision when all weights are one number."""
    quiet = private_copy(net)
    weights = Constant(ALIKE)(dict(net.named_parameters()), lambda tag: generator(0, tag))
    numbers = {name: tensor.detach().double() for name, tensor in weights.items()}
    buffers = {name: tensor.double() for name, tensor in quiet.named_buffers() if tensor.is_floating_point()}
    inputs = x.double() if x.is_floating_point() else x
    with torch.no_grad(), normalised(quiet, "batch"):
        response: Tensor = torch.func.functional_call(quiet, {**numbers, **buffers}, (inputs,))
    return response


def _shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in net.named_parameters()}
