from __future__ import annotations

import csv
import json
import math
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import trainless as tl
from tests.cli.conftest import Answer
from tests.corpus.torchvision_standin import install
from trainless.cli.table import rank
from trainless.core.scores import Record, Scores
from trainless.core.task import Task
from trainless.rankings import registry
from trainless.spaces.nb201 import NasBench201

Call = Callable[..., Answer]
ARCH = "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|avg_pool_3x3~0|none~1|skip_connect~2|"
SKIPS = "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
SMALL = ("score", "--space", "nb201", "--space-args", "channels=2,cells=1", "--input", "3x8x8", "--batch", "8")
NETS = """
import torch
from torch import nn

def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 10))

def pair():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x
    return Pair()

def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 7))

def raises():
    raise RuntimeError("no such\\nbackbone")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(192, 10)
    def forward(self, x):
        return self.last(x.flatten(1))

class Cut(Net):
    def forward(self, x):
        return super().forward(x)[:3]

class Loud(Net):
    def forward(self, x):
        print("forward")
        return super().forward(x)

class Named(Net):
    def forward(self, x):
        return {"logits": super().forward(x), "aux": x}

def loud():
    print("factory")
    return Loud()

def leaves():
    raise SystemExit(3)

async def later():
    return Net()

def lazy():
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))

def meta():
    return nn.Linear(192, 10, device="meta")

ready = small()
number = 7
"""


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    path = tmp_path / "my_nets.py"
    path.write_text(NETS)
    return path


def test_json_is_a_list_of_objects(trainless: Call) -> None:
    answer = trainless(*SMALL, ARCH, SKIPS, "--proxies", "params,snip,jacov", "--seeds", "3", "--json")
    assert answer.code == 0
    rows = json.loads(answer.out)
    assert [(row["candidate"], row["proxy"]) for row in rows] == [
        (arch, proxy) for arch in (ARCH, SKIPS) for proxy in ("params", "snip", "jacov")
    ]
    needed = {"candidate", "proxy", "value", "higher_is_better", "status", "ms", "fbe", "spread", "seeds", "values"}
    assert all(needed <= set(row) for row in rows)
    space, task = NasBench201(2, 1), Task.noise((3, 8, 8))
    assert rows[0]["value"] == space.counts(space.parse(ARCH), task).params
    assert rows[1]["seeds"] == [0, 1, 2]
    assert rows[1]["value"] == pytest.approx(sum(rows[1]["values"]) / 3)
    assert rows[1]["spread"] > 0
    assert rows[0]["higher_is_better"] is True


def test_a_failure_is_null_with_its_reason(trainless: Call, nets: Path) -> None:
    answer = trainless("score", f"{nets}:Net", "--input", "3x8x8", "--proxies", "naswot", "--json")
    (row,) = json.loads(answer.out)
    assert row["value"] is None
    assert row["ms"] is None
    assert row["status"] != "ok"


@pytest.mark.parametrize("name", ["small", "Net", "ready"])
def test_functions_classes_and_networks_are_scored(trainless: Call, nets: Path, name: str) -> None:
    answer = trainless("score", f"my_nets:{name}", "--input", "3x8x8", "--proxies", "params", "--json")
    assert json.loads(answer.out)[0]["value"] == (1930 if name == "Net" else 192 * 8 + 8 + 90)


def test_the_table_says_what_a_number_means(trainless: Call) -> None:
    answer = trainless(*SMALL, ARCH, "--proxies", "snip", "--seeds", "2", "--fbe", "--store", "none")
    assert ARCH in answer.out
    for word in ("spread", "higher", "FBE", "ms", "Saliency of every weight"):
        assert word in answer.out
    assert "FBE" not in trainless(*SMALL, ARCH, "--proxies", "snip", "--store", "none").out


