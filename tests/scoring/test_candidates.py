"""Many networks in one call: names, factories, generators, failures among others, workers and sizes."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import trainless as tl
from tests.scoring.toys import Mask, counting, small_batch, small_net, wide_net
from trainless.core.errors import InputError
from trainless.scoring.candidates import subjects_of


def raising() -> nn.Module:
    raise RuntimeError("no such backbone")


def values(scores: tl.Scores, proxy: str = "params") -> dict[str, float]:
    return dict(zip(scores.candidates, scores.column(proxy).tolist(), strict=True))


def test_networks_of_one_class_are_never_merged() -> None:
    small, wide = wide_net(4), wide_net(9)
    scores = tl.score([small, wide, wide_net(2)], small_batch(), proxies=["params", "snip"])
    assert scores.candidates == ["Sequential", "Sequential-2", "Sequential-3"]
    alone = [tl.score(net, small_batch(), proxies=["snip"])["snip"] for net in (small, wide)]
    assert scores.column("snip").tolist()[:2] == alone


def test_names_given_twice_or_taken_are_numbered() -> None:
    net = small_net()
    given = [("a", net), ("a-2", net), ("a", net), small_net, lambda: net, partial(wide_net, 3), lambda: net]
    names = [each.name for each in subjects_of(given)]
    assert names == ["a", "a-2", "a-3", "small_net", "network", "wide_net", "network-2"]
    space, other = tl.space("nb201", channels=2, cells=1), tl.space("nb201", channels=4, cells=1)
    scores = tl.score([(space, (1,) * 6), (other, (1,) * 6)], 4, task=tl.Task.noise((3, 8, 8)), proxies="params")
    assert len(scores) == 2
    assert scores.column("params")[0] < scores.column("params")[1]


def test_a_dict_a_generator_and_pairs_say_the_same() -> None:
    nets = {"small": small_net(), "wide": partial(wide_net, 9)}
    by_dict = tl.score(nets, small_batch(), proxies="params")
    by_generator = tl.score(((name, net) for name, net in nets.items()), small_batch(), proxies="params")
    by_list = tl.score(list(nets.items()), small_batch(), proxies="params")
    assert values(by_dict) == values(by_generator) == values(by_list)
    assert list(values(by_dict)) == ["small", "wide"]


def test_one_network_at_a_time_is_in_memory() -> None:
    alive: list[weakref.ref[nn.Module]] = []

    def make(width: int) -> nn.Module:
        gc.collect()
        assert sum(each() is not None for each in alive) <= 1  # the one before goes when the next is asked for
        net = wide_net(width)
        alive.append(weakref.ref(net))
        return net

    tl.score({str(width): partial(make, width) for width in range(1, 6)}, small_batch(), proxies="snip")
    assert len(alive) == 5

    def stream() -> Iterator[nn.Module]:
        for width in range(1, 6):
            yield make(width)

    tl.score(stream(), small_batch(), proxies="snip")
    gc.collect()
    assert not any(each() for each in alive)


def test_one_that_fails_has_its_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    nets = {
        "raises": raising,
        "small": small_net,
        "no module": lambda: 7,
        "mask": Mask(),
        "other inputs": nn.Linear(7, 5),
        "lazy": nn.LazyLinear(5),
        "narrow": nn.Sequential(nn.Flatten(), nn.Linear(108, 3)),
        "wide": wide_net(9),
    }
    for store in (None, tmp_path / "scores.sqlite"):
        scores = tl.score(nets, small_batch(), proxies=["params", "snip"], store=store, seeds=2)
        assert scores.candidates == list(nets)
        assert [name for name, value in values(scores, "snip").items() if math.isfinite(value)] == ["small", "wide"]
        reasons = {name: why for (name, _, _), why in scores.failures.items()}
        assert "raises raised RuntimeError: no such backbone" in reasons["raises"]
        assert "made a int" in reasons["no module"]
        assert "masks (segmentation) and other dense predictions are not scored" in reasons["mask"]
        assert "cannot run on inputs of shape (N, 3, 6, 6)" in reasons["other inputs"]
        assert "lazy layers" in reasons["lazy"]
        assert "the label 4 was given, but the network's output has 3 classes" in reasons["narrow"]
        assert len(scores.failures) == 6 * 2 * 2


@pytest.mark.parametrize("bad", [raising, Mask(), nn.LazyLinear(5)])
def test_a_network_alone_that_cannot_be_scored_is_an_error(bad: object) -> None:
    with pytest.raises(InputError):
        tl.score(bad, small_batch(), proxies="params")


def test_each_network_has_the_classes_of_its_own_outputs() -> None:
    ten = nn.Sequential(nn.Flatten(), nn.Linear(108, 10))
    scores = tl.score([small_net(), ten], small_batch(), proxies="grad_norm")
    assert scores.column("grad_norm")[1] == tl.score(ten, small_batch(), proxies="grad_norm")["grad_norm"]
    assert not scores.failures


def test_seeds_redraw_the_weights_of_a_factory_and_not_those_of_a_network() -> None:
    made = tl.score(partial(wide_net, 4), small_batch(), proxies="snip", seeds=3)
    assert len({record.value for record in made}) == 3
    given = tl.score(wide_net(4), small_batch(), proxies="snip", seeds=3)
    assert len({record.value for record in given}) == 1


class Sized(nn.Module):
    """Takes one size alone, and says so as timm's networks do."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.default_cfg = {"input_size": (3, size, size)}
        self.last = nn.Linear(3 * size * size, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(x.flatten(1))
        return out


def test_every_network_may_have_an_input_size_of_its_own() -> None:
    nets, task = {"eight": Sized(8), "ten": lambda: Sized(10)}, tl.Task.noise((3, 6, 6), 5)
    told = tl.score(nets, 4, task=task, proxies="grad_norm", inputs={"eight": (3, 8, 8), "ten": (3, 10, 10)})
    own = tl.score(nets, 4, task=task, proxies="grad_norm", inputs="own")
    triples = [(name, net, (3, size, size)) for (name, net), size in zip(nets.items(), (8, 10), strict=True)]
    thirds = tl.score(triples, 4, task=task, proxies="grad_norm")
    assert not told.failures
    assert values(told, "grad_norm") == values(own, "grad_norm") == values(thirds, "grad_norm")
    noise = tl.score(nets["eight"], 4, task=tl.Task.noise((3, 8, 8), 5), proxies="grad_norm")
    assert noise["grad_norm"] == told.column("grad_norm")[0]
    assert len(tl.score(nets, 4, task=task, proxies="params").failures) == 2


def test_a_given_batch_is_resized_and_kept_as_that(tmp_path: Path) -> None:
    proxy, seen = counting()
    x, y = small_batch()
    for inputs in ({"net": (3, 8, 8)}, {"net": (3, 8, 8)}, {}):
        net = {"net": nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 5))}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net["net"][2].reset_parameters()
        tl.score(net, (x, y), proxies=proxy, inputs=inputs, store=tmp_path / "scores.sqlite")
    assert [tuple(p.x.shape) for p in seen] == [(8, 3, 8, 8), (8, 3, 6, 6)]
    with pytest.raises(InputError, match="only sizes can be changed"):
        tl.score(Sized(8), (x, y), inputs={"Sized": (1, 8, 8)}, proxies="params")
    with pytest.raises(InputError, match="inputs for nett were given; the networks are net"):
        tl.score(net, (x, y), inputs={"nett": (3, 8, 8)}, proxies="params")
    with pytest.raises(InputError, match="expected shapes by the networks' names"):
        tl.score(net, (x, y), inputs={"net": 8}, proxies="params")  # type: ignore[dict-item]


