"""Batches as people have them, and tasks that are not scored: one clear line with what is possible instead."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import trainless as tl
from tests.scoring.toys import Mask, small_batch, small_net
from trainless.core.errors import InputError

X, Y = small_batch()
WORDS = torch.arange(8 * 6).reshape(8, 6) % 11
ONE_HOT = torch.nn.functional.one_hot(Y, 5)


class Words(nn.Module):
    """Answers at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.embed(x))
        return out


class Boxes(nn.Module):
    """Returns a dict of detections for every image."""

    def forward(self, x: Tensor) -> list[dict[str, Tensor]]:
        return [{"boxes": each.flatten()[:4], "scores": each.flatten()[:1]} for each in x]


class Pair(nn.Module):
    """Takes two inputs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.flatten(1) + y.flatten(1)


def test_numpy_batches_are_taken_as_they_are() -> None:
    there = tl.score(small_net(), (X, Y), proxies="snip")["snip"]
    for x in (X.numpy(), X.numpy().astype(np.float64), X.numpy()[::-1][::-1]):
        assert tl.score(small_net(), (x, Y.numpy()), proxies="snip")["snip"] == there  # type: ignore[arg-type]


NOT_SCORED: list[tuple[nn.Module, object, object, str]] = [
    (small_net(), X, ONE_HOT, r"one-hot labels of shape \(8, 5\) were given; expected.*: use y.argmax\(1\)"),
    (small_net(), X, ONE_HOT.float(), r"one-hot labels .*use y.argmax\(1\)"),
    (small_net(), X.numpy(), ONE_HOT.float().numpy(), r"one-hot labels .*use y.argmax\(1\)"),
    (small_net(), X, ONE_HOT.float() * 0.8 + 0.04, r"probabilities of classes .*use y.argmax\(1\)"),
    (small_net(), X, ((X[:, 0, 0, :5]) > 0).float(), "multi-label tasks are not scored; score one label at a time"),
    (small_net(), X, ((X[:, 0, 0, :5]) > 0), "multi-label tasks are not scored"),
    (small_net(), X, Y[:, None], r"labels of shape \(8, 1\) were given.*use y.squeeze\(1\)"),
    (small_net(), X, Y > 2, r"labels of type torch.bool .*use y.long\(\)"),
    (small_net(), X, (Y > 2).float(), r"that are 0 or 1 were given; expected class indices"),
    (small_net(), X, (Y > 2).float()[:, None], r"that are 0 or 1 were given; expected class indices"),
    (small_net(), X.to(torch.uint8), Y, r"inputs of type torch.uint8 were given; expected x.float\(\) / 255"),
    (Mask(), X, Y, r"shape \(2, 3, 6, 6\), an answer for every position: masks \(segmentation\).*adapter=lambda"),
    (Mask(), X, torch.zeros(8, 6, 6, dtype=torch.long), r"labels of shape \(8, 6, 6\).*masks.*class indices y"),
    (Boxes(), X, Y, "Boxes returned boxes, scores: detection is not scored"),
    (Boxes(), X, [{"boxes": Y, "labels": Y}] * 8, "list of dicts of boxes, labels.*detection"),
    (Words(), WORDS, Y, r"shape \(2, 6, 11\), an answer for every position.*labels are one per sample.*adapter"),
    (Words(), WORDS, WORDS[:, :4], "sequences to sequences of another length are not scored"),
    (small_net(), X, WORDS % 5, r"the labels are one per position and need \(N, T, K\)"),
    (Pair(), X, Y, "networks of several inputs .* are not scored; wrap it in a module"),
]  # fmt: skip


@pytest.mark.parametrize(("net", "x", "y", "message"), NOT_SCORED, ids=[each[3][:30] for each in NOT_SCORED])
def test_a_task_that_is_not_scored_says_so_and_what_is_possible(
    net: nn.Module, x: object, y: object, message: str
) -> None:
    with pytest.raises(InputError, match=message) as told:
        tl.score(net, (x, y), proxies="snip")  # type: ignore[arg-type]
    assert "\n" not in str(told.value)


def test_what_the_messages_advise_works() -> None:
    plain = tl.score(small_net(), (X, Y), proxies="snip")["snip"]
    assert tl.score(small_net(), (X, ONE_HOT.argmax(1)), proxies="snip")["snip"] == plain
    mask = tl.score(Mask(), (X, Y % 3), proxies="snip", adapter=lambda out: out.flatten(2).mean(2))
    words = tl.score(Words(), (WORDS, Y), proxies="snip", adapter=lambda out: out.mean(1))
    tokens = tl.score(Words(), (WORDS, WORDS.roll(1, 1)), proxies="snip")
    values = ((X[:, 0, 0, :5]) > 0).float()
    kind = tl.score(small_net(), (X, values), task=tl.Task.noise((3, 6, 6), 5, kind="regression"), proxies="snip")
    assert not any(scores.failures for scores in (mask, words, tokens, kind))


def test_regression_of_several_values_is_not_taken_for_labels() -> None:
    for y in (torch.randn(8, 5), torch.zeros(8, 5), torch.rand(8, 5)):
        assert not tl.score(small_net(), (X, y), proxies="grad_norm").failures
