"""Networks in outline: shapes without memory, for what can be known of a network before it is really built."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch
from trainless.core.errors import InputError, TrainlessError, Unscorable
from trainless.core.task import Task
from trainless.core.wording import one_line
from trainless.engine.subjects import seeded
from trainless.probe.counts import count
from trainless.spaces.protocol import Counts, Space


def counted(space: Space, arch: Arch, task: Task) -> Counts:
    """The counts of a space that does not know them, on a network without memory."""
    net = outline(space, arch, task)
    try:
        return count(net, task.input_shape, one_sample(task, torch.device("meta")).dtype)
    except Unscorable as error:
        raise InputError(f"{space.name}: {error}: leave out the limits on parameters, FLOPs and layers") from error


def outline(space: Space, arch: Arch, task: Task) -> nn.Module:
    """A network of shapes without memory."""
    try:
        with seeded(0), torch.device("meta"):
            return space.build(arch, task).eval()
    except TrainlessError:
        raise
    except Exception as error:
        raise InputError(
            f"{space.name}: {space.format(arch)} cannot be made in outline ({one_line(error)}): mend its build, or"
            " leave out the limits"
        ) from error


def memory(space: Space, arch: Arch, task: Task) -> int:
    """Bytes of weights, buffers and all layers' outputs for one sample, from shapes alone.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space, task = NasBench201(), Task.noise((3, 32, 32))
        >>> memory(space, (3, 3, 3, 3, 3, 3), task) > memory(space, (1, 1, 1, 1, 1, 1), task)
        True
    """
    net = outline(space, arch, task)
    total = sum(_bytes(tensor) for tensor in (*net.parameters(), *net.buffers()))
    outputs: list[int] = []
    for module in net.modules():
        if not any(True for _ in module.children()):
            module.register_forward_hook(lambda module, inputs, output: outputs.append(_output_bytes(output)))
    with torch.no_grad():
        net(one_sample(task, torch.device("meta")))
    return total + sum(outputs)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _output_bytes(output: object) -> int:
    if isinstance(output, Tensor):
        return _bytes(output)
    return sum(map(_output_bytes, output)) if isinstance(output, (tuple, list)) else 0


def one_sample(task: Task, device: torch.device) -> Tensor:
    """Zeros in the shape of a sample."""
    dtype = torch.int64 if task.vocabulary else torch.float32
    return torch.zeros((1, *task.input_shape), dtype=dtype, device=device)
