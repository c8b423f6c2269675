"""GradSign's theory on small networks: closed forms of a linear model, and the statements on others."""

from __future__ import annotations

import pytest
import torch

from trainless.bench.papers.theory import Network, check, density, landscape, small_network


def test_psi_is_the_mean_distance_of_the_optima_times_the_root_of_the_smoothness() -> None:
    optima = torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    pairs = 2 * (2 + 2 + 4)  # |θ₁ − θ₂|, |θ₁ − θ₃|, |θ₂ − θ₃|, each twice
    assert density(optima, 9.0) == pytest.approx(3 * pairs / 9)
    assert density(optima[:1].expand(3, 2), 9.0) == 0  # the same optimum for all


def test_a_linear_model_goes_where_algebra_says() -> None:
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((8, 4), (8,)))
    network = small_network("linear", 0, generator)
    start = torch.cat([tensor.detach().flatten() for tensor in network.parameters()])
    found = landscape(network, x, y)
    seen = torch.cat([x, torch.ones(8, 1, dtype=torch.float64)], 1)  # the bias is a weight of a one
    error = (y - seen @ start) / seen.square().sum(1)
    torch.testing.assert_close(found.optima, start + error[:, None] * seen, atol=1e-6, rtol=1e-6)
    least = torch.linalg.lstsq(seen, y[:, None]).solution[:, 0]
    torch.testing.assert_close(found.joint, least, atol=1e-5, rtol=1e-5)
    assert found.joint_loss == pytest.approx(float((seen @ least - y).square().mean() / 2), rel=1e-6)
    assert found.smoothness == pytest.approx(float(seen.square().max()))
    signs = (-(y - seen @ start)[:, None] * seen).sign()
    assert found.agreement == float(signs.sum(0).abs().sum())
    assert not found.within  # the least squares solution is no mean of the samples' own
    assert found.joint_loss <= found.bound


def test_the_bound_is_tight_where_all_samples_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 4, generator=generator, dtype=torch.float64).expand(5, 4)
    found = landscape(small_network("tanh", 4, generator), x, torch.ones(5, dtype=torch.float64), steps=400)
    assert found.bound == pytest.approx(0, abs=1e-12)
    assert found.joint_loss == pytest.approx(0, abs=1e-12)
    assert found.within


@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_the_statements_hold_on_small_networks(kind: Network) -> None:
    found = check(kind, draws=2)
    assert (found.zero_loss, found.convex, found.bound, found.population_bound) == (1, 1, 1, 1)
