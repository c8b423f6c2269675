"""Making a searcher from what was asked for: parameters by name, limits, and a proxy where one assists it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.parameters import read, takes
from trainless.searchers.searcher import Columns, Searcher
from trainless.spaces.moves import Choices, Feasible

OWN = ("space", "seed", "feasible", "proxy")
"""What a searcher is given by the run itself."""


def made(
    name: str,
    factory: Callable[..., Searcher],
    space: Choices,
    parameters: Mapping[str, Any],
    *,
    seed: int = 0,
    feasible: Feasible | None = None,
    proxy: Callable[[Arch], float] | None = None,
    remedy: str = "name it, such as --assist synflow (assist='synflow')",
) -> Searcher:
    """A searcher, or an error that says which parameters it has and what each expects.

    Args:
        name: What the errors call it.
        factory: Whatever makes it.
        space: What to search.
        parameters: Its parameters by name, from Python or as text.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        proxy: What assists it.
        remedy: How a missing proxy is given.

    Example:
        >>> from trainless.searchers.random import Random
        >>> from trainless.spaces.nb201 import NasBench201
        >>> made("random", Random, NasBench201(), {"canonical": 3})
        Traceback (most recent call last):
        trainless.core.errors.InputError: random: canonical=3 was given; expected true or false, such as canonical=false
    """
    for own, where in (("seed", "--seed (seed=…)"), ("feasible", "the limits, such as --max-flops (constraints=…)")):
        if own in parameters:
            raise InputError(f"{name}: {own} is no parameter of the searcher's own here: give it by {where}")
    given = read(name, factory, parameters, OWN)
    for each, value in given.items():
        if isinstance(value, (int, float)) and value < 0:
            raise InputError(f"{name}: {each}={value} was given; expected 0 or more")
    assisted = takes(factory, "proxy")
    if assisted and proxy is None:
        raise InputError(f"{name} is assisted by a proxy: {remedy}")
    if assisted is False and proxy is not None:
        raise InputError(
            f"{name} takes no proxy to assist it: leave that out, or choose a searcher that does, such as g_rs, g_rea,"
            " warm_random or move_evolution"
        )
    helper = {} if proxy is None else {"proxy": proxy}
    try:
        return factory(space, seed=seed, feasible=feasible, **helper, **given)
    except TypeError as error:
        raise InputError(f"{name} could not be made with {dict(parameters)}: {error}") from error


def require_columns(name: str, searcher: Searcher, columns: list[str]) -> None:
    """Raise InputError where a searcher cannot be told as many columns as there are.

    Example:
        >>> from trainless.searchers.random import Random
        >>> from trainless.spaces.nb201 import NasBench201
        >>> require_columns("random", Random(NasBench201()), ["synflow"])
    """
    most = searcher.columns if isinstance(searcher, Columns) else None
    if most is None or most == len(columns):
        return
    if most > 1 or name == "optuna":
        raise InputError(
            f"{name} was made for {most} objective{'s' if most > 1 else ''}, and {len(columns)} would be told"
            f" ({', '.join(columns)}): say --searcher-args objectives={len(columns)}"
        )
    raise InputError(
        f"{name} follows one signal, and {len(columns)} would be told ({', '.join(columns)}): leave out the others,"
        " combine proxies by a ranking, or choose a searcher for several objectives, such as nsga2"
    )
