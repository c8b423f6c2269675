from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest

from tests.commands import said_by
from tests.searchers.toys import Parity, Toy
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.searchers import make, registry
from trainless.searchers.searcher import Told, reseeded
from trainless.spaces.nb201 import NasBench201
from trainless.testing.searchers import check_searcher

PARAMETERS: dict[str, dict[str, object]] = {
    "teg_evolution": {"population": 12, "tournament": 4},
    "history_evolution": {"population": 12, "first": 4},
    "nsga2": {"population": 8},
    "pmbga": {"batch": 4, "sets": 2},
    "hyperband": {"iterations": 6},
    "bohb": {"iterations": 12},
    "g_hb": {"iterations": 6},
    "warm_random": {"pool": 40, "keep": 5},
    "warm_evolution": {"pool": 40, "keep": 5},
    "move_evolution": {"population": 8, "tournament": 3},
    "learned": {"pool": 20},
    "optuna": {"sampler": "TPESampler"},
}
ASSISTED = (
    "g_rs",
    "a_rea",
    "g_rea",
    "g_reinforce",
    "g_hb",
    "warm_random",
    "warm_evolution",
    "move_evolution",
    "learned",
)
SEVERAL = ("teg_evolution", "history_evolution", "teg_reinforce", "fpnas", "prune", "nsga2")
NAMES = registry.names()


def narrow(arch: tuple[int, ...]) -> bool:
    return sum(arch) <= 5


def score(arch: tuple[int, ...]) -> float:
    return float(arch[0] - arch[-1])


def made(name: str, space: object, seed: int, **extra: object) -> object:
    parameters = {**PARAMETERS.get(name, {}), **extra}
    if name in ASSISTED:
        parameters["proxy"] = score
    return make(name, space, seed=seed, **parameters)


@pytest.mark.parametrize("space", [Toy(), Parity(), NasBench201()], ids=lambda space: space.name)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, space) -> None:
    if name == "optuna" and space.name == "nb201":
        pytest.skip("covered on the small spaces; Optuna is slow")
    steps = 3 if name == "optuna" else 16
    limit = narrow if name not in ("optuna", "prune") else None
    extra = {} if limit is None else {"feasible": limit}
    check_searcher(lambda seed: made(name, space, seed, **extra), space, feasible=limit, steps=steps)


@pytest.mark.parametrize("name", SEVERAL)
def test_contract_with_three_columns(name) -> None:
    space = NasBench201()
    check_searcher(lambda seed: made(name, space, seed), space, columns=("a", "b", "c"), steps=25)


@pytest.mark.parametrize(
    ("name", "extra", "steps"),
    [
        ("exhaustive", {}, 40),
        ("local", {"restarts": 1}, 40),
        ("evolution", {"iterations": 5}, 40),
        ("reinforce", {"iterations": 5}, 40),
        ("teacup_reinforce", {"iterations": 5}, 40),
        ("fpnas", {"iterations": 5}, 40),
        ("pmbga", {}, 140),
        ("prune", {}, 10),
        ("hyperband", {}, 200),
        ("bohb", {}, 300),
        ("nsga2", {"generations": 3}, 10),
        ("history_evolution", {"evaluations": 20}, 30),
    ],
)
def test_ends(name, extra, steps) -> None:
    check_searcher(lambda seed: made(name, Toy(), seed, **extra), Toy(), steps=steps, ends=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "optuna"])
def test_nothing_feasible_is_a_clear_error_or_the_end(name) -> None:
    if name == "exhaustive":
        assert made(name, Parity(), 0, feasible=lambda arch: False).ask() == []
        return
    with pytest.raises(InputError, match="loosen the limits"):
        made(name, Parity(), 0, feasible=lambda arch: False).ask()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "optuna"])
