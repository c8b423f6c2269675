from __future__ import annotations

import copy
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import trainless as tl
from tests.commands import said_by
from tests.scoring.toys import Twofold, counting, small_batch, small_net, toy
from trainless.core.errors import InputError, UnknownName, Unscorable
from trainless.probe.points import Constant, Noise
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Setting
from trainless.scoring.batches import BatchSource
from trainless.scoring.request import data_for, select, setting_for
from trainless.store import SqliteStore

NAMES = ["params", "snip", "grad_norm", "naswot", "synflow"]
ARCH = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|skip_connect~2|"

ALONE = """
import torch, trainless as tl
from tests.scoring.toys import small_batch, small_net
torch.set_num_threads(1)
print(repr(tl.score(small_net(), small_batch(), proxies="snip")["snip"]))
"""


def test_counts_alone_are_those_of_the_network_which_nobody_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((3, 8, 8))
    names = ["params", "flops", "layers"]
    built = tl.score(space.build(space.parse(ARCH), task), 4, task=task, proxies=names)
    monkeypatch.setattr(type(space), "build", lambda *_: pytest.fail("a network was built"))
    found = tl.score((space, ARCH), 4, task=task, proxies=names)
    assert [found[name] for name in names] == [built[name] for name in names]
    assert all(record.ms >= 0 for record in found)


def test_a_score_is_the_same_alone_together_and_in_any_order() -> None:
    together = tl.score(small_net(), small_batch(), proxies=NAMES)
    backwards = tl.score(small_net(), small_batch(), proxies=NAMES[::-1])
    for name in NAMES:
        assert together[name] == backwards[name] == tl.score(small_net(), small_batch(), proxies=name)[name]
    assert together.proxies == NAMES


