"""What VKDNW's tables are made of: many variants of the proxy from one matrix of derivatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks import vkdnw_tables
from benchmarks.vkdnw_tables import PLANS, Plan, counted, run, together, values
from trainless.core.scores import Record
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.points import Kaiming, Noise
from trainless.proxies import registry


@pytest.mark.parametrize("inputs", PLANS)
def test_every_variant_has_the_value_that_the_proxy_has_by_itself(inputs: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 5, 3, bias=False),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Conv2d(5, 6, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )
    batch = torch.randn(128, 3, 6, 6), torch.arange(128) % 4
    p = Probe.of(net, batch, Target("multiclass", 4)).at(weights=Kaiming(), x=PLANS[inputs].inputs)
    names = PLANS[inputs].names(0)
    found = values(p, names)
    assert found == {name: pytest.approx(registry[name](p), rel=1e-6, abs=1e-12) for name in names}
    assert len(set(found.values())) > len(names) / 2  # they are not all the same


def test_entries_of_several_variants_are_read_once() -> None:
    assert together([(("a", (0,)), ("b", (3,))), (("b", (1, 3)),)]) == (("a", (0,)), ("b", (3, 1)))


def test_a_run_goes_on_from_its_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def scored(arch: str, inputs: object, names: list[str]) -> list[Record]:
        asked.append((arch, tuple(names)))
        return [Record(arch, name, float(len(arch)), True, ms=1.0) for name in names]

    monkeypatch.setattr(vkdnw_tables, "scored", scored)
    one, other = "vkdnw/samples=8", "vkdnw/samples=16"
    plan = Plan("made", Noise(), {**counted(3, one), **counted(1, other)})
    run(plan, ["a", "bb"], tmp_path, None)
    file = run(plan, ["a", "bb", "ccc"], tmp_path, None)
    assert asked == [("a", (one, other)), ("bb", (one,)), ("ccc", (one,))]
    assert (file.archs, file.proxies) == (("a", "bb", "ccc"), (one, other))
    assert file.column(one).tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(file.column(other)).tolist() == [False, True, True]
    assert file.seeds_of(other) == (0,)
    assert run(plan, ["a", "bb", "ccc", "dddd"], tmp_path, 0.0).archs == ("a", "bb", "ccc")  # no time is left
