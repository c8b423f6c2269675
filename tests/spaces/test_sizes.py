from __future__ import annotations

import pytest
import torch

from tests.spaces.oracle import built_counts, random_valid
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.sizes import Sizes

CIFAR = Task.noise((3, 32, 32), classes=10)


@pytest.mark.parametrize(
    ("text", "params"), [("8:8:8:8:8", 11_714), ("8:8:16:40:40", 107_826), ("64:64:64:64:64", 713_674)]
)
def test_parameters_equal_those_stored_in_the_benchmark(text: str, params: int) -> None:
    space = Sizes()
    assert space.counts(space.parse(text), CIFAR).params == params


@pytest.mark.parametrize("shape", [(2, 50), (3, 17, 12), (1, 9, 7, 6)])
def test_counts_equal_the_built_network(shape: tuple[int, ...]) -> None:
    space, rng = Sizes(), torch.Generator().manual_seed(0)
    task = Task.noise(shape, classes=3)
    for _ in range(5):
        arch = random_valid(space, rng)
        assert space.counts(arch, task) == built_counts(space, arch, task)
        assert space.parse(space.format(arch)) == arch


@pytest.mark.parametrize("shape", [(2, 50), (3, 17, 12), (1, 9, 7, 6)])
def test_forward_gives_one_row_of_logits_per_sample(shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=3)
    net = Sizes().build((0, 1, 0, 0, 2), task)
    assert net(task.batch(2, seed=0)[0]).shape == (2, 3)
    assert {"stem", "blocks.4"} <= set(dict(net.named_modules()))


def test_what_is_wrong_is_said() -> None:
    space = Sizes()
    with pytest.raises(InputError, match="has 4 widths; expected 5"):
        space.parse("8:8:8:8")
    with pytest.raises(InputError, match="'12' channels in cell 2 of '8:8:12:8:8'; expected 8"):
        space.parse("8:8:12:8:8")
    with pytest.raises(InputError, match="too small for nats-size"):
        space.check(Task.noise((1, 3, 8), classes=2))
    with pytest.raises(InputError, match="signals, images and volumes"):
        space.check(Task.noise((7,), classes=2))
