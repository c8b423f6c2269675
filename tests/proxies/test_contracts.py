"""Every proxy on every case: the shipped contract holds, and it notices when it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.cases import CASES, Case
from tests.commands import said_by
from trainless.core.errors import Unscorable
from trainless.probe import Probe
from trainless.proxies import Proxy, Setting, registry
from trainless.testing import check_proxy

PROXIES = [registry[name] for name in registry.names() if not name.startswith("doctest")]
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_proxy_keeps_the_contract(case: Case) -> None:
    net, batch = case.network(), case.batch()
    for proxy in PROXIES:
        outcome = check_proxy(proxy, lambda: Probe.of(net, batch, case.task.target), net=net)
        assert math.isfinite(outcome.value) or outcome.reason, proxy.name


@pytest.mark.parametrize("name", ["2d-batch-norm", "own-attention"])
def test_order_does_not_matter(name: str) -> None:
    """All in one go, forwards and backwards, give what each gives alone, bit for bit."""
    case = BY_NAME[name]

    def scores(p: Probe, proxies: list[Proxy]) -> dict[str, float | str]:
        return {proxy.name: value_or_reason(proxy, p) for proxy in proxies}

    alone = {proxy.name: value_or_reason(proxy, case.probe()) for proxy in PROXIES}
    assert scores(case.probe(), PROXIES) == alone
    assert scores(case.probe(), PROXIES[::-1]) == alone


def value_or_reason(proxy: Proxy, p: Probe) -> float | str:
    try:
        return proxy(p)
    except Unscorable as error:
        return str(error)


@pytest.mark.slow
def test_another_process_gives_the_same(tmp_path: Path) -> None:
    code = (
        "import json, torch; torch.set_num_threads(1)\n"
        "from tests.proxies.test_contracts import BY_NAME, PROXIES, value_or_reason\n"
        "p = BY_NAME['2d-batch-norm'].probe()\n"
        "print(json.dumps({proxy.name: value_or_reason(proxy, p) for proxy in PROXIES}))"
    )
    said = said_by(code, tmp_path)
    p = BY_NAME["2d-batch-norm"].probe()
    assert json.loads(said) == {proxy.name: value_or_reason(proxy, p) for proxy in PROXIES}


def test_most_cases_have_most_scores() -> None:
    """A refusal is the exception: an ordinary network in any dimension has every score."""
    for name in ("1d", "1d-batch-norm", "2d", "2d-batch-norm", "3d-binary"):
        p = BY_NAME[name].probe()
        assert all(isinstance(value_or_reason(proxy, p), float) for proxy in PROXIES), name


def broken(fn: Callable[[Probe], float], *, labels: bool = False) -> Proxy:
    return Proxy(fn, "broken", True, labels, True, "none", Setting())


def test_the_check_notices() -> None:
    case = BY_NAME["2d"]
    calls = []

    def counting(p: Probe) -> float:
        """Gives something else each time."""
        calls.append(1)
        return float(len(calls))

    def drawing(p: Probe) -> float:
        """Draws from the global state."""
        return float(torch.rand(1)) * 0

    def writing(p: Probe) -> float:
        """Changes a weight."""
        next(iter(p.weights.values())).add_(1)
        return 1.0

    def peeking(p: Probe) -> float:
        """Looks at labels."""
        return float(p.y.sum())

    def infinite(p: Probe) -> float:
        """Divides by zero."""
        return math.inf

    def silent(p: Probe) -> float:
        """Gives no reason."""
        raise Unscorable("")

    for fn, complaint in (
        (counting, "the second time"),
        (drawing, "changed a random state"),
        (writing, "changed the network"),
        (peeking, "depends on them"),
        (infinite, "raise Unscorable"),
        (silent, "says no reason"),
        (lambda p: 1.0, "no docstring"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            check_proxy(broken(fn), case.probe)
    check_proxy(broken(peeking, labels=True), case.probe)


def test_others_before_and_after() -> None:
    case = BY_NAME["2d-batch-norm"]
    others = [registry[name] for name in ("gradsign", "naswot", "synflow")]
    check_proxy(registry["snip"], case.probe, others=others)
