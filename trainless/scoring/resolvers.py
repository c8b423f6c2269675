"""Networks of libraries by name, with random weights: ``timm:resnet*``, ``hf:bert@config``, ``monai:DenseNet121``.

A library of one's own is added by a subclass of :class:`NetworkLibrary` and an entry point of the group
``trainless.networks`` that names an instance of it.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from trainless.core.errors import InputError, UnknownName
from trainless.core.registry import Registry
from trainless.core.task import Task
from trainless.core.text import one_line
from trainless.scoring.batches import BatchSource, Shape

WILD = "*?["
CLASSES, IMAGE, TOKENS, SAMPLES = 10, (3, 32, 32), 32, 4000  # what a network is made for where nothing else is said


@dataclass(frozen=True)
class InputKind:
    """The inputs that a network takes.

    Args:
        shape: Its own shape of one sample.
        vocabulary: The number of tokens; 0 where inputs are values.
    """

    shape: Shape
    vocabulary: int = 0

    def takes(self, task: Task) -> bool:
        """Whether a task's inputs are of this kind: as many axes, and tokens for tokens."""
        return len(task.input_shape) == len(self.shape) and bool(task.vocabulary) == bool(self.vocabulary)


class NetworkLibrary(ABC):
    """A library whose networks can be made by name.

    Attributes:
        package: What is imported.
        install: What to install where it is missing.
    """

    package: ClassVar[str]
    install: ClassVar[str]

    @abstractmethod
    def names(self, pattern: str) -> list[str]:
        """The names that match a pattern; a plain name is known, or an error."""

    @abstractmethod
    def build(self, name: str, task: Task) -> nn.Module:
        """A network with random weights for a task's inputs and outputs."""

    def inputs(self, name: str) -> InputKind | None:
        """The inputs of its own; None where it is made for any."""
        return None

    def adapt(self, outputs: Any) -> Any:
        """The tensor of logits among its outputs."""
        return outputs

    def library(self, module: str = "") -> ModuleType:
        """Import the package, or say how to install it."""
        try:
            return importlib.import_module(module or self.package)
        except Exception as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == self.package
            why = "is not installed" if missing else f"cannot be imported ({one_line(error)})"
            raise InputError(f"{self.package} {why}: pip install {self.install}") from error

    def among(self, pattern: str, known: Sequence[str]) -> list[str]:
        """The known names that match a pattern, or an error with those that are near."""
        found = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UnknownName(f"{self.package} has no network called {pattern!r}{hint}")
        return found


@dataclass(frozen=True)
class NamedNetwork:
    """One network of a library: a function from a task to an nn.Module with random weights.

    Example:
        >>> print(NamedNetwork("timm", "resnet18"))
        timm:resnet18
    """

    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"

    def __call__(self, task: Task | None = None) -> nn.Module:
        if task is None:
            own = registry[self.source].inputs(self.name) or InputKind(IMAGE)
            task = replace(Task.noise(own.shape, CLASSES), vocabulary=own.vocabulary, fingerprint="")
        try:
            return registry[self.source].build(self.name, task)
        except InputError:
            raise
        except Exception as error:
            shape = "x".join(map(str, task.input_shape))
            raise InputError(
                f"{self} cannot be made for inputs of {shape} and {task.target.outputs} outputs ({one_line(error)}):"
                " give a function that makes it, or the inputs that it takes (--input own)"
            ) from error

    def adapter(self, outputs: Any) -> Any:
        """The tensor of logits among its outputs."""
        return outputs if isinstance(outputs, Tensor) else registry[self.source].adapt(outputs)

    def suited(self, data: BatchSource, *, own: bool) -> BatchSource:
        """The batches with its own inputs where that is asked for, or where noise of the task's kind is not for it."""
        inputs = registry[self.source].inputs(self.name)
        if inputs is None or (inputs.takes(data.task) and not own):
            return data
        return data.sized(inputs.shape, inputs.vocabulary)


def is_name(text: str) -> bool:
    """Whether a text names networks of a library.

    Example:
        >>> is_name("timm:resnet*"), is_name("my_nets.py:small")
        (True, False)
    """
    source, colon, name = text.partition(":")
    return bool(colon and name) and source in registry


def networks(pattern: str) -> dict[str, NamedNetwork]:
    """The networks of libraries that a name or pattern stands for, to be scored or called; none is made yet.

    Args:
        pattern: ``timm:resnet*``, ``hf:bert@config``, ``hf:path/to/config.json``, ``monai:DenseNet121``.

    Returns:
        A function from a task to an nn.Module with random weights by each full name.
    """
    source, colon, name = pattern.partition(":")
    if not colon or not name:
        raise InputError(
            f"{pattern!r} was given; expected LIBRARY:NAME, such as timm:resnet18 (trainless list networks)"
        )
    return {f"{source}:{each}": NamedNetwork(source, each) for each in registry[source].names(name)}


class Timm(NetworkLibrary):
    """Networks of timm for images, such as timm:resnet18; patterns such as timm:resnet* are allowed."""

    package, install = "timm", "timm torchvision"

    def names(self, pattern: str) -> list[str]:
        return self.among(pattern, self.library().list_models())

    def inputs(self, name: str) -> InputKind | None:
        told = self.library().get_pretrained_cfg(name)
        return InputKind(tuple(told.input_size) if told else (3, 224, 224))

    def build(self, name: str, task: Task) -> nn.Module:
        fixed = {"pretrained": False, "num_classes": task.target.outputs, "in_chans": task.input_shape[0]}
        sizes, own = task.input_shape[1:], self.inputs(name)
        if own is not None and own.shape[1:] != sizes:
            with suppress(TypeError):  # transformers are made for one size; convolutional networks take any
                return cast(nn.Module, self.library().create_model(name, img_size=sizes, **fixed))
        return cast(nn.Module, self.library().create_model(name, **fixed))