def test_notes_are_below_the_table_and_in_every_other_form(trainless: Call, tmp_path: Path) -> None:
    """A GELU's patterns concern NASWOT alone; the second answer is the store's."""
    made = "from torch import nn\ngated = nn.Sequential(nn.Flatten(), nn.Linear(192, 99), nn.GELU(), nn.Linear(99, 10))"
    (tmp_path / "gated_nets.py").write_text(made)
    given = ("score", "gated_nets.py:gated", "--input", "3x8x8", "--proxies", "naswot,snip", "--batch", "8")
    assert "naswot: activation patterns are those of GELU" in " ".join(trainless(*given).out.split())
    rows = json.loads(trainless(*given, "--json").out)
    assert [row["notes"] for row in rows] == ["activation patterns are those of GELU", ""]
    trainless(*given, "--csv", "scores.csv")
    with (tmp_path / "scores.csv").open() as file:
        assert next(csv.DictReader(file))["notes"] == "activation patterns are those of GELU"


def test_csv_goes_to_a_file_or_to_the_output(trainless: Call, tmp_path: Path) -> None:
    trainless(*SMALL, ARCH, "--proxies", "params,layers", "--csv", "scores.csv")
    with (tmp_path / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["proxy"] for row in rows] == ["params", "layers"]
    printed = trainless(*SMALL, ARCH, "--proxies", "params,layers", "--csv", "-").out
    assert next(csv.DictReader(printed.splitlines()))["value"] == rows[0]["value"]


def test_scores_are_kept_and_found_again(trainless: Call, tmp_path: Path) -> None:
    first = trainless(*SMALL, ARCH, "--proxies", "snip", "--json").out
    assert trainless(*SMALL, ARCH, "--proxies", "snip", "--json").out == first
    connection = sqlite3.connect(tmp_path / "store" / "scores.sqlite")
    assert connection.execute("SELECT space, proxy, seed FROM scores").fetchall() == [
        ("nb201(channels=2, cells=1)", "snip", 0)
    ]
    connection.close()


def test_store_none_keeps_nothing(trainless: Call, tmp_path: Path) -> None:
    trainless(*SMALL, ARCH, "--proxies", "params", "--store", "none")
    assert not (tmp_path / "store").exists()


def test_a_task_of_the_users_own_is_scored_on(trainless: Call, tmp_path: Path) -> None:
    answer = trainless(
        "score", "--space", "nb201", "--space-args", "channels=2,cells=1", ARCH, "--task", "digits", "--batch", "16",
        "--proxies", "snip", "--init", "paper", "--json",
    )  # fmt: skip
    assert json.loads(answer.out)[0]["status"] == "ok"


def test_nothing_but_the_answer_is_on_the_output(trainless: Call, nets: Path) -> None:
    for option in (["--json"], ["--csv", "-"]):
        nets.write_text(nets.read_text() + 'print("import")\n')  # a file is imported again when its text has changed
        answer = trainless("score", "my_nets.py:loud", "--input", "3x8x8", "--proxies", "params", *option)
        assert answer.out.startswith("[\n" if option == ["--json"] else "candidate,")
        assert {"import", "factory", "forward"} <= set(answer.err.splitlines())


def test_one_of_several_outputs_is_chosen(trainless: Call, nets: Path) -> None:
    chosen = ("score", "my_nets.py:Named", "--input", "3x8x8", "--proxies", "snip", "--json", "--output")
    plain = trainless("score", "my_nets.py:Net", "--input", "3x8x8", "--proxies", "snip", "--json")
    value = json.loads(trainless(*chosen, "logits").out)[0]["value"]
    assert value == pytest.approx(json.loads(plain.out)[0]["value"])
    assert "--output foo was given, but the network returns logits, aux" in trainless(*chosen, "foo").err


def test_a_file_imports_its_neighbours(trainless: Call, tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "beside_it.py").write_text("from torch import nn\nWIDTH = 10\n")
    (folder / "late.py").write_text("from torch import nn\n")
    (folder / "importing.py").write_text(
        "from beside_it import WIDTH, nn\ndef net():\n    import late\n"
        "    return nn.Sequential(nn.Flatten(), late.nn.Linear(192, WIDTH))\n"
    )
    before = list(sys.path)
    answer = trainless("score", "deep/importing.py:net", "--input", "3x8x8", "--proxies", "params", "--json")
    assert json.loads(answer.out)[0]["value"] == 1930
    assert sys.path[: len(before)] == before  # what is installed comes first


