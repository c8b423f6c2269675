"""The field's notation of cells, ``Genotype(normal=[('sep_conv_3x3', 0), …], …)``, read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from trainless.core.errors import InputError

Pair = tuple[str, int]
"""An operation and the state that it reads: 0 and 1 are the two cells before, 2, 3, … the nodes of this cell."""

_PARTS = ("normal", "normal_concat", "reduce", "reduce_concat")
_LONGEST = 20_000
_EXAMPLE = "Genotype(normal=[('sep_conv_3x3', 0), …], normal_concat=[2, 3, 4, 5], reduce=[…], reduce_concat=[…])"


@dataclass(frozen=True)
class Genotype:
    """A normal and a reduction cell: two pairs for every node, and the states that make the output."""

    normal: tuple[Pair, ...]
    normal_concat: tuple[int, ...]
    reduce: tuple[Pair, ...]
    reduce_concat: tuple[int, ...]

    def __str__(self) -> str:
        """The usual notation.

        Example:
            >>> str(Genotype((("none", 0), ("skip_connect", 1)), (2,), (("none", 0), ("skip_connect", 1)), (2,)))
            "Genotype(normal=[('none', 0), ('skip_connect', 1)], normal_concat=[2], \
reduce=[('none', 0), ('skip_connect', 1)], reduce_concat=[2])"
        """
        parts = (self.normal, self.normal_concat, self.reduce, self.reduce_concat)
        return f"Genotype({', '.join(f'{name}={list(part)!r}' for name, part in zip(_PARTS, parts, strict=True))})"


def parse_genotype(text: str) -> Genotype:
    """Read a genotype; lists may be tuples, and a concatenation may be a ``range``.

    Example:
        >>> text = "Genotype(normal=[('none', 0), ('none', 1)], normal_concat=range(2, 3), reduce=[], reduce_concat=[])"
        >>> parse_genotype(text).normal_concat
        (2,)
    """
    parts = _keywords(text)
    return Genotype(
        _pairs("normal", parts["normal"]),
        _states("normal_concat", parts["normal_concat"]),
        _pairs("reduce", parts["reduce"]),
        _states("reduce_concat", parts["reduce_concat"]),
    )


def _keywords(text: str) -> dict[str, ast.expr]:
    if len(text) > _LONGEST:
        raise InputError(f"a genotype of {len(text)} characters was given; expected at most {_LONGEST}")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{_short(text)} cannot be read as a genotype; expected {_EXAMPLE}") from error
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Genotype"):
        raise InputError(f"{_short(text)} is not a genotype; expected {_EXAMPLE}")
    if len(call.args) > len(_PARTS):
        raise InputError(f"the genotype has {len(call.args)} parts; expected {', '.join(_PARTS)}")
    parts = dict(zip(_PARTS, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in _PARTS:
            raise InputError(f"{keyword.arg!r} is not a part of a genotype: {', '.join(_PARTS)}")
        parts[keyword.arg] = keyword.value
    for part in _PARTS:
        if part not in parts:
            raise InputError(f"the genotype has no part {part!r}; expected {_EXAMPLE}")
    return parts


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def _literal(part: str, node: ast.expr) -> object:
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"the genotype's part {part!r} is not a plain list; expected {_EXAMPLE}") from error
    return value


def _pairs(part: str, node: ast.expr) -> tuple[Pair, ...]:
    value = _literal(part, node)
    if not isinstance(value, list | tuple):
        raise InputError(f"the genotype's part {part!r} is {value!r}; expected a list of ('operation', state)")
    pairs: list[Pair] = []
    for index, pair in enumerate(value):
        match pair:
            case (str(operation), int(state)) if not isinstance(state, bool):
                pairs.append((operation, state))
            case _:
                raise InputError(f"entry {index} of {part!r} is {pair!r}; expected ('operation', state)")
    return tuple(pairs)


def _states(part: str, node: ast.expr) -> tuple[int, ...]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        bounds = [_literal(part, bound) for bound in node.args]
        match bounds:
            case [int(start), int(stop)] if 0 <= start <= stop <= 100 and not node.keywords:
                return tuple(range(start, stop))
            case _:
                raise InputError(f"the range in {part!r} is not one of two small numbers, such as range(2, 6)")
    value = _literal(part, node)
    if not isinstance(value, list | tuple) or not all(type(state) is int for state in value):
        raise InputError(f"the genotype's part {part!r} is {value!r}; expected a list of states, such as [2, 3, 4, 5]")
    return tuple(value)
