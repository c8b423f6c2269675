"""Windows that are filed as images of their own, sequences first, and rectifiers that do not depend on the input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError, Unscorable
from trainless.core.target import Target
from trainless.probe import Probe, block_scatters, blocks
from trainless.probe.features import paired
from trainless.proxies import registry
from trainless.scoring.evaluate import score
from trainless.testing import check_network

SAMPLES = 6
Rectify = Callable[[nn.Module, Tensor], Tensor]


class Mapped(nn.Module):
    """A layer over channels, its rectifier filed in some way, a residual sum and a head."""

    def __init__(self, way: Rectify) -> None:
        super().__init__()
        self.stem, self.wide, self.head = nn.Conv2d(3, 6, 1), nn.Linear(6, 6), nn.Linear(6, 3)
        self.bias = nn.Linear(2, 6)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).permute(0, 2, 3, 1)
        return self.head((x + self.way(self, x)).mean((1, 2)))


def windows_first(net: nn.Module, x: Tensor) -> Tensor:
    """As in Swin: every window of 2 × 2 is an image of its own; samples are the slow part of the first axis."""
    n, h, w, c = x.shape
    parts = x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, c)
    parts = F.relu(net.wide(parts))
    return parts.view(n, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)


def windows_last(net: nn.Module, x: Tensor) -> Tensor:
    """The same, with samples the fast part of the first axis."""
    n, h, w, c = x.shape
    parts = x.view(n, h // 2, 2, w // 2, 2, c).permute(1, 3, 0, 2, 4, 5).reshape(-1, 4, c)
    parts = F.relu(net.wide(parts))
    return parts.view(h // 2, w // 2, n, 2, 2, c).permute(2, 0, 3, 1, 4, 5).reshape(n, h, w, c)


def sequence_first(net: nn.Module, x: Tensor) -> Tensor:
    """Rows on the first axis: as many as there are samples."""
    return F.relu(net.wide(x.transpose(0, 1))).transpose(0, 1)


def doubled(net: nn.Module, x: Tensor) -> Tensor:
    """Two halves of every sample as one batch, as in a siamese network that calls its tower once."""
    halves = F.relu(net.wide(torch.cat([x[:, :3], x[:, 3:]])))
    return torch.cat(halves.chunk(2), 1)


def beside_a_bias(net: nn.Module, x: Tensor) -> Tensor:
    """A network of positions makes a bias, as in Swin v2: it is the same for all samples."""
    places = torch.stack(torch.meshgrid(torch.arange(6.0), torch.arange(6.0), indexing="ij"), -1).to(x)
    return F.relu(net.wide(x)) + F.relu(net.bias(places))


def unfolded(net: nn.Module, x: Tensor) -> Tensor:
    """Patches by unfold, as in TNT."""
    n, h, w, c = x.shape
    parts = F.unfold(x.permute(0, 3, 1, 2), 2, stride=2).transpose(1, 2).reshape(-1, c, 4).transpose(1, 2)
    parts = F.relu(net.wide(parts)).transpose(1, 2).reshape(n, -1, c * 4).transpose(1, 2)
    return F.fold(parts, (h, w), 2, stride=2).permute(0, 2, 3, 1)


WAYS: dict[str, Rectify] = {
    each.__name__: each for each in (windows_first, windows_last, sequence_first, doubled, beside_a_bias, unfolded)
}


def made(way: Rectify) -> Probe:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        net, x = Mapped(way).double(), torch.randn(SAMPLES, 3, 6, 6, dtype=torch.float64)
    return Probe.of(net, (x, torch.arange(SAMPLES) % 3), Target("multiclass", 3))


def bits(p: Probe) -> np.ndarray:
    """Which units open, sample by sample, each sent through on its own."""
    net = p.net
    return np.stack([(net.wide(net.stem(x[None]).permute(0, 2, 3, 1)) > 0).flatten().numpy() for x in p.x])


@pytest.mark.parametrize("way", WAYS)
def test_patterns_are_the_samples(way: str) -> None:
    p = made(WAYS[way])
    found = bits(p)
    kernel = [[float((a == b).sum()) for b in found] for a in found]
    assert registry["naswot"](p) == pytest.approx(float(np.linalg.slogdet(kernel)[1]), rel=1e-12)
    assert registry["linear_regions"](p) == len({row.tobytes() for row in found})
    assert registry["swap"](p) == len({tuple(column) for column in found.T})


def test_zen_is_a_mean_over_samples_and_not_over_windows() -> None:
    assert registry["zen"](made(windows_first)) == pytest.approx(
        registry["zen"](made(lambda net, x: F.relu(net.wide(x))))
    )


class Pyramid(nn.Module):
    """A map, then tokens of the halved map row by row, as in PVT and Twins; or the halved map itself."""

    def __init__(self, tokens: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 2, 2)
        self.norm, self.mix, self.head = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.tokens = tokens

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(F.relu(self.first(x)))
        x = x.flatten(2).transpose(1, 2) if self.tokens else x.permute(0, 2, 3, 1)
        x = x + F.gelu(self.mix(self.norm(x)))
        return self.head(x.flatten(1, -2).mean(1))


@pytest.mark.parametrize("proxy", ["isometry", "trainability", "expressivity", "progressivity", "block_meco"])
def test_tokens_of_a_map_lie_where_the_map_does(proxy: str) -> None:
    values = []
    for tokens in (True, False):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net, x = Pyramid(tokens).double(), torch.randn(SAMPLES, 3, 8, 8, dtype=torch.float64)
        values.append(registry[proxy](Probe.of(net, (x, torch.arange(SAMPLES) % 3), Target("multiclass", 3))))
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_a_grid_that_is_laid_out_anew_is_paired_place_by_place() -> None:
    """What the coarser grid merges becomes channels: the four fine places of each coarse one, by hand."""
    fine = torch.arange(2 * 3 * 4 * 4.0).view(2, 3, 4, 4)
    left, right = paired(fine, torch.arange(2 * 5 * 4.0).view(2, 5, 4), None, (2, 2))
    assert right.shape == (5, 8)
    for sample in range(2):
        for place, (row, column) in enumerate([(0, 0), (0, 2), (2, 0), (2, 2)]):
            expected = fine[sample, :, row : row + 2, column : column + 2].flatten()
            assert sorted(left[:, 4 * sample + place].tolist()) == sorted(expected.tolist())


class Beginning(nn.Module):
    """Residual branches that give nothing yet: their last norm begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.branches = nn.ModuleList(nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)) for _ in range(2))
        for branch in self.branches:
            nn.init.zeros_(branch[1].weight)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for branch in self.branches:
            x = x + branch(x)
        return self.head(x.mean((2, 3)))


