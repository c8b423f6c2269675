"""Members that disagree at initialisation: by naive kernels, and in a design."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.designs.tiny import blobs, small
from trainless.core.errors import InputError
from trainless.core.seeds import seeded
from trainless.designs.diversity import chosen_places, disagreeing, features, similarities
from trainless.designs.pipeline import design
from trainless.spaces import space

RANDOM = np.random.default_rng(1)
SPACE = space("nb201", channels=4, cells=1)
OPERATIONS = ("nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3", "skip_connect")
ARCHS = [SPACE.parse(f"|{one}~0|+|none~0|{one}~1|+|skip_connect~0|none~1|{one}~2|") for one in OPERATIONS]


def test_alignment_is_that_of_centred_kernels() -> None:
    """In plain loops: the cosine of the covariances of similarities over all pairs of samples."""
    a, b = RANDOM.normal(size=(12, 3)), RANDOM.normal(size=(12, 5)) ** 2
    n = len(a)
    centre = np.eye(n) - np.ones((n, n)) / n
    k, m = (centre @ (x @ x.T) @ centre for x in (a, b))
    expected = sum(k[i, j] * m[i, j] for i in range(n) for j in range(n)) / np.sqrt((k**2).sum() * (m**2).sum())
    found = similarities([a, b])
    assert found[0, 1] == pytest.approx(expected)
    assert found[0, 0] == pytest.approx(1)
    turned = np.linalg.qr(RANDOM.normal(size=(3, 3)))[0]
    assert similarities([a, 7 * a @ turned + 2])[0, 1] == pytest.approx(1)


def test_features_are_those_of_the_seeded_networks() -> None:
    task = blobs()
    found = features(SPACE, ARCHS[:2], task, seed=3, samples=16)
    x = task.batch(16, 3)[0]
    with seeded(4), torch.no_grad():
        net = SPACE.build(ARCHS[1], task).train()
        expected = net.pool(net.last(torch.nn.Sequential(net.stem, *net.blocks)(x))).flatten(1)
    np.testing.assert_allclose(found[1], expected.numpy(), rtol=1e-5, atol=1e-6)


def test_quality_and_disagreement_are_weighed() -> None:
    alike = np.array([[1, 0.9, 0.8, 0.1], [0.9, 1, 0.7, 0.2], [0.8, 0.7, 1, 0.3], [0.1, 0.2, 0.3, 1]])
    assert chosen_places(alike, 3, 0.0) == [0, 1, 2]
    assert chosen_places(alike, 2, 1.0) == [0, 3]
    assert chosen_places(alike, 3, 1.0) == [0, 3, 2]  # the second most unlike either: 0.8 against 0.9
    assert sorted(chosen_places(alike, 9, 0.5)) == [0, 1, 2, 3]


def test_members_are_the_best_and_those_unlike_it() -> None:
    task = blobs()
    alike = similarities(features(SPACE, ARCHS, task, seed=5))
    farthest = int(alike[0].argmin())
    assert disagreeing(SPACE, ARCHS, task, 2, diversity=1.0, seed=5) == [ARCHS[0], ARCHS[farthest]]
    assert disagreeing(SPACE, ARCHS, task, 2, diversity=0.0) == ARCHS[:2]
    with pytest.raises(InputError, match=r"diversity=1\.5 was given; expected a share from 0 to 1"):
        disagreeing(SPACE, ARCHS, task, 2, diversity=1.5)


@pytest.mark.slow
def test_a_design_keeps_what_it_chose(tmp_path: Path) -> None:
    settings = small(members=2, epochs=1, evaluations=8, diversity=1.0)
    found = design(blobs(), tmp_path / "run", settings=settings, report=False)
    kept = json.loads((tmp_path / "run" / "diverse.json").read_text())
    assert [one["arch"] for one in found.summary["members"]] == kept["texts"]
    first = found.summary["searches"][0]["winner"]
    assert kept["texts"][0] == first
    with pytest.raises(InputError, match=r"diversity=2\.0 was given"):
        design(blobs(), tmp_path / "other", settings=small(diversity=2.0))
