"""Sweeps: whatever happens to the processes, every score is there once and is the one that scoring alone gives."""

from __future__ import annotations

import csv
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trainless as tl
from trainless.core.errors import InputError, UnknownName
from trainless.core.scores import Record
from trainless.proxies import registry
from trainless.runs.score_file import Journal, KnownScores, ScoreFile, known_from, read_known, read_scores
from trainless.runs.settings import SearchSettings, SweepSettings
from trainless.runs.sweep import main, open_archs, sweep
from trainless.scoring.request import proxy_in_file, select
from trainless.spaces import open_space
from trainless.spaces.nb201 import NasBench201

THIN = "channels=4,cells=1"
DEADLY = """
import os
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def deadly(p):
    "Ends the process of the largest network."
    size = sum(tensor.numel() for tensor in p.weights.values())
    if size > {limit}:
        os._exit(9)
    return size
"""

OWN = """
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def mine(p):
    "Whatever."
    {body}
"""


@pytest.fixture(autouse=True)
def _registered_for_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.mark.slow
def test_a_sweep_gives_what_scoring_alone_gives_and_resumes(tmp_path: Path) -> None:
    plan = SweepSettings(
        out=str(tmp_path), space_args=THIN, archs="sample:6", proxies="snip,params", task="noise:3x8x8:10", batch=8
    )
    reports = []
    file = sweep(plan, reports.append, tick=0.5)
    space = NasBench201(4, 1)
    archs = open_archs("sample:6", space)
    alone = tl.score((space, archs), 8, task=tl.Task.noise((3, 8, 8)), proxies="snip,params", init="paper")
    assert file.archs == tuple(alone.candidates)
    np.testing.assert_allclose(file.column("snip"), alone.column("snip"), rtol=1e-5)
    np.testing.assert_array_equal(file.column("params"), alone.column("params"))
    assert reports[-1].done == reports[-1].total == 6

    more = SweepSettings(
        out=str(tmp_path), space_args=THIN, archs="sample:6", proxies="params", task="noise:3x8x8:10", batch=8
    )
    again = sweep(more)  # nothing is missing: no process is started, nothing is lost
    assert again.column("snip").tolist() == pytest.approx(file.column("snip").tolist(), rel=1e-6)
    assert again.environment["runs"][-1]["of"] == 0
    with pytest.raises(InputError, match="holds a sweep with batch 8, but 16 was given"):
        sweep(
            SweepSettings(
                out=str(tmp_path), space_args=THIN, archs="sample:6", proxies="params", task="noise:3x8x8:10", batch=16
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 3])
def test_an_arch_that_ends_its_worker_twice_is_recorded_and_the_rest_is_scored(tmp_path: Path, together: int) -> None:
    space = NasBench201(4, 1)
    archs = open_archs("sample:6", space)
    sizes = [sum(t.numel() for t in space.build(arch, tl.Task.noise((3, 8, 8))).parameters()) for arch in archs]
    name = f"deadly_{together}"
    (tmp_path / "own.py").write_text(DEADLY.format(limit=sorted(sizes)[-2]).replace("deadly", name))
    assert sorted(sizes)[-1] > sorted(sizes)[-2]
    plan = SweepSettings(
        out=str(tmp_path / "out"),
        space_args=THIN,
        archs="sample:6",
        proxies=f"params,{tmp_path / 'own.py'}:{name}",
        task="noise:3x8x8:10",
        workers=2,
        together=together,
    )
    file = sweep(plan)
    values = file.column(name)
    largest = int(np.argmax(sizes))
    assert np.isnan(values[largest])
    assert np.delete(values, largest).tolist() == [size for i, size in enumerate(sizes) if i != largest]
    assert file.failures(name) == {"the worker process died (exit code 9), 2 times": 1}


@pytest.mark.slow
def test_the_command_line_needs_nothing_beyond_torch_numpy_and_scipy(tmp_path: Path) -> None:
    block = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'typer', 'rich', 'pandas', 'sklearn', 'pydantic', 'safetensors',\n"
        "                                  'platformdirs', 'PIL', 'matplotlib', 'click'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from trainless.scoring.request import select\n"
        "from trainless.spaces import open_space\n"
        "from trainless.tasks import task\n"
        "from trainless.runs.sweep import SweepSettings, SweepWork, parse_settings\n"
        "assert parse_settings(SweepSettings, '', '', ['--workers', '2', '--time', '9m']).workers == 2\n"
        f"select('all'), open_space('nb201'), open_space('nb101'), task({str(tmp_path / 'few.npz')!r})\n"
    )
    np.savez(tmp_path / "few.npz", x=np.zeros((20, 3, 4, 4), np.uint8), y=np.arange(20) % 2)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_one_proxy_raises_harms_no_other(tmp_path: Path) -> None:
    """Names of files that are no UTF-8 come as lone surrogates, which no file or database takes."""
    own = tmp_path / "own.py"
    text = OWN.replace("mine", "unnamed").format(body="raise ValueError('no file caf\\udce9\\x00.bin')")
    own.write_text(text, encoding="utf-8")
    asked = ["--out", str(tmp_path / "s"), "--space-args", THIN, "--archs", "sample:2", "--task", "noise:3x8x8:10"]
    assert main([*asked, "--proxies", f"{own}:unnamed,params", "--batch", "4", "--store", str(tmp_path / "db")]) == 0
    file = read_scores(tmp_path / "s" / "scores.npz")
    assert np.isfinite(file.column("params")).all()
    assert file.failures("unnamed") == {"ValueError: no file caf��.bin": 2}


