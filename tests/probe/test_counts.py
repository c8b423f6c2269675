"""Parameters and multiply–accumulates against closed forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.cases import CASES, CONV
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe.counts import count
from trainless.probe.probe import Probe
from trainless.proxies.proxy import registry
from trainless.spaces.protocol import Counts

TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@settings(max_examples=30, deadline=None)
@given(
    dims=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
    size=st.integers(3, 6),
)
def test_convolutions(dims: int, kernel: int, stride: int, groups: int, size: int) -> None:
    """Every output number takes the products of one window and group."""
    conv = CONV[dims](4, 6, kernel, stride, groups=groups)
    positions = ((size - kernel) // stride + 1) ** dims
    weights = 6 * 4 // groups * kernel**dims
    assert count(conv, (4, *[size] * dims)) == Counts(weights + 6, weights * positions, 2)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions(dims: int) -> None:
    """Every input number is spread over one kernel and its outputs."""
    weights = 4 * 6 * 3**dims
    assert count(TRANSPOSED[dims](4, 6, 3, 2, bias=False), (4, *[5] * dims)) == Counts(weights, weights * 5**dims, 1)


def test_linear_layers_at_every_position() -> None:
    assert count(nn.Linear(4, 3), (7, 4)) == Counts(15, 7 * 12, 2)


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_recurrent_layers(kind: type[nn.RNNBase], gates: int) -> None:
    """Each step multiplies by every matrix once; both directions and all layers."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = kind(5, 6, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.rnn(x)[0]

    matrices = 2 * gates * 6 * (5 + 6) + 2 * gates * 6 * (12 + 6)
    found = count(Last(), (9, 5))
    assert found.flops == 9 * matrices
    assert found.params == matrices + 2 * 2 * 2 * gates * 6


class Attends(nn.Module):
    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=first)

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.attention.batch_first else x.transpose(0, 1)
        return self.attention(y, y, y, need_weights=False)[0]


@pytest.mark.parametrize("first", [True, False])
def test_packed_attention(first: bool) -> None:
    """Four projections of T tokens, scores and weighted sums of T² pairs."""
    tokens, width = 5, 8
    assert count(Attends(first=first), (tokens, width)).flops == 4 * tokens * width**2 + 2 * tokens**2 * width


class OwnAttention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "fused":
            return F.scaled_dot_product_attention(x, x, x)
        if self.how == "operator":
            return (x @ x.transpose(1, 2)).softmax(-1) @ x
        return torch.bmm(torch.matmul(x, x.transpose(1, 2)).softmax(-1), x)


@pytest.mark.parametrize("how", ["fused", "operator", "functions"])
def test_own_attention(how: str) -> None:
    assert count(OwnAttention(how), (5, 8)).flops == 2 * 5 * 5 * 8


