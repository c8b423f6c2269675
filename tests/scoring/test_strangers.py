"""Networks that do what no layer's class says: scored as what they compute, or refused with a reason of theirs."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

from trainless.core.errors import InputError
from trainless.scoring.evaluate import score
from trainless.testing import check_network

X = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(6) % 3
SHARED = torch.Generator()


class Base(nn.Module):
    """Two convolutions with norms, and something in the middle."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.first, self.norm, self.act = nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU()
        self.second, self.norm2, self.head = nn.Conv2d(8, 12, 3, 2, 1), norm(12), nn.Linear(12, 3)

    def middle(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self.middle(self.act(self.norm(self.first(x))))
        return self.head(self.act(self.norm2(self.second(x))).mean((2, 3)))


def between(work: Callable[[Base, Tensor], Tensor]) -> Callable[[], nn.Module]:
    """A network with this in the middle."""
    return type("Middle", (Base,), {"middle": work})


def changed(change: Callable[[Base], object]) -> Callable[[], nn.Module]:
    """A network to which this was done."""

    def make() -> nn.Module:
        net = Base()
        change(net)
        return net

    return make


class NormReLU(nn.BatchNorm2d):
    """Norm and more in one class, as timm's BatchNormAct2d."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x)) - 0.1


class BatchNormByHand(nn.Module):
    """A batch norm in arithmetic of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, 0.1)
                self.running_var.lerp_(variance, 0.1)
        x = (x - mean[:, None, None]) / (variance[:, None, None] + 1e-5).sqrt()
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class LayerNormByHand(nn.Module):
    """A layer norm over channels in arithmetic of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(1, keepdim=True)
        x = x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class LayerNormOfTorch(nn.LayerNorm):
    """The same by PyTorch's function."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class ReLUAfterNormByHand(LayerNormByHand):
    """A norm by hand and an activation in one module."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x))


class Frozen(nn.Module):
    """Detectron's frozen batch norm: its statistics are what they are, in any mode."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.linspace(-1, 1, channels))
        self.register_buffer("running_var", torch.linspace(0.5, 2, channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)


class Auxiliary(Base):
    """Gives a second head in training, as GoogLeNet."""

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        outputs = super().forward(x)
        return (outputs, outputs) if self.training else outputs


class Counting(Base):
    """Counts its passes in an attribute and in a buffer, and computes with both."""

    def __init__(self) -> None:
        super().__init__(nn.Identity)
        self.passes, self.seen = 0, []
        self.register_buffer("buffered", torch.zeros(()))

    def middle(self, x: Tensor) -> Tensor:
        self.passes += 1
        self.seen.append(self.passes)
        self.buffered += 1
        return x * (len(self.seen) + self.buffered)


class Cached(Base):
    """Computes with what it kept of its first pass, as LeViT's biases."""

    def __init__(self) -> None:
        super().__init__(nn.Identity)
        self.scale, self.kept = nn.Parameter(torch.randn(8, 1, 1)), {}

    def middle(self, x: Tensor) -> Tensor:
        return x * self.kept.setdefault("scale", self.scale.exp())


class Averaging(Base):
    """Moves a running mean at each pass and subtracts it: samples touch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8, 1, 1))

    def middle(self, x: Tensor) -> Tensor:
        self.mean.lerp_(x.detach().mean((0, 2, 3))[:, None, None], 0.1)
        return x - self.mean


class Masking(nn.Module):
    """Hides tokens at random."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.mask = nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.flatten(2).transpose(1, 2))
        kept = torch.rand(tokens.shape[:2]) < 0.5
        return self.head(F.gelu(self.norm(torch.where(kept[..., None], tokens, self.mask))).mean(1))


class MaskingPlaces(Masking):
    """Hides tokens at random, after a part of a parameter was added to them, as ViT-MAE."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(1, 65, 8))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.flatten(2).transpose(1, 2)) + self.places[:, 1:]
        kept = torch.rand(tokens.shape[:2]) < 0.5
        return self.head(F.gelu(self.norm(tokens * kept[..., None])).mean(1))


class PaddedWindows(Base):
    """Looks for places to leave out, of which there are none, as Longformer."""

    def middle(self, x: Tensor) -> Tensor:
        nowhere = x.new_ones(len(x)).eq(0).nonzero()
        chosen = x[nowhere[:, 0]]
        return x.index_put((nowhere[:, 0],), torch.where(chosen > 0, chosen, chosen.new_zeros(chosen.shape)))


@functools.cache
def scripted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function as TorchScript, which torch calls deprecated and networks use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(function)


def relative_places(length: int) -> Tensor:
    """A function of sizes alone, as DeBERTa's."""
    places = torch.arange(length)
    return torch.clamp(places[:, None] - places[None] + length, 0, 2 * length - 1)


class RelativePlaces(Base):
    """Takes what it computes elsewhere of sizes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16))

    def middle(self, x: Tensor) -> Tensor:
        return x + self.table[scripted(relative_places)(8)]


def gate_of(x: Tensor) -> Tensor:
    """An activation that no recorder sees."""
    return x * torch.sigmoid(x)


class Halving(torch.autograd.Function):
    """A rectifier whose gradient is another."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, g: Tensor) -> Tensor:
        return g * (ctx.saved_tensors[0] > 0) * 0.5


def keep_evaluating(net: Base) -> None:
    with torch.no_grad():
        net.norm.running_mean.normal_()
        net.norm.running_var.uniform_(0.5, 2)
    net.norm.eval()


SCORED: dict[str, Callable[[], nn.Module]] = {
    "functional dropout": between(lambda net, x: F.dropout(x, 0.5)),
    "torch's dropout": between(lambda net, x: torch.dropout(x, 0.5, True)),
    "native dropout": between(lambda net, x: torch.native_dropout(x, 0.5, True)[0]),
    "drop path in training": between(lambda net, x: x * torch.rand(len(x), 1, 1, 1).round() if net.training else x),
    "random numbers": between(lambda net, x: x * torch.rand_like(x)),
    "drop path always": between(lambda net, x: x * x.new_empty(len(x), 1, 1, 1).bernoulli_(0.7)),
    "numpy's random numbers": between(lambda net, x: x * float(np.random.rand())),
    "Python's random numbers": between(lambda net, x: x if random.random() < 0.5 else F.relu(x - 0.3)),
    "random masks": Masking,
    "random masks and places": MaskingPlaces,
    "nothing chosen": PaddedWindows,
    "places by TorchScript": RelativePlaces,
    "in place": between(lambda net, x: torch.relu_(x - 0.3) + 2 * x),
    "detached": between(lambda net, x: x + x.detach()),
    "data written": between(lambda net, x: x.data.mul_(2) + x),
    "a gradient of its own": between(lambda net, x: Halving.apply(x - 0.2)),
    "one norm twice": between(lambda net, x: net.norm(net.norm(x) * 2 + 1)),
    "norm and activation in one": lambda: Base(NormReLU),
    "batch norm by hand": lambda: Base(BatchNormByHand),
    "layer norm by hand": lambda: Base(LayerNormByHand),
    "tracked instance norm": lambda: Base(lambda c: nn.InstanceNorm2d(c, affine=True, track_running_stats=True)),
    "no running statistics": lambda: Base(lambda c: nn.BatchNorm2d(c, track_running_stats=False)),
    "no scale": lambda: Base(lambda c: nn.BatchNorm2d(c, affine=False)),
    "detectron's frozen norm": lambda: Base(Frozen),
    "a norm in evaluation": changed(keep_evaluating),
    "all in evaluation": changed(lambda net: net.eval()),
    "auxiliary head": Auxiliary,
    "counters": Counting,
    "caches": Cached,
    "moving mean": Averaging,
    "patched forward": changed(lambda net: setattr(net.act, "forward", F.silu)),
    "hook on outputs": changed(lambda net: net.norm.register_forward_hook(lambda module, x, out: out * 1.5 + 0.1)),
    "hook on inputs": changed(lambda net: net.second.register_forward_pre_hook(lambda module, x: (x[0] * 1.5,))),
    "hook on gradients": changed(lambda net: net.second.weight.register_hook(lambda g: g * 2)),
    "weight norm": changed(lambda net: parametrizations.weight_norm(net.second)),
    "spectral norm": changed(lambda net: parametrizations.spectral_norm(net.second)),
    "orthogonal": changed(lambda net: parametrizations.orthogonal(net.head)),
    "pruned": changed(lambda net: prune.l1_unstructured(net.second, "weight", 0.3)),
    "traced by fx": lambda: torch.fx.symbolic_trace(Base()),
    "channels last": lambda: Base().to(memory_format=torch.channels_last),
    "double": lambda: Base().double(),
    "frozen backbone": changed(lambda net: net.first.requires_grad_(False)),
    "all frozen": changed(lambda net: net.requires_grad_(False)),
}


WITHOUT = {  # where samples touch, none is alone; a spectral norm of absolute weights may be negative
    "batch norm by hand": {"gradsign"},
    "moving mean": {"gradsign", "synflow"},
    "spectral norm": {"synflow"},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORED)
def test_scored_as_what_it_computes(name: str) -> None:
    torch.manual_seed(3)
    net = SCORED[name]()
    state = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    found = check_network(net, (X, Y))
    alone = {each.proxy for each in found.comparisons if each.value != each.value}
    assert alone <= WITHOUT.get(name, set()), str(found)
    assert found.double
    assert all(torch.equal(state[key], tensor) for key, tensor in net.state_dict().items())


class Listed(Base):
    """Holds a layer that nobody registered."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Conv2d(8, 8, 1)]

    def middle(self, x: Tensor) -> Tensor:
        return self.hidden[0](x)


def patched_with_its_own(net: Base) -> None:
    inner = net.norm.forward
    net.norm.forward = lambda x: F.relu(inner(x))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "draws without a seed": (
        between(lambda net, x: x + float(np.random.default_rng().random())),
        "Middle gives other outputs each time it runs on the same inputs",
    ),
    "a generator of its own": (
        between(lambda net, x: x + torch.rand(1, generator=SHARED)),
        "Middle gives other outputs each time it runs on the same inputs",
    ),
    "a layer in a list": (Listed, r"Listed works with a parameter of shape \(8,( 8, 1, 1)?\) that is not taken from"),
    "patched around itself": (changed(patched_with_its_own), r"Base works with a parameter of shape \(8,\)"),
    "checkpoints": (
        between(lambda net, x: checkpoint(F.silu, x, use_reentrant=False)),
        "recomputes its activations in the backward pass",
    ),
    "checkpoints of old": (
        between(lambda net, x: checkpoint(F.silu, x, use_reentrant=True)),
        "recomputes its activations in the backward pass",
    ),
    "overwrites": (between(lambda net, x: x.add_(1)), "changes in place what its gradient needs"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_of_its_own(name: str) -> None:
    make, reason = REFUSED[name]
    scores = score(make(), (X, Y), proxies=["snip", "synflow"])
    for record in scores:
        assert record.failed
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(record.status)


def halves(net: Base, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net.act(F.conv2d(x, net.second.weight, padding=1)).to(x.dtype)[:, :8]


def test_bfloat16_within_is_no_raw_error() -> None:
    reasons = set(score(between(halves)(), (X, Y)).failures.values())
    assert not any("Error" in reason or "ScalarType" in reason for reason in reasons), reasons
    assert any("bfloat16 on its way (autocast)" in reason for reason in reasons)


def test_an_activation_in_torchscript_is_not_overlooked() -> None:
    for middle in (lambda net, x: scripted(gate_of)(x - 0.2), lambda net, x: x + scripted(gate_of)(x.detach()[:, :1])):
        scores = score(between(middle)(), (X, Y), proxies=["snip", "naswot"])
        (reason,) = scores.failures.values()
        assert "Middle computes by code that cannot be followed (a TorchScript function" in reason


@pytest.mark.parametrize("hand", [BatchNormByHand, LayerNormByHand])
def test_norms_by_hand_are_left_out_as_those_of_torch(hand: Callable[[int], nn.Module]) -> None:
    """SynFlow and every measure of the whole batch are those of the network with PyTorch's norms."""
    torch.manual_seed(0)
    net, known = Base(hand), Base(nn.BatchNorm2d if hand is BatchNormByHand else LayerNormOfTorch)
    known.load_state_dict(net.state_dict(), strict=False)
    for module in (*net.modules(), *known.modules()):
        if hasattr(module, "eps"):
            module.eps = 1e-6 if hand is LayerNormByHand else 1e-5
    wanted = ["synflow", "snip", "naswot", "grasp"]
    found, expected = (score(each.double(), (X.double(), Y), proxies=wanted) for each in (net, known))
    for proxy in wanted:
        assert found[proxy] == pytest.approx(expected[proxy], rel=1e-5), proxy


def test_a_norm_by_hand_that_does_more_cannot_be_left_out() -> None:
    scores = score(Base(ReLUAfterNormByHand), (X, Y), proxies=["synflow", "snip"])
    reasons = {proxy: reason for (_, proxy, _), reason in scores.failures.items()}
    assert list(reasons) == ["synflow"]
    assert "ReLUAfterNormByHand (norm) of Base normalises and does more by code of its own" in reasons["synflow"]


def test_a_measure_that_reads_batch_norms_refuses_those_that_it_cannot_see() -> None:
    scores = score(Base(BatchNormByHand), (X, Y), proxies=["zen"])
    assert "normalises batches, or mixes samples, by code of its own" in next(iter(scores.failures.values()))


def test_a_network_that_needs_to_work_in_place_still_does_at_its_second_probe() -> None:
    """Both batch sizes make a probe of their own of the same private network."""

    class InPlace(Base):
        def __init__(self) -> None:
            super().__init__()
            self.again = nn.ReLU(inplace=True)

        def middle(self, x: Tensor) -> Tensor:
            x = x - 0.5
            return self.again(x) + 2 * x

    class Plain(Base):
        def middle(self, x: Tensor) -> Tensor:
            return 3 * F.relu(x - 0.5)

    torch.manual_seed(0)
    net, plain = InPlace(), Plain()
    plain.load_state_dict(net.state_dict())
    for proxies in (["snip", "grad_norm"], ["gradsign", "naswot"]):
        a, b = (score(each, (X, Y), proxies=proxies, seeds=[0, 1]) for each in (net, plain))
        assert [r.value for r in a] == pytest.approx([r.value for r in b])


class Merging(nn.Linear):
    """Adds something to its weight when it is put into evaluation, as LoRA does."""

    def train(self, mode: bool = True) -> Merging:
        if mode != self.training:
            self.weight.data += -1.0 if mode else 1.0
        return super().train(mode)


def test_what_a_class_does_on_eval_is_not_done_to_the_callers_network() -> None:
    net = nn.Sequential(nn.Flatten(), Merging(192, 3))
    before = net[1].weight.detach().clone()
    score(net, (X, Y), proxies=["snip", "synflow"])
    assert torch.equal(net[1].weight, before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.DataParallel(Base()), "wrapped in DataParallel, whose replicas hide its layers"),
        (lambda: torch.ao.quantization.quantize_dynamic(Base(), {nn.Linear}), "is quantised or prepared for it"),
        (lambda: torch.jit.trace(Base().eval(), X), "is scripted or traced"),
        (lambda: torch.compile(Base()), "is compiled"),
        (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), "has lazy layers"),
        (lambda: Base().half(), "has weights of type torch.float16"),
        (lambda: Base().bfloat16(), "has weights of type torch.bfloat16"),
    ],
)
def test_what_hides_its_layers_is_refused_by_name(make: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        score(make(), (X, Y), proxies=["snip"])
