"""Search spaces: decisions, validity, canonical form, build, and the field's own notation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainless.core.errors import InputError
from trainless.core.exports import lazy_exports
from trainless.core.parameters import parse_arguments, read
from trainless.core.registry import Registry

if TYPE_CHECKING:
    from trainless.spaces.custom import space_from
    from trainless.spaces.moves import cross, enumerate_archs, mutate, neighbours, sample
    from trainless.spaces.protocol import CellSpace, Counted, Counts, Network, Scalable, Space, Supernet, require_arch

__all__ = [
    "CellSpace",
    "Counted",
    "Counts",
    "Network",
    "Scalable",
    "Space",
    "Supernet",
    "cross",
    "enumerate_archs",
    "mutate",
    "neighbours",
    "open_space",
    "registry",
    "require_arch",
    "sample",
    "space",
    "space_from",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "custom": ("space_from",),
        "moves": ("cross", "enumerate_archs", "mutate", "neighbours", "sample"),
        "protocol": ("CellSpace", "Counted", "Counts", "Network", "Scalable", "Space", "Supernet", "require_arch"),
    },
)

registry: Registry[Callable[..., Space]] = Registry("space", "spaces")
registry.add("nb201", "trainless.spaces.nb201:NasBench201")
registry.add("nb101", "trainless.spaces.nb101:NasBench101")
registry.add("transnas-micro", "trainless.spaces.transnas:TransNasMicro")
registry.add("nb-macro", "trainless.spaces.nbmacro:NasBenchMacro")
for _family in ("darts", "enas", "pnas", "nasnet", "amoeba"):
    registry.add(_family, f"trainless.spaces.nds:{_family}")
registry.add("mobilenet", "trainless.spaces.mobilenet:MobileNet")
registry.add("mobilenet-small", "trainless.spaces.mobilenet:small_mobilenet")
registry.add("recurrent", "trainless.spaces.recurrent:Recurrent")
registry.add("nats-size", "trainless.spaces.sizes:Sizes")
registry.add("transformer", "trainless.spaces.transformer:Transformer")
registry.add("residual", "trainless.spaces.residual:Residual")
registry.add("inception", "trainless.spaces.inception:Inception")
registry.add("rocket", "trainless.spaces.rocket:Rocket")
registry.add("mlp", "trainless.spaces.mlp:Mlp")


def open_space(name: str, text: str = "") -> Space:
    """Look up a space by its name, with parameters that are written out.

    Example:
        >>> open_space("nb201", "channels=8,cells=1")
        NasBench201(channels=8, cells=1)
        >>> open_space("nb201", "cells=many")
        Traceback (most recent call last):
        trainless.core.errors.InputError: the space nb201: cells=many was given; expected a whole number, such as \
cells=5
    """
    return space(name, **parse_arguments(text))


def space(name: str, **parameters: Any) -> Space:
    """Look up a space by its name, or by ``my_file.py:my_space``, with its parameters.

    Example:
        >>> space("nb201", channels=8, cells=1).name
        'nb201'
        >>> space("trainless.spaces.nb201:NasBench201", cells=1).name
        'nb201'
        >>> space("nb201", chanels=8)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        trainless.core.errors.InputError: the space nb201 has no parameter 'chanels'; did you mean 'channels'? it ...
    """
    if ":" in name or name.endswith(".py"):
        from trainless.spaces.custom import load

        return load(name, **parameters)
    factory = registry[name]
    try:
        made: Space = factory(**read(f"the space {name}", factory, parameters))
    except (TypeError, ValueError) as error:
        raise InputError(f"the space {name} cannot be made with {parameters} ({error}): see its parameters") from error
    return made
