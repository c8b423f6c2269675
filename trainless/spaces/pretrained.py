"""Backbones of timm whose weights lie on this machine, as networks like any other; nothing is ever fetched."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.text import one_line
from trainless.spaces.protocol import IndependentDecisions, require_arch
from trainless.spaces.sketch import Block, Chain

SIDES = (64, 96, 128, 224)  # pixels that a backbone sees along the shorter side
FILES = ("model.safetensors", "pytorch_model.bin")
KINDS = (".safetensors", ".bin", ".pt", ".pth")
NESTED = ("state_dict_ema", "model_ema", "state_dict", "model")  # what a checkpoint may hold its weights under
LEAST = 0.9  # of a backbone's tensors that the weights have to fill
_SIDE = Decision("side", tuple(map(str, SIDES)))
_EXPECTED = (
    "expected a folder with config.json and model.safetensors, a model's folder of the Hub's cache, or"
    " ARCHITECTURE=FILE such as resnet18=weights.safetensors"
)


@dataclass(frozen=True)
class Pretrained(IndependentDecisions):
    """A backbone of timm with weights from a file, a new classifier, and the side that its images are brought to.

    The first convolution is fitted to the data's channels as timm does it. Weights are read as tensors alone, never as
    code.

    Args:
        architecture: What timm calls it.
        weights: The file.
        digest: Of the file, so that a run that is resumed knows it again; taken anew where it is empty.
    """

    architecture: str
    weights: str
    digest: str = field(default="")
    name = "pretrained"
    decisions = (_SIDE,)

    def check(self, task: Task) -> None:
        if task.dims != 2 or task.vocabulary:
            raise InputError(
                f"--pretrained takes images; inputs of the task {task.name!r} are {task.input_shape}: leave it out"
            )
        if self.architecture not in _timm().list_models():
            raise InputError(f"timm knows no architecture {self.architecture!r}: name one of timm.list_models()")

    def plain(self, task: Task) -> Arch:
        """The least side that loses no pixel, 224 at most."""
        shorter = min(task.input_shape[1:])
        return (next((place for place, side in enumerate(SIDES) if side >= shorter), len(SIDES) - 1),)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        """The network with the weights of the file; the classifier is drawn anew."""
        net = self.skeleton(arch, task)
        path = Path(self.weights)
        if self.digest and digest_of(path) != self.digest:
            raise InputError(f"the weights in {path} are not those that the run began with: give it another folder")
        _fill(net.backbone, read_weights(path), self.architecture, task.input_shape[0], path)
        return net

    def skeleton(self, arch: Arch, task: Task) -> PretrainedNetwork:
        """The network without the weights, for those that were trained."""
        require_arch(self, arch, task)
        made = _timm().create_model(
            self.architecture, pretrained=False, num_classes=task.target.outputs, in_chans=task.input_shape[0]
        )
        return PretrainedNetwork(made, SIDES[arch[0]])

    def sketch(self, arch: Arch) -> tuple[Chain]:
        side = Block("resize", f"shorter side {_SIDE.options[arch[0]]}")
        return (Chain("network", (side, Block(self.architecture, "pretrained"), Block("linear classifier"))),)


class PretrainedNetwork(nn.Module):
    """A backbone whose images are enlarged, never made smaller, until their shorter side is long enough."""

    def __init__(self, backbone: nn.Module, side: int) -> None:
        super().__init__()
        self.backbone, self.side = backbone, side

    def forward(self, x: Tensor) -> Tensor:
        high, wide = x.shape[-2:]
        factor = self.side / min(high, wide)
        if factor > 1:
            x = F.interpolate(x, (round(high * factor), round(wide * factor)), mode="bilinear", align_corners=False)
        logits: Tensor = self.backbone(x)
        return logits


def pretrained(text: str) -> Pretrained:
    """What ``--pretrained`` names.

    Args:
        text: A folder with ``config.json`` and weights, a model's folder of the Hub's cache (``models--…``), or
            ``ARCHITECTURE=FILE``.
    """
    architecture, equals, file = text.partition("=")
    if equals and not Path(text).exists():
        path = Path(file)
    else:
        folder = _snapshot(Path(text))
        architecture = _architecture(folder)
        path = next((folder / name for name in FILES if (folder / name).is_file()), folder / FILES[0])
    if not path.is_file() or path.suffix not in KINDS:
        raise InputError(f"there are no weights at {path}: {_EXPECTED}")
    made = Pretrained(architecture, str(path.resolve()))
    return replace(made, digest=digest_of(path))


def _snapshot(folder: Path) -> Path:
    """A folder, or of a model in the Hub's cache the snapshot that ``main`` stands for."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: {_EXPECTED}")
    if not (folder / "snapshots").is_dir():
        return folder
    main = folder / "refs" / "main"
    names = [main.read_text().strip()] if main.is_file() else []
    found = [folder / "snapshots" / name for name in names if name and "/" not in name]
    found += sorted((folder / "snapshots").iterdir())
    if not found:
        raise InputError(f"{folder} has no snapshot: {_EXPECTED}")
    return found[0]


def _architecture(folder: Path) -> str:
    try:
        about = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / 'config.json'} cannot be read ({one_line(error)}): {_EXPECTED}") from None
    name = about.get("architecture") if isinstance(about, dict) else None
    if not isinstance(name, str):
        raise InputError(f"{folder / 'config.json'} names no architecture of timm: {_EXPECTED}")
    return name


def digest_of(path: Path) -> str:
    """A digest of a file's content."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise InputError(f"the weights in {path} cannot be read ({error.strerror}): put them back") from None


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a checkpoint by their names; nothing in it is executed."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged or hostile file brings about
        raise InputError(f"{path} holds no weights that can be read safely ({one_line(error)[:200]})") from None
    while isinstance(found, Mapping) and (inner := next((name for name in NESTED if name in found), None)):
        found = found[inner]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{path} holds no state dict: save net.state_dict() or a .safetensors file")
    return {str(name).removeprefix("module."): value for name, value in found.items()}


def _fill(net: nn.Module, weights: Mapping[str, Tensor], architecture: str, channels: int, path: Path) -> None:
    """Put weights into a backbone, all but its classifier; the first convolution's fitted to the channels."""
    own, head = net.state_dict(), _classifier(net)
    wanted = [name for name in own if not name.startswith(head)]
    taken: dict[str, Tensor] = {}
    for name in wanted:
        value = weights.get(name)
        if value is not None and value.ndim == 4 and own[name].ndim == 4 and value.shape[1] != own[name].shape[1]:
            value = _adapted(value, channels)
        if value is not None and value.shape == own[name].shape:
            taken[name] = value
    if len(taken) < LEAST * len(wanted):
        raise InputError(
            f"{len(taken)} of the {len(wanted)} tensors of {architecture} are in {path} with their shapes; expected"
            f" {LEAST:.0%} at least: name the architecture that the weights are of"
        )
    net.load_state_dict(taken, strict=False)


def _classifier(net: Any) -> tuple[str, ...]:
    """How the names of a backbone's classifier begin."""
    given = net.pretrained_cfg.get("classifier") or ()
    return tuple(f"{name}." for name in ((given,) if isinstance(given, str) else given)) or ("classifier.",)


def _adapted(weight: Tensor, channels: int) -> Tensor:
    """A convolution on three channels made one on others: the sum for one, else repeated and scaled."""
    adapted: Tensor = importlib.import_module("timm.models").adapt_input_conv(channels, weight)
    return adapted


def _timm() -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError:
        raise InputError("backbones need timm: pip install timm") from None
