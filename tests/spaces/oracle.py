"""Counting on the built network with PyTorch's own counter: independent of the spaces' arithmetic."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from trainless.core.arch import Arch
from trainless.core.task import Task
from trainless.spaces.protocol import Counts, Space


def built_counts(space: Space, arch: Arch, task: Task) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of the network, without storage."""
    with torch.device("meta"):
        net = space.build(arch, task)
        parameters = list(net.parameters())
        _drop_norms(net)
        if task.vocabulary:
            x = torch.zeros(1, *task.input_shape, dtype=torch.long)
        else:
            x = torch.zeros(1, *task.input_shape)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(x)
    return Counts(sum(p.numel() for p in parameters), counter.get_total_flops() // 2, len(parameters))


def hooked_counts(space: Space, arch: Arch, task: Task) -> Counts:
    """The same on a real forward pass, by what each convolution and linear layer puts out: fast for small inputs."""
    with torch.device("meta"):
        net = space.build(arch, task)
    parameters = [parameter.numel() for parameter in net.parameters()]
    _drop_norms(net)
    net = net.to_empty(device="cpu")
    flops = 0

    def add(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        nonlocal flops
        weight = module.get_parameter("weight")
        flops += output.numel() * weight[0].numel()

    for module in net.modules():
        for parameter in module.parameters(recurse=False):
            nn.init.zeros_(parameter)
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            module.register_forward_hook(add)
    with torch.no_grad():
        net(torch.zeros(1, *task.input_shape))
    return Counts(sum(parameters), flops, len(parameters))


def _drop_norms(net: nn.Module) -> None:
    """Batch norms multiply nothing that counts and take half of the time."""
    for module in net.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                setattr(module, name, nn.Identity())


def random_valid(space: Space, rng: torch.Generator, tries: int = 100_000) -> Arch:
    """An arch by plain rejection."""
    for _ in range(tries):
        arch = tuple(int(torch.randint(len(d), (1,), generator=rng)) for d in space.decisions)
        if space.valid(arch):
            return arch
    raise AssertionError(f"no valid arch of {space.name} in {tries} draws")
