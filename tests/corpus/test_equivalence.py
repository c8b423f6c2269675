"""The same function has the same scores, however its author filed it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.corpus import odd
from trainless.core.scores import Scores
from trainless.scoring.evaluate import score

CLASSES = 3
Forms = dict[str, nn.Module]


class Wrapped(nn.Module):
    """A network inside another module, under another name."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.model = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


class NormReLU(nn.BatchNorm2d):
    """Norm and activation in one class."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x))


class Residual(nn.Module):
    """``x + body(x)``."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Steps(nn.Module):
    """A list of modules that the forward pass goes through, under names of its own."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        for index, layer in enumerate(layers):
            setattr(self, f"part_{'abcdefghijklmnopqrstuvwxyz'[index]}", layer)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x


def nested(layers: Sequence[nn.Module], draw: random.Random) -> nn.Module:
    """The layers in modules of random size and depth, with identities and dropouts between them."""
    if len(layers) == 1:
        extra = draw.choice([[], [nn.Identity()], [nn.Dropout(0.3)]])
        return nn.Sequential(*layers, *extra) if extra else layers[0]
    cut = draw.randrange(1, len(layers))
    both = [nested(layers[:cut], draw), nested(layers[cut:], draw)]
    return Wrapped(Steps(both)) if draw.random() < 0.4 else nn.Sequential(*both)


def norm_and_relu(inside: bool, channels: int) -> list[nn.Module]:
    return [NormReLU(channels)] if inside else [nn.BatchNorm2d(channels), nn.ReLU()]


def convolutions(inside: bool = False) -> list[nn.Module]:
    return [
        *(nn.Conv2d(3, 6, 3, padding=1, bias=False), *norm_and_relu(inside, 6)),
        Residual(nn.Conv2d(6, 6, 3, padding=1, bias=False), *norm_and_relu(inside, 6)),
        *(nn.Conv2d(6, 10, 3, 2, 1, bias=False), *norm_and_relu(inside, 10)),
        Residual(nn.Conv2d(10, 10, 3, padding=1, bias=False), *norm_and_relu(inside, 10)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, CLASSES)),
    ]


class Last(nn.Module):
    """A module for channels first, in a network whose channels are last."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class ConvolutionsLast(nn.Module):
    """The convolutional network with its stream as N × H × W × C."""

    def __init__(self) -> None:
        super().__init__()
        layers = convolutions()
        self.stages = nn.ModuleList(
            Residual(*map(Last, layer.body)) if isinstance(layer, Residual) else Last(layer) for layer in layers[:-3]
        )
        self.head = layers[-1]

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((1, 2)))


def plain_forms() -> Forms:
    return {
        "flat": nn.Sequential(*convolutions()),
        "wrapped": Wrapped(nn.Sequential(*convolutions())),
        "wrapped twice": Wrapped(Wrapped(nn.Sequential(*convolutions()))),
        "other names": Steps(convolutions()),
        "split": nn.Sequential(nn.Sequential(*convolutions()[:5]), nn.Sequential(*convolutions()[5:])),
        "activation in the norm": nn.Sequential(*convolutions(inside=True)),
        "channels last": ConvolutionsLast(),
        **{f"nested {seed}": nested(convolutions(), random.Random(seed)) for seed in range(3)},
    }


class Block(nn.Module):
    """ConvNeXt's block: 1 × 1 convolutions on channels first, or linear layers on channels last."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.last = last
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.LayerNorm(8)
        self.wide = nn.Linear(8, 16) if last else nn.Conv2d(8, 16, 1)
        self.narrow = nn.Linear(16, 8) if last else nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.last:
            change = self.depthwise(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
            return x + self.narrow(F.gelu(self.wide(self.norm(change))))
        change = self.norm(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x + self.narrow(F.gelu(self.wide(change)))


class Modern(nn.Module):
    """Stem, two blocks, head; the stream lies channels first or last."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.last = last
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.blocks = nn.Sequential(Block(last), Block(last))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = self.blocks(x.permute(0, 2, 3, 1) if self.last else x)
        return self.head(x.mean((1, 2) if self.last else (2, 3)))


def modern_forms() -> Forms:
    return {"first": Modern(False), "last": Modern(True), "last, wrapped": Wrapped(Modern(True))}


