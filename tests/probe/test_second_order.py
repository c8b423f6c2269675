"""Second derivatives against PyTorch's own, by finite differences and through networks that use a weight oddly."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.probe.points import Double
from trainless.probe.probe import Probe
from trainless.probe.second_order import batch_norm
from trainless.proxies.grasp import _backwards


def plain(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """θᵀHg by PyTorch's own second derivatives."""
    net = net.double().train()
    names = [name for name, tensor in net.named_parameters() if tensor.ndim > 1]
    chosen = [net.get_parameter(name) for name in names]
    loss = F.cross_entropy(net(x.double()), y)
    first = torch.autograd.grad(loss, chosen, create_graph=True)
    flow = sum((gradient * gradient.detach()).sum() for gradient in first)
    second = torch.autograd.grad(flow, chosen)
    return float(sum((weight.detach() * gradient).sum() for weight, gradient in zip(chosen, second, strict=True)))


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (3, 2, 3, 4), (2, 2, 2, 3, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_twice_by_finite_differences(shape: tuple[int, ...], affine: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    own = [torch.randn(shape[1], dtype=torch.float64, requires_grad=True) for _ in range(2)] if affine else []

    def norm(x: Tensor, *own: Tensor) -> Tensor:
        weight, bias = own or (None, None)
        return batch_norm(x, weight, bias, 0.1)

    assert torch.autograd.gradcheck(norm, (x, *own))
    assert torch.autograd.gradgradcheck(norm, (x, *own))
    weight, bias = own or (None, None)
    torch.testing.assert_close(norm(x, *own), F.batch_norm(x, None, None, weight, bias, True, 0.0, 0.1))


class Twice(nn.Module):
    """One kernel used by two convolutions and by a matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv(x))
        x = torch.tanh(self.conv(x) + x).mean((2, 3))
        return self.head(x @ self.conv.weight[:, :, 0, 0])


class Fixed(nn.Module):
    """A kernel that is no parameter, and one image without a batch axis."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("blur", torch.ones(3, 1, 2, 2) / 4)
        self.conv = nn.Conv2d(3, 4, 3, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(F.conv2d(x, self.blur, groups=3))
        return torch.stack([torch.tanh(self.conv(each)).mean((1, 2)) for each in x])


class InPlace(nn.Module):
    """Goes on in place with what a convolution gave."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x += 1
        return x.mul_(2).tanh().mean((2, 3))


class Looking(nn.Module):
    """Takes gradients on its way, once as numbers and once as part of what it computes."""

    def __init__(self, part: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 4)
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.conv(x))
        (slope,) = torch.autograd.grad(h.square().sum(), self.conv.weight, create_graph=self.part, retain_graph=True)
        return self.head(h.mean((2, 3))) * slope.square().mean().sqrt()


class Transforming(nn.Module):
    """Differentiates a convolution forwards on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        value, slope = torch.func.jvp(lambda x: torch.tanh(self.conv(x)), (x,), (torch.ones_like(x),))
        return (value + slope).mean((2, 3))


NETWORKS = {
    "gradients on its way": lambda: Looking(False),
    "gradients as part of it": lambda: Looking(True),
    "transforms": Transforming,
    "in place": InPlace,
    "2d": lambda: nn.Sequential(
        *(nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 4, 3, dilation=2, padding=2, groups=2), nn.BatchNorm2d(4), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(16, 4)),
    ),
    "kernel used three times": Twice,
    "odd convolutions": Fixed,
    "no convolution": lambda: nn.Sequential(
        *(nn.Flatten(), nn.Linear(48, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 4)),
    ),
    "spectral norm": lambda: nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)), nn.Tanh(), nn.Flatten(), nn.Linear(16, 4)
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own forward rules are scripted
@pytest.mark.parametrize("name", NETWORKS)
def test_curvature_equals_pytorchs(name: str) -> None:
    torch.manual_seed(0)
    net = NETWORKS[name]()
    x, y = torch.randn(6, 3, 4, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    p = Probe.of(net, (x, y), Target("multiclass", 4)).once(x=Double())
    ours = _backwards(p)
    if name == "spectral norm":
        net.eval()  # the power iteration moves it otherwise
        for module in net.modules():
            module.train = lambda mode=True, module=module: module
    assert ours == pytest.approx(plain(net, x, y), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    axes=st.integers(1, 3),
    size=st.integers(3, 6),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    groups=st.sampled_from([1, 2]),
    normed=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_curvature_of_any_convolution(
    axes: int, size: int, kernel: int, stride: int, padding: int, groups: int, normed: bool, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[axes - 1]
    pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[axes - 1]
    net = nn.Sequential(
        conv(2, 4, kernel, stride, padding, groups=groups, bias=bias),
        norm(4) if normed else nn.Identity(),
        nn.Softplus(),
        conv(4, 2, 1, bias=bias),
        *(pool(1), nn.Flatten(), nn.Linear(2, 3)),
    )
    x, y = torch.randn(4, 2, *[size] * axes), torch.tensor([0, 1, 2, 0])
    p = Probe.of(net, (x, y), Target("multiclass", 3)).once(x=Double())
    assert _backwards(p) == pytest.approx(plain(net, x, y), rel=1e-8, abs=1e-12)