def test_workers_give_the_same_in_the_same_order_and_share_a_store(tmp_path: Path) -> None:
    nets = {"small": small_net(), "raises": raising, **{f"w{n}": partial(wide_net, n) for n in range(1, 4)}}
    before = copy.deepcopy(nets["small"])
    batch, store = small_batch(), tmp_path / "scores.sqlite"
    here = tl.score(nets, batch, proxies=["params", "snip"])
    there = tl.score(nets, batch, proxies=["params", "snip"], workers=2, store=store)
    assert there.candidates == here.candidates
    assert values(there) == pytest.approx(values(here), nan_ok=True)
    assert values(there, "snip") == pytest.approx(values(here, "snip"), rel=1e-5, nan_ok=True)
    assert "no such backbone" in there.failures["raises", "snip", 0]
    again = tl.score(nets, batch, proxies=["params", "snip"], store=store)
    assert [record.ms for record in again if not record.failed] == [r.ms for r in there if not r.failed]  # kept
    assert not batch[0].is_shared()
    assert not any(tensor.is_shared() for tensor in nets["small"].parameters())  # type: ignore[union-attr]
    assert repr(before) == repr(nets["small"])


def test_what_cannot_travel_to_workers_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"network cannot be sent to other processes.*or use workers=1"):
        tl.score([lambda: small_net()], small_batch(), proxies="params", workers=2)
    with pytest.raises(InputError, match="give its path"):
        store = tl.SqliteStore(":memory:")
        tl.score([small_net], small_batch(), proxies="params", workers=2, store=store)
    with pytest.raises(InputError, match="workers=-1 was given"):
        tl.score([small_net], small_batch(), proxies="params", workers=-1)


