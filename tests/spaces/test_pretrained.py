"""Backbones with weights from this machine, by small checkpoints that are made here."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.corpus.torchvision_standin import install
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.designs.pipeline import design
from trainless.designs.settings import DesignSettings
from trainless.learn.members import build, finish_member, load_member, member_of
from trainless.learn.predictor import load_predictor
from trainless.learn.recipe import recipe
from trainless.spaces.pretrained import Pretrained, pretrained
from trainless.tasks import task as load

install()
timm = pytest.importorskip("timm")
ARCHITECTURE = "test_resnet"
IMAGES = Task.noise((3, 20, 24), classes=4)


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    net = timm.create_model(ARCHITECTURE, pretrained=False, num_classes=1000)
    return {
        name: torch.randn_like(value) if value.is_floating_point() else value
        for name, value in net.state_dict().items()
    }


def folder(path: Path, weights: dict[str, torch.Tensor]) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"architecture": ARCHITECTURE, "num_classes": 1000}))
    save_file(weights, path / "model.safetensors")
    return path


def test_all_but_the_classifier_is_the_files(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    space = pretrained(str(folder(tmp_path / "net", weights)))
    assert space.format(space.plain(IMAGES)) == "side=64"
    own = space.build(space.plain(IMAGES), IMAGES).backbone.state_dict()
    for name, value in own.items():
        assert name.startswith("fc.") or torch.equal(value, weights[name]), name
    assert own["fc.weight"].shape[0] == 4
    grey = space.build((0,), Task.noise((1, 20, 24), classes=2)).backbone.state_dict()
    first = next(name for name in own if name.endswith("weight"))
    torch.testing.assert_close(grey[first], weights[first].sum(1, keepdim=True))  # three equal channels see the same


def test_images_are_enlarged_until_they_are_large_enough(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    space = pretrained(str(folder(tmp_path / "net", weights)))
    seen: list[tuple[int, ...]] = []
    net = space.skeleton((0,), IMAGES).eval()
    net.backbone.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    net(torch.zeros(2, 3, 20, 24))
    net(torch.zeros(2, 3, 80, 90))
    assert seen == [(2, 3, 64, 77), (2, 3, 80, 90)]
    assert space.plain(Task.noise((3, 100, 300), 2)) == (2,)
    assert space.plain(Task.noise((3, 500, 500), 2)) == (3,)


def test_files_nested_dictionaries_and_the_hubs_cache(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in weights.items()}}, tmp_path / "a.pth"
    )
    cache = tmp_path / "models--timm--test_resnet"
    folder(cache / "snapshots" / "abc", weights)
    folder(cache / "snapshots" / "aaa", {name: torch.zeros_like(value) for name, value in weights.items()})
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    for text in (f"{ARCHITECTURE}={tmp_path / 'a.pth'}", str(cache)):
        own = pretrained(text).build((0,), IMAGES).backbone.state_dict()
        assert all(torch.equal(value, weights[name]) for name, value in own.items() if not name.startswith("fc."))


class Evil:
    """Raises where it is unpickled."""

    def __reduce__(self) -> tuple:
        return (exec, ("raise SystemExit('code was run')",))


def test_what_cannot_be_trusted_or_does_not_fit_is_refused(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"state_dict": Evil()}))
    with pytest.raises(InputError, match="holds no weights that can be read safely"):
        pretrained(f"{ARCHITECTURE}={tmp_path / 'evil.pth'}").build((0,), IMAGES)
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state dict"):
        pretrained(f"{ARCHITECTURE}={tmp_path / 'list.pth'}").build((0,), IMAGES)
    save_file(weights, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"of the \d+ tensors of test_vit are in"):
        pretrained(f"test_vit={tmp_path / 'w.safetensors'}").build((3,), IMAGES)
    with pytest.raises(InputError, match="timm knows no architecture 'resnet9000'"):
        pretrained(f"resnet9000={tmp_path / 'w.safetensors'}").check(IMAGES)
    with pytest.raises(InputError, match="takes images"):
        pretrained(f"{ARCHITECTURE}={tmp_path / 'w.safetensors'}").check(Task.noise((1, 50), 2))
    for text in (str(tmp_path / "nowhere"), f"resnet18={tmp_path / 'nothing.pth'}", str(tmp_path)):
        with pytest.raises(InputError, match="expected a folder with config"):
            pretrained(text)


@pytest.mark.slow
def test_a_member_keeps_its_own_weights(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    """A trained member is read without the file that it began with; another file under that name is refused."""
    place = folder(tmp_path / "net", weights)
    space, data = pretrained(str(place)), load("digits")
    member = member_of(space, (0,), recipe("ridge"), 1)
    assert member.space == "pretrained"
    made = finish_member(tmp_path / "member", member, data)
    begun = build(member, data).backbone.state_dict()
    first = next(name for name in begun if name.endswith("weight"))
    torch.testing.assert_close(made.net.backbone.state_dict()[first], begun[first])  # ridge fits the last layer alone
    save_file({name: value + 1 for name, value in weights.items()}, place / "model.safetensors")
    with pytest.raises(InputError, match="not those that the run began with"):
        build(member, data)
    (place / "model.safetensors").unlink()
    again = load_member(tmp_path / "member")[1].net
    x = data.tensors("test", np.arange(3))[0]
    with torch.no_grad():
        assert torch.equal(again(x), made.net(x))


@pytest.mark.slow
def test_a_design_has_it_compete(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    data = load(((random.normal(size=(60, 12, 12)) + y[:, None, None]).astype(np.float32), y))
    net = timm.create_model(ARCHITECTURE, pretrained=False, num_classes=1000)
    place = folder(tmp_path / "net", net.state_dict())
    settings = DesignSettings(pretrained=str(place), members=3, epochs=1, evaluations=2)
    found = design(data, tmp_path / "run", settings=settings, report=False)
    assert [one["space"] for one in found.summary["members"]].count("pretrained") == 1
    assert "a pretrained backbone" in [one["name"] for one in found.summary["test"]["yardsticks"]]
    assert load_predictor(tmp_path / "run").nets
    with pytest.raises(InputError, match="competes with plain networks"):
        design(data, tmp_path / "other", preset="teacup", settings=settings)


def test_a_space_of_its_own_shows_itself(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    space = pretrained(str(folder(tmp_path / "net", weights)))
    assert isinstance(space, Pretrained)
    assert "64, 96, 128, 224" in space._repr_html_()
    assert space.parse("side=96") == (1,)
