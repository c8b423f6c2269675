"""Blocks by data flow: the same for one function however its code is nested, and what stands for them elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.probe.features import blocks
from trainless.proxies import registry
from trainless.spaces.nb201 import NasBench201

MEASURES = ("expressivity", "progressivity", "trainability", "isometry", "block_meco", "feature_rank", "meco")
WIDTH = 6


def probe(net: nn.Module, x: Tensor, seed: int = 0) -> Probe:
    torch.manual_seed(seed)
    for tensor in net.parameters():
        with torch.no_grad():
            tensor.copy_(torch.randn(tensor.shape) * 0.4)
    return Probe.of(net, (x, torch.zeros(len(x), dtype=torch.long)), Target("multiclass", 3))


def images(size: int = 8, samples: int = 5) -> Tensor:
    return torch.randn(samples, 3, size, size, generator=torch.Generator().manual_seed(1))


class Residual(nn.Module):
    """Two convolutions and a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH)
        self.two = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.two(F.relu(self.norm(self.one(x)))))


class NormAct(nn.Module):
    """Norm and activation in one module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).relu()


def stem() -> list[nn.Module]:
    return [nn.Conv2d(3, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU()]


def head() -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 3)]


class Wrapped(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(nn.Identity()(x))


class Lines(nn.Module):
    """The same function in lines of code."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH)
        self.first, self.second = Residual(), Residual()
        self.head = nn.Linear(WIDTH, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        x = self.drop(torch.clamp(x, min=0) if x.requires_grad is None else F.relu(x))
        return self.head(self.drop(self.second(self.first(x))).mean((2, 3)))


class Last(nn.Module):
    """A module of channels first on tensors with channels last."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class LastResidual(Residual):
    """As the residual block, its tensors with channels last; the pointwise convolution is a linear layer."""

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm(self.one(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1))
        return F.relu(x + F.linear(inner, self.two.weight.flatten(1), self.two.bias))


class LastHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.mean((1, 2)))


class ToLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


WAYS: dict[str, Callable[[], nn.Module]] = {
    "flat": lambda: nn.Sequential(*stem(), Residual(), Residual(), *head()),
    "nested": lambda: nn.Sequential(
        nn.Sequential(*stem()), nn.Sequential(Residual(), Residual()), nn.Sequential(*head())
    ),
    "wrapped": lambda: Wrapped(nn.Sequential(*stem(), Residual(), nn.Dropout(), nn.Identity(), Residual(), *head())),
    "lines": Lines,
    "norm with activation": lambda: nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1), NormAct(WIDTH), Residual(), Residual(), *head()
    ),
    "in place": lambda: nn.Sequential(*stem()[:2], nn.ReLU(inplace=True), Residual(), Residual(), *head()),
    "channels last": lambda: nn.Sequential(*stem(), ToLast(), LastResidual(), LastResidual(), LastHead()),
}


@pytest.mark.parametrize("way", [way for way in WAYS if way != "flat"])
def test_one_function_has_one_score_however_it_is_written(way: str) -> None:
    expected, found = probe(WAYS["flat"](), images()), probe(WAYS[way](), images())
    assert len(blocks(found)) == 3
    for name in MEASURES:
        assert registry[name](found) == pytest.approx(registry[name](expected), rel=1e-5), name
    assert registry["ntk_mse"](probe(WAYS[way](), images(8, 12))) == pytest.approx(
        registry["ntk_mse"](probe(WAYS["flat"](), images(8, 12))), rel=1e-4
    )


def shapes(net: nn.Module, x: Tensor) -> list[tuple[int, ...]]:
    return [tuple(block.maps().shape[1:]) for block in blocks(probe(net, x))]


def test_the_boundary_is_what_the_next_layer_sees_before_pooling() -> None:
    net = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Identity()),
        *(nn.Conv2d(4, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.Dropout(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(20, 7), nn.ReLU(), nn.Linear(7, 3)),
    )
    assert shapes(net, images()) == [(4, 8, 8), (5, 4, 4)]
    first, second = blocks(probe(net, images()))
    assert bool((first.values >= 0).all())
    assert bool((second.values >= 0).all())


def test_vectors_have_blocks_where_there_are_no_places() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    assert shapes(net, torch.randn(7, 4)) == [(6,), (5,)]


def test_each_part_of_a_transformer_is_a_block() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    class Texts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.places = nn.Embedding(10, 8), nn.Embedding(6, 8)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.table(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.body(x).mean(1))

    assert shapes(Texts(), torch.randint(10, (5, 6))) == [(8, 6)] * 5


def test_recurrent_layers_are_blocks() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(3, 5, batch_first=True), nn.GRU(5, 4, batch_first=True)
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.second(self.first(x)[0])[0][:, -1])

    assert shapes(Recurrent(), torch.randn(4, 9, 3)) == [(5, 9), (4, 9)]


class UNet(nn.Module):
    """Two halvings; the first convolution's output is used again at the very end."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.deep = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 6, 3, 2, 1), nn.Conv2d(6, 8, 3, 2, 1)
        self.up, self.top, self.last = (
            nn.ConvTranspose2d(8, 6, 2, 2),
            nn.ConvTranspose2d(12, 4, 2, 2),
            nn.Conv2d(11, 3, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        one = self.down(x).relu()
        two = self.middle(one).relu()
        three = self.deep(two).relu()
        up = torch.cat([two, self.up(three)], 1).relu()
        return self.last(torch.cat([x, one, self.top(up).relu()], 1)).mean((2, 3))


def test_the_deepest_map_of_every_grid_stands_for_a_block_without_cuts() -> None:
    found = shapes(UNet(), images(16))
    assert found == [(8, 4, 4), (12, 8, 8), (11, 16, 16)]
    p = probe(UNet(), images(16))
    for name in MEASURES:
        assert registry[name](p) == registry[name](p), name


def test_networks_that_name_their_blocks_keep_them_when_wrapped() -> None:
    task = Task.noise((3, 8, 8), 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = NasBench201(channels=4, cells=1).build((3, 1, 2, 1, 3, 3), task)
    batch = task.batch(6, 0)
    alone, inside = Probe.of(net, batch, task.target), Probe.of(Wrapped(net), batch, task.target)
    assert [f"net.{block.name}" for block in blocks(alone)] == [block.name for block in blocks(inside)]
    for name in MEASURES[:2]:
        assert registry[name](alone) == registry[name](inside)


def test_what_is_written_in_place_over_a_boundary() -> None:
    """The boundary's numbers are those that the next layer saw."""

    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            kept = self.one(x).tanh()
            more = self.two(kept.clone())
            with torch.no_grad():
                kept.zero_()
            return self.head(more.tanh())

    first, _ = blocks(probe(Overwrites(), torch.randn(4, 7, 4).mean(1)))
    assert bool((first.values != 0).all())


def test_networks_without_layers_have_no_blocks() -> None:
    with pytest.raises(Unscorable, match="has no blocks"):
        blocks(Probe.of(nn.Flatten(), (torch.randn(4, 3), torch.zeros(4, dtype=torch.long)), Target("multiclass", 3)))
