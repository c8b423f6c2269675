"""Networks of plain torch with something odd about each: what authors do that no layer's class says."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES = 3


class Recurrent(nn.Module):
    """A recurrent module with a linear head on the last step."""

    def __init__(self, kind: type[nn.RNNBase], **settings: object) -> None:
        super().__init__()
        self.rnn = kind(5, 8, batch_first=True, **settings)
        self.head = nn.Linear(16 if settings.get("bidirectional") else 8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class TokenLSTM(nn.Module):
    """Embedding, LSTM, head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 6, padding_idx=0)
        self.rnn = nn.LSTM(6, 8, 2, batch_first=True, dropout=0.3)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(x))[0].mean(1))


class CellByHand(nn.Module):
    """A GRU cell called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state)


class Encoder(nn.Module):
    """PyTorch's own transformer encoder on a sequence of features."""

    def __init__(self, activation: str = "relu", norm_first: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.2, activation=activation, batch_first=True, norm_first=norm_first
        )
        self.embed = nn.Linear(5, 8)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


class SequenceFirst(nn.Module):
    """Attention with the sequence on the first axis, as PyTorch's default has it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.1)
        self.norm = nn.LayerNorm(8)
        self.mix = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        turned = self.norm(x).transpose(0, 1)
        x = x + self.attend(turned, turned, turned, need_weights=False)[0].transpose(0, 1)
        return self.head((x + self.mix(x)).mean(1))


class Mixer(nn.Module):
    """MLP-Mixer: one MLP over positions, one over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(4))
        self.positions = nn.ModuleList(nn.Sequential(nn.Linear(16, 20), nn.GELU(), nn.Linear(20, 16)) for _ in "ab")
        self.channels = nn.ModuleList(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)) for _ in "ab")
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for index in range(2):
            x = x + self.positions[index](self.norms[2 * index](x).transpose(1, 2)).transpose(1, 2)
            x = x + self.channels[index](self.norms[2 * index + 1](x))
        return self.head(x.mean(1))


