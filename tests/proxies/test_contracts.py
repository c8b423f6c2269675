"""Every proxy on every case: the shipped contract holds."""

from __future__ import annotations

import math

import pytest

from tests.cases import CASES, Case
from trainless.proxies import registry
from trainless.testing import check_proxy

PROXIES = [registry[name] for name in registry.names() if not name.startswith("doctest")]
OTHERS = [registry[name] for name in ("snip", "gradsign", "naswot", "synflow", "jacov")]
ANYWHERE = ("params", "flops", "layers")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contract(case: Case) -> None:
    net, batch = case.network(), case.batch()

    def make():
        from trainless.probe import Probe

        return Probe.of(net, batch, case.task.target)

    for proxy in PROXIES:
        outcome = check_proxy(proxy, make, net=net)
        assert math.isfinite(outcome.value) or outcome.reason, proxy.name
