"""Strange networks beside plain autograd, and by every proxy; what cannot be scored says why in words of its own."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.corpus import strange
from tests.corpus.test_networks import EXCEPTIONS
from trainless.core.errors import InputError
from trainless.scoring.evaluate import score
from trainless.testing import check_network


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", strange.NETWORKS)
def test_scored_as_what_it_computes(name: str) -> None:
    make, shape = strange.NETWORKS[name]
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        net = make()
    data = strange.batch(shape)
    check_network(net, data)
    reasons = score(net, data).failures.values()
    assert not [reason for reason in reasons if EXCEPTIONS.search(reason)]


class Many(nn.Module):
    """Gives logits among other things, or in double precision, or of half the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(10, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = F.relu(self.body(x))
        return {"features": features, "logits": self.head(features)}


def test_a_tensor_is_chosen_from_a_dict() -> None:
    check_network(Many(), strange.batch((10,)), adapter=lambda output: output["logits"])


def _wrapped(kind: str) -> nn.Module:
    net = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 3))
    if kind == "lazy":
        return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(3))
    if kind == "half":
        return net.to(torch.bfloat16)
    if kind == "parallel":
        return nn.DataParallel(net)
    if kind == "scripted":
        return torch.jit.trace(net, torch.zeros(2, 10))
    if kind == "complex":
        return nn.Sequential(nn.Linear(10, 4, dtype=torch.complex64), nn.Linear(4, 3))
    return torch.compile(net)  # type: ignore[return-value]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        *(("lazy", "lazy layers"), ("half", "weights of type torch.bfloat16"), ("parallel", "wrapped in DataParallel")),
        *(("scripted", "scripted or traced"), ("complex", "complex weights"), ("compiled", "before torch.compile")),
    ],
)
def test_what_hides_a_network_is_refused_by_name(kind: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        score(_wrapped(kind), strange.batch((10,)))
