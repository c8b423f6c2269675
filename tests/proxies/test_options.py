"""Options in a proxy's name: what it is called, what it computes, and wherever proxies are named."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import trainless as tl
from trainless.bench.correlate import open_columns
from trainless.bench.tables import Table
from trainless.core.arch import Proposal
from trainless.core.errors import InputError, UnknownName
from trainless.core.parameters import parsed, written
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe.probe import Probe
from trainless.proxies import Proxy, Setting, registry
from trainless.proxies.proxy import canonical
from trainless.proxies.vkdnw import deciles, fim_spectrum, placed_entries, vkdnw
from trainless.proxies.zico import zico
from trainless.runs.settings import SearchSettings, SweepSettings
from trainless.runs.sweep import sweep, to_store
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import proxy_in_file, select
from trainless.spaces.nb201 import NasBench201
from trainless.store import store_at

THIN = "channels=2,cells=1"
OWN = """
import trainless as tl

@tl.proxy(higher_is_better=False, paper="none", name="{name}")
def powered(p, power=2, of="loss", double=False, limit: float | None = None):
    "A power."
    return float(power) + (0.5 if double else 0.0)
"""


def powered(p: Probe, power=2, of: Literal["loss", "outputs"] = "loss", floor: float = -1.0) -> float:  # type: ignore[no-untyped-def]
    return float(power) + (0.5 if of == "outputs" else 0.0) + floor


MINE = Proxy(powered, "mine", False, False, False, "none", Setting(options=(("of", "outputs"), ("power", 3))))


@pytest.fixture
def probe() -> Probe:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    batch = torch.randn(16, 3, 8, 8), torch.arange(16) % 3
    return Probe.of(net, batch, Target("multiclass", 3))


def test_options_are_bound_named_in_order_and_taken_out_of_the_papers_setting(probe: Probe) -> None:
    made = MINE.having(power=5)
    assert (made.name, made.options) == ("mine/power=5", (("power", 5),))
    assert made.setting.options == (("of", "outputs"),)
    assert made(probe, **dict(made.setting.options)) == 5 + 0.5 - 1
    assert made.having(of="loss", floor=2).name == "mine/floor=2.0/of=loss/power=5"
    assert made.having(power=7).name == "mine/power=7"
    assert made.having() is made
    assert (made.summary, made.higher_is_better, made.paper, made.version) == ("", False, "none", 1)
    assert MINE.having(power=2).name == "mine/power=2"  # the default, and not what the paper has


def test_a_name_with_options_is_the_function_with_these_arguments(probe: Probe) -> None:
    for name, expected in {
        "zico/batches=4": zico(probe, batches=4),
        "vkdnw/tensors=2/samples=8": vkdnw(probe, tensors=2, samples=8),
        "naswot/containers=true": registry["naswot"](probe, containers=True),
        "vkdnw/keep=0.9/factor=exact": vkdnw(probe, keep=0.9, factor="exact"),
    }.items():
        assert registry[name](probe) == expected, name
    assert registry["zico/batches=4"](probe) != zico(probe)


def test_vkdnw_takes_as_many_tensors_as_it_is_told(probe: Probe) -> None:
    assert len(fim_spectrum(probe, tensors=3)) == 3
    share = deciles(fim_spectrum(probe, tensors=3))
    share = share / share.sum()
    assert vkdnw(probe, tensors=3) == pytest.approx(float(-(share * share.log()).sum()), abs=1e-6)


def test_vkdnw_takes_the_entries_that_it_is_told(probe: Probe) -> None:
    q = probe.once(norm="fresh")
    assert placed_entries(q, 2) == (("0.weight", (0,)), ("0.bias", (0,)))
    assert placed_entries(q, 99, 1.0) == tuple((name, (t.numel() - 1,)) for name, t in probe.weights.items())
    several = placed_entries(q, 99, weights=4)
    assert [len(set(found)) for _, found in several] == [min(4, t.numel()) for t in probe.weights.values()]
    assert placed_entries(q, 99, weights=4) == several
    assert placed_entries(q, 99, drawn=True) != placed_entries(q, 99)
    assert len(fim_spectrum(probe, weights=4)) == sum(len(found) for _, found in several)


def test_vkdnws_deciles_are_those_of_its_entropy(probe: Probe) -> None:
    found = [vkdnw(probe, decile=each) for each in range(1, 10)]
    assert found == sorted(found)
    share = np.array(found) / sum(found)
    assert vkdnw(probe) == pytest.approx(float(-(share * np.log(share + 1e-10)).sum()), abs=1e-6)
    with pytest.raises(InputError, match=r"position=2.0, weights=1 and decile=0 were given; expected a share"):
        vkdnw(probe, position=2.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zico/cumulative=True/batches=4", "zico/batches=4/cumulative=true"),
        ("vkdnw/smoothing=1e-1", "vkdnw/smoothing=0.1"),
        ("vkdnw/keep=None", "vkdnw/keep=none"),
        ("vkdnw/keep=1", "vkdnw/keep=1.0"),
        ("vkdnw/samples=8.0", "vkdnw/samples=8"),
        ("synflow/kept_norms=0+b.1", "synflow/kept_norms=0+b.1"),
        ("synflow/kept_norms=3", "synflow/kept_norms=3+"),
        ("ntk_condition/over=body", "ntk_condition/over=body"),
    ],
)
def test_one_meaning_has_one_name(text: str, expected: str) -> None:
    assert registry[text].name == canonical(text) == expected
    assert registry[expected] == registry[text]
    assert registry[text].fn is registry[text.partition("/")[0]].fn


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.floats(0, 1e9), st.sampled_from(["published", "exact"]))
def test_any_values_come_back_from_the_name(samples: int, smoothing: float, factor: str) -> None:
    made = vkdnw.having(smoothing=smoothing, samples=samples, factor=factor)
    assert registry[made.name] == made
    assert dict(made.options) == {"samples": samples, "smoothing": smoothing, "factor": factor}
    assert parsed(written(samples)) == samples
    assert parsed(written(smoothing)) == smoothing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zico/batch=4", r"^zico has no parameter 'batch'; did you mean 'batches'\? it has: batches=2 \(a whole"
         r" number\), cumulative=false \(true or false\): give it as in zico/cumulative=false$"),
        ("zico/batches=many", r"^zico: batches=many was given; expected a whole number, such as batches=2; it has: "),
        ("zico/batches=1.5", r"batches=1.5 was given; expected a whole number"),
        ("zico/batches=-2", r"batches=-2 was given; expected 0 or more; it has: batches=2"),
        ("zico/cumulative=3", r"cumulative=3 was given; expected true or false"),
        ("vkdnw/factor=mine", r"factor=mine was given; expected published or exact, such as factor=published; it has"),
        ("zico/", r"^zico/ was given; expected name=value after each slash, every name once; it has: .* as in zico/"),
        ("zico/batches", r"^zico/batches was given; expected name=value"),
        ("zico/batches=2/batches=4", r"^zico/batches=2/batches=4 was given; expected name=value .* every name once"),
        ("grasp/x=1", r"^grasp/x=1 was given, but grasp has no options: name it alone, grasp$"),
        ("grasp/", r"^grasp/ was given; .* it has none: name it alone, grasp$"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_there_is_and_what_to_do(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        select(text)
    assert "\n" not in str(error.value)
    assert text not in registry


def test_values_that_no_name_can_say_are_refused() -> None:
    for value in (("a/b",), ("a,b",), object()):
        with pytest.raises(InputError, match=r"kept_norms=.* was given, which cannot be part of a name"):
            registry["synflow"].having(kept_norms=value)
    with pytest.raises(InputError, match="smoothing=nan was given, which cannot be part of a name"):
        vkdnw.having(smoothing=float("nan"))


def test_arguments_without_a_type_have_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "own_options.py"
    path.write_text(OWN.format(name="own_options"))
    made = proxy_in_file(f"{path}:powered/power=3/double=true")
    assert made.name == "own_options/double=true/power=3"
    assert registry[made.name] == made
    with pytest.raises(InputError, match="power=high was given; expected a whole number, such as power=2"):
        proxy_in_file(f"{path}:powered/power=high")
    with pytest.raises(InputError, match="double=3 was given; expected true or false"):
        made.having(double=3)
    assert made.having(limit=None).name.endswith("/limit=none/power=3")


def test_patterns_never_stand_for_options_and_unknown_names_stay_unknown() -> None:
    registry["zico/batches=4"]
    assert [proxy.name for proxy in select("zico*")] == ["zico"]
    assert not any("/" in proxy.name for proxy in select("all"))
    assert [proxy.name for proxy in select("zico,zico/batches=4,zico/batches=4.0")] == ["zico", "zico/batches=4"]
    with pytest.raises(UnknownName, match=r"no proxy is called 'zicoo/batches=4'; did you mean 'zico'"):
        select("zicoo/batches=4")
    with pytest.raises(UnknownName, match=r"no proxy matches 'zic\*/batches=4'"):
        select("zic*/batches=4")
    assert (canonical("some/column"), canonical("zico/none=1")) == ("some/column", "zico/none=1")


def test_scores_and_the_store_keep_them_apart(tmp_path: Path) -> None:
    space, task, arch = NasBench201(2, 1), Task.noise((3, 8, 8)), (1, 2, 3, 3, 2, 1)
    names = ["zico", "zico/batches=4"]
    place = tmp_path / "scores.db"
    found = tl.score((space, arch), 16, task=task, proxies=names, store=place)
    assert found.proxies == names
    assert found["zico"] != found["zico/batches=4"]
    again = tl.score((space, arch), 16, task=task, proxies="zico/batches=4,zico", store=place)
    assert [again[name] for name in names] == [found[name] for name in names]
    with store_at(place) as store:
        assert {count.proxy: count.scores for count in store.counts()} == dict.fromkeys(names, 1)


def test_the_papers_setting_keeps_its_other_options() -> None:
    assert registry["vkdnw"].setting.options == (("samples", 64),)
    assert registry["vkdnw/tensors=8"].setting == registry["vkdnw"].setting
    assert registry["vkdnw/samples=16"].setting.options == ()
    space, task, arch = NasBench201(2, 1), Task.noise((3, 8, 8)), (1, 2, 3, 3, 2, 1)
    names = ["vkdnw", "vkdnw/samples=64", "vkdnw/samples=16"]
    paper = tl.score((space, arch), task=task, proxies=names, init="paper")
    assert paper["vkdnw"] == paper["vkdnw/samples=64"] != paper["vkdnw/samples=16"]


def test_another_process_finds_them_by_name() -> None:
    measure = ByProxies(NasBench201(2, 1), Task.noise((3, 8, 8)), [zico.having(batches=4), *select("params")], batch=16)
    copy = pickle.loads(pickle.dumps(measure))  # noqa: S301 - made above
    proposal = Proposal((1, 2, 3, 3, 2, 1))
    assert copy(proposal).values == measure(proposal).values
    assert list(copy.higher_is_better) == ["zico/batches=4", "params"]
    with pytest.raises(InputError, match="the proxy 'mine/power=5' is not registered"):
        pickle.dumps(ByProxies(NasBench201(2, 1), Task.noise((3, 8, 8)), [MINE.having(power=5)]))


def test_a_sweep_in_processes_its_file_and_what_is_made_of_it(tmp_path: Path) -> None:
    (tmp_path / "sweeping.py").write_text(OWN.format(name="swept_power"))
    wanted = f"zico/cumulative=true/batches=4,zico,{tmp_path / 'sweeping.py'}:powered/power=3"
    plan = SweepSettings(
        out=str(tmp_path / "out"), space_args=THIN, archs="sample:3", proxies=wanted, task="noise:3x8x8:4", batch=16
    )
    file = sweep(plan)
    names = ("zico/batches=4/cumulative=true", "zico", "swept_power/power=3")
    assert set(file.proxies) == set(names)
    assert file.column("swept_power/power=3").tolist() == [3.0] * 3
    assert (file.higher_is_better("zico/batches=4/cumulative=true"), file.higher_is_better(names[2])) == (True, False)
    space = NasBench201(2, 1)
    alone = tl.score((space, [file.archs[0]]), 16, task=Task.noise((3, 8, 8), 4), proxies=names[0], init="paper")
    assert file.column(names[0])[0] == pytest.approx(alone[names[0]], rel=1e-6)
    table = Table("toy", "nb201", file.archs, {})
    columns = open_columns(str(tmp_path / "out" / "scores.npz"), "zico/cumulative=true/batches=4", "", table)
    np.testing.assert_allclose(columns[names[0]].values[0], file.column(names[0]), rtol=1e-6)  # in single precision
    with store_at(tmp_path / "kept.db") as store:
        assert to_store(file, plan, store) == 9
        assert {count.proxy for count in store.counts()} == set(names)
    with next((tmp_path / "out").glob("journal-*.csv")).open() as stream:
        assert {row["proxy"] for row in csv.DictReader(stream)} == set(names)


def test_a_search_by_a_proxy_with_options(tmp_path: Path) -> None:
    found = tl.search(
        Task.noise((3, 8, 8)),
        NasBench201(2, 1),
        "random",
        proxies="zico/batches=4",
        evaluations=3,
        out=tmp_path / "run",
        settings=SearchSettings(batch=16),
    )
    assert [list(place.scores) for place in found.places] == [["zico/batches=4"]] * len(found.places)
