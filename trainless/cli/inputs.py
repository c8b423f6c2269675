"""Reading what was written on the command line: networks, shapes, spaces and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trainless.cli.terminal import say
from trainless.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from trainless.core.task import Task
    from trainless.proxies.proxy import Proxy
    from trainless.scoring.batches import BatchSource
    from trainless.scoring.request import Init
    from trainless.scoring.subjects import Subject
    from trainless.tasks.settings import Reading

DEFAULT_SHAPE = "3x32x32"
DEFAULT_CLASSES = 10
OWN = "own"  # the size that each network was made for


def task_or_noise(task: str, shape: str, form: Reading) -> Task:
    """Open the task that was named, or make noise of a shape."""
    from trainless.core.task import Task
    from trainless.tasks import task as find

    if task and shape not in ("", OWN):
        raise InputError("--task and --input were given; expected one of them: a task brings its own inputs")
    if task:
        return find(task, **form.given)
    for name in form.given:
        if name != "classes":
            raise InputError(f"--{name.replace('_', '-')} was given without --task; expected a task that it is about")
    classes = ",".join(form.classes) or str(DEFAULT_CLASSES)
    if not classes.isdigit():
        raise InputError(f"--classes {classes} was given without --task; expected a number of classes, such as 10")
    return Task.noise(parse_shape(DEFAULT_SHAPE if shape in ("", OWN) else shape), int(classes))


def say_capped(proxies: Sequence[Proxy], init: Init, data: BatchSource) -> None:
    """Say so where there are fewer samples than a batch was to have."""
    from trainless.scoring.request import samples_wanted

    wanted = samples_wanted(proxies, init, data)
    if wanted > data.most:
        say(f"note: the batch is all {data.most} training samples; {wanted} were asked for", err=True)


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


def open_subjects(texts: list[str], space: str, space_args: str, output: str = "") -> list[Subject]:
    """The subjects of scoring: archs of a space where one is named, else networks by name, module or file."""
    from trainless.scoring.candidates import subjects_of
    from trainless.scoring.resolvers import is_name
    from trainless.spaces import open_space

    if space and output:
        raise InputError("--output and --space were given; expected one of them: a space's networks have one output")
    if space:
        return list(subjects_of((open_space(space, space_args), list(dict.fromkeys(texts)))))
    if space_args:
        raise InputError("--space-args was given without --space: name the space")
    adapter = partial(pick, output) if output else None
    return list(
        subjects_of([text if is_name(text) else (text, factory(text)) for text in dict.fromkeys(texts)], adapter)
    )


def pick(key: str, outputs: Any) -> Tensor:
    """One of a network's outputs: by its key in a dict, or by its place in a tuple.

    Example:
        >>> pick("logits", {"logits": 1}), pick("1", (3, 4))
        (1, 4)
    """
    if not isinstance(outputs, (Mapping, tuple, list)):
        raise InputError(
            f"--output {key} was given, but the network returns one {type(outputs).__name__}: leave it out"
        )
    named = isinstance(outputs, Mapping)
    names = {str(name): name for name in (outputs if named else range(len(outputs)))}
    if key not in names:
        found = ", ".join(names) or ("nothing" if named else "none")
        raise InputError(f"--output {key} was given, but the network returns {'' if named else 'outputs '}{found}")
    chosen: Tensor = outputs[names[key]]
    return chosen


def factory(text: str) -> Any:
    """Import ``module:name`` or ``file.py:name`` as a function without arguments that makes a network."""
    from torch import nn

    from trainless.core.user_files import load_module

    where, _, name = text.rpartition(":")
    if text.endswith(".py"):
        raise InputError(f"{text} was given; expected a function in it, too, such as {text}:net")
    if not where or not name:
        raise InputError(
            f"{text!r} was given; expected module:factory or file.py:factory, or a name such as timm:resnet18"
            " (an architecture needs --space, such as --space nb201)"
        )
    found: Any = load_module(where)
    for part in name.split("."):
        if part not in dir(found):
            raise InputError(f"{where} has no {name!r}: expected a function or class that makes an nn.Module")
        found = getattr(found, part)
    if isinstance(found, nn.Module):
        return partial(_same, found)
    if not callable(found):
        raise InputError(f"{text} is a {type(found).__name__}; expected an nn.Module or a function that makes one")
    return found


def _same(net: Any) -> Any:
    return net
