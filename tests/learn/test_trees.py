"""Trees as a network, against scikit-learn's own predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from torch import nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.export import export_onnx
from trainless.learn.members import build, finish_member, load_member, member_of, notation
from trainless.learn.predictor import Predictor
from trainless.learn.recipe import recipe
from trainless.learn.trees import _at_most, fit_trees
from trainless.spaces.trees import STEPS, Trees

RANDOM = np.random.default_rng(5)


def rows(n: int = 90, columns: int = 5, classes: int = 3) -> Task:
    """Classes by the signs of two columns on very different scales, which a mean over columns could not tell."""
    x = RANDOM.normal(size=(n, columns)) * 10.0 ** np.arange(columns)
    y = np.minimum((x[:, 0] > 0).astype(int) + (x[:, 3] > 0), classes - 1)
    target = Target("binary" if classes == 2 else "multiclass", classes)
    parts = [Part(x[part].astype(np.float32), y[part]) for part in (slice(0, 60), slice(60, None))]
    return Task("rows", (columns,), target, *parts)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_network_says_what_the_forest_says(classes: int) -> None:
    task = rows(classes=classes)
    space = Trees()
    arch = space.parse("trees=50,leaves=32")
    trained = fit_trees(space.build(arch, task), task, recipe("trees"), seed=4)
    assert trained.status == "ok"
    x, y = task.tensors("train")
    forest = ExtraTreesClassifier(50, max_leaf_nodes=32, max_depth=STEPS, random_state=4).fit(x.numpy(), y.numpy())
    seen, prior = [], np.bincount(y.numpy(), minlength=classes) / len(y)
    new = task.tensors("valid")[0]
    for tree in forest.estimators_:  # shares of a leaf's samples, with one at the prior beside them
        leaf, home = tree.apply(new.numpy()), tree.apply(x.numpy())
        counts = np.array([np.bincount(y.numpy()[home == place], minlength=classes) for place in leaf])
        seen.append((counts + prior) / (counts.sum(1, keepdims=True) + 1))
    with torch.no_grad():
        said = trained.net(new).double().softmax(1).numpy()
    np.testing.assert_allclose(said, np.mean(seen, axis=0), atol=1e-6)


def test_values_are_the_forests() -> None:
    x = RANDOM.normal(size=(80, 4)).astype(np.float32)
    y = (3 * x[:, 1] - 2 * x[:, 2]).astype(np.float32)
    task = Task("values", (4,), Target("regression", 1), Part(x[:60], y[:60]), Part(x[60:], y[60:]))
    space = Trees()
    net = fit_trees(space.build(space.plain(task), task), task, recipe("trees"), seed=1).net
    kind = {"max_leaf_nodes": 128, "max_depth": STEPS, "max_features": 1.0, "random_state": 1}
    forest = ExtraTreesRegressor(100, **kind).fit(x[:60], y[:60])
    with torch.no_grad():
        np.testing.assert_allclose(net(torch.from_numpy(x[60:]))[:, 0], forest.predict(x[60:]), atol=1e-5)


def test_thresholds_keep_their_side_in_single_precision() -> None:
    values = RANDOM.normal(size=1000).astype(np.float32)
    between = (values[:-1].astype(np.float64) + values[1:]) / 2
    for threshold in (between, np.nextafter(values[:-1].astype(np.float64), -np.inf)):
        wanted = values[:-1].astype(np.float64) <= threshold
        assert ((values[:-1] <= _at_most(threshold)) == wanted).all()


@pytest.mark.slow
def test_it_is_a_member_like_any_other(tmp_path: Path) -> None:
    task = rows(classes=2)
    member = member_of(Trees(), Trees().plain(task), recipe("trees"), 3)
    assert notation(member) == "trees=100,leaves=128"
    made = finish_member(tmp_path / "m", member, task)
    again = load_member(tmp_path / "m")[1].net
    x = task.tensors("valid")[0]
    with torch.no_grad():
        assert torch.equal(made.net(x), again(x))
        assert torch.allclose(build(member, task)(x), torch.full((30, 2), 0.5).log())  # it has seen nothing yet
    pytest.importorskip("onnxscript")
    names = export_onnx(Predictor(task, (again,), np.ones(1)), tmp_path / "trees.onnx")  # compares with PyTorch
    assert names[0] == "probabilities"


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(InputError, match="grows networks of the space trees; Linear was given"):
        fit_trees(nn.Linear(2, 2), rows(), recipe("trees"))
    with pytest.raises(InputError, match="at most 512 numbers"):
        Trees().check(Task.noise((1, 600), classes=2))
