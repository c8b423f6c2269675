from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spaces.oracle import built_counts, random_valid
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.transformer import Attention, Transformer, attend

SHAPES = [(3, 32, 32), (1, 28, 30), (2, 101), (1, 9, 8, 10)]
SMALL = "depth=2,width=64,heads=2,ratio=2,patch=4,pool="


@pytest.mark.parametrize("shape", SHAPES)
def test_counts_equal_the_built_network(shape: tuple[int, ...]) -> None:
    space, rng = Transformer(), torch.Generator().manual_seed(0)
    task = Task.noise(shape, classes=3)
    for _ in range(4):
        arch = random_valid(space, rng)
        assert space.counts(arch, task) == built_counts(space, arch, task)


def test_parameters_of_deit_tiny() -> None:
    """DeiT-tiny (width 192, 12 blocks, patch 16, 224×224, 1,000 classes) is published with 5,717,416 parameters."""
    space = Transformer(patches=(16,))
    arch = space.parse("depth=12,width=192,heads=3,ratio=4,patch=16,pool=class")
    assert space.counts(arch, Task.noise((3, 224, 224), classes=1000)).params == 5_717_416


def test_attention_equals_a_naive_loop() -> None:
    attention = Attention(6, 2).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, k, v = (x @ attention.qkv.weight.T + attention.qkv.bias).split(6, -1)
    rows = []
    for n in range(2):
        heads = []
        for head in range(2):
            part = slice(3 * head, 3 * head + 3)
            weights = torch.softmax(q[n, :, part] @ k[n, :, part].T / math.sqrt(3), -1)
            heads.append(weights @ v[n, :, part])
        rows.append(torch.cat(heads, -1))
    torch.testing.assert_close(attention(x), attention.out(torch.stack(rows)))


def test_long_sequences_use_the_same_attention() -> None:
    attention = Attention(4, 2)
    x = torch.randn(1, 1030, 4, generator=torch.Generator().manual_seed(0))
    q, k, v = attention.qkv(x).view(1, 1030, 3, 2, 2).permute(2, 0, 3, 1, 4)
    expected = attention.out(attend(q, k, v).transpose(1, 2).reshape(1, 1030, 4))
    torch.testing.assert_close(attention(x), expected)


def test_gradients_can_be_differentiated_again() -> None:
    space, task = Transformer(), Task.noise((1, 16, 16), classes=2)
    net = space.build(space.parse(SMALL + "class"), task)
    x, y = task.batch(2, seed=0)
    weights = list(net.parameters())
    first = torch.autograd.grad(task.target.losses(net(x), y).mean(), weights, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), weights)
    assert all(g.isfinite().all() for g in second)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_forward(shape: tuple[int, ...], pool: str) -> None:
    space, task = Transformer(), Task.noise(shape, classes=3)
    net = space.build(space.parse(SMALL + pool), task)
    assert net(task.batch(2, seed=0)[0]).shape == (2, 3)
    assert set(net.block_names) <= set(dict(net.named_modules()))


def test_filling_up_is_zeros_at_the_end() -> None:
    space = Transformer(patches=(4,))
    arch = space.parse(SMALL + "mean")
    net = space.build(arch, Task.noise((1, 6, 7), classes=2))
    whole = space.build(arch, Task.noise((1, 8, 8), classes=2))
    whole.load_state_dict(net.state_dict())
    x = torch.randn(2, 1, 6, 7, generator=torch.Generator().manual_seed(0))
    padded = torch.zeros(2, 1, 8, 8)
    padded[:, :, :6, :7] = x
    torch.testing.assert_close(net(x), whole(padded))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_valid_exactly_where_heads_divide_the_width(data: st.DataObject) -> None:
    space = Transformer()
    arch = tuple(data.draw(st.integers(0, len(decision) - 1)) for decision in space.decisions)
    options = {d.name: d.options[o] for d, o in zip(space.decisions, arch, strict=True)}
    assert space.valid(arch) == (int(options["width"]) % int(options["heads"]) == 0)
    if space.valid(arch):
        assert space.parse(space.format(arch)) == arch


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth=2", "says nothing of width, heads"),
        (SMALL + "max", "pool=max was given; expected one of class, mean"),
        (SMALL + "mean,depth=4", "'depth' is given twice"),
        (SMALL + "mean,colour=4", "'colour=4' is not name=option"),
        (SMALL.replace("heads=2", "heads=3") + "mean", "3 heads do not divide a width of 64"),
    ],
)
def test_what_is_wrong_with_a_string_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Transformer().parse(text)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="a patch of 8 does not fit inputs of size 7x9"):
        Transformer().check(Task.noise((1, 7, 9), classes=2))
    Transformer(patches=(1, 2)).check(Task.noise((1, 7, 9), classes=2))
    with pytest.raises(InputError, match="signals, images and volumes"):
        Transformer().check(Task.noise((9,), classes=2))
    with pytest.raises(InputError, match="expected different sizes"):
        Transformer(patches=(0,))
