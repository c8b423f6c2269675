"""GradSign's theory (its chapter 3) on networks that are small enough to follow every sample to its optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

SETTLED = 1e-16  # a squared gradient below which a descent has ended
FLAT = 1e-6  # what counts as no loss, and as no negative curvature
INPUTS, POPULATION = 4, 100
Network = Literal["linear", "tanh", "relu"]
Rows = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Landscape:
    """Where gradient descent leads from one start, with squared losses (f(x) − y)² / 2.

    Attributes:
        optima: Each sample's own optimum, ``(n, P)``.
        joint: The optimum of the mean loss, ``(P,)``.
        losses: Each sample's loss at its own optimum.
        joint_loss: The mean loss at the joint optimum: the training error J.
        curvature: The least eigenvalue of any sample's Hessian at its own optimum.
        smoothness: The largest diagonal entry of any sample's Hessian at the start and at the optima: 𝓗.
        agreement: GradSign's score at the start.
    """

    optima: Tensor
    joint: Tensor
    losses: Tensor
    joint_loss: float
    curvature: float
    smoothness: float
    agreement: float

    @property
    def density(self) -> float:
        """Ψ, equation 3.1."""
        return density(self.optima, self.smoothness)

    @property
    def bound(self) -> float:
        """Theorem 2's bound of the training error, n³ Ψ² / 2."""
        return len(self.optima) ** 3 / 2 * self.density**2

    @property
    def within(self) -> bool:
        """Whether the joint optimum lies between the samples' own, weight by weight, as equation A.10 assumes."""
        low, high = self.optima.amin(0), self.optima.amax(0)
        room = FLAT * (1 + self.joint.abs())
        return bool(((self.joint >= low - room) & (self.joint <= high + room)).all())


def density(optima: Tensor, smoothness: float) -> float:
    """Ψ of sample-wise optima: √𝓗 / n² · Σᵢⱼ ‖θᵢ* − θⱼ*‖₁.

    Example:
        >>> density(torch.tensor([[0.0, 0.0], [1.0, 2.0]]), 4.0)  # 2 / 4 · (3 + 3)
        3.0
    """
    apart = (optima[:, None] - optima[None]).abs().sum()
    return float(smoothness**0.5 * apart / len(optima) ** 2)