class Noisy(nn.Module):
    """Draws as it runs, and has a gate that is no ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 40), nn.Linear(40, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(nn.functional.silu(self.first(x.flatten(1))) * torch.rand(40))


def test_notes_go_with_the_scores_that_they_concern_in_any_order(tmp_path: Path) -> None:
    batch = torch.randn(4, 3, 2, 2), torch.tensor([0, 1, 0, 1])
    draws = "the network draws random numbers as it runs: the seed fixes them"
    torch.manual_seed(0)
    net = Noisy()
    for names in (["params", "snip", "naswot"], ["naswot", "snip", "params"]):
        for store in (None, tmp_path / f"{names[0]}.sqlite", tmp_path / f"{names[0]}.sqlite"):
            scores = tl.score(net, batch, proxies=names, store=store)
            said = {record.proxy: set(record.notes.split("; ")) for record in scores}
            assert said == {
                "params": {""},
                "snip": {draws},
                "naswot": {draws, "activation patterns are those of SiLU"},
            }
            assert set(scores.notes["Noisy"]) == said["naswot"]
            assert "notes" in scores.to_frame().columns


@pytest.mark.slow
def test_a_score_is_the_same_in_another_process(tmp_path: Path) -> None:
    assert float(said_by(ALONE, tmp_path)) == tl.score(small_net(), small_batch(), proxies="snip")["snip"]


def test_nothing_of_the_callers_is_changed() -> None:
    net = small_net()
    net[0].weight.requires_grad_(False)
    net.eval()
    net[6].weight.grad = torch.ones(5, 4)
    before, x, y = copy.deepcopy(net.state_dict()), *small_batch()
    x_before = x.clone()
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    flags = (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.get_num_threads())
    tl.score(net, (x, y), proxies=NAMES, seeds=2, init="paper")
    tl.score((tl.space("nb201", channels=2, cells=1), ARCH), 4, task=tl.Task.noise((3, 8, 8)), proxies="snip")
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert torch.equal(net[6].weight.grad, torch.ones(5, 4))
    assert net[0].weight.grad is None
    assert not net[0].weight.requires_grad
    assert not any(module.training for module in net.modules())
    assert net[2].inplace
    assert not net[0]._forward_hooks
    assert torch.equal(x, x_before)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]
    assert flags == (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark, torch.get_num_threads())
    assert torch.is_grad_enabled()


def test_failures_are_nan_with_a_reason() -> None:
    def unscorable(p: Probe) -> float:
        raise Unscorable("the network has no rectifier")

    def broken(p: Probe) -> float:
        raise KeyError("two\nlines")

    proxies = [toy("unscorable", unscorable), toy("broken", broken), toy("endless", lambda p: math.inf), "params"]
    scores = tl.score(small_net(), small_batch(), proxies=proxies)
    assert all(math.isnan(scores[name]) for name in ("unscorable", "broken", "endless"))
    assert scores["params"] == 3 * 4 * 9 + 4 + 8 + 4 * 5 + 5
    reasons = {name: reason for (_, name, _), reason in scores.failures.items()}
    assert reasons["unscorable"] == "the network has no rectifier"
    assert reasons["broken"].startswith("KeyError: ")
    assert "\n" not in reasons["broken"]
    assert reasons["endless"] == "the value is inf, not a finite number"


def test_costs_are_measured() -> None:
    for workers in (1, 2):
        record = tl.score(small_net(), small_batch(), proxies="snip", fbe=True, workers=workers).records[0]
        assert record.ms > 0
        assert record.fbe > 0


def test_a_plain_pass_is_timed_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.scoring.evaluate.forward_backward_ms", lambda p: pytest.fail("it was timed"))
    record = tl.score(small_net(), small_batch(), proxies="snip").records[0]
    assert record.ms > 0
    assert math.isnan(record.fbe)


def test_seeds_give_records_and_a_mean() -> None:
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((3, 8, 8))
    scores = tl.score((space, ARCH), 4, task=task, proxies="grad_norm", seed=5, seeds=3)
    values = [record.value for record in scores]
    assert [record.seed for record in scores] == [5, 6, 7]
    assert len(set(values)) == 3
    assert scores["grad_norm"] == pytest.approx(sum(values) / 3)


def test_archs_come_as_pairs_lists_and_text() -> None:
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((3, 8, 8))
    arch = space.parse(ARCH)
    scores = tl.score([(space, [arch, (0,) * 6]), (space, (1,) * 6)], 4, task=task, proxies="params")
    assert scores.candidates == [ARCH, space.format((0,) * 6), space.format((1,) * 6)]
    assert scores.column("params").tolist() == [space.counts(a, task).params for a in (arch, (0,) * 6, (1,) * 6)]


def test_a_region_is_scored_as_its_supernet() -> None:
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((3, 8, 8))
    region = (frozenset({1, 3}), *(frozenset({1}) for _ in range(5)))
    scores = tl.score((space, region), 4, task=task, proxies="params")
    assert scores["params"] == space.counts((3, 1, 1, 1, 1, 1), task).params
    assert scores.candidates == ["1+3,1,1,1,1,1"]


def test_regression_and_a_single_logit_are_understood() -> None:
    x, _ = small_batch()
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 1))
    assert math.isfinite(tl.score(net, (x, torch.randn(8)), proxies="grad_norm")["grad_norm"])
    assert math.isfinite(tl.score(net, (x, torch.arange(8) % 2), proxies="grad_norm")["grad_norm"])


def test_an_adapter_picks_the_logits() -> None:
    with pytest.raises(InputError, match=r"returned a dict.*adapter"):
        tl.score(Twofold(), small_batch(), proxies="snip")
    scores = tl.score(Twofold(), small_batch(), proxies="snip", adapter=lambda output: output["logits"])
    assert scores["snip"] == pytest.approx(tl.score(small_net(), small_batch(), proxies="snip")["snip"])


BAD: list[tuple[object, object, dict[str, object], str]] = [
    (small_net(), (torch.zeros(4, 1, 6, 6), torch.zeros(4, dtype=torch.long)), {}, "cannot run on inputs of shape"),
    (small_net(), (torch.zeros(4, 3, 6, 6), torch.full((4,), 9)), {}, "label 9 was given.*5 classes"),
    (small_net(), (torch.zeros(4, 3, 6, 6), torch.full((4,), -1)), {}, "label -1 was given"),
    (small_net(), (torch.full((4, 3, 6, 6), math.nan), torch.zeros(4, dtype=torch.long)), {}, "NaN or infinite"),
    (small_net(), (torch.zeros(4, 3, 6, 6), torch.zeros(3, dtype=torch.long)), {}, "same N of at least 1"),
    (small_net(), ([[0.0, 1.0]], [1]), {}, "expected two tensors"),
    (small_net(), torch.zeros(4, 3, 6, 6), {}, r"batch=a Tensor was given; expected a pair \(x, y\)"),
    (small_net(), (torch.zeros(4, 3, 6, 6), torch.zeros(4)), {}, r"labels of type torch.float32 .*y.long\(\)"),
    (
        small_net(),
        (torch.zeros(4, 3, 6, 6), torch.zeros(4)),
        {"task": tl.Task.noise((3, 6, 6), 5)},
        "expected whole numbers from 0 to 4",
    ),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 5), "seed": 2**64}, "the seed 18446744073709551616 was given"),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 5), "device": "meta"}, "computes nothing"),
    (
        (tl.space("nb201"), (1,) * 6),
        4,
        {"task": tl.Task.noise((3, 10**6, 10**6))},
        "takes 48,000.0 GB, but this machine",
    ),
    (small_net(), None, {}, "nothing to score on"),
    (small_net(), 0, {"task": tl.Task.noise((3, 6, 6), 5)}, "at least 1 sample"),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 7)}, r"output has shape \(2, 5\).*needs \(N, 7\)"),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 5), "init": "other"}, "expected 'own', 'kaiming' or 'paper'"),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 5), "seeds": 0}, "at least one seed"),
    (small_net(), 4, {"task": tl.Task.noise((3, 6, 6), 5), "device": "abacus"}, "expected cpu, cuda"),
    ("a text", 4, {"task": tl.Task.noise((3, 6, 6), 5)}, "expected an nn.Module, a function that makes one"),
    ((tl.space("nb201"), (9,) * 6), 4, {"task": tl.Task.noise((3, 8, 8))}, "option 9 was given"),
    ((tl.space("nb201"), 7), 4, {"task": tl.Task.noise((3, 8, 8))}, "tuple of 6 numbers"),
    ((tl.space("nb201"), (1,) * 6), 4, {"task": tl.Task.noise((3, 2, 2))}, "too small for nb201"),
]


@pytest.mark.parametrize(("subject", "batch", "options", "message"), BAD, ids=[each[3][:24] for each in BAD])
def test_bad_input_is_one_clear_error_before_any_proxy_runs(
    subject: object, batch: object, options: dict[str, object], message: str
) -> None:
    proxy, seen = counting()
    with pytest.raises(InputError, match=message):
        tl.score(subject, batch, proxies=proxy, **options)  # type: ignore[arg-type]
    assert not seen


def test_a_small_task_gives_all_its_samples_and_is_kept_as_that() -> None:
    task = tl.task((np.random.default_rng(0).normal(size=(30, 3, 6, 6)), np.arange(30) % 5))
    assert task.train is not None
    data = data_for(10**6, task)
    setting = setting_for(select("snip")[0], "own", data)
    assert setting.batch == len(task.train) == len(data.batch(10**6, 0)[0])


def test_proxies_are_chosen_by_name_and_pattern() -> None:
    assert [proxy.name for proxy in select(["snip", "grad_*", "snip"])] == ["snip", "grad_norm"]
    with pytest.raises(UnknownName, match="did you mean 'snip'"):
        select("snipp")
    with pytest.raises(UnknownName, match="no proxy matches"):
        select("xyz*")
    with pytest.raises(InputError, match="no proxies were given"):
        select([])


def test_own_is_the_batch_as_it_is_and_paper_is_the_setting() -> None:
    setting = Setting(weights=Constant(0.5), inputs=Noise(), batch=6, network="thin")
    proxy, seen = counting(setting=setting)
    space, task = tl.space("nb201", channels=8, cells=2), tl.task("digits")
    tl.score((space, ARCH), task=task, proxies=proxy)
    tl.score((space, ARCH), task=task, proxies=proxy, init="paper")
    own, paper = seen
    assert len(own.x) == 64
    assert own.weights["stem.0.weight"].shape[0] == 8
    assert torch.equal(own.x, task.batch(64, 0)[0])
    assert len(paper.x) == 6
    assert paper.weights["stem.0.weight"].shape[0] == 3
    assert bool((paper.weights["stem.0.weight"] == 0.5).all())
    assert not torch.equal(paper.x, task.batch(6, 0)[0])


def test_repeats_are_averaged_over_seeds_of_their_own_and_options_are_passed() -> None:
    setting = Setting(batch=4, repeats=3, options=(("factor", 10.0),))
    proxy = toy("seeded", lambda p, factor=1.0: factor * p.seed, setting)
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((3, 8, 8))
    scores = tl.score((space, ARCH), task=task, proxies=proxy, init="paper", seeds=2)
    assert [record.value for record in scores] == [10.0 * (0 + 1 + 2) / 3, 10.0 * (3 + 4 + 5) / 3]
    assert tl.score((space, ARCH), task=task, proxies=proxy)["seeded"] == 0.0


def test_a_cell_alone_has_one_channel_and_two_outputs() -> None:
    proxy, seen = counting(setting=Setting(batch=4, network="cell"))
    space, task = tl.space("nb201", channels=2, cells=1), tl.Task.noise((1, 8, 8))
    tl.score((space, ARCH), task=task, proxies=proxy, init="paper")
    assert seen[0].target.outputs == 2
    assert seen[0].net(seen[0].x).shape == (4, 2)


def test_proxies_with_the_same_network_and_batch_share_one_probe() -> None:
    (first, one), (second, two) = counting("first"), counting("second")
    tl.score(small_net(), small_batch(), proxies=[first, second])
    assert one[0] is two[0]


def test_the_setting_follows_the_given_batch() -> None:
    data = BatchSource(tl.Task.noise((3, 6, 6)), small_batch())
    assert setting_for(select("snip")[0], "paper", data).batch == 8


def test_nothing_is_computed_twice_with_a_store(tmp_path: Path) -> None:
    proxy, seen = counting()
    path = tmp_path / "scores.sqlite"
    first = tl.score(small_net(), small_batch(), proxies=proxy, store=path, fbe=True)
    again = tl.score(small_net(), small_batch(), proxies=proxy, store=path)
    assert len(seen) == 1
    assert first.records == again.records
    tl.score(small_net(), small_batch(), proxies=proxy, store=path, seed=1)
    tl.score(small_net(), small_batch(), proxies=proxy, store=path, init="paper")
    x, y = small_batch()
    tl.score(small_net(), (2 * x, y), proxies=proxy, store=path)
    other = small_net()
    with torch.no_grad():
        other[6].bias[0] += 1
    tl.score(other, small_batch(), proxies=proxy, store=path)
    assert len(seen) == 5


class Scaled(nn.Module):
    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.inner(x)


def test_networks_that_answer_differently_are_not_mixed_up(tmp_path: Path) -> None:
    proxy, seen = counting()
    for factor in (1.0, 2.0):
        tl.score(Scaled(small_net(), factor), small_batch(), proxies=proxy, store=tmp_path / "scores.sqlite")
    assert len(seen) == 2


def test_failures_are_kept_but_not_those_of_the_machine() -> None:
    calls: list[str] = []

    def unscorable(p: Probe) -> float:
        calls.append("unscorable")
        raise Unscorable("no")

    def exhausted(p: Probe) -> float:
        calls.append("exhausted")
        raise MemoryError("full")

    store = SqliteStore(":memory:")
    for _ in range(2):
        tl.score(small_net(), small_batch(), proxies=[toy("u", unscorable), toy("e", exhausted)], store=store)
    assert calls == ["unscorable", "exhausted", "exhausted"]


def test_what_was_scored_before_an_interruption_is_kept() -> None:
    first, seen = counting("first")

    def interrupt(p: Probe) -> float:
        raise KeyboardInterrupt

    store = SqliteStore(":memory:")
    with pytest.raises(KeyboardInterrupt):
        tl.score(small_net(), small_batch(), proxies=[first, toy("second", interrupt)], store=store)
    tl.score(small_net(), small_batch(), proxies=first, store=store)
    assert len(seen) == 1


def test_kaiming_draws_the_weights_anew_and_keeps_the_batch() -> None:
    proxy, seen = counting()
    net, (x, y) = small_net(), small_batch()
    tl.score(net, (x, y), proxies=proxy, init="kaiming")
    (probe,) = seen
    assert torch.equal(probe.x, x)
    assert not torch.equal(probe.weights["0.weight"], net[0].weight)
    assert float(probe.weights["0.weight"].std()) == pytest.approx(math.sqrt(2 / 27), rel=0.25)  # 108 draws
    assert not bool(probe.weights["6.bias"].any())
    with pytest.raises(InputError, match="expected 'own', 'kaiming' or 'paper'"):
        tl.score(net, (x, y), proxies=proxy, init="he")