class Attention(nn.Module):
    """Self-attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.all(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Mean(nn.Module):
    """The mean over the positions of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def transformer() -> list[nn.Module]:
    def feed_forward() -> Residual:
        return Residual(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    blocks = [each for _ in range(2) for each in (Residual(nn.LayerNorm(8), Attention()), feed_forward())]
    return [nn.Linear(5, 8), *blocks, nn.LayerNorm(8), Mean(), nn.Linear(8, CLASSES)]


class Pairs(nn.Module):
    """The transformer as its authors file it: a list of blocks with two parts each."""

    def __init__(self) -> None:
        super().__init__()
        layers = transformer()
        self.embed = layers[0]
        self.layers = nn.ModuleList(nn.Sequential(*layers[at : at + 2]) for at in (1, 3))
        self.norm, self.head = layers[5], layers[7]

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def transformer_forms() -> Forms:
    return {
        "flat": nn.Sequential(*transformer()),
        "in pairs": Pairs(),
        "in pairs, wrapped": Wrapped(Pairs()),
        "other names": Steps(transformer()),
        **{f"nested {seed}": nested(transformer(), random.Random(seed)) for seed in range(2)},
    }


def mlp() -> list[nn.Module]:
    return [
        *(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()),
        *(Residual(nn.Linear(16, 16), nn.SiLU()), nn.Linear(16, CLASSES)),
    ]


def mlp_forms() -> Forms:
    return {
        "flat": nn.Sequential(*mlp()),
        "wrapped": Wrapped(nn.Sequential(*mlp())),
        "other names": Steps(mlp()),
        **{f"nested {seed}": nested(mlp(), random.Random(seed)) for seed in range(3)},
    }


def unet_forms() -> Forms:
    return {"as it is": odd.UNet(), "wrapped": Wrapped(odd.UNet()), "wrapped twice": Wrapped(Wrapped(odd.UNet()))}


def recurrent_forms() -> Forms:
    return {"as it is": odd.TokenLSTM(), "wrapped": Wrapped(odd.TokenLSTM())}


class Written(nn.Module):
    """Two convolutions with norms, one of them in a residual branch, a pointwise one and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.norm2 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.point, self.head = nn.Conv2d(6, 10, 1), nn.Linear(10, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + F.relu(self.norm2(self.second(x)))
        return self.head(F.gelu(self.point(x)).mean((2, 3)))


class ByMethods(Written):
    """Methods of tensors, a clamp for a rectifier, ``torch.add``."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        x = torch.add(x, self.norm2(self.second(x)).clamp(min=0))
        return self.head(F.gelu(self.point(x)).mean((2, 3)))


class ByFunctions(Written):
    """Functions alone; modules only hold what these take."""

    def normalised(self, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
        held = norm.running_mean, norm.running_var, norm.weight, norm.bias
        return F.batch_norm(x, *held, self.training, 0.1, norm.eps)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.normalised(self.norm, F.conv2d(x, self.first.weight, self.first.bias, padding=1)))
        x = x + F.relu(self.normalised(self.norm2, F.conv2d(x, self.second.weight, self.second.bias, 1, 1)))
        x = F.gelu(F.conv2d(x, self.point.weight, self.point.bias))
        return F.linear(x.mean((2, 3)), self.head.weight, self.head.bias)


class WorkingInPlace(Written):
    """Rectifies in place."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu_(self.norm(self.first(x)))
        x = x + F.relu(self.norm2(self.second(x)), inplace=True)
        return self.head(F.gelu(self.point(x)).mean((2, 3)))


class PooledOtherwise(Written):
    """A pooling window of the whole map."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = F.gelu(self.point(x + F.relu(self.norm2(self.second(x)))))
        return self.head(F.avg_pool2d(x, x.shape[-1]).view(len(x), -1))


class SummedUp(Written):
    """A mean as a sum over flattened positions."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = F.gelu(self.point(x + F.relu(self.norm2(self.second(x))))).flatten(2)
        return self.head(x.sum(-1) / x.shape[-1])


class ByMasks(Written):
    """Rectifiers as masks, GELU by its formula."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x))
        x = torch.where(x > 0, x, 0)
        branch = self.norm2(self.second(x))
        x = self.point(x + branch * (branch > 0))
        return self.head((0.5 * x * (1 + torch.erf(x / 2**0.5))).mean((2, 3)))


class ByComparison(Written):
    """Rectifiers as the larger of two, or as half of ``x + |x|``; the residual as the sum of a stack."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x))
        x = torch.maximum(x, torch.zeros_like(x))
        branch = self.norm2(self.second(x))
        x = torch.stack([x, (branch + branch.abs()) / 2]).sum(0)
        return self.head(F.gelu(self.point(x)).mean((2, 3)))


class ByItems(Written):
    """Sets what is negative to zero, item by item."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).clone()
        x[x < 0] = 0
        branch = self.norm2(self.second(x))
        x = x + branch.masked_fill(branch <= 0, 0)
        return self.head(F.gelu(self.point(x)).mean((2, 3)))


class ByPythonsSum(Written):
    """The residual by Python's ``sum``, which begins with 0; a rectifier that is halved and doubled; GELU by its Φ."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = self.point(sum([x, F.relu(self.norm2(self.second(x))) / 2 * 2]))
        return self.head((x * torch.special.ndtr(x)).mean((2, 3)))


class PointwiseLast(Written):
    """The pointwise convolution as a linear layer on channels that lie last for a while."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = (x + F.relu(self.norm2(self.second(x)))).permute(0, 2, 3, 1)
        x = F.gelu(F.linear(x, self.point.weight.flatten(1), self.point.bias))
        return self.head(x.mean((1, 2)))


class ThereAndBack(Written):
    """Arranges its features and puts them back."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).flatten(2).unflatten(2, x.shape[2:])
        x = x + F.relu(self.norm2(self.second(x)))
        return self.head(F.gelu(self.point(x)).flatten(2).transpose(1, 2).mean(1))


class WithAuxiliaryHead(Written):
    """Computes more than it gives: features for other purposes, and what an auxiliary head would say."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        self.second(x).mean((2, 3))
        y = x + F.relu(self.norm2(self.second(x)))
        F.linear(x.mean((2, 3)), self.head.weight[:, :6])
        return self.head(F.gelu(self.point(y)).mean((2, 3)))


def written_forms() -> Forms:
    kinds = Written, ByMethods, ByFunctions, WorkingInPlace, PooledOtherwise, SummedUp, ByMasks, ByComparison, ByItems
    more = ByPythonsSum, PointwiseLast, ThereAndBack, WithAuxiliaryHead
    return {**{kind.__name__: kind() for kind in (*kinds, *more)}, "traced by fx": torch.fx.symbolic_trace(Written())}


class Joined(nn.Module):
    """Features beside features, as in DenseNet: two convolutions, each on all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.third = nn.Conv2d(6, 4, 3, padding=1), nn.Conv2d(10, 8, 3, padding=1)
        self.head = nn.Linear(8, CLASSES)

    def join(self, x: Tensor, more: Tensor) -> Tensor:
        return torch.cat([x, more], 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        x = self.join(x, F.relu(self.second(x)))
        return self.head(F.relu(self.third(x)).mean((2, 3)))


class JoinedInPlace(Joined):
    """Writes into room that it has made."""

    def join(self, x: Tensor, more: Tensor) -> Tensor:
        room = x.new_empty(len(x), 10, *x.shape[2:])
        room[:, :6], room[:, 6:] = x, more
        return room


class JoinedByAnotherName(Joined):
    """Stacks along the channels' axis."""

    def join(self, x: Tensor, more: Tensor) -> Tensor:
        return torch.hstack([x, more])


def joined_forms() -> Forms:
    return {kind.__name__: kind() for kind in (Joined, JoinedInPlace, JoinedByAnotherName)}


class Heads(nn.Module):
    """Two heads of attention after a layer norm, in a residual block; GLU after it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.all = nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.out, self.wide, self.head = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(8, CLASSES)

    def attention(self, x: Tensor) -> Tensor:
        query, key, value = self.all(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)

    def gated(self, x: Tensor) -> Tensor:
        return F.glu(self.wide(x), -1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = x + self.out(self.attention(self.norm(x)))
        return self.head(self.gated(x).mean(1))


class HeadsWrittenOut(Heads):
    """Attention as products and a softmax, query, key and value by ``chunk``; the gate as a product."""

    def attention(self, x: Tensor) -> Tensor:
        query, key, value = (each.view(*x.shape[:2], 2, 4).transpose(1, 2) for each in self.all(x).chunk(3, -1))
        weights = torch.softmax(query @ key.transpose(-2, -1) / 2.0, -1)
        return (weights @ value).transpose(1, 2).reshape(x.shape)

    def gated(self, x: Tensor) -> Tensor:
        content, gate = self.wide(x).chunk(2, -1)
        return content * torch.sigmoid(gate)


class HeadsByEinsum(Heads):
    """Attention by ``einsum``, query, key and value by ``split`` and ``unbind``."""

    def attention(self, x: Tensor) -> Tensor:
        query, key, value = self.all(x).view(*x.shape[:2], 3, 2, 4).unbind(2)
        weights = (torch.einsum("nqhc,nkhc->nhqk", query, key) * 4**-0.5).softmax(-1)
        return torch.einsum("nhqk,nkhc->nqhc", weights, value).flatten(2)

    def gated(self, x: Tensor) -> Tensor:
        content, gate = self.wide(x).split(8, -1)
        return gate.sigmoid() * content


class HeadsFlat(Heads):
    """Linear layers on all places of all samples in one long row."""

    def gated(self, x: Tensor) -> Tensor:
        return F.glu(self.wide(x.reshape(-1, 8)), -1).view(*x.shape)


def attention_forms() -> Forms:
    kinds = Heads, HeadsWrittenOut, HeadsByEinsum, HeadsFlat
    return {**{kind.__name__: kind() for kind in kinds}, "wrapped": Wrapped(Heads())}


COMPUTE_MORE = ("WithAuxiliaryHead",)  # than their outputs need: that costs more
FAMILIES: dict[str, tuple[Callable[[], Forms], tuple[int, ...] | None]] = {
    "convolutions": (plain_forms, (3, 8, 8)),
    "convolutions, rewritten": (written_forms, (3, 8, 8)),
    "features side by side": (joined_forms, (3, 8, 8)),
    "attention, rewritten": (attention_forms, (6, 5)),
    "modern convolutions": (modern_forms, (3, 8, 8)),
    "transformer": (transformer_forms, (6, 5)),
    "MLP": (mlp_forms, (10,)),
    "U-Net": (unet_forms, (3, 8, 8)),
    "recurrent": (recurrent_forms, None),
}


def same_weights(forms: Forms) -> None:
    """Give all forms the same weights, away from any initialisation."""
    torch.manual_seed(0)
    first = next(iter(forms.values()))
    values = [torch.randn(tensor.shape) * 0.4 + (tensor.ndim == 1) for tensor in first.parameters()]
    for net in forms.values():
        for tensor, value in zip(net.parameters(), values, strict=True):
            tensor.data.copy_(value.reshape(tensor.shape))


def scored(net: nn.Module, shape: tuple[int, ...] | None) -> Scores:
    torch.manual_seed(1)
    x = torch.randint(1, 50, (6, 7)) if shape is None else torch.randn(6, *shape, dtype=torch.float64)
    return score(net.double(), (x, torch.arange(6) % CLASSES))


def differences(family: str) -> list[str]:
    """Proxies by which a form differs from the first, with both values."""
    make, shape = FAMILIES[family]
    forms = make()
    same_weights(forms)
    tables = {name: scored(net, shape) for name, net in forms.items()}
    begin, first = next(iter(tables.items()))
    found = []
    for name, scores in tables.items():
        for a, b in zip(first, scores, strict=True):
            same = (a.failed and b.failed) or (a.proxy == "flops" and name in COMPUTE_MORE)
            if not same and not math.isclose(a.value, b.value, rel_tol=1e-5, abs_tol=1e-9):
                found.append(f"{a.proxy}: {begin} {a.value:.8g} ({a.status}), {name} {b.value:.8g} ({b.status})")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_follow_the_function_and_not_its_filing(family: str) -> None:
    found = differences(family)
    assert not found, "\n".join(found)