def landscape(network: nn.Module, x: Tensor, y: Tensor, steps: int = 1500) -> Landscape:
    """Follow every sample alone, and all together, from a network's own weights."""
    loss, start = _loss_of(network)
    alone, slopes, curved = vmap(loss), vmap(grad(loss)), vmap(jacrev(grad(loss)))

    def mean(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = vmap(loss, (None, 0, 0))(theta, x, y).mean()
        return found

    from_start = start.expand(len(x), -1)
    optima = _descend(alone, slopes, from_start, x, y, steps)
    joint = _descend(vmap(mean), vmap(grad(mean)), start[None], x[None], y[None], steps)[0]
    hessians = [curved(theta, x, y) for theta in (optima, from_start, joint.expand(len(x), -1))]
    return Landscape(
        optima,
        joint,
        alone(optima, x, y),
        float(mean(joint, x, y)),
        float(torch.linalg.eigvalsh(hessians[0]).min()),
        max(float(each.diagonal(dim1=1, dim2=2).max()) for each in hessians),
        float(slopes(from_start, x, y).sign().sum(0).abs().sum()),
    )


def _loss_of(network: nn.Module) -> tuple[Rows, Tensor]:
    """One sample's loss as a function of all parameters in one vector, and the network's own vector."""
    shapes = {name: tensor.shape for name, tensor in network.named_parameters()}

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        parts = theta.split([shape.numel() for shape in shapes.values()])
        weights = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        found: Tensor = (functional_call(network, weights, (x[None],))[0, 0] - y).square() / 2
        return found

    return loss, torch.cat([tensor.detach().flatten() for tensor in network.parameters()])


def _descend(losses: Rows, slopes: Rows, start: Tensor, x: Tensor, y: Tensor, steps: int) -> Tensor:
    """Gradient descent of each row on its own, whose steps grow while its loss falls and halve where it would rise."""
    theta, rate = start.clone(), torch.full((len(start), 1), 0.1, dtype=start.dtype)
    value, slope = losses(theta, x, y), slopes(theta, x, y)
    for _ in range(steps):
        tried = theta - rate * slope
        found = losses(tried, x, y)
        falls = found <= value
        theta, value = torch.where(falls[:, None], tried, theta), torch.where(falls, found, value)
        rate = torch.where(falls[:, None], 1.1 * rate, rate / 2)
        slope = slopes(theta, x, y)
        if float(slope.square().sum(1).max()) < SETTLED:
            break
    return theta


def small_network(kind: Network, width: int, generator: torch.Generator) -> nn.Module:
    """A linear model, or one hidden layer, in double precision; weights are N(0, 1/fan-in), biases standard normal."""
    hidden = {"tanh": nn.Tanh, "relu": nn.ReLU}
    layers = [nn.Linear(INPUTS, width), hidden[kind](), nn.Linear(width, 1)] if kind in hidden else []
    network = nn.Sequential(*(layers or [nn.Linear(INPUTS, 1)])).double()
    with torch.no_grad():
        for tensor in network.parameters():
            drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            tensor.copy_(drawn / tensor.shape[1] ** 0.5 if tensor.ndim > 1 else drawn)
    return network


@dataclass(frozen=True)
class HeldInDraws:
    """Shares of draws for which each statement of the theory held."""

    zero_loss: float
    convex: float
    bound: float
    population_bound: float
    within: float


def check(kind: Network, width: int = 4, *, samples: int = 8, draws: int = 10, delta: float = 0.05) -> HeldInDraws:
    """Lemma 1 and theorems 2 and 3 on random networks and random data.

    The population of theorem 3 is another 100 samples, each followed to its own optimum from the same start; its σ is
    theirs.
    """
    held = []
    for seed in range(draws):
        generator = torch.Generator().manual_seed(seed)
        x, y = _data(samples + POPULATION, generator)
        network = small_network(kind, width, generator)
        found = landscape(network, x[:samples], y[:samples])
        loss, start = _loss_of(network)
        seen = (x[samples:], y[samples:])
        others = _descend(vmap(loss), vmap(grad(loss)), start.expand(POPULATION, -1), *seen, steps=400)
        sigma = float((others - found.joint).abs().sum(1).square().std())
        population = float(vmap(loss, (None, 0, 0))(found.joint, *seen).mean())
        held.append(
            (
                float((found.losses < FLAT).double().mean()),
                found.curvature > -FLAT,
                found.joint_loss <= found.bound,
                population <= found.bound + sigma / (samples * delta) ** 0.5,
                found.within,
            )
        )
    return HeldInDraws(*np.array(held, np.float64).mean(axis=0).tolist())


def psi_and_gradsign(kind: Network, width: int = 4, *, samples: int = 8, draws: int = 20) -> float:
    """Spearman's ρ of Ψ with GradSign's score over networks of one size, drawn anew, on the same data."""
    x, y = _data(samples, torch.Generator().manual_seed(0))
    networks = (small_network(kind, width, torch.Generator().manual_seed(seed)) for seed in range(1, draws + 1))
    found = [landscape(network, x, y, steps=400) for network in networks]
    pairs = ([each.density for each in found], [each.agreement for each in found])
    return float(stats.spearmanr(*pairs).statistic)


def _data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Gaussian inputs in four dimensions with a noisy linear answer."""
    x = torch.randn(count, INPUTS, generator=generator, dtype=torch.float64)
    truth = torch.randn(INPUTS, generator=generator, dtype=torch.float64)
    return x, x @ truth + torch.randn(count, generator=generator, dtype=torch.float64)
