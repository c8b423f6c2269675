"""Your own space: a plain function that builds a network from choices, and what can be chosen."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError, TrainlessError
from trainless.core.parameters import read
from trainless.core.task import Task
from trainless.core.text import one_line
from trainless.core.user_files import PREFIX, digest, load_file, load_module, module_name
from trainless.spaces.moves import has_options
from trainless.spaces.protocol import ShownSpace, Space, format_pairs, parse_pairs, require_arch

Option: TypeAlias = str | int | float | bool
Chosen: TypeAlias = dict[str, Any]
"""The chosen option of every decision, by name and in its own type."""


class Code:
    """A function that is written as its name and a digest of its code, so that stored scores know it again.

    Another process takes the digest anew, of the code that it runs itself.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.digest = digest(function)

    def __repr__(self) -> str:
        return f"{self.function.__name__}#{self.digest}"

    def __reduce__(self) -> tuple[Callable[..., Code], tuple[Any, ...]]:
        """For another process, which finds a function of a user's file by importing that file."""
        module = sys.modules.get(self.function.__module__)
        if self.function.__module__.startswith(PREFIX) and module is not None and module.__file__:
            return _code_in_file, (module.__file__, self.function.__name__)
        return Code, (self.function,)


def _code_in_file(path: str, name: str) -> Code:
    file = Path(path)
    return Code(vars(sys.modules.get(module_name(file)) or load_file(file))[name])


@dataclass(frozen=True)
class FunctionSpace(ShownSpace):
    """A space made by :func:`space_from`."""

    name: str
    options: tuple[tuple[str, tuple[Option, ...]], ...]
    network: Code
    rule: Code | None = None

    def __repr__(self) -> str:
        open_ = ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in self.options)
        return f"{self.name}({open_})"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self.options)

    def check(self, task: Task) -> None:
        """Accept every task: the function says what it cannot take."""

    def chosen(self, arch: Arch) -> Chosen:
        return {name: options[option] for (name, options), option in zip(self.options, arch, strict=True)}

    def valid(self, arch: Arch) -> bool:
        if not has_options(self, arch):
            return False
        if self.rule is None:
            return True
        what = f"{self.name}: {self.rule.function.__name__}({self.chosen(arch)})"
        return bool(_run(functools.partial(self.rule.function, self.chosen(arch)), what))

    def canonical(self, arch: Arch) -> Arch:
        return arch

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch)
        takes_task = len(inspect.signature(self.network.function).parameters) > 1
        chosen = self.chosen(arch)
        net = self.network.function(chosen, task) if takes_task else self.network.function(chosen)
        if not isinstance(net, nn.Module):
            raise InputError(
                f"{self.name}: {self.network.function.__name__} returned {type(net).__name__} for {self.format(arch)};"
                " expected a torch.nn.Module"
            )
        if any(map(is_lazy, net.parameters())):
            _settle(net, task, self.name)
        return net

    def parse(self, text: str) -> Arch:
        arch = parse_pairs(self.name, self.decisions, text)
        if self.rule is not None and not self.valid(arch):
            raise InputError(
                f"{self.name}: {self.rule.function.__name__} does not allow {format_pairs(self.decisions, arch)}"
            )
        return arch

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        return format_pairs(self.decisions, arch)


def _settle(net: nn.Module, task: Task, name: str) -> None:
    """Give lazy layers their sizes by running the network once."""
    training, device = net.training, next(net.parameters()).device
    try:
        with torch.no_grad(), torch.device("cpu"):
            x = task.batch(2, seed=0)[0]
        with torch.no_grad():
            net.eval()(x.to(device))
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(f"{name}: the network cannot run on {task.name}: {one_line(error)}") from error
    net.train(training)


@functools.cache
def _decisions(options: tuple[tuple[str, tuple[Option, ...]], ...]) -> tuple[Decision, ...]:
    return tuple(Decision(name, tuple(map(str, values))) for name, values in options)


