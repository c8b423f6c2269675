from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.spaces.oracle import built_counts
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.spaces import moves
from trainless.spaces.recurrent import Recurrent
from trainless.spaces.recurrent_recipe import read_recipe

RNN = {"f": {"op": "linear", "input": ["x", "h_prev_0"]}, "h_new_0": {"op": "activation_tanh", "input": ["f"]}}
GRU = {
    "r": {"op": "linear", "input": ["x", "h_prev_0"]},
    "r_act": {"op": "activation_sigm", "input": ["r"]},
    "z": {"op": "linear", "input": ["x", "h_prev_0"]},
    "z_act": {"op": "activation_sigm", "input": ["z"]},
    "rh": {"op": "elementwise_prod", "input": ["r_act", "h_prev_0"]},
    "n": {"op": "linear", "input": ["x", "rh"]},
    "n_act": {"op": "activation_tanh", "input": ["n"]},
    "h_new_0": {"op": "blend", "input": ["z_act", "h_prev_0", "n_act"]},
}
TINY = Recurrent(emsize=6, nhid=9, layers=2)


def text_task(vocabulary: int = 11, length: int = 5) -> Task:
    return Task("tokens", (length,), Target("tokens", vocabulary), vocabulary=vocabulary)


@pytest.fixture(scope="module")
def recipes(data_dir: Path) -> list[dict[str, Any]]:
    path = data_dir / "nbnlp" / "nbnlp_recipes_345.json"
    if not path.is_file():
        pytest.skip("the NAS-Bench-NLP recipes are not in the data directory")
    records: list[dict[str, Any]] = json.loads(path.read_text())
    return records


def test_parameters_equal_those_of_all_345_recipes(recipes: list[dict[str, Any]]) -> None:
    task = text_task(33_278, 35)
    assert len(recipes) == 345
    for record in recipes:
        space = Recurrent(record["emsize"], record["nhid"], record["nlayers"])
        arch = space.parse(json.dumps(record["recepie"]))
        assert space.counts(arch, task).params == record["num_params_wt2"], record["recepie_id"]


def test_the_simple_cell_by_hand() -> None:
    space, task = Recurrent(), text_task(33_278, 35)
    counts = space.counts(space.parse(json.dumps(RNN)), task)
    assert counts.params == 15_066_078
    matrices = 400 * 600 + 600 * 600 + 2 * 600 * 600 + 600 * 400 + 400 * 400
    assert counts.flops == 35 * (matrices + 400 * 33_278)
    assert counts.layers == 3 * 3 + 2


def test_counts_equal_the_built_network(recipes: list[dict[str, Any]]) -> None:
    task = text_task()
    for record in recipes[::35]:
        arch = TINY.parse(json.dumps(record["recepie"]))
        assert TINY.counts(arch, task) == built_counts(TINY, arch, task)


def test_notation_both_ways(recipes: list[dict[str, Any]]) -> None:
    for record in recipes:
        arch = TINY.parse(json.dumps(record["recepie"]))
        assert TINY.valid(arch)
        assert TINY.canonical(TINY.parse(TINY.format(arch))) == TINY.canonical(arch)


def test_the_gru_recipe_is_a_gru_cell() -> None:
    """The textbook equations, written as a loop over time, are the oracle."""
    task = text_task()
    net = Recurrent(emsize=6, nhid=6, layers=1).build(TINY.parse(json.dumps(GRU)), task)
    layer = net.layers[0]
    r, z, n = (node for node in layer.nodes if isinstance(node, nn.Module) and "parts" in dict(node.named_children()))
    x, h = torch.randn(3, 4, 6), torch.zeros(3, 6)
    expected = []
    with torch.no_grad():
        for moment in x.unbind(1):
            reset = torch.sigmoid(r.parts[0](moment) + h @ r.parts[1].weight.T)
            gate = torch.sigmoid(z.parts[0](moment) + h @ z.parts[1].weight.T)
            new = torch.tanh(n.parts[0](moment) + (reset * h) @ n.parts[1].weight.T)
            h = gate * h + (1 - gate) * new
            expected.append(h)
        torch.testing.assert_close(layer(x), torch.stack(expected, 1))