def test_a_branch_that_begins_at_zero_passes_gradients_on_at_their_own_size() -> None:
    """The Jacobian is the identity: what comes out is the ±1 that went in, so s is the largest of their covariance."""
    x = torch.randn(SAMPLES, 3, 8, 8)
    p = Probe.of(Beginning(), (x, torch.arange(SAMPLES) % 3), Target("multiclass", 3))
    assert len(blocks(p)) == len(block_scatters(p)) == 3
    scores = []
    for block in blocks(p)[1:]:
        signs = block.signs(p.generator(f"trainability/{block.name}")).transpose(0, 1).flatten(1).double().numpy()
        spread = np.linalg.svd(signs @ signs.T / signs.shape[1])[1][0]
        scores.append(2 - spread - 1 / (spread + 1e-6))
    assert registry["trainability"](p) == pytest.approx(math.fsum(scores) / 2, rel=1e-5)
    assert registry["trainability"](p) > -0.1


class Branches(nn.Module):
    """Parallel convolutions of words, as in text CNNs: none is made from another."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(4, 6, 3)
        self.branches = nn.ModuleList(nn.Conv1d(6, 5, size) for size in (2, 3, 4))
        self.head = nn.Linear(15, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(torch.cat([F.relu(branch(x)).amax(2) for branch in self.branches], 1))


def test_parallel_branches_are_no_blocks_one_after_the_other() -> None:
    """The blocks are the stem and all branches together: the Jacobian of these, by hand, on a single place."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Branches().double(), torch.randn(SAMPLES, 4, 9, dtype=torch.float64)
    p = Probe.of(net, (x, torch.arange(SAMPLES) % 3), Target("multiclass", 3))
    assert [tuple(block.values.shape) for block in blocks(p)] == [(SAMPLES, 6, 7), (SAMPLES, 15)]
    signs = blocks(p)[1].signs(p.generator("trainability/1"))
    stem = net.stem(x).detach().requires_grad_()
    after = torch.cat([F.relu(branch(stem)).amax(2) for branch in net.branches], 1)
    (back,) = torch.autograd.grad(after, stem, signs)
    spread = np.linalg.svd((back.flatten(1).T @ signs / SAMPLES).numpy())[1][0]
    assert registry["trainability"](p) == pytest.approx(2 - spread - 1 / (spread + 1e-6), rel=1e-9)


