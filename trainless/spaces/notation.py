"""The notation ``name=option,name=option`` for spaces that the field has none for."""

from __future__ import annotations

from collections.abc import Sequence

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError


def format_pairs(decisions: Sequence[Decision], arch: Arch) -> str:
    """Write an arch as pairs.

    Example:
        >>> format_pairs([Decision("depth", ("2", "4")), Decision("width", ("8", "16"))], (1, 0))
        'depth=4,width=8'
    """
    return ",".join(f"{d.name}={d.options[option]}" for d, option in zip(decisions, arch, strict=True))


def parse_pairs(space: str, decisions: Sequence[Decision], text: str) -> Arch:
    """Read pairs in any order; every decision has to be there once.

    Example:
        >>> parse_pairs("demo", [Decision("depth", ("2", "4")), Decision("width", ("8", "16"))], "width=8,depth=4")
        (1, 0)
    """
    named = {decision.name: decision for decision in decisions}
    chosen: dict[str, int] = {}
    for part in text.strip().split(","):
        name, equals, option = (piece.strip() for piece in part.partition("="))
        if not equals or name not in named:
            raise InputError(f"{space}: {part.strip()!r} is not name=option with a name of {', '.join(named)}")
        if option not in named[name].options:
            raise InputError(f"{space}: {name}={option} was given; expected one of {', '.join(named[name].options)}")
        if name in chosen:
            raise InputError(f"{space}: {name!r} is given twice in {text!r}: leave one of them out")
        chosen[name] = named[name].options.index(option)
    if missing := [name for name in named if name not in chosen]:
        raise InputError(f"{space}: {text!r} says nothing of {', '.join(missing)}: add {missing[0]}=… to it")
    return tuple(chosen[name] for name in named)