class HuggingFace(NetworkLibrary):
    """Networks of transformers from a configuration: hf:bert@config, hf:path/to/config.json; nothing is downloaded.

    A name is a type of network (its default configuration), a local file or folder, or a model whose configuration is
    in the local cache or is its type's default; ``@download`` fetches the configuration, never the weights.
    """

    package, install = "transformers", "transformers"

    def names(self, pattern: str) -> list[str]:
        name, at, way = pattern.partition("@")
        if at and way not in ("config", "download"):
            raise InputError(f"hf:{pattern} was given; expected @config or @download after the name, or nothing")
        if not any(sign in name for sign in WILD):
            self._config(pattern)
            return [pattern]
        return [f"{each}{at}{way}" for each in self.among(name, sorted(self.library().CONFIG_MAPPING.keys()))]

    def inputs(self, name: str) -> InputKind | None:
        config, kind = self._config(name), self._kind(name)
        if kind == "IMAGE":
            size = getattr(config, "image_size", None) or 224
            sizes = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
            return InputKind((getattr(config, "num_channels", 3), *sizes))
        return InputKind((SAMPLES,)) if kind == "AUDIO" else InputKind((TOKENS,), config.vocab_size)

    def build(self, name: str, task: Task) -> nn.Module:
        config, kind = self._config(name), self._kind(name)
        config.num_labels = task.target.outputs
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = 0
        if kind == "IMAGE":
            config.num_channels = task.input_shape[0]
            config.image_size = (
                task.input_shape[1] if len(set(task.input_shape[1:])) == 1 else list(task.input_shape[1:])
            )
        heads = {"IMAGE": "ImageClassification", "AUDIO": "AudioClassification", "SEQUENCE": "SequenceClassification"}
        head = "CausalLM" if task.target.kind == "tokens" else heads[kind]
        auto = getattr(self.library(), f"AutoModelFor{head}")
        made: nn.Module = auto.from_config(config, attn_implementation="eager")  # the same function, written out
        return made

    def adapt(self, outputs: Any) -> Any:
        return outputs["logits"]

    def _kind(self, name: str) -> str:
        """IMAGE, AUDIO or SEQUENCE, by the classifiers that there are for its configuration."""
        auto, config = self.library("transformers.models.auto.modeling_auto"), self._config(name)
        for kind in ("SEQUENCE", "IMAGE", "AUDIO"):
            if type(config) in getattr(auto, f"MODEL_FOR_{kind}_CLASSIFICATION_MAPPING"):
                return kind
        raise InputError(
            f"hf:{name}: transformers has no classifier of texts, images or audio for {type(config).__name__}: give a"
            " function that makes the network"
        )

    def _config(self, text: str) -> Any:
        """A new configuration: of a local file, of the local cache, or the default of a type."""
        name, _, way = text.partition("@")
        library = self.library()
        if name in library.CONFIG_MAPPING:
            return library.CONFIG_MAPPING[name]()
        here = os.path.exists(name)
        try:
            return library.AutoConfig.from_pretrained(name, local_files_only=here or way != "download")
        except Exception as error:
            default = None if here or way == "download" else self._default(name)
            if default is not None:
                return default
            raise InputError(
                f"hf:{name} has no configuration on this machine ({one_line(error)[:120]}): give a type's default, such"
                f" as hf:bert@config, a file, hf:path/to/config.json, or hf:{name}@download to fetch the configuration"
            ) from error

    def _default(self, name: str) -> Any:
        """The default configuration of the type that says of itself that it is this model's."""
        kind = name.rpartition("/")[2].partition("-")[0]
        if kind not in self.library().CONFIG_MAPPING:
            return None
        config = self.library().CONFIG_MAPPING[kind]
        said = (inspect.getdoc(config) or "").partition("Args:")[0]
        return config() if f"{name}]" in said else None


class Monai(NetworkLibrary):
    """Networks of MONAI for images and volumes, such as monai:DenseNet121; patterns such as monai:SE* are allowed."""

    package, install = "monai", "monai"

    def names(self, pattern: str) -> list[str]:
        made = vars(self._nets())
        known = [name for name, each in made.items() if inspect.isclass(each) and issubclass(each, nn.Module)]
        known += [name for name, each in made.items() if name.startswith("resnet") and inspect.isfunction(each)]
        return self.among(pattern, sorted(known))

    def build(self, name: str, task: Task) -> nn.Module:
        channels, *sizes = task.input_shape
        outputs = task.target.outputs
        known = {
            "spatial_dims": len(sizes), "in_channels": channels, "n_input_channels": channels, "img_size": tuple(sizes),
            "in_shape": task.input_shape, "out_channels": outputs, "num_classes": outputs, "classes": outputs,
            "classification": True, "pretrained": False,
        }  # fmt: skip
        make = getattr(self._nets(), name)
        wanted = _parameters(make if inspect.isclass(make) else self._nets().ResNet)
        made: nn.Module = make(**{each: value for each, value in known.items() if each in wanted})
        return made

    def adapt(self, outputs: Any) -> Any:
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def _nets(self) -> Any:
        return self.library("monai.networks.nets")


def _parameters(made: type) -> set[str]:
    """The names that a class takes, and that those above it take for it."""
    names: set[str] = set()
    for each in made.__mro__:
        if "__init__" in vars(each) and each is not nn.Module:
            parameters = inspect.signature(vars(each)["__init__"]).parameters
            names |= set(parameters)
            if "kwargs" not in parameters:
                break
    return names


registry: Registry[NetworkLibrary] = Registry("library of networks", "networks")
registry.add("timm", Timm())
registry.add("hf", HuggingFace())
registry.add("monai", Monai())