def space_from(
    build: Callable[..., nn.Module],
    decisions: Mapping[str, Sequence[Option]],
    *,
    valid: Callable[[Chosen], bool] | None = None,
    name: str = "",
) -> FunctionSpace:
    """A space from a function and its decisions.

    Args:
        build: ``build(choices)`` or ``build(choices, task)``; gets a dict of the chosen options and returns a
            network.
        decisions: The options of each choice; numbers stay numbers.
        valid: Which choices go together; all by default.
        name: What to call the space; the function's name by default.

    Example:
        >>> def mlp(choices, task):
        ...     width = choices["width"]
        ...     hidden = [nn.Linear(width, width) for _ in range(choices["depth"])]
        ...     return nn.Sequential(nn.Flatten(), nn.LazyLinear(width), *hidden, nn.Linear(width, task.target.outputs))
        >>> space = space_from(mlp, {"depth": [1, 2, 3], "width": [16, 32]})
        >>> space.parse("depth=2,width=32")
        (1, 1)
    """
    name = name or build.__name__
    if not decisions:
        raise InputError(f"{name}: no decisions were given; expected at least one, such as {{'width': [16, 32]}}")
    for decision, options in decisions.items():
        texts = [str(option) for option in options]
        if isinstance(options, str) or not texts or len(set(texts)) < len(texts):
            raise InputError(f"{name}: the options {options!r} of {decision!r} have to be a list of different values")
        for text in (decision, *texts):
            if any(sign in text for sign in ",=") or text != text.strip() or not text:
                raise InputError(f"{name}: {text!r} cannot name a decision or option: leave out ',', '=' and spaces")
    return FunctionSpace(
        name,
        tuple((decision, tuple(options)) for decision, options in decisions.items()),
        Code(build),
        None if valid is None else Code(valid),
    )


def load(reference: str, **parameters: Any) -> Space:
    """Import the space that ``path/to/file.py:name`` or ``package.module:name`` names; this runs the user's code.

    The name may be that of a space, or of a function or class that makes one of the parameters.
    """
    place, colon, name = reference.rpartition(":")
    if reference.endswith(".py"):
        raise InputError(f"{reference} names a file and no space in it: {_there(load_module(reference), reference)}")
    if not colon or not place or not name.isidentifier():
        raise InputError(
            f"{reference!r} does not name a space; expected my_file.py:my_space or package.module:my_space"
        )
    module = load_module(place)
    found = vars(module).get(name)
    if found is None:
        raise InputError(f"{place} has no {name!r}: {_there(module, place)}")
    if isinstance(found, type) or not isinstance(found, Space):
        found = _called(found, reference, parameters) if callable(found) else found
    elif parameters:
        raise InputError(f"{reference} is a space already and takes no {', '.join(parameters)}: name what makes it")
    if not isinstance(found, Space) or isinstance(found, type):
        raise InputError(_not_a_space(found, reference, module, place))
    return found


def _called(make: Callable[..., Any], reference: str, parameters: Mapping[str, Any]) -> Any:
    needed = [
        each.name
        for each in inspect.signature(make).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    given = read(reference, make, parameters)
    if missing := [name for name in needed if name not in given]:
        raise InputError(
            f"{reference} needs {', '.join(missing)}: give {missing[0]}=… by --space-args, or name a space instead"
        )
    return _run(functools.partial(make, **given), reference)


def _there(module: ModuleType, place: str) -> str:
    """The spaces of a module, as the end of a sentence that says what to write."""
    ours = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    spaces = [name for name, value in ours.items() if isinstance(value, Space) and not isinstance(value, type)]
    makers = [
        name
        for name, value in ours.items()
        if isinstance(value, type) and value.__module__ == module.__name__ and isinstance(value, Space)
    ]
    names = [*spaces, *makers]
    if not names:
        return "there is no space in it; make one with trainless.spaces.custom.space_from"
    return f"its spaces are: {', '.join(names)}; write {place}:{names[0]}"


def _not_a_space(found: object, reference: str, module: ModuleType, place: str) -> str:
    wanted = ("name", "decisions", "check", "valid", "canonical", "build", "parse", "format")
    lacking = [name for name in wanted if name not in dir(found)]
    if 0 < len(lacking) < len(wanted) - 1:
        return f"{reference} is {type(found).__name__}, which lacks {', '.join(lacking)}: a space has to have them"
    return f"{reference} is {type(found).__name__}, not a space: {_there(module, place)}"


def _run(call: Callable[[], Any], what: str) -> Any:
    """Run user code; whatever it raises is the user's to see, in one line."""
    try:
        return call()
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise InputError(f"{what} could not be run: {one_line(error)}") from error