def test_progress_is_shown_after_two_seconds_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trainless.core.progress.PATIENCE_SECONDS", 0.0)
    tl.score([small_net(), small_net()], small_batch(), proxies="params")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("trainless.scoring.evaluate.on_a_terminal", lambda: True)
    tl.score([small_net(), small_net()], small_batch(), proxies="params")
    assert "2/2" in capsys.readouterr().err


def test_scores_are_ranked_by_a_name_a_ranking_or_a_proxy() -> None:
    nets = {f"w{n}": partial(wide_net, n) for n in (2, 8, 4)}
    scores = tl.score(nets, small_batch(), proxies="all")
    assert sorted(scores.rank("trainless")) == sorted(nets)
    assert scores.rank("params") == ["w8", "w4", "w2"]
    assert scores.rank(lambda table: -table.column("params")) == ["w2", "w4", "w8"]
    with pytest.raises(tl.UnknownName, match="did you mean 'trainless'"):
        scores.rank("trainles")
    wide = scores.to_frame(wide=True)
    assert list(wide.index) == list(nets)
    assert list(wide.columns) == scores.proxies
    assert wide.loc["w8", "params"] == scores.column("params")[1]


def test_what_a_generator_gives_wrong_does_not_cost_what_it_gave_before() -> None:
    def generate() -> Iterator[object]:
        yield "first", small_net()
        yield 3
        yield "third", small_net()
        raise ValueError("the folder is gone")

    scores = tl.score(generate(), small_batch(), proxies=["params"])
    assert scores.candidates == ["first", "item 2", "third", "item 4"]
    reasons = {name: reason for (name, _, _), reason in scores.failures.items()}
    assert list(reasons) == ["item 2", "item 4"]
    assert "a int was given to be scored" in reasons["item 2"]
    assert "the generator raised ValueError: the folder is gone: nothing after it is scored" in reasons["item 4"]


def test_a_network_that_workers_cannot_take_has_its_reason_beside_others() -> None:
    nets = {"first": small_net(), "local": lambda: small_net(), "last": small_net()}
    scores = tl.score(nets, small_batch(), proxies=["params"], workers=2)
    assert scores.candidates == ["first", "local", "last"]
    assert ["cannot be sent to other processes" in reason for reason in scores.failures.values()] == [True]
    with pytest.raises(InputError, match="local cannot be sent to other processes"):
        tl.score({"local": lambda: small_net()}, small_batch(), proxies=["params"], workers=2)
