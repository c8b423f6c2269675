"""Reading what was given to be scored: networks, factories, names and archs, each with a name that no other has."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from trainless.core.arch import is_region
from trainless.core.errors import InputError, TrainlessError
from trainless.core.target import Target
from trainless.core.text import message, one_line
from trainless.scoring.batches import BatchSource, Shape
from trainless.scoring.resolvers import NamedNetwork, is_name, networks
from trainless.scoring.subjects import Adapter, ArchSubject, Given, Made, MadeByName, Size, Subject
from trainless.spaces.protocol import Space, require_arch


def subjects_of(subject: object, adapter: Adapter | None = None) -> Iterable[Subject]:
    """Read what was given to be scored, each with a name that no other has: a second ``ResNet`` is ``ResNet-2``.

    Lists and dicts are read at once; a generator one at a time, so that what it makes need not be in memory together.

    Args:
        subject: A network, a function that makes one, a name such as ``"timm:resnet18"``, a pair ``(space, arch)`` or
            ``(space, [arch, …])``; or many of these: a dict by name, a list or a generator of them, of pairs
            ``(name, network)`` or of triples ``(name, network, input shape)``.
        adapter: Picks the one tensor of logits or values from a network's outputs.

    Example:
        >>> [each.name for each in subjects_of([nn.Linear(2, 2), nn.Linear(3, 2), ("mine", nn.Linear)])]
        ['Linear', 'Linear-2', 'mine']
    """
    read = unlike(_read(subject, adapter))
    return read if is_stream(subject) else list(read)


def is_alone(subject: object) -> bool:
    """Whether one network or archs of one space were given: what is wrong with them is then an error at once."""
    return not is_many(subject) and not (isinstance(subject, str) and is_name(subject) and len(networks(subject)) > 1)


def is_many(subject: object) -> bool:
    """Whether something is a collection of subjects."""
    return isinstance(subject, (list, Mapping)) or is_stream(subject)


def is_stream(subject: object) -> bool:
    """Whether subjects come one at a time, nobody knows how many."""
    known = isinstance(subject, (nn.Module, NamedNetwork, tuple, list, Mapping, str, Space))
    return not known and not callable(subject) and isinstance(subject, Iterable)


def unlike(subjects: Iterable[Subject]) -> Iterator[Subject]:
    """The subjects, none with the name of one before it."""
    seen: set[str] = set()
    for subject in subjects:
        name, number = subject.name, 1
        while name in seen:
            number += 1
            name = f"{subject.name}-{number}"
        seen.add(name)
        yield subject if name == subject.name else _renamed(subject, name)


def _renamed(subject: Any, name: str) -> Subject:
    field = "name" if isinstance(subject, Made) else "label"
    renamed: Subject = replace(subject, **{field: name})
    return renamed


def _read(subject: object, adapter: Adapter | None) -> Iterator[Subject]:
    if isinstance(subject, Mapping):
        for name, each in subject.items():
            yield from _named(name, each, adapter)
    elif is_stream(subject) and isinstance(subject, Iterable):
        yield from _streamed(iter(subject), adapter)
    elif isinstance(subject, list):
        for each in subject:
            yield from _read_one(each, adapter)
    else:
        yield from _read_one(subject, adapter)


def _streamed(source: Iterator[object], adapter: Adapter | None) -> Iterator[Subject]:
    """Subjects that come one at a time: what cannot be read has its reason, as those before it have their scores."""
    for number in itertools.count(1):
        try:
            each = next(source)
        except StopIteration:
            return
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            yield Unread(f"item {number}", f"the generator raised {one_line(error)}: nothing after it is scored")
            return
        try:
            found = list(_read_one(each, adapter))
        except TrainlessError as error:
            found = [Unread(f"item {number}", message(error))]
        yield from found


@dataclass(frozen=True, eq=False)
class Unread:
    """Something in a generator that is no network, or that it raised, with the reason."""

    label: str
    reason: str

    @property
    def name(self) -> str:
        return self.label

    def fitted(self, data: BatchSource, seed: int) -> BatchSource:
        raise InputError(self.reason)

    def network(self, size: Size, data: BatchSource, seed: int) -> tuple[nn.Module, Target]:
        raise InputError(self.reason)

    def identity(self, data: BatchSource, seed: int) -> tuple[str, str]:
        raise InputError(self.reason)

    def release(self) -> None:
        return


def _named(name: object, subject: object, adapter: Adapter | None, shape: Shape | None = None) -> Iterator[Subject]:
    """A subject under a name; several of one name are numbered."""
    for each in _read_one(subject, adapter):
        renamed = _renamed(each, str(name))
        yield replace(renamed, shape=shape) if shape and isinstance(renamed, (Given, Made)) else renamed


def _read_one(subject: object, adapter: Adapter | None) -> Iterator[Subject]:
    if isinstance(subject, nn.Module):
        yield Given(subject, adapter)
    elif isinstance(subject, str) and is_name(subject):
        for name, network in networks(subject).items():
            yield MadeByName(network, name, adapter or network.adapter)
    elif isinstance(subject, NamedNetwork):
        yield MadeByName(subject, str(subject), adapter or subject.adapter)
    elif isinstance(subject, tuple) and len(subject) == 2 and isinstance(subject[0], Space):
        space, archs = subject
        for arch in archs if isinstance(archs, list) else [archs]:
            yield _arch_subject(space, arch)
    elif isinstance(subject, tuple) and len(subject) in (2, 3) and isinstance(subject[0], str):
        shape = tuple(subject[2]) if len(subject) == 3 else None
        yield from _named(subject[0], subject[1], adapter, shape)
    elif callable(subject) and not isinstance(subject, Space):
        yield Made(subject, _factory_name(subject), adapter)
    else:
        raise InputError(
            f"a {type(subject).__name__} was given to be scored; expected an nn.Module, a function that makes one,"
            " a name such as 'timm:resnet18', a pair (space, arch) or (space, [arch, …]), or a dict, list or generator"
            " of such"
        )


def _factory_name(make: Any) -> str:
    while isinstance(make, functools.partial):
        make = make.func
    name = getattr(make, "__name__", type(make).__name__)
    return "network" if name == "<lambda>" else str(name)


def _arch_subject(space: Space, arch: object) -> ArchSubject:
    if isinstance(arch, str):
        return ArchSubject(space, space.parse(arch))
    if not isinstance(arch, tuple):
        raise InputError(
            f"{arch!r} was given as an arch of {space.name}; expected one option per decision as a tuple of"
            f" {len(space.decisions)} numbers, or the space's own notation as text"
        )
    if not is_region(arch):
        require_arch(space, arch)
    return ArchSubject(space, arch)