class Sentences(nn.Module):
    """A transformer of tokens, positions first or last."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.table, self.first = nn.Embedding(20, 8), first
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=not first)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.table(x.t() if self.first else x)).mean(0 if self.first else 1))


def test_every_proxy_of_tokens_is_the_same_with_positions_first() -> None:
    tables = []
    for first in (True, False):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net, x = Sentences(first).double(), torch.randint(1, 20, (SAMPLES, SAMPLES))
        tables.append({r.proxy: r.value for r in score(net, (x, torch.arange(SAMPLES) % 3))})
    different = {
        name: (value, tables[1][name])
        for name, value in tables[0].items()
        if not math.isclose(value, tables[1][name], rel_tol=1e-5, abs_tol=1e-9)
    }
    assert not different


def test_complex_weights_are_refused() -> None:
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3, dtype=torch.cfloat))

        def forward(self, x: Tensor) -> Tensor:
            return (x.to(torch.cfloat) @ self.weight).real

    batch = torch.randn(SAMPLES, 4), torch.arange(SAMPLES) % 3
    with pytest.raises(InputError, match="the network Spectral has complex weights; expected real ones"):
        score(Spectral(), batch)
    with pytest.raises(InputError, match="complex weights"):
        check_network(Spectral(), batch)


@pytest.mark.parametrize("proxy", ["fisher", "gradsign", "layer_entropy", "loss_ntk", "sample_zico", "isolated_jacov"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "beside_a_bias"])
def test_measures_of_samples_do_not_follow_the_filing(way: str, proxy: str) -> None:
    plain = made(lambda net, x: F.relu(net.wide(x)))
    assert registry[proxy](made(WAYS[way])) == pytest.approx(registry[proxy](plain), rel=1e-9)


class Stacked(nn.Module):
    """Recurrent layers as one stack, or one after the other, or step by step."""

    def __init__(self, kind: str, way: str) -> None:
        super().__init__()
        self.way, self.kind = way, kind
        make = {"RNN": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k), "GRU": nn.GRU, "LSTM": nn.LSTM}[kind]
        sizes = [(5, 8), (8, 8)]
        self.rnn = (
            make(5, 8, 2, batch_first=True)
            if way == "stack"
            else nn.ModuleList(make(*size, batch_first=True) for size in sizes)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "stack":
            return self.head(self.rnn(x)[0].mean(1))
        for layer in self.rnn:
            x = layer(x)[0] if self.way == "in a row" else self.by_hand(layer, x)
        return self.head(x.mean(1))

    def by_hand(self, layer: nn.RNN, x: Tensor) -> Tensor:
        state, found = x.new_zeros(len(x), 8), []
        for step in x.unbind(1):
            entering = F.linear(step, layer.weight_ih_l0, layer.bias_ih_l0)
            state = F.relu(entering + F.linear(state, layer.weight_hh_l0, layer.bias_hh_l0))
            found.append(state)
        return torch.stack(found, 1)


def scored(kind: str, way: str) -> dict[str, float]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Stacked(kind, way).double()
        for tensor in net.parameters():
            nn.init.normal_(tensor, std=0.4)
        x = torch.randn(SAMPLES, 7, 5, dtype=torch.float64)
    return {record.proxy: record.value for record in score(net, (x, torch.arange(SAMPLES) % 3))}


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_stack_of_recurrent_layers_is_what_it_stacks(kind: str) -> None:
    stack, row = scored(kind, "stack"), scored(kind, "in a row")
    assert not math.isnan(stack["isometry"])
    for name, value in row.items():
        assert stack[name] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name


def test_rectifiers_inside_recurrent_layers() -> None:
    stack, steps = scored("RNN", "stack"), scored("RNN", "step by step")
    for name in ("naswot", "linear_regions", "swap"):
        assert stack[name] == pytest.approx(steps[name], rel=1e-12), name


class Insists(nn.Module):
    """Runs on inputs that differ, and in single precision alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float64 or bool((x == 1).all()):
            raise ValueError("mat_a must be Float32")
        return self.head(F.relu(self.layer(x)))


def test_what_a_network_refuses_is_its_reason_and_no_exception() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, batch = Insists(), (torch.randn(SAMPLES, 4), torch.arange(SAMPLES) % 3)
    reasons = {record.proxy: record.status for record in score(net, batch, proxies=["synflow", "epsilon"])}
    assert reasons == {
        "synflow": "the network does not run on a single input of ones in double precision",
        "epsilon": "the network does not run in double precision",
    }


def test_rows_that_are_picked_by_numbers_have_no_order() -> None:
    """Experts take the positions that are routed to them: which unit of one sample is which of another is not said."""

    def routed(net: nn.Module, x: Tensor) -> Tensor:
        rows = x.reshape(-1, 6)
        order = rows.sum(1).argsort()
        return F.relu(net.wide(rows[order]))[order.argsort()].view(x.shape)

    with pytest.raises(Unscorable, match="a rectifier mixes samples and positions"):
        registry["naswot"](made(routed))
