"""Reading what was written on the command line: networks, shapes, spaces and tasks."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trainless.core.errors import InputError
from trainless.core.parameters import parsed

if TYPE_CHECKING:
    from torch import Tensor

    from trainless.core.task import Task
    from trainless.proxies.proxy import Proxy
    from trainless.scoring.batches import Data
    from trainless.scoring.request import Init
    from trainless.scoring.subjects import Subject
    from trainless.spaces.protocol import Space

DEFAULT_SHAPE = "3x32x32"
DEFAULT_CLASSES = 10


def open_task(task: str, shape: str = "", classes: int | None = None, size: str = "") -> Task:
    """The task that was named, or noise of a shape."""
    from trainless.core.task import Task
    from trainless.tasks import task as find

    if task and shape:
        raise InputError("--task and --input were given; expected one of them: a task brings its own inputs")
    if task and classes is not None:
        raise InputError("--task and --classes were given; expected one of them: a task brings its own classes")
    if task:
        return find(task, **({"size": size} if size else {}))
    if size:
        raise InputError("--size was given without --task; expected a task whose images are to be resized")
    return Task.noise(parse_shape(shape or DEFAULT_SHAPE), DEFAULT_CLASSES if classes is None else classes)


def say_capped(proxies: Sequence[Proxy], init: Init, data: Data) -> None:
    """Say so where there are fewer samples than a batch was to have."""
    from trainless.scoring.request import samples_wanted

    wanted = samples_wanted(proxies, init, data)
    if wanted > data.most:
        typer.echo(f"note: the batch is all {data.most} training samples; {wanted} were asked for", err=True)


def parse_shape(text: str) -> tuple[int, ...]:
    """Channels and spatial sizes.

    Example:
        >>> parse_shape("3x32x32")
        (3, 32, 32)
    """
    try:
        return tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise InputError(f"--input {text} was given; expected channels and sizes, such as 3x32x32 or 1x1000") from None


def parse_arguments(text: str, option: str = "--space-args", example: str = "channels=8,cells=2") -> dict[str, Any]:
    """Parameters by name; a plus joins several values, and ends a single one that is to be a list.

    Example:
        >>> parse_arguments("channels=8,skeleton=cifar,patches=2+4")
        {'channels': 8, 'skeleton': 'cifar', 'patches': (2, 4)}
    """
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not name.strip() or not sign for name, sign, _ in pairs):
        raise InputError(f"{option} {text} was given; expected name=value,name=value such as {example}")
    return {name.strip(): parsed(value.strip()) for name, _, value in pairs}


def open_space(name: str, text: str) -> Space:
    """A space by its name, with the parameters that are written out.

    Example:
        >>> open_space("nb201", "cells=many")
        Traceback (most recent call last):
        trainless.core.errors.InputError: nb201: cells=many was given; expected a whole number, such as cells=5
    """
    from trainless.spaces import registry, space

    parameters = parse_arguments(text)
    known = inspect.signature(registry[name], eval_str=True).parameters if name in registry else {}
    for each, value in parameters.items():
        if each in known and known[each].annotation is int and not isinstance(value, int):
            raise InputError(
                f"{name}: {each}={value} was given; expected a whole number, such as {each}={known[each].default}"
            )
    return space(name, **parameters)


def open_subjects(texts: list[str], space: str, space_args: str, output: str = "") -> list[Subject]:
    """What is to be scored: archs of a space where one is named, else ``module:factory`` or ``file.py:factory``."""
    from trainless.scoring.subjects import Made, subjects_of

    if space and output:
        raise InputError("--output and --space were given; expected one of them: a space's networks have one output")
    if space:
        return subjects_of((open_space(space, space_args), list(dict.fromkeys(texts))))
    if space_args:
        raise InputError("--space-args was given without --space: name the space")
    adapter = partial(pick, output) if output else None
    return [Made(factory(text), text, adapter) for text in dict.fromkeys(texts)]


def pick(key: str, outputs: Any) -> Tensor:
    """One of a network's outputs: by its key in a dict, or by its place in a tuple.

    Example:
        >>> pick("logits", {"logits": 1}), pick("1", (3, 4))
        (1, 4)
    """
    chosen: Tensor
    if isinstance(outputs, Mapping):
        names = {str(name): name for name in outputs}
        if key not in names:
            raise InputError(f"--output {key} was given, but the network returns {', '.join(names) or 'nothing'}")
        chosen = outputs[names[key]]
    elif isinstance(outputs, (tuple, list)):
        places = {str(place): place for place in range(len(outputs))}
        if key not in places:
            raise InputError(f"--output {key} was given, but the network returns outputs {', '.join(places) or 'none'}")
        chosen = outputs[places[key]]
    else:
        raise InputError(
            f"--output {key} was given, but the network returns one {type(outputs).__name__}: leave it out"
        )
    return chosen


def factory(text: str) -> Any:
    """What ``module:name`` or ``file.py:name`` stands for, as a function without arguments that makes a network."""
    from torch import nn

    where, _, name = text.rpartition(":")
    if not where or not name:
        raise InputError(
            f"{text!r} was given; expected module:factory or file.py:factory (an architecture needs --space, such as"
            " --space nb201)"
        )
    with _beside(where):
        found = _import(where)
    for part in name.split("."):
        if part not in dir(found):
            raise InputError(f"{where} has no {name!r}: expected a function or class that makes an nn.Module")
        found = getattr(found, part)
    if isinstance(found, nn.Module):
        return partial(_same, found)
    if not callable(found):
        raise InputError(f"{text} is a {type(found).__name__}; expected an nn.Module or a function that makes one")
    return partial(_made, where, found)


def _same(net: Any) -> Any:
    return net


def _made(where: str, make: Callable[[], Any]) -> Any:
    with _beside(where):
        return make()


@contextmanager
def _beside(where: str) -> Iterator[None]:
    """Let a file's code import what lies in its folder."""
    folder = str(Path(where).resolve().parent)
    if not where.endswith(".py") or folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _import(where: str) -> Any:
    """Import a module by its name, from the working directory too, or from a file."""
    from trainless.core.text import one_line

    try:
        if not where.endswith(".py"):
            if str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(where)
        if not Path(where).is_file():
            raise InputError(f"there is no file {where}: expected file.py:factory")
        spec = importlib.util.spec_from_file_location(Path(where).stem, where)
        if spec is None or spec.loader is None:
            raise InputError(f"{where} cannot be imported: expected a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"importing {where} failed ({one_line(error)}): mend it or give another module") from error
    return module