PRODUCTS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "one operand": (lambda x: torch.einsum("btc->bct", x), 0),
    "entry by entry": (lambda x: torch.einsum("btc,btc->btc", x, x), 0),
    "scores": (lambda x: torch.einsum("bic,bjc->bij", x, x), 5 * 5 * 8),
    "heads": (lambda x: torch.einsum("bihd,bjhd->bhij", *[x.unflatten(2, (2, 4))] * 2), 2 * 5 * 5 * 4),
    "any batch": (lambda x: torch.einsum("...ic,...jc->...ij", x, x), 5 * 5 * 8),
    "three": (lambda x: torch.einsum("bic,bjc,bjd->bid", x, x, x), 5 * 5 * 8 * 2),
    "sums first": (lambda x: torch.einsum("bic,bjd->bij", x, x).sum(0), 0),
    "tensordot": (lambda x: torch.tensordot(x, x, dims=([2], [2])), 5 * 5 * 8),
    "inner": (lambda x: torch.inner(x[0], x[0]), 5 * 5 * 8),
    "baddbmm": (lambda x: torch.baddbmm(x @ x.mT, x, x.mT), 2 * 5 * 5 * 8),
    "addbmm": (lambda x: torch.addbmm(x[0] @ x[0].T, x, x.mT), 2 * 5 * 5 * 8),
    "addmm": (lambda x: torch.addmm(x[0], x[0], torch.zeros(8, 8, device=x.device)), 5 * 8 * 8),
    "matrix and vector": (lambda x: torch.mv(x[0], x[0, 0]) + x[0].mv(x[0, 0]), 2 * 5 * 8),
    "vectors": (lambda x: torch.dot(x[0, 0], x[0, 0]) + x[0, 0] @ x[0, 0], 2 * 8),
    "from the right": (lambda x: x.__rmatmul__(torch.zeros(1, 3, 5, device=x.device)), 3 * 5 * 8),
    "several": (lambda x: torch.linalg.multi_dot([x[0], x[0].T, x[0]]), 2 * 5 * 5 * 8),
    "more keys than queries": (lambda x: F.scaled_dot_product_attention(x[:, :2], x, x[..., :3]), 2 * 5 * (8 + 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_every_notation(name: str) -> None:
    """By hand: one sample of five tokens and eight channels."""

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return PRODUCTS[name][0](x)

    assert count(Net(), (5, 8)).flops == PRODUCTS[name][1]


def test_bilinear_layers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Bilinear(8, 8, 3, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, x)

    assert count(Net(), (5, 8)) == Counts(192, 5 * 192, 1)


def test_what_costs_nothing() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(1, 3), nn.Dropout(), nn.Flatten())
    assert count(net, (3, 4, 4)) == Counts(12, 0, 4)


def test_tokens() -> None:
    net = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7))
    assert count(net, (6,), torch.int64) == Counts(35 + 42, 6 * 35, 3)


def test_nothing_is_touched() -> None:
    for case in CASES:
        net = case.network()
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        x, _ = case.batch(1)
        count(net, case.task.input_shape, x.dtype)
        assert net.training
        assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_large_networks_need_no_memory() -> None:
    """A hundred billion weights that only exist as shapes."""
    with torch.device("meta"):
        net = nn.Linear(400_000, 400_000, bias=False)
    assert count(net, (400_000,)).flops == 400_000**2


def test_networks_that_look_at_values() -> None:
    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if float(x.sum()) > 0 else -x

    with pytest.raises(Unscorable, match="cannot be counted on shapes alone"):
        count(Looks(), (3,))


class ByName(nn.Module):
    """Gives everything by name, and recurs over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.rnn = nn.LSTM(4, 5, batch_first=True, bias=False)
        self.head = nn.Linear(5, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(weight=self.conv.weight, input=x, padding=1)
        rows, _ = self.rnn(input=x.permute(0, 2, 3, 1).flatten(0, 1))
        x = F.linear(input=rows.mean((0, 1))[None], weight=self.head.weight)
        return torch.matmul(x, other=torch.ones(2, 2, device=x.device))


def test_operands_by_name_and_every_sequence() -> None:
    x = torch.randn(2, 3, 6, 6)
    convolution, recurrence = 36 * 4 * 27, 36 * 4 * 5 * (4 + 5)  # six sequences of six steps, four gates
    expected = convolution + recurrence + 5 * 2 + 2 * 2
    assert count(ByName(), (3, 6, 6)).flops == expected
    p = Probe.of(ByName(), (x[:1], torch.zeros(1, dtype=torch.int64)), Target("multiclass", 2))
    assert registry["flops"](p) == expected


def test_packed_sequences() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(3, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), [x.shape[1]] * len(x))
            return self.rnn(packed)[1][0]

    p = Probe.of(Packed(), (torch.randn(4, 5, 3), torch.zeros(4, dtype=torch.int64)), Target("multiclass", 2))
    assert registry["flops"](p) == 5 * 2 * (3 + 2)
