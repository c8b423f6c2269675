"""Each proxy against a naive float64 version of its formula, and against closed forms on linear networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.cases import CASES, Case, plain
from tests.proxies import oracles
from tests.proxies.oracles import ORACLES
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.proxies import registry
from trainless.proxies.grasp import _backwards, _forwards, forwards_hold
from trainless.proxies.vkdnw import fim_spectrum
from trainless.spaces.nb201 import NasBench201

BY_NAME = {case.name: case for case in CASES}
BLOCKS = {"expressivity", "progressivity", "layer_entropy", "block_meco", "feature_rank"}
SHAPED = ["1d", "1d-batch-norm", "2d", "2d-batch-norm", "2d-group-norm", "3d-binary", "3d-one-logit", "regression"]
OTHERS = ["packed-attention", "own-attention", "lstm", "tied-weights", "called-twice", "best-cell", "functional-relu"]
# where a formula's naive version does not reach
BEYOND = {
    "functional-relu": {"naswot", "linear_regions", "swap", "synflow", "meco"},
    "called-twice": {"naswot", "linear_regions", "swap", "meco"},
    "packed-attention": {"fisher", "synflow", "meco"},
    "own-attention": {"meco"},
    "lstm": {"naswot", "linear_regions", "swap", "fisher", "meco"},
    "tied-weights": {"naswot", "linear_regions", "swap", "fisher", "meco"},
    "3d-one-logit": {"vkdnw"},
    "regression": {"vkdnw", "epe_nas"},
}


def agree(name: str, p: Probe) -> None:
    expected = ORACLES[name](p)
    assert registry[name](p) == pytest.approx(expected, rel=2e-4 if name == "grasp" else 1e-6, abs=1e-9), name


@pytest.mark.parametrize("name", sorted(set(ORACLES) - BLOCKS))
@pytest.mark.parametrize("case", [BY_NAME[name] for name in SHAPED + OTHERS], ids=lambda case: case.name)
def test_naive_versions(case: Case, name: str) -> None:
    if name in BEYOND.get(case.name, ()):
        pytest.skip("the naive version does not reach here")
    p = case.probe(8, double=True)
    if refused(name, p):
        assert name in {"meco", "naswot"}, refused(name, p)
    else:
        agree(name, p)


def refused(name: str, p: Probe) -> str:
    """Why there is no score; empty where there is one."""
    try:
        registry[name](p)
    except Unscorable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", sorted(ORACLES))
@pytest.mark.parametrize("shape", [(2, 9), (2, 8, 8), (1, 4, 6, 4)], ids=str)
def test_cells_in_every_dimension(shape: tuple[int, ...], name: str) -> None:
    task = Task.noise(shape, 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = NasBench201(channels=4, cells=1).build((2, 3, 1, 4, 3, 2), task).double()
    x, y = task.batch(8, 1)
    agree(name, Probe.of(net, (x.double(), y), task.target))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    dims=st.integers(1, 3),
    samples=st.integers(4, 9),
    classes=st.integers(2, 5),
    normed=st.booleans(),
)
def test_random_networks(seed: int, dims: int, samples: int, classes: int, normed: bool) -> None:
    task = Task.noise((2, *[6] * dims), classes)
    norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims] if normed else None
    case = Case("random", task, lambda: plain(dims, classes, norm))
    for name in ("snip", "grad_norm", "gradsign", "synflow", "zico", "fisher", "epsilon", "naswot"):
        p = case.probe(samples, seed, double=True)
        reason = refused(name, p)
        if reason:
            assert "same activation pattern" in reason or "outputs are all equal" in reason
        else:
            agree(name, p)


def test_fisher_information_of_linear_regression() -> None:
    """Independent outputs with unit noise: F is the mean of JᵀJ; one entry of a weight and one of a bias."""
    x = torch.tensor([[3.0, 1.0], [1.0, 2.0], [-2.0, 5.0]], dtype=torch.float64)
    p = Probe.of(nn.Linear(2, 3).double(), (x, torch.zeros(3, 3)), Target("regression", 3))
    jacobian = np.stack([x[:, 0].numpy(), np.ones(3)], 1)
    expected = np.linalg.eigvalsh(jacobian.T @ jacobian / 3)
    np.testing.assert_allclose(fim_spectrum(p).numpy(), expected)


@pytest.mark.parametrize("exact", [False, True])
def test_both_factors_of_the_fisher_information(exact: bool) -> None:
    """With enough samples that no decile is zero."""
    p = BY_NAME["best-cell"].probe(40, double=True)
    expected = oracles.vkdnw(p, exact=exact)
    assert expected > 0.01
    found = registry["vkdnw"](p, factor="exact" if exact else "published", samples=40)
    assert found == pytest.approx(expected, rel=1e-5)


def test_joint_kernels() -> None:
    p = BY_NAME["best-cell"].probe(6, double=True)
    assert registry["ntk_condition"](p, coupling="joint") == pytest.approx(oracles.ntk_condition(p, joint=True))
    found = registry["loss_ntk"](p, coupling="joint")
    assert found == pytest.approx(oracles.ntk_condition(p, joint=True, of="loss", skip=1))


@pytest.mark.parametrize("coupling", ["joint", "isolated"])
def test_kernel_regression(coupling: str) -> None:
    """Fit one half by least squares in gradient space, predict the other."""
    p = BY_NAME["best-cell"].probe(8, double=True)
    names = [name for name in p.weights if name.startswith("blocks.") and "weight" in name]
    halves = list(p.split(2))
    jacobians = [
        torch.cat(list(oracles.rows(q, names, of="outputs", joint=coupling == "joint").values()), 1).numpy()
        for q in halves
    ]
    labels = [np.eye(3)[q.y.numpy()] for q in halves]
    labels = [each - each.mean(0) for each in labels]
    solution = np.linalg.lstsq(jacobians[0], labels[0], rcond=None)[0]  # the least-norm fit is the kernel's
    expected = np.square(jacobians[1] @ solution - labels[1]).sum(1).mean()
    assert registry["ntk_mse"](p, coupling=coupling) == pytest.approx(expected, rel=1e-5)


def test_trainability_in_the_mean() -> None:
    """For a block that is an orthogonal map, gradients keep their size: s is 1 up to sampling and the score near 0."""

    class Rotations(nn.Module):
        block_names = ("first", "second")

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Conv1d(4, 4, 1, bias=False) for _ in range(2))
            for layer in (self.first, self.second):
                nn.init.orthogonal_(layer.weight, generator=torch.Generator().manual_seed(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x)).mean(2)

    x = torch.randn(16, 4, 400, generator=torch.Generator().manual_seed(0))
    p = Probe.of(Rotations(), (x, torch.zeros(16, dtype=torch.long)), Target("multiclass", 4))
    assert registry["trainability"](p) == pytest.approx(0, abs=0.01)


# --- closed forms on a linear network: logits W x, so that everything is a matter of W and x -------------------------


@pytest.fixture
def linear() -> tuple[Probe, np.ndarray, np.ndarray]:
    source = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)).double()
    x = torch.randn(5, 2, 3, generator=source, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1])
    p = Probe.of(net, (x, y), Target("multiclass", 3))
    return p, p.weights["1.weight"].numpy(), x.flatten(1).numpy()


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits)
    return powers / powers.sum(1, keepdims=True)


def test_closed_forms(linear: tuple[Probe, np.ndarray, np.ndarray]) -> None:
    p, w, x = linear
    error = softmax(x @ w.T) - np.eye(3)[p.y.numpy()]
    per_sample = error[:, :, None] * x[:, None, :]
    gradient = per_sample.mean(0)
    values = {
        "params": 18,
        "flops": 18,
        "layers": 1,
        "l2_norm": np.linalg.norm(w),
        "grad_norm": np.linalg.norm(gradient),
        "plain": (w * gradient).sum(),
        "snip": np.abs(w * gradient).sum(),
        "fisher": 6 * 0.5 * np.square((x @ w.T) * error / len(x)).mean(0).sum(),
        "synflow": math.log(np.abs(w).sum()),
        "gradsign": np.abs(np.sign(per_sample).sum(0)).sum(),
        "ntk_condition": np.linalg.cond(3 * x @ x.T),
    }
    for name, value in values.items():
        assert registry[name](p) == pytest.approx(value, rel=1e-9), name
    alike = x / x.sum(1, keepdims=True)
    v = (alike - alike.min()) / (alike.max() - alike.min())
    assert v.max() == 1
    with pytest.raises(Unscorable, match="no rectifying activation"):
        registry["naswot"](p)


def test_grasp_of_a_quadratic() -> None:
    """½‖XWᵀ − Y‖² has H = XᵀX, so −θᵀHg is a product of matrices."""
    source = torch.Generator().manual_seed(2)
    x = torch.randn(6, 4, generator=source, dtype=torch.float64)
    y = torch.randn(6, 2, generator=source, dtype=torch.float64)
    net = nn.Linear(4, 2, bias=False).double()
    p = Probe.of(net, (x, y), Target("regression", 2))
    w, scale = net.weight.detach(), 2 / y.numel()
    gradient = scale * (x @ w.T - y).T @ x
    curvature = scale * x.T @ x
    assert registry["grasp"](p) == pytest.approx(-float((w * (gradient @ curvature)).sum()))


def test_epsilon_of_one_linear_layer_is_zero(linear: tuple[Probe, np.ndarray, np.ndarray]) -> None:
    """Scaling all weights only scales the outputs, and min–max scaling undoes it."""
    assert registry["epsilon"](linear[0]) == pytest.approx(0, abs=1e-6)


def test_zen_of_a_linear_map() -> None:
    """Without norms and with an open rectifier, features move by step · Wε."""
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.5)
    x = torch.full((5, 4), 10.0, dtype=torch.float64)
    p = Probe.of(net, (x, torch.zeros(5, dtype=torch.long)), Target("binary", 2))
    noise = torch.randn(5, 4, generator=p.generator("zen")).double()
    moved = 0.01 * (noise @ net[0].weight.detach().T)
    assert registry["zen"](p) == pytest.approx(math.log(float(moved.abs().sum(1).mean())), rel=1e-6)


def test_meco_of_independent_and_equal_channels() -> None:
    """Orthogonal channels have the identity as their correlation; equal ones have a zero eigenvalue."""
    wave = torch.arange(8) * 2 * math.pi / 8
    rows = torch.stack([wave.sin(), wave.cos(), (2 * wave).sin()])

    class Keep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Conv1d(3, 3, 1, groups=3, bias=False), nn.Linear(3, 2)
            nn.init.ones_(self.body.weight)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x).mean(2))

    target, y = Target("binary", 2), torch.zeros(1, dtype=torch.long)
    assert registry["meco"](Probe.of(Keep(), (rows[None], y), target)) == pytest.approx(1, abs=1e-6)
    same = rows[:1].expand(3, 8)[None].contiguous()
    assert registry["meco"](Probe.of(Keep(), (same, y), target)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["2d-batch-norm", "1d-batch-norm", "2d", "best-cell"])
def test_grasp_forwards_and_backwards(name: str) -> None:
    """Large networks are differentiated forwards twice; both ways are the same number."""
    p = BY_NAME[name].probe(8, double=True)
    assert _forwards(p) == pytest.approx(_backwards(p), rel=1e-6)
    assert forwards_hold(p)


def test_grasp_goes_backwards_where_nested_forward_rules_are_wrong() -> None:
    """PyTorch's fused layer norm has no right second forward derivative; the day it has, this says so."""
    assert not forwards_hold(BY_NAME["own-attention"].probe(8, double=True))