def test_output_shape_and_tied_weights() -> None:
    task = text_task()
    net = TINY.build(TINY.parse(json.dumps(GRU)), task)
    x, y = task.batch(4, seed=0)
    out = net(x)
    assert out.shape == (4, 5, 11)
    assert task.target.losses(out, y).shape == (4,)
    assert net.embedding.weight is net.decoder.weight
    assert set(net.block_names) <= set(dict(net.named_modules()))


def test_the_future_does_not_reach_the_past() -> None:
    task = text_task()
    net = TINY.build(TINY.parse(json.dumps(GRU)), task)
    x, _ = task.batch(2, seed=0)
    changed = x.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 11
    torch.testing.assert_close(net(x)[:, :3], net(changed)[:, :3], rtol=0, atol=0)
    assert not torch.equal(net(x)[:, 3], net(changed)[:, 3])


def test_random_generation_keeps_the_benchmarks_rules() -> None:
    rng = np.random.default_rng(0)
    sizes = set()
    for hidden in (1, 2, 3):
        for _ in range(40):
            arch = TINY.generate(rng, hidden=hidden, intermediate=12)
            recipe = json.loads(TINY.format(arch))
            sizes.add(len(recipe))
            assert TINY.valid(arch)
            states = {f"h_prev_{state}" for state in range(hidden)}
            read = {source for spec in recipe.values() for source in spec["input"]}
            assert states | {"x"} <= read
            for name, spec in recipe.items():
                if name.startswith("h_new"):
                    assert not states & set(spec["input"])
                if spec["op"] == "linear":
                    ops = [recipe[s]["op"] for s in spec["input"] if s in recipe]
                    assert all(op.startswith("activation") for op in ops)
    assert len(sizes) > 8


def test_random_generation_has_the_benchmarks_odds() -> None:
    """Among main operations before pruning, half are linear; pruning favours none of them by name alone."""
    from trainless.spaces.recurrent_recipe import _redundant

    rng = np.random.default_rng(0)
    ops = [step.op for _ in range(300) for step in _redundant(rng, 2, 9)]
    main = [op for op in ops if not op.startswith("activation")]
    assert main.count("linear") / len(main) == pytest.approx(0.5, abs=0.06)
    assert len(ops) - len(main) == main.count("linear")


def shuffled(arch: Arch, rng: random.Random) -> str:
    """The same recipe with other names, another order, swapped inputs and swapped further states."""
    recipe = json.loads(TINY.format(arch))
    states = [name for name in recipe if name.startswith("h_new")]
    further = [f"h_new_{i}" for i in range(1, len(states))]
    mixed = rng.sample(further, len(further))
    names = {name: f"n{index}" for index, name in enumerate(rng.sample(list(recipe), len(recipe)))}
    names |= {"h_new_0": "h_new_0", **dict(zip(further, mixed, strict=True))}
    names |= {old.replace("new", "prev"): new.replace("new", "prev") for old, new in zip(further, mixed, strict=True)}
    items = rng.sample(list(recipe.items()), len(recipe))
    return json.dumps(
        {
            names[name]: {
                "op": spec["op"],
                "input": [
                    names.get(s, s)
                    for s in (spec["input"] if spec["op"] == "blend" else rng.sample(spec["input"], len(spec["input"])))
                ],
            }
            for name, spec in items
        }
    )


def test_twins_share_one_key() -> None:
    rng, shuffle = np.random.default_rng(1), random.Random(1)
    for hidden in (1, 2, 3) * 8:
        arch = TINY.generate(rng, hidden, 9)
        canonical = TINY.canonical(arch)
        assert TINY.canonical(canonical) == canonical
        assert TINY.canonical(TINY.parse(shuffled(arch, shuffle))) == canonical


def test_twins_of_a_symmetric_cell() -> None:
    recipe: dict[str, Any] = {}
    for gate in range(6):
        recipe[f"l{gate}"] = {"op": "linear", "input": ["x", "h_prev_0"]}
        recipe[f"a{gate}"] = {"op": "activation_tanh", "input": [f"l{gate}"]}
    recipe["p"] = {"op": "elementwise_sum", "input": ["a0", "a1"]}
    recipe["q"] = {"op": "elementwise_sum", "input": ["a2", "a3"]}
    recipe["r"] = {"op": "elementwise_sum", "input": ["p", "q"]}
    recipe["s"] = {"op": "elementwise_prod", "input": ["a4", "a5"]}
    recipe["h_new_0"] = {"op": "elementwise_sum", "input": ["r", "s"]}
    arch = TINY.parse(json.dumps(recipe))
    for seed in range(3):
        twin = shuffled(arch, random.Random(seed))
        assert TINY.canonical(TINY.parse(twin)) == TINY.canonical(arch)


