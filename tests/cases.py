"""Networks of every kind that a proxy has to score, or to refuse with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.spaces.nb201 import NasBench201

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


@dataclass(frozen=True)
class Case:
    """A network and the task that it is for."""

    name: str
    task: Task
    make: Callable[[], nn.Module]

    def network(self, seed: int = 0) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make()

    def batch(self, samples: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
        return self.task.batch(samples, seed)

    def probe(self, samples: int = 8, seed: int = 0, *, double: bool = False) -> Probe:
        net, (x, y) = self.network(seed), self.batch(samples, seed)
        if double:
            net, x = net.double(), x.double() if x.is_floating_point() else x
        return Probe.of(net, (x, y), self.task.target, seed)


class Pooled(nn.Module):
    """A body, the mean over positions, and a linear head."""

    def __init__(self, *body: nn.Module, width: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).flatten(2).mean(2))


def plain(dims: int, outputs: int, norm: Callable[[int], nn.Module] | None = None, *, bias: bool = True) -> nn.Module:
    """Strided, grouped and dilated convolutions, with a norm after each where one is given."""
    conv = CONV[dims]
    layers = [
        conv(2, 4, 3, padding=1, bias=bias),
        conv(4, 4, 3, 2, padding=1, groups=2, bias=bias),
        conv(4, 6, 3, padding=2, dilation=2, bias=bias),
    ]
    body: list[nn.Module] = []
    for layer in layers:
        body += [layer, *([norm(layer.out_channels)] if norm else []), nn.ReLU()]
    return Pooled(*body, width=6, outputs=outputs)


class FunctionalRelu(nn.Module):
    """Rectifies by a function and by a tensor's method, in place too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        return self.head(self.act(self.second(x)).mean((2, 3)).relu())


class FunctionalDropout(nn.Module):
    """Draws at random in the middle of its forward pass, by a function that no module stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(self.body(x).relu(), 0.2, self.training).mean((2, 3)))


class Twice(nn.Module):
    """The same convolution and norm, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.shared, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        for _ in range(2):
            x = self.norm(self.shared(x)).relu()
        return self.head(x.mean((2, 3)))


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x.flatten(1)).relu()).relu())


class Attention(nn.Module):
    """A transformer block on the positions of a signal, with PyTorch's attention or its own."""

    def __init__(self, *, packed: bool, width: int = 6) -> None:
        super().__init__()
        self.embed = nn.Linear(2, width)
        self.norm = nn.LayerNorm(width)
        self.packed = nn.MultiheadAttention(width, 2, batch_first=True) if packed else None
        self.own = None if packed else nn.ModuleDict({name: nn.Linear(width, width) for name in "qkv"})
        self.mix = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x.transpose(1, 2))
        y = self.norm(x)
        if self.packed is not None:
            x = x + self.packed(y, y, y, need_weights=False)[0]
        else:
            x = x + F.scaled_dot_product_attention(self.own["q"](y), self.own["k"](y), self.own["v"](y))
        return self.head((x + self.mix(x)).mean(1))


class TimeFirst(nn.Module):
    """Tokens before samples inside: the first axis of its layers is not the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.act, self.head = nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.inner(x.permute(2, 0, 1))).mean(0))


class Unusual(nn.Module):
    """Layers that few recorders know: transposed, spectrally normed, learnt rectifier, instance norm, an idle one."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2, 4, 3, 2)
        self.bound = nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, padding="same"))
        self.norm, self.act = nn.InstanceNorm2d(4, affine=True), nn.PReLU()
        self.idle, self.head = nn.Linear(5, 5), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.norm(self.bound(self.up(x)))).mean((2, 3)))


class Recurrent(nn.Module):
    """An LSTM over a signal, and its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(2, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x.transpose(1, 2))[0][:, -1])


class Language(nn.Module):
    """Next tokens by an embedding, an LSTM and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.decode = nn.Embedding(7, 5), nn.LSTM(5, 5, batch_first=True), nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.rnn(self.embed(x))[0])


def _cell(*arch: int) -> Callable[[], nn.Module]:
    space = NasBench201(channels=4, cells=1)
    return lambda: space.build(arch, _images())


def _images(classes: int = 3) -> Task:
    return Task.noise((2, 8, 8), classes)


def _tokens() -> Task:
    return Task("tokens", (6,), Target("tokens", 7), vocabulary=7)


_SIGNAL, _VOLUME = Task.noise((2, 12), 3), Task.noise((2, 6, 6, 6), 2)
_VALUE, _VECTOR = Task.noise((2, 8, 8), 2, kind="regression"), Task.noise((2, 3), 3)

CASES: tuple[Case, ...] = (
    Case("1d", _SIGNAL, lambda: plain(1, 3)),
    Case("1d-batch-norm", _SIGNAL, lambda: plain(1, 3, NORM[1], bias=False)),
    Case("2d", _images(), lambda: plain(2, 3)),
    Case("2d-batch-norm", _images(), lambda: plain(2, 3, NORM[2], bias=False)),
    Case("2d-group-norm", _images(), lambda: plain(2, 3, lambda width: nn.GroupNorm(2, width))),
    Case("3d-binary", _VOLUME, lambda: plain(3, 2, NORM[3])),
    Case("3d-one-logit", _VOLUME, lambda: plain(3, 1)),
    Case("regression", _VALUE, lambda: plain(2, 2, NORM[2])),
    Case("functional-relu", _images(), FunctionalRelu),
    Case("called-twice", _images(), Twice),
    Case("tied-weights", _VECTOR, Tied),
    Case("no-rectifier", _images(), lambda: Pooled(nn.Conv2d(2, 4, 3), nn.Tanh(), width=4, outputs=3)),
    Case("linear", _images(), lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 3))),
    Case("dense-batch-norm", _VECTOR, lambda: _dense()),
    Case("dropout", _images(), lambda: Pooled(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Dropout(), width=4, outputs=3)),
    Case("functional-dropout", _images(), FunctionalDropout),
    Case("packed-attention", _SIGNAL, lambda: Attention(packed=True)),
    Case("own-attention", _SIGNAL, lambda: Attention(packed=False)),
    Case("time-first", _SIGNAL, TimeFirst),
    Case("unusual-layers", _images(), Unusual),
    Case("lstm", _SIGNAL, Recurrent),
    Case("tokens", _tokens(), Language),
    Case("best-cell", _images(), _cell(3, 3, 3, 1, 3, 3)),
    Case("dead-cell", _images(), _cell(0, 0, 0, 0, 0, 0)),
    Case("skip-cell", _images(), _cell(1, 1, 1, 1, 1, 1)),
    Case("pool-cell", _images(), _cell(4, 0, 0, 4, 0, 4)),
    Case("cut-off-cell", _images(), _cell(3, 0, 0, 0, 0, 3)),
)


def _dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
