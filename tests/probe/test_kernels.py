from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.cases import CASES, Case
from tests.probe import naive
from tests.probe.test_per_sample import FLAT, RANDOM, STATEFUL
from trainless.core.errors import Unscorable
from trainless.probe import Probe
from trainless.probe.kernels import condition, kernel, kernel_names, spectrum

BY_NAME = {case.name: case for case in CASES}
KERNELS = [case for case in CASES if case.name not in (*RANDOM, *STATEFUL, *FLAT)]
DENSE = ("dense-batch-norm",)  # a single sample of it cannot be normalised


def with_constants(p: Probe) -> nn.Module:
    """The network whose one norm takes the batch's statistics as constants."""
    net = copy.deepcopy(p.net)
    inputs = net[:2](p.x).detach()
    net[2].running_mean, net[2].running_var = inputs.mean(0), inputs.var(0, correction=0)
    net[2].eval()
    return net


@pytest.mark.parametrize("coupling", ["joint", "isolated"])
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_equal_to_a_loop_over_samples(case: Case, coupling: str) -> None:
    p = case.probe(5, double=True)
    if coupling == "isolated" and case.name in DENSE:
        p = replace(p, net=with_constants(p))
    given = case.probe(5, double=True)
    for of in ("outputs", "loss"):
        expected = naive.gram(naive.rows(p, kernel_names(given, "weights"), of=of, joint=coupling == "joint"))
        torch.testing.assert_close(
            kernel(given, coupling, of), expected, rtol=1e-5, atol=1e-6 * float(expected.abs().max())
        )


def test_couplings_differ_only_through_batch_norm() -> None:
    free, normed = BY_NAME["2d-group-norm"].probe(double=True), BY_NAME["2d-batch-norm"].probe(double=True)
    torch.testing.assert_close(kernel(free, "joint"), kernel(free, "isolated"))
    assert not torch.allclose(kernel(normed, "joint"), kernel(normed, "isolated"), rtol=0.1)


def test_which_weights_take_part() -> None:
    p = BY_NAME["best-cell"].probe(4, double=True)
    every = kernel_names(p, "weights")
    assert all("weight" in name for name in every)
    assert kernel_names(p, "features") == every[:-1]
    body = kernel_names(p, "body")
    assert all(name.startswith("blocks.") for name in body)
    for over in ("features", "body"):
        expected = naive.gram(naive.rows(p, kernel_names(p, over), of="outputs", joint=True))
        torch.testing.assert_close(kernel(p, "joint", "outputs", over), expected)


def test_parts_are_normalised_apart() -> None:
    p = BY_NAME["2d-batch-norm"].probe(6, double=True)
    first, second = p.split(2)
    names = kernel_names(p, "weights")
    rows = [torch.cat(list(naive.rows(q, names, of="outputs", joint=True).values()), 1) for q in (first, second)]
    whole = torch.cat(rows)
    torch.testing.assert_close(kernel(p, "joint", parts=2), whole @ whole.T)


def test_spectra() -> None:
    matrix = torch.diag(torch.tensor([4.0, 1.0, 2.0], dtype=torch.float64))
    assert spectrum(matrix).tolist() == [1, 2, 4]
    assert condition(spectrum(matrix)) == 4
    with pytest.raises(Unscorable, match="kernel is zero"):
        spectrum(torch.zeros(2, 2))
    with pytest.raises(Unscorable, match="singular"):
        condition(spectrum(torch.ones(2, 2, dtype=torch.float64)))