def test_different_cells_have_different_keys(recipes: list[dict[str, Any]]) -> None:
    """Counting the operations and edges is an independent invariant: unequal invariants need unequal keys."""
    keys: dict[Arch, tuple[object, ...]] = {}
    for record in recipes:
        specs = record["recepie"].values()
        invariant = (sorted(s["op"] for s in specs), sum(len(s["input"]) for s in specs))
        arch = TINY.canonical(TINY.parse(json.dumps(record["recepie"])))
        assert keys.setdefault(arch, invariant) == invariant
    assert len(keys) > 250


def test_uniform_sampling_works_by_rejection() -> None:
    rng = np.random.default_rng(0)
    found = [moves.sample(TINY, rng) for _ in range(10)]
    assert len({TINY.canonical(arch) for arch in found}) == 10
    task = text_task()
    for arch in found[:3]:
        assert TINY.build(arch, task)(task.batch(2, seed=0)[0]).isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h_new_0": {"op": "tanh", "input": ["f"]}}, "'tanh' of 'h_new_0' is not an operation: linear, blend"),
        ({"h_new_0": {"op": "blend", "input": ["f"]}}, r"'h_new_0' \(blend\) has 1 inputs; expected 3"),
        ({"h_new_0": {"op": "activation_tanh", "input": ["g"]}}, "'h_new_0' reads 'g', which is neither"),
        ({"h_new_0": {"op": "activation_tanh"}}, "expected an object of op and input"),
        ({"g": {"op": "activation_tanh", "input": ["f"]}}, "'g' leads to no new state: leave it out"),
        ({"h_new_2": {"op": "activation_tanh", "input": ["f"]}}, "the new states are h_new_0, h_new_2; expected"),
        ({"f": {"op": "linear", "input": ["x", "h_prev_1"]}}, "reads h_prev_1, but there are 1 hidden states"),
        ({"f": {"op": "linear", "input": ["x", "x"]}}, "its inputs have to differ"),
        ({"f": {"op": "elementwise_sum", "input": ["x", "h_prev_0"]}}, "reads x, which has another width"),
        ({"f": {"op": "linear", "input": ["x", "h_new_0"]}}, "read each other in a circle"),
        ({"f": {"op": "activation_tanh", "input": ["h_prev_0"]}}, "nothing reads x"),
        ({"x": {"op": "activation_tanh", "input": ["f"]}}, "'x' is an input of the cell"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TINY.parse(json.dumps(RNN | change))


def test_what_is_wrong_otherwise_is_said() -> None:
    with pytest.raises(InputError, match="not JSON"):
        read_recipe("{")
    with pytest.raises(InputError, match="has no nodes"):
        read_recipe("{}")
    for text, kind in (("[1]", "a list"), ('"x"', "a text"), ("3", "a number or truth"), ("null", "null")):
        with pytest.raises(InputError, match=f"is {kind}, not an object of nodes"):
            read_recipe(text)
    with pytest.raises(InputError, match="has 8 nodes; expected at most 4"):
        Recurrent(nodes=4).parse(json.dumps(GRU))
    with pytest.raises(InputError, match="takes sequences of tokens"):
        TINY.check(Task.noise((3, 8, 8), classes=2))
    with pytest.raises(InputError, match="12 outputs: make them equal"):
        TINY.check(Task("t", (5,), Target("tokens", 12), vocabulary=11))
    with pytest.raises(InputError, match="4 hidden states and 7"):
        TINY.generate(np.random.default_rng(0), hidden=4)
    with pytest.raises(InputError, match="emsize=0"):
        Recurrent(emsize=0)


def test_more_nodes_than_anybody_can_list_are_refused() -> None:
    """Each has all others for options: a run folder that said a billion took all memory when it was looked at."""
    with pytest.raises(InputError, match="nodes was given as a number beyond 1,000; expected at most that"):
        Recurrent(nodes=10**9)