class UNet(nn.Module):
    """A small U-Net whose mask is pooled."""

    def __init__(self) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                *(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
                *(nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
            )

        self.first, self.second, self.bottom = double(3, 6), double(6, 12), double(12, 12)
        self.up2, self.up1 = nn.ConvTranspose2d(12, 12, 2, 2), nn.ConvTranspose2d(12, 6, 2, 2)
        self.third, self.last = double(24, 12), double(12, 6)
        self.mask = nn.Conv2d(6, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.third(torch.cat([self.up2(c), b], 1))
        a = self.last(torch.cat([self.up1(b), a], 1))
        return self.mask(a).mean((2, 3))


class Graph(nn.Module):
    """A graph network on dense adjacency: inputs are nodes' features with the adjacency beside them."""

    def __init__(self, nodes: int = 6, features: int = 5) -> None:
        super().__init__()
        self.features = features
        self.layers = nn.ModuleList([nn.Linear(features, 12), nn.Linear(12, 12)])
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        nodes, links = x[..., : self.features], x[..., self.features :].sigmoid()
        links = links / links.sum(-1, keepdim=True)
        for layer in self.layers:
            nodes = torch.relu(links @ layer(nodes))
        return self.head(nodes.mean(1))


class GraphAttention(nn.Module):
    """Attention between nodes by a sum of two scores and a leaky rectifier, with einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8, bias=False)
        self.source, self.target = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(2, 4))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        nodes = self.embed(x).unflatten(-1, (2, 4))
        left = torch.einsum("bnhc,hc->bhn", nodes, self.source)
        right = torch.einsum("bnhc,hc->bhn", nodes, self.target)
        shares = F.leaky_relu(left[..., None] + right[:, :, None], 0.2).softmax(-1)
        mixed = torch.einsum("bhnm,bmhc->bnhc", shares, nodes)
        return self.head(F.elu(mixed.flatten(2)).mean(1))


class FunctionalDropout(nn.Module):
    """Dropout that is always on, by a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout2d(F.relu(self.norm(self.conv(x))), 0.3)
        return self.head(F.dropout(x.mean((2, 3)), 0.5, training=True))


class DropPath(nn.Module):
    """Residual branches that a training pass leaves out by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(3)
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for branch in self.branches:
            change = branch(x)
            if self.training:
                change = change * torch.bernoulli(change.new_full((len(x), 1, 1, 1), 0.5))
            x = x + change
        return self.head(x.mean((2, 3)))


class NormAct(nn.BatchNorm2d):
    """Batch norm with the activation inside, as in timm."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class NormByFunction(nn.Module):
    """Batch norm by a function, in a module of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.var, self.scale, self.shift, self.training)


class WeightStandardised(nn.Conv2d):
    """A convolution whose kernel is standardised by batch norm's function."""

    def forward(self, x: Tensor) -> Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, training=True, momentum=0.0).reshape(self.weight.shape)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


def convolutional(norm: Callable[[int], nn.Module], *after: nn.Module, conv: type[nn.Conv2d] = nn.Conv2d) -> nn.Module:
    """Two stages and a head."""
    return nn.Sequential(
        *(conv(3, 8, 3, padding=1), norm(8), *after, nn.MaxPool2d(2)),
        *(conv(8, 12, 3, padding=1), norm(12), *after, nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(12, CLASSES),
    )


class InPlace(nn.Module):
    """Everything in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mul_(2).add_(0.1)
        x = self.norm(self.first(x)).relu_()
        x = self.second(x).add_(x).clamp_(min=-1.0)
        x *= 0.5
        return self.head(F.leaky_relu_(x, 0.1).mean((2, 3)))


class ChannelsLast(nn.Module):
    """NHWC code: linear layers and layer norms on the last axis, convolutions between permutations."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.norm = nn.LayerNorm(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.wide, self.narrow = nn.Linear(8, 24), nn.Linear(24, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).permute(0, 2, 3, 1)
        change = self.depthwise(self.norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        x = x + self.narrow(F.gelu(self.wide(change)))
        return self.head(x.mean((1, 2)))


class TrainingHead(nn.Module):
    """Returns a second head's logits too, in training alone."""

    def __init__(self) -> None:
        super().__init__()
        self.body = convolutional(nn.BatchNorm2d, nn.ReLU())
        self.aside = nn.Linear(3 * 16 * 16, CLASSES)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return (self.body(x), self.aside(x.flatten(1))) if self.training else self.body(x)


class WrittenOut(nn.Module):
    """GELU and SiLU written out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(10, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3))))
        x = self.second(x)
        x = x * torch.sigmoid(x)
        return self.head(torch.clamp(self.third(x), min=0))


class Gated(nn.Module):
    """Gated linear units: PyTorch's, and with SiLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.gate = nn.Linear(10, 24), nn.Linear(12, 16), nn.Linear(12, 16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.glu(self.first(x))
        return self.head(F.silu(self.gate(x)) * self.second(x))


class Shared(nn.Module):
    """One block used three times, and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(10, 10), nn.ReLU())
        self.head = nn.Linear(10, CLASSES)
        self.again = nn.Linear(10, CLASSES)
        self.again.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.block(x)
        return self.head(x) + self.again(x.relu())


class Hierarchy(nn.Module):
    """Signals: dilated convolutions with weight norm, as in temporal networks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(4 if i == 0 else 8, 8, 3, dilation=2**i)) for i in range(3)
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = F.relu(layer(F.pad(x, (2 * 2**index, 0))))
        return self.head(x[..., -1])


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...] | None]] = {
    "LSTM": (lambda: Recurrent(nn.LSTM), (7, 5)),
    "LSTM both ways": (lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2, dropout=0.3), (7, 5)),
    "GRU": (lambda: Recurrent(nn.GRU), (7, 5)),
    "RNN": (lambda: Recurrent(nn.RNN, nonlinearity="relu"), (7, 5)),
    "LSTM of tokens": (TokenLSTM, None),
    "GRU cell": (CellByHand, (5, 5)),
    "transformer encoder": (Encoder, (7, 5)),
    "transformer encoder, norm first": (lambda: Encoder("gelu", True), (7, 5)),
    "attention, sequence first": (SequenceFirst, (7, 5)),
    "MLP-Mixer": (Mixer, (3, 16, 16)),
    "U-Net": (UNet, (3, 16, 16)),
    "graph": (Graph, (6, 11)),
    "graph attention": (GraphAttention, (6, 5)),
    "functional dropout": (FunctionalDropout, (3, 12, 12)),
    "drop path": (DropPath, (3, 12, 12)),
    "activation in the norm": (lambda: convolutional(NormAct), (3, 12, 12)),
    "norm by function": (lambda: convolutional(NormByFunction, nn.ReLU()), (3, 12, 12)),
    "weights standardised": (
        lambda: convolutional(nn.BatchNorm2d, nn.ReLU(), conv=WeightStandardised),
        (3, 12, 12),
    ),
    "in place": (InPlace, (3, 12, 12)),
    "channels last": (ChannelsLast, (3, 12, 12)),
    "head in training": (TrainingHead, (3, 16, 16)),
    "written out": (WrittenOut, (10,)),
    "gated": (Gated, (10,)),
    "shared": (Shared, (10,)),
    "weight norm": (Hierarchy, (4, 20)),
    "ReLU6": (lambda: convolutional(nn.BatchNorm2d, nn.ReLU6()), (3, 12, 12)),
    "hardswish": (lambda: convolutional(nn.BatchNorm2d, nn.Hardswish()), (3, 12, 12)),
    "SELU": (lambda: convolutional(lambda c: nn.Identity(), nn.SELU()), (3, 12, 12)),
    "CELU, group norm": (lambda: convolutional(lambda c: nn.GroupNorm(2, c), nn.CELU()), (3, 12, 12)),
    "PReLU, instance norm": (lambda: convolutional(nn.InstanceNorm2d, nn.PReLU()), (3, 12, 12)),
    "Mish": (lambda: convolutional(nn.BatchNorm2d, nn.Mish()), (3, 12, 12)),
    "softplus": (lambda: convolutional(nn.BatchNorm2d, nn.Softplus()), (3, 12, 12)),
    "hardtanh": (lambda: convolutional(nn.BatchNorm2d, nn.Hardtanh()), (3, 12, 12)),
}
