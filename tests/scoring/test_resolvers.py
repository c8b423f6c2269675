"""Networks of libraries by name; the libraries themselves are tried where they are installed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import trainless as tl
from tests.corpus.torchvision_standin import install
from trainless.core.errors import InputError, UnknownName
from trainless.scoring import resolvers
from trainless.scoring.resolvers import InputKind, NamedNetwork, NetworkLibrary, registry

TASK = tl.Task.noise((3, 32, 32), 4)


class Toy(NetworkLibrary):
    """Two networks of our own, one of which reads tokens."""

    package, install = "json", "nothing"

    def names(self, pattern: str) -> list[str]:
        return self.among(pattern, ["images", "words", "wide"])

    def inputs(self, name: str) -> InputKind | None:
        return InputKind((6,), 11) if name == "words" else InputKind((3, 8, 8))

    def build(self, name: str, task: tl.Task) -> nn.Module:
        outputs = task.target.outputs
        if name == "words":
            return nn.Sequential(nn.Embedding(task.vocabulary, 4), nn.Flatten(), nn.Linear(24, outputs))
        if task.input_shape[1] > 40:
            raise ValueError("too large")
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * task.input_shape[1] ** 2, outputs))


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._entries, "toy", Toy())


def needed(package: str) -> None:
    install()
    pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.usefixtures("toys")
def test_names_and_patterns_are_networks_made_for_the_task() -> None:
    scores = tl.score("toy:w*", 4, task=TASK, proxies="params")
    assert scores.candidates == ["toy:words", "toy:wide"]
    assert scores.column("params").tolist() == [11 * 4 + 24 * 4 + 4, 3 * 32 * 32 * 4 + 4]
    own = tl.score("toy:wide", 4, task=TASK, proxies="params", inputs="own")
    assert own["params"] == 3 * 64 * 4 + 4
    many = tl.score({"a": "toy:images", "b": tl.networks("toy:wide")["toy:wide"]}, 4, task=TASK, proxies="params")
    assert many.candidates == ["a", "b"]
    assert isinstance(tl.networks("toy:images")["toy:images"](), nn.Module)


@pytest.mark.usefixtures("toys")
def test_seeds_draw_weights_anew_and_a_failure_is_a_reason() -> None:
    values = [record.value for record in tl.score("toy:images", 4, task=TASK, proxies="snip", seeds=2)]
    assert values[0] != values[1]
    large = tl.Task.noise((3, 48, 48), 4)
    with pytest.raises(InputError, match="toy:images cannot be made for inputs of 3x48x48 and 4 outputs"):
        tl.score("toy:images", 4, task=large, proxies="params")
    scores = tl.score(["toy:images", lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4))], 4, task=large)
    assert len({name for name, _, _ in scores.failures}) == 2


@pytest.mark.usefixtures("toys")
def test_unknown_names_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="json has no network called 'image'; did you mean 'images'"):
        tl.networks("toy:image")
    with pytest.raises(UnknownName, match="no library of networks is called 'tim'; did you mean 'timm'"):
        tl.networks("tim:resnet18")
    with pytest.raises(InputError, match="expected LIBRARY:NAME, such as timm:resnet18"):
        tl.networks("resnet18")

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    monkeypatch.setattr(importlib, "import_module", missing)
    for text, package in (("timm:resnet*", "timm"), ("hf:bert@config", "transformers")):
        with pytest.raises(InputError, match=f"^{package} is not installed: pip install {package}"):
            tl.score(text, 4, task=TASK)


def test_a_library_is_one_class_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._entries, "mine", f"{__name__}:MINE")
    assert tl.score("mine:images", 4, task=TASK, proxies="params")["params"] > 0
    assert set(registry.names()) >= {"timm", "hf", "monai"}


MINE = Toy()


def test_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("timm")
    assert {"timm:resnet18", "timm:resnet34"} <= set(tl.networks("timm:resnet*"))
    with pytest.raises(UnknownName, match="timm has no network called 'resnett18'; did you mean"):
        tl.networks("timm:resnett18")
    small = ["timm:test_resnet", "timm:test_vit", "timm:test_vit2"]
    scores = tl.score(small, 4, task=TASK, proxies=["params", "grad_norm"])
    assert scores.candidates == small
    assert not scores.failures
    assert NamedNetwork("timm", "resnet18").suited(_source(), own=True).task.input_shape == (3, 224, 224)
    assert NamedNetwork("timm", "resnet18").suited(_source(), own=False).task.input_shape == (3, 32, 32)


def _source() -> Any:
    return resolvers.BatchSource(TASK)


def test_transformers_offline(tmp_path: Path) -> None:
    needed("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for kind, extra in (("bert", {"vocab_size": 50}), ("vit", {"image_size": 64, "patch_size": 16})):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "config.json").write_text(json.dumps({"model_type": kind, **small, **extra}))
    texts = [f"hf:{tmp_path}/bert/config.json", f"hf:{tmp_path}/vit"]
    scores = tl.score(texts, 4, task=TASK, proxies=["params", "grad_norm"])
    assert not scores.failures
    assert NamedNetwork("hf", "bert-base-uncased@config").suited(_source(), own=False).task.vocabulary == 30522
    assert "hf:distilbert@config" in tl.networks("hf:*distil*@config")
    with pytest.raises(InputError, match=r"hf:bert-large-uncased has no configuration on this machine.*hf:bert@config"):
        tl.networks("hf:bert-large-uncased@config")
    with pytest.raises(InputError, match="expected @config or @download"):
        tl.networks("hf:bert@weights")


@pytest.mark.slow
def test_monai() -> None:
    needed("monai")
    task = tl.Task.noise((1, 32, 32, 32), 3)
    assert "monai:DenseNet121" in tl.networks("monai:DenseNet*")
    for name in ("monai:resnet10", "monai:SEResNet50"):
        net = tl.networks(name)[name](task)
        assert sum(tensor.numel() for tensor in net.parameters()) > 0
    scores = tl.score({"a": "monai:DenseNet121", "mask": "monai:BasicUNet"}, 2, task=task, proxies="params")
    assert scores.failures.keys() == {("mask", "params", 0)}
    assert "masks (segmentation)" in scores.failures["mask", "params", 0]
