from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Answer
from tests.commands import Command
from trainless.spaces.nb201 import NasBench201
from trainless.tasks import task as find_task

Call = Callable[..., Answer]
STEPS = 8  # of four candidates each
SMALL = (
    *("search", "digits", "--space", "nb201", "--space-args", "channels=4,cells=1"),
    *("--proxies", "snip,naswot", "--searcher-args", "batch=4,sets=2", "--searcher", "pmbga", "--batch", "8"),
)


def test_a_search_from_end_to_end(trainless: Call) -> None:
    answer = trainless(
        *("search", "digits", "--space", "nb201", "--space-args", "channels=4,cells=1", "--searcher", "evolution"),
        *("--searcher-args", "population=4", "--ranking", "te-nas", "--max-params", "12k", "--max-flops", "0.2M"),
        *("--batch", "8", "--evaluations", "8", "--seed", "3", "--out", "runs/one"),
    )
    assert answer.code == 0, answer.err
    assert "The best is |" in answer.out or "The searcher itself ended with |" in answer.out
    assert "Everything is in runs/one; trainless report runs/one makes a page of it." in answer.out
    rows = Path("runs/one/leaderboard.csv").read_text().splitlines()
    assert rows[0] == "rank,arch,ntk_condition,linear_regions,params,flops,layers,status"
    assert all(int(row.split(",")[4]) <= 12_000 and int(row.split(",")[5]) <= 200_000 for row in rows[1:])
    before = Path("runs/one/leaderboard.csv").read_bytes()
    again = trainless(
        *("search", "digits", "--space", "nb201", "--space-args", "channels=4,cells=1", "--searcher", "evolution"),
        *("--searcher-args", "population=4", "--ranking", "te-nas", "--max-params", "12k", "--max-flops", "0.2M"),
        *("--batch", "8", "--evaluations", "8", "--seed", "3", "--out", "runs/one", "--json"),
    )
    assert Path("runs/one/leaderboard.csv").read_bytes() == before
    found = json.loads(again.out)
    assert found["evaluations"] == 8
    assert found["end"] == "budget"
    space, task = NasBench201(4, 1), find_task("digits")
    best = space.parse(found["best"])
    assert space.counts(best, task).params <= 12_000
    assert found["leaderboard"][0]["rank"] == 1


def test_measured_latency_is_a_limit(trainless: Call) -> None:
    answer = trainless(
        *("search", "digits", "--space", "nb201", "--space-args", "channels=2,cells=1", "--searcher", "random"),
        *("--proxies", "params", "--evaluations", "3", "--max-latency", "2s", "--max-memory", "1MB"),
    )
    assert answer.code == 0, answer.err
    header, first = Path("runs/search/leaderboard.csv").read_text().splitlines()[:2]
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert 0 < float(row["latency"]) < 2
    assert 0 < float(row["memory"]) <= 1e6


def test_a_tables_latency_is_a_limit(trainless: Call, data_dir: Path) -> None:
    answer = trainless(
        *("search", "digits", "--space", "nb201", "--space-args", "channels=2,cells=1", "--searcher", "random"),
        *("--proxies", "params", "--evaluations", "5", "--max-latency", "3ms"),
        *("--latency-table", "nb201:cifar10:edgegpu_latency"),
    )
    assert answer.code == 0, answer.err
    header, *rows = (line.split(",") for line in Path("runs/search/leaderboard.csv").read_text().splitlines())
    assert all(0 < float(dict(zip(header, row, strict=True))["latency"]) <= 0.003 for row in rows)