def test_overhead_is_under_a_millisecond_per_candidate(name) -> None:
    searcher, count = made(name, NasBench201(), 0), 0
    if name.startswith("warm"):
        searcher.ask()
    start = time.process_time()
    while count < 300 and (proposals := searcher.ask(5)):
        searcher.tell(Told.of(proposals, [float(len(repr(p.candidate))) for p in proposals]))
        count += len(proposals)
    assert (time.process_time() - start) / count < 1e-3


def test_history_evolution_stays_under_a_millisecond_at_ten_thousand() -> None:
    searcher = make("history_evolution", NasBench201(), seed=0)
    rng = np.random.default_rng(0)
    archs = [tuple(row) for row in rng.integers(5, size=(10_000, 6)).tolist()]
    columns = {name: rng.random(10_000) for name in "abcd"}
    searcher.tell(Told(tuple(map(Proposal, archs)), columns))
    start = time.process_time()
    for _ in range(50):
        proposals = searcher.ask()
        searcher.tell(Told(tuple(proposals), {name: rng.random(1) for name in "abcd"}))
    assert (time.process_time() - start) / 50 < 1e-3


@pytest.mark.slow
def test_the_same_seed_proposes_the_same_in_another_process(tmp_path) -> None:
    code = (
        "import json\n"
        "from tests.searchers.test_contract import trail\n"
        "print(json.dumps({name: trail(name) for name in ('evolution', 'reinforce', 'bohb', 'nsga2', 'pmbga')}))"
    )
    there = json.loads(said_by(code, tmp_path))
    assert there == {name: json.loads(json.dumps(trail(name))) for name in there}


def trail(name: str) -> list[object]:
    searcher, seen = made(name, Toy(), 11), []
    for _ in range(25):
        proposals = searcher.ask(2)
        seen += [p.candidate for p in proposals]
        searcher.tell(Told.of(proposals, [score(p.arch) for p in proposals]))
    return seen


def test_a_fork_shares_the_past_and_not_the_future() -> None:
    parent = made("evolution", NasBench201(), 0)
    for _ in range(20):
        proposals = parent.ask()
        parent.tell(Told.of(proposals, [score(p.arch) for p in proposals]))
    children = [made("evolution", NasBench201(), 0) for _ in range(3)]
    for child, seed in zip(children, (1, 1, 2), strict=True):
        child.restore(reseeded(parent.state(), seed))
    trails = [[child.ask()[0].candidate for _ in range(10)] for child in children]
    assert trails[0] == trails[1] != trails[2]
    assert children[0].best() == parent.best()


def test_told_says_what_is_wrong() -> None:
    with pytest.raises(InputError, match="2 proposals were told with 1 values of 'value'"):
        Told.of([(0,), (1,)], [1.0])
    two = Told((Proposal((0,)),), {"a": np.ones(1), "b": np.ones(1)})
    with pytest.raises(InputError, match=r"follows one signal and was told 2 \(a, b\)"):
        two.signal()
    with pytest.raises(InputError, match="expected at least 1, or None"):
        made("random", Toy(), 0).ask(0)
    with pytest.raises(InputError, match="only `prune` takes regions"):
        made("random", Toy(), 0).tell(Told.of([(frozenset({0}),)], [1.0]))


def test_check_searcher_finds_a_searcher_that_forgets() -> None:
    class Forgetful:
        def __init__(self, seed: int) -> None:
            self.rng = np.random.default_rng(seed)

        def ask(self, limit=None):
            return [Proposal((0, int(self.rng.integers(3)), 0, 0))]

        def tell(self, told):
            pass

        def best(self):
            return (0, 0, 0, 0)

        def state(self):
            return {}

        def restore(self, state):
            pass

    with pytest.raises(AssertionError, match="the restored searcher proposed something else"):
        check_searcher(Forgetful, Toy())


def test_nan_never_beats_a_number() -> None:
    searcher = made("random", Toy(), 0)
    searcher.tell(Told.of([(0, 0, 0, 0), (0, 1, 0, 0)], [math.nan, -math.inf]))
    assert searcher.best() == (0, 1, 0, 0)