def test_a_batch_is_at_most_the_training_part(trainless: Call) -> None:
    answer = trainless(
        "score", "--space", "nb201", "--space-args", "channels=1,cells=1", SKIPS, "--task", "digits",
        "--batch", "100000", "--proxies", "params", "--store", "none",
    )  # fmt: skip
    assert answer.code == 0
    samples = len(tl.task("digits").train or ())
    assert answer.err.count(f"note: the batch is all {samples} training samples; 100000 were asked for") == 1


def test_no_score_at_all_for_a_reason_of_the_machine_is_exit_code_1(
    trainless: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> object:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")

    monkeypatch.setattr("trainless.scoring.subjects.ArchSubject.network", full)
    answer = trainless(*SMALL, ARCH, "--proxies", "params,snip", "--json")
    assert answer.code == 1
    assert len(json.loads(answer.out)) == 2
    assert len(answer.err.splitlines()) == 1
    assert "trainless: there is no score at all: this machine failed: RuntimeError: DefaultCPU" in answer.err


def test_one_network_of_several_that_fails_has_its_reason(trainless: Call, nets: Path) -> None:
    several = ("my_nets.py:raises", "my_nets.py:small", "my_nets.py:pair", "my_nets.py:Net")
    options = ("--input", "3x8x8", "--proxies", "params,snip", "--json")
    answer = trainless("score", *several, *options)
    assert answer.code == 0
    rows = {(row["candidate"], row["proxy"]): row for row in json.loads(answer.out)}
    assert [rows[name, "params"]["value"] for name in several] == [None, 192 * 8 + 8 + 90, None, 1930]
    assert "no such backbone" in rows[several[0], "snip"]["status"]
    assert "returned a tuple" in rows[several[2], "snip"]["status"]
    none = trainless("score", several[0], several[2], *options)
    assert none.code == 1
    assert "trainless: there is no score at all: my_nets.py:raises raised" in none.err


def test_workers_score_side_by_side_into_one_store(trainless: Call, nets: Path) -> None:
    call = ("score", "my_nets.py:small", "my_nets.py:Net", "--input", "3x8x8", "--proxies", "params,snip", "--json")
    first = trainless(*call, "--workers", "2")
    assert first.code == 0
    assert trainless(*call).out == first.out  # found in the store


@pytest.mark.slow
def test_networks_of_a_library_are_named(trainless: Call) -> None:
    install()
    pytest.importorskip("timm", reason="timm is not installed")
    answer = trainless(
        "score", "timm:test_resnet", "timm:test_vit?", "--batch", "2", "--classes", "4", "--proxies", "params", "--json"
    )
    assert [row["candidate"] for row in json.loads(answer.out)][:2] == ["timm:test_resnet", "timm:test_vit2"]
    assert "timm has no network called 'resnett'" in trainless("score", "timm:resnett").err
    assert {"timm", "hf", "monai"} <= {
        line.split()[0] for line in trainless("list", "networks").out.splitlines() if line
    }


def test_a_ranking_puts_architectures_in_order_with_its_ingredients(trainless: Call) -> None:
    others = (ARCH, SKIPS, ARCH.replace("none~1", "nor_conv_3x3~1"))
    answer = trainless(*SMALL, *others, "--ranking", "vkdnw-single", "--json")
    found = json.loads(answer.out)
    pairs = {row["candidate"]: row["values"] for row in found["ranked"]}
    order = sorted(others, key=lambda arch: (pairs[arch]["layers"], pairs[arch]["vkdnw"] or 0), reverse=True)
    assert [row["candidate"] for row in found["ranked"]] == order
    assert [row["rank"] for row in found["ranked"]] == [1, 2, 3]
    assert {row["proxy"] for row in found["scores"]} == {"layers", "vkdnw"}  # what it needs, and nothing else
    given = {(row["candidate"], row["proxy"]): row["value"] for row in found["scores"]}
    assert all(given[arch, proxy] == value for arch, both in pairs.items() for proxy, value in both.items())
    terminal = trainless(*SMALL, *others, "--ranking", "vkdnw-single").out
    assert terminal.index(order[0]) < terminal.index(order[1]) < terminal.index(order[2])
    assert "ingredients: value (place)" in terminal
    trainless(*SMALL, *others, "--ranking", "vkdnw-single", "--proxies", "params", "--csv", "ranked.csv")
    with Path("ranked.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["candidate"] for row in rows] == order
    assert [float(row["layers"]) for row in rows] == [pairs[arch]["layers"] for arch in order]


def test_a_silenced_ingredient_is_named() -> None:
    values = {"isolated_jacov": range(20, 0, -1)}
    records = [
        Record(f"net{place}", proxy, float(value), True)
        for proxy in registry["trainless"].proxies
        for place, value in enumerate(values.get(proxy, range(20)))
    ]
    found = rank("trainless", Scores(records))
    assert found.silenced == ("isolated_jacov",)
    assert found.notes[0] == (
        "Silenced, because they do not agree with the core (paths, expressivity) on these candidates: isolated_jacov"
        " (-1.00); layer_entropy × isometry agrees with it by 1.00, meco × swap agrees with it by 1.00."
    )
    assert [place.candidate for place in found.places] == [f"net{place}" for place in range(19, -1, -1)]
    assert found.heard == ("paths", "expressivity", "layer_entropy", "isometry", "meco", "swap")
    assert found.places[0].ranks == {proxy: 20 if proxy == "isolated_jacov" else 1 for proxy in found.higher_is_better}
    turned = [replace(each, value=-each.value) if each.proxy == "flops" else each for each in records]
    families = rank("trainless", Scores(turned))
    assert (families.heard, families.silenced) == (("params", "naswot"), ())
    assert "of several families" in families.notes[0]
    few = rank("trainless", Scores([each for each in records if each.candidate in ("net1", "net2")]))
    assert few.silenced == ()
    assert "fewer than 16 candidates" in few.notes[0]


def test_a_candidate_without_a_score_is_last_and_has_its_reason() -> None:
    parts = {"length": 2.0, "loss_ntk": 3.0, "loss_synflow": 1.0, "zico": 4.0}
    records = [Record(net, proxy, value, True) for net in "ab" for proxy, value in parts.items()]
    records[3] = Record("a", "zico", math.nan, True, "no gradient")
    found = rank("teacup", Scores(records))
    assert [(place.candidate, place.rank) for place in found.places] == [("b", 1), ("a", 2)]
    assert math.isnan(found.places[1].value)
    assert found.notes == ("a has no zico: no gradient.",)


BAD = [
    ((*SMALL, ARCH, "--ranking", "vkdnw-agg"), "--ranking was given with 1 candidate; expected two or more"),
    ((*SMALL, ARCH, SKIPS, "--ranking", "vkdnw_agg"), "did you mean 'vkdnw-agg'"),
    ((*SMALL, ARCH, "--task", ""), "--task '' was given; expected a value"),
    ((*SMALL, ARCH, "--store", ""), "--store '' was given; expected a value"),
    ((*SMALL, ARCH, "--proxies", ""), "--proxies '' was given; expected a value"),
    ((*SMALL, ARCH, "--proxies", ","), "no proxies were given"),
    ((*SMALL, ARCH, "--batch", "-1"), "--batch -1 was given; expected at least 0"),
    ((*SMALL, ARCH, "--seed", str(2**64)), f"the seed {2**64} was given; expected 0 to {2**53 - 1}"),
    ((*SMALL, ARCH, "--output", "0"), "--output and --space were given"),
    (("score", "--space", "nb201", ARCH, "--task", "digits", "--classes", "5"), "expected 10 different names"),
    (("score", "--space", "nb201", ARCH, "--input", "3x1000000x1000000"), "takes 768,000.0 GB, but this machine has"),
    (("score", "--space", "nb201", "--space-args", "cells=foo", ARCH), "cells=foo was given; expected a whole number"),
    (("demo", "--out", "my_nets.py/x"), "--out my_nets.py/x cannot be made"),
    ((*SMALL, "|nor_conv|", "--proxies", "snip"), "expected 3, such as"),
    ((*SMALL, ARCH, "--proxies", "snipp"), "did you mean 'snip'?"),
    ((*SMALL, ARCH, "--init", "both"), "expected 'own', 'kaiming' or 'paper'"),
    ((*SMALL, ARCH, "--task", "digits"), "--task and --input were given"),
    ((*SMALL, ARCH, "--size", "32"), "--size was given without --task"),
    ((*SMALL, ARCH, "--json", "--csv", "-"), "give --csv a file"),
    ((*SMALL, ARCH, "--csv", "no/such/folder.csv", "--proxies", "params"), "cannot be written"),
    ((*SMALL, ARCH, "--seeds", "0"), "--seeds"),
    ((*SMALL, ARCH, "--seeds", "many"), "--seeds"),
    ((*SMALL, ARCH, "--device", "abacus"), "expected cpu, cuda"),
    (("score", "--space", "nb2001", ARCH), "did you mean 'nb201'"),
    (("score", "--space", "nb201", "--space-args", "chanels=3", ARCH), "it has: channels=16 (a whole number), cells=5"),
    (("score", "--space", "nb201", "--space-args", "channels", ARCH), "expected name=value"),
    (("score", "--space", "nb201", "--space-args", "channels=wide", ARCH), "nb201"),
    (("score", "--space", "nb201", ARCH, "--input", "3x2x2"), "too small for nb201"),
    (("score", "--space", "nb201", ARCH, "--input", "three"), "such as 3x32x32"),
    (("score", "--space", "nb201", ARCH, "--input", "3x8x8", "--classes", "1"), "expected at least 2"),
    (("score", "--space", "nb201", ARCH, "--task", "digitz"), "digitz"),
    (("score", ARCH), "expected module:factory or file.py:factory"),
    (("score", "no_such_module:net"), "importing no_such_module failed (ModuleNotFoundError"),
    (("score", "no_such_file.py:net"), "there is no file no_such_file.py"),
    (("score", "my_nets.py:nothing"), "has no 'nothing'"),
    (("score", "my_nets.py:number"), "is a int; expected an nn.Module"),
    (("score", "my_nets.py:raises", "--input", "3x8x8"), "my_nets.py:raises raised RuntimeError: no such backbone"),
    (("score", "my_nets.py:pair", "--input", "3x8x8"), "returned a tuple"),
    (("score", "my_nets.py:narrow", "--input", "3x8x8"), "output has shape (2, 7)"),
    (("score", "my_nets.py:small"), "cannot run on inputs of shape (N, 3, 32, 32)"),
    (("score", "my_nets.py:small", "--space-args", "channels=3"), "without --space"),
    (("list", "prooxies"), "expected one of executors, loggers, networks, presets, proxies"),
    (("list", "proxies", "xyz*"), "no proxy matches 'xyz*'"),
    (("scores",), "scores"),
    (("score",), "CANDIDATES is missing; expected architectures of --space"),
]


BAD_NETWORKS = {
    "Cut": "returned a tensor of shape (3, 10) for 5 samples; expected one row",
    "Named": "returned a dict of logits, aux; expected one tensor of logits or values: choose it, such as --output log",
    "pair": "returned a tuple; expected one tensor of logits or values: choose it, such as --output 0",
    "leaves": "my_nets.py:leaves raised SystemExit: 3",
    "later": "my_nets.py:later made a coroutine; expected an nn.Module: make it in a plain def",
    "lazy": "has lazy layers whose sizes are not known yet: run it once",
    "meta": "is on the meta device and has no weights",
}


@pytest.mark.parametrize("name", BAD_NETWORKS)
def test_networks_that_cannot_be_scored_are_one_line_and_exit_code_2(trainless: Call, nets: Path, name: str) -> None:
    answer = trainless("score", f"my_nets.py:{name}", "--input", "3x8x8", "--proxies", "snip")
    assert answer.code == 2
    assert BAD_NETWORKS[name] in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(each[0])[-40:] for each in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    trainless: Call, nets: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = trainless(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""


def test_a_damaged_store_is_one_line(trainless: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("not a database" * 200)
    answer = trainless(*SMALL, ARCH, "--proxies", "params", "--store", "bad.sqlite")
    assert answer.code == 2
    assert "file is not a database" in answer.err


def test_an_interruption_is_said_and_has_its_own_code(trainless: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainless.scoring.evaluate.evaluate", interrupted)
    answer = trainless(*SMALL, ARCH, "--proxies", "params")
    assert answer.code == 130
    assert answer.err.startswith("trainless: interrupted: what was scored is kept")