def test_a_fork(trainless: Call) -> None:
    common = ("search", "digits", "--space", "nb201", "--space-args", "channels=2,cells=1", "--proxies", "params")
    assert trainless(*common, "--evaluations", "14", "--out", "parent").code == 0
    answer = trainless(
        *common, "--evaluations", "16", "--fork", "parent", "--step", "12", "--seed", "7", "--out", "child"
    )
    assert answer.code == 0, answer.err
    old, new = (
        [line for line in Path(name, "trajectory.jsonl").read_text().splitlines() if line.startswith('{"step"')]
        for name in ("parent", "child")
    )
    assert new[:12] == old[:12]
    assert len(new) == 16
    assert trainless(*common, "--fork", "parent").err.startswith("trainless: --fork and --step belong together")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "digits", "--space", "nb201"), "nothing to search by was given"),
        (("search", "digits", "--space", "nb201", "--proxies", "snpi"), "did you mean 'snip'"),
        (("search", "digits", "--space", "nb201", "--proxies", "snip", "--searcher", "evo"), "no searcher is called"),
        (("search", "digits", "--space", "nb201", "--proxies", "snip", "--max-flops", "lots"), "expected a number"),
        (("search", "digits", "--space", "nb201", "--proxies", "snip", "--max-flops", "1", "--evaluations", "1"),
         "allow more (--max-flops)"),
        (("search", "digits", "--space", "nb201", "--proxies", "snip", "--time", "soon"), "expected a time"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(trainless: Call, arguments: tuple[str, ...], message: str) -> None:
    answer = trainless(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def start(folder: Path, out: str, workers: int, evaluations: int = 4 * STEPS) -> Command:
    numbers = ("--evaluations", str(evaluations), "--workers", str(workers), "--ahead", "1")
    return Command([*SMALL, "--ranking", "te-nas", *numbers, "--out", out], folder)


def steps(path: Path) -> int:
    return path.read_text().count('"candidates"') if path.exists() else 0


def wait_for(process: Command, path: Path, number: int) -> None:
    while process.poll() is None and steps(path) < number:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The leaderboard of a run that nobody interrupted, with one worker."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, "run", 1)
    assert process.wait() == 0, process.err
    return (folder / "run" / "leaderboard.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, (4,)), (2, (2,))])
def test_kill_9_at_random_moments_changes_nothing(
    tmp_path: Path, undisturbed: bytes, workers: int, kills: tuple[int, ...]
) -> None:
    chance = random.Random(workers)
    for number in kills:
        victim = start(tmp_path, "run", workers)
        wait_for(victim, tmp_path / "run" / "trajectory.jsonl", number)
        time.sleep(chance.random() * 0.2)
        victim.kill()
        assert number <= steps(tmp_path / "run" / "trajectory.jsonl") < STEPS
    last = start(tmp_path, "run", workers)
    assert last.wait() == 0, last.err
    assert (tmp_path / "run" / "leaderboard.csv").read_bytes() == undisturbed
    assert steps(tmp_path / "run" / "trajectory.jsonl") == STEPS


@pytest.mark.slow
def test_ctrl_c_keeps_everything_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path, "run", 2, evaluations=2000)
    wait_for(process, tmp_path / "run" / "trajectory.jsonl", 2)
    process.send(signal.SIGINT)
    assert process.wait(60) == 130, (process.out, process.err)
    assert "the same command resumes from there" in process.err
    assert "Traceback" not in process.err
    assert len((tmp_path / "run" / "leaderboard.csv").read_text().splitlines()) > 2


def test_bench_search_prints_means_and_deviations(trainless: Call, data_dir: Path) -> None:
    answer = trainless(
        *("bench", "search", "--table", "nb201", "--dataset", "cifar10", "--searcher", "random"),
        *("--simulated", "12000s", "--runs", "20", "--json"),
    )
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert set(found) == {"cifar10", "cifar100", "ImageNet16-120"}
    assert all(set(found[name][part]) == {"mean", "std"} for name in found for part in ("valid", "test"))
    assert 92 < found["cifar10"]["test"]["mean"] < 94.37  # below the table's best, above a network at random
    table = trainless("bench", "search", "--searcher", "random", "--runs", "3", "--evaluations", "5")
    assert "ImageNet16-120" in table.out


def test_bench_search_takes_scores_for_assistance(trainless: Call, data_dir: Path) -> None:
    from trainless.bench.tables import table

    opened = table("nb201")
    truth = opened.column("cifar10", "test")
    lines = [f"{arch},{value!r}" for arch, value in zip(opened.archs, truth.tolist(), strict=True)]
    Path("scores.csv").write_text("\n".join(["arch,oracle", *lines]) + "\n")
    options = ("--simulated", "3000s", "--runs", "15", "--json")
    answer = trainless("bench", "search", "--searcher", "g_rs", "--proxy-scores", "scores.csv:oracle", *options)
    assert answer.code == 0, answer.err
    plain = json.loads(trainless("bench", "search", "--searcher", "random", *options).out)
    assert json.loads(answer.out)["cifar10"]["test"]["mean"] > plain["cifar10"]["test"]["mean"]
    assert "is assisted by a proxy" in trainless("bench", "search", "--searcher", "g_rs", *options).err
    assert "has no scores of 'x'" in trainless("bench", "search", "--proxy-scores", "scores.csv:x", *options).err


@pytest.mark.parametrize(
    "searcher", ["g_rs", "a_rea", "g_rea", "g_reinforce", "g_hb", "warm_random", "warm_evolution", "move_evolution"]
)
def test_every_assisted_searcher_runs_on_a_table(searcher: str) -> None:
    from trainless.bench.simulation import bench_search
    from trainless.bench.tables.table import ColumnKey, Table
    from trainless.searchers.stopping import Budget
    from trainless.spaces.moves import enumerate_archs

    space = NasBench201()
    archs = list(enumerate_archs(space))
    worth = np.array([float(sum(arch)) for arch in archs])
    columns = {
        ColumnKey("toy", "valid", 12): worth,
        ColumnKey("toy", "test", 200): worth + 1,
        ColumnKey("toy", "train_time", 12): np.ones(len(archs)),
    }
    table = Table("toy", "nb201", tuple(map(space.format, archs)), {frozenset(columns): lambda: columns})
    few = {"pool": 50, "keep": 8} if searcher.startswith("warm") else {}
    found = bench_search(
        table, "toy", searcher, Budget(simulated=60), 2, proxy=lambda arch: float(sum(arch)), parameters=few
    )
    assert found["toy"]["test"]["mean"] == pytest.approx(found["toy"]["valid"]["mean"] + 1)
    assert found["toy"]["valid"]["mean"] > 16  # the mean over the space is 12


def test_an_impossible_latency_is_given_up_with_a_line(trainless: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.scoring.costs.MOST_BUILT", 5)
    monkeypatch.setattr("trainless.core.progress.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("trainless.core.progress.EVERY_SECONDS", 0.0)
    answer = trainless(
        *("search", "digits", "--space", "nb201", "--space-args", "channels=2,cells=1", "--searcher", "random"),
        *("--proxies", "params", "--evaluations", "3", "--max-latency", "1us"),
    )
    assert answer.code == 2
    assert "networks tried for" in answer.err  # the progress line
    assert "5 networks were measured here, and none keeps the limit: the least latency seen is" in answer.err
    assert "above the limit of 0.001 ms: allow more (--max-latency)" in answer.err


def test_a_search_without_any_score_fails_and_says_where_to_look(trainless: Call) -> None:
    Path("mine.py").write_text(
        "from trainless.spaces.custom import space_from\n\n"
        "def net(choices):\n    raise ValueError('no layers yet')\n\n"
        "mine = space_from(net, {'a': [1, 2]})\n"
    )
    answer = trainless("search", "digits", "--space", "mine.py:mine", "--proxies", "snip", "--searcher", "exhaustive")
    assert answer.code == 2
    assert "none of 2 candidates could be scored; most often (2 of them): ValueError: no layers yet" in answer.err
    assert "status of runs/search/leaderboard.csv" in answer.err
    assert trainless("search", "digits", "--space", "mine.py", "--proxies", "snip").err == (
        "trainless: mine.py names a file and no space in it: its spaces are: mine; write mine.py:mine\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--searcher", "prune"), "prune evaluates regions of a supernet, and a table knows single architectures only"),
        (("--searcher", "g_rs"), "g_rs is assisted by a proxy: give its scores by --proxy-scores FILE.csv:COLUMN"),
        (("--searcher-args", "popul=3"), "evolution has no parameter 'popul'; did you mean 'population'? it has:"),
        (("--searcher-args", "popul"), "--searcher-args popul was given; expected name=value"),
        (("--table", "nb101"), "table nb101 has 20,001 architectures of nb101, not all of them"),
    ],
)
def test_mistakes_of_bench_search_are_named(
    trainless: Call, data_dir: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = trainless("bench", "search", "--runs", "1", *arguments)
    assert answer.code == 2
    assert message in answer.err