def test_scores_by_code_that_has_changed_are_not_taken_for_those_of_the_new(tmp_path: Path) -> None:
    own, folder, kept = tmp_path / "own.py", tmp_path / "s", str(tmp_path / "db")

    def swept(out: Path, body: str) -> list[float]:
        own.write_text(OWN.format(body=body), encoding="utf-8")
        plan = SweepSettings(
            out=str(out), space_args=THIN, archs="sample:2", proxies=f"{own}:mine", task="noise:3x8x8:10", batch=4
        )
        return list(map(float, sweep(dataclasses.replace(plan, store=kept)).column("mine")))

    assert swept(folder, "return 1.0") == [1.0, 1.0]
    assert swept(folder, "return 1.0  # said again") == [1.0, 1.0]
    with pytest.raises(InputError, match="holds scores by mine as it was before its code changed"):
        swept(folder, "return 2.0")
    assert swept(tmp_path / "other", "return 2.0") == [2.0, 2.0]  # nor are those in the shared store


def test_main_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path), "--archs", "some", "--task", "noise:3x8x8:10"]) == 2
    assert "expected canonical, all, sample:500 or a file that exists" in capsys.readouterr().err
    asked = ["--out", str(tmp_path), "--space-args", THIN, "--archs", "sample:1", "--proxies", "params"]
    assert main([*asked, "--seed", "-1"]) == 2
    assert "--seed -1 was given; expected at least 0" in capsys.readouterr().err
    assert main([*asked, "--seed", str(2**53 - 2), "--seeds", "3"]) == 2
    assert "expected at least one seed, from 0 to 9007199254740991" in capsys.readouterr().err
    assert SweepSettings(seed=5, seeds=3).seed_numbers == (5, 6, 7)


@pytest.mark.slow
def test_a_time_limit_leaves_a_file_that_says_what_is_missing(tmp_path: Path) -> None:
    plan = SweepSettings(
        out=str(tmp_path), space_args=THIN, archs="sample:5", proxies="params", task="noise:3x8x8:10", time=0.0
    )
    file = sweep(plan)
    assert np.isnan(file.values).all()
    assert {file.reasons[code] for code in file.codes.ravel()} == {"not scored"}


@pytest.mark.slow
def test_networks_side_by_side_have_the_scores_that_they_have_alone(tmp_path: Path) -> None:
    names = "flops,synflow,snip,meco,expressivity,swap,isolated_jacov,layer_entropy"
    how = {"space_args": THIN, "archs": "sample:7", "proxies": names, "task": "noise:3x16x16:10", "batch": 4}
    alone, beside = (
        sweep(SweepSettings(out=str(tmp_path / f"{together}"), init="own", together=together, **how))
        for together in (1, 3)
    )
    assert alone.archs == beside.archs
    for name in names.split(","):
        np.testing.assert_allclose(beside.column(name), alone.column(name), rtol=1e-4, err_msg=name)
    assert beside.reasons == alone.reasons


def test_journals_survive_a_line_cut_short(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "w00")
    journal.write("a|b,c", [Record("a|b,c", "snip", 1.25, True, ms=2.0), Record("x", "zen", np.nan, True, "why, so")])
    journal.close()
    with next(tmp_path.glob("journal-*.csv")).open("a") as file:
        file.write("d,snip,0,3.")
    known = read_known(tmp_path)
    assert known.values["snip", 0] == {"a|b,c": (1.25, "ok")}
    value, reason = known.values["zen", 0]["a|b,c"]
    assert np.isnan(value)
    assert reason == "why, so"
    second = Journal(tmp_path, "w00")
    second.write("d", [Record("d", "snip", 3.5, True)])
    second.close()
    assert read_known(tmp_path).values["snip", 0]["d"] == (3.5, "ok")


def test_score_files_round_trip(tmp_path: Path) -> None:
    values = np.array([[[1.0, 2.0], [np.nan, 4.0]], [[5.0, np.nan], [7.0, 9.0]]])
    codes = np.array([[[0, 0], [2, 0]], [[0, 1], [0, 0]]], np.uint16)
    file = ScoreFile(("a", "b"), ("snip", "zen"), (0, 3), values, codes, ("ok", "not scored", "no graph"), np.ones(2))
    file.write(tmp_path / "scores.npz")
    read = read_scores(tmp_path / "scores.npz")
    np.testing.assert_array_equal(read.values, values)
    assert read.values.dtype == np.float32
    np.testing.assert_array_equal(read.column("snip"), [1.5, np.nan])
    assert read.column("zen", 3).tolist() == [4.0, 9.0]
    assert read.failures("zen") == {"no graph": 1}
    assert known_from(read).missing("b", [("snip", 3), ("zen", 3)]) == [("snip", 3)]
    with pytest.raises(UnknownName, match="'naswot' was not scored"):
        read.column("naswot")
    with pytest.raises(InputError, match="seed 1 was asked for; expected one of 0, 3"):
        read.column("zen", 1)
    (tmp_path / "wrong.npz").write_text("no")
    with pytest.raises(InputError, match="not a file of scores"):
        read_scores(tmp_path / "wrong.npz")


def test_large_values_keep_double_precision(tmp_path: Path) -> None:
    file = ScoreFile(("a",), ("synflow",), (0,), np.array([[[1e60]]]), np.zeros((1, 1, 1), np.uint16))
    file.write(tmp_path / "scores.npz")
    assert read_scores(tmp_path / "scores.npz").column("synflow").tolist() == [1e60]


def test_plans_are_read(tmp_path: Path) -> None:
    space = open_space("nb201", "channels=8")
    assert space == NasBench201(8)
    listed = tmp_path / "archs.txt"
    listed.write_text("\n".join([space.format((1,) * 6), "", space.format((3,) * 6), space.format((1,) * 6)]))
    assert open_archs(str(listed), space) == [(1,) * 6, (3,) * 6]
    assert len(set(open_archs("sample:100", space))) == 100
    with pytest.raises(InputError, match="too many to go through"):
        open_archs("all", open_space("darts"))
    with pytest.raises(InputError, match="expected a number of at least 1"):
        open_archs("sample:0", space)
    with pytest.raises(InputError, match="nb201 has 15,625: give fewer, or all"):
        open_archs("sample:15626", space)
    listed.write_text("\n")
    with pytest.raises(InputError, match="has no archs: expected one notation per line"):
        open_archs(str(listed), space)
    with pytest.raises(InputError, match=r"'snip' was given; expected FILE\.py:NAME"):
        proxy_in_file("snip")
    with pytest.raises(InputError, match="expected noise:SHAPE:CLASSES"):
        tl.task("noise:3xx8")
    with pytest.raises(InputError, match="there is no file"):
        proxy_in_file("nowhere.py:mine")
    (tmp_path / "plainfile.py").write_text("mine = 3")
    with pytest.raises(InputError, match="has no proxy 'mine'"):
        select(f"{tmp_path / 'plainfile.py'}:mine")


@pytest.mark.parametrize("source", ["noise:3x32x32:10", "mine.npz"])
def test_a_sweep_and_a_search_of_one_task_share_their_scores(tmp_path: Path, source: str) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.integers(0, 256, (40, 3, 8, 8), np.uint8), y=np.arange(40) % 4)
    task = str(tmp_path / source) if source.endswith(".npz") else source
    kept, listed = str(tmp_path / "kept.sqlite"), tmp_path / "archs.txt"
    found = tl.search(
        task,
        open_space("nb201", THIN),
        proxies="params,snip",
        evaluations=3,
        settings=SearchSettings(init="paper", batch=8, store=kept),
    )
    listed.write_text("\n".join(place.text for place in found.places))
    with tl.SqliteStore(kept) as store:
        before = len(list(store.rows()))
    assert before == 6
    plan = SweepSettings(
        out=str(tmp_path / "s"),
        space_args=THIN,
        archs=str(listed),
        proxies="params,snip",
        task=task,
        batch=8,
        store=kept,
    )
    swept = sweep(plan)
    assert swept.settings["fingerprint"] == tl.task(task).fingerprint
    assert swept.column("snip").tolist() == [place.scores["snip"] for place in found.places]
    with tl.SqliteStore(kept) as store:
        assert len(list(store.rows())) == before


def test_journal_columns_are_plain_csv(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "w")
    journal.write("a", [Record("a", "snip", 0.1, True, ms=1.0)])
    journal.close()
    rows = list(csv.DictReader((tmp_path / "journal-w-0.csv").read_text().splitlines()))
    assert rows == [{"arch": "a", "proxy": "snip", "seed": "0", "value": "0.1", "status": "ok", "ms": "1.000"}]


def test_a_failure_of_the_machine_is_tried_again_and_one_of_the_arch_is_not() -> None:
    known = KnownScores()
    known.add("a", "snip", 0, math.nan, "this machine failed: OutOfMemoryError: CUDA out of memory", math.nan)
    known.add("b", "snip", 0, math.nan, "no gradient reaches the weights", math.nan)
    assert known.missing("a", [("snip", 0)]) == [("snip", 0)]
    assert known.missing("b", [("snip", 0)]) == []


def test_a_batch_that_is_larger_than_the_data_is_recorded_as_it_was(tmp_path: Path) -> None:
    data = tmp_path / "few.npz"
    np.savez(data, x=np.random.default_rng(0).normal(size=(12, 3, 8, 8)).astype(np.float32), y=np.arange(12) % 3)
    plan = SweepSettings(
        out=str(tmp_path / "s"), space_args=THIN, archs="sample:1", proxies="params", task=str(data), batch=10**8
    )
    assert sweep(plan).settings["batch"] == len(tl.task(str(data)).part("train")) == 6
