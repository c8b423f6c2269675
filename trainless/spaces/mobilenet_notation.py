"""PlainNet strings, ``SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)…``, both ways."""

from __future__ import annotations

import re

from trainless.core.errors import InputError
from trainless.spaces.mobilenet_net import Group, Plan

_CALL = re.compile(r"\s*(\w+)\(([0-9,\s]*)\)\s*")
_GROUP = re.compile(r"SuperResIDWE([0-9]{1,6})K([0-9]{1,6})")
_STEM, _LAST = "SuperConvK3BNRELU", "SuperConvK1BNRELU"


def write_plan(plan: Plan) -> str:
    """The string of a plan; the stem's inputs are written as 3, whatever the task has.

    Example:
        >>> write_plan(Plan(8, 2, (Group(3, 6, 8, 32, 2, 8, 1),), 2048))
        'SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)SuperConvK1BNRELU(32,2048,1,1)'
    """
    groups = "".join(
        f"SuperResIDWE{g.expansion}K{g.kernel}({g.inputs},{g.outputs},{g.stride},{g.bottleneck},{g.layers})"
        for g in plan.groups
    )
    stem = f"{_STEM}(3,{plan.stem},{plan.stem_stride},1)"
    return f"{stem}{groups}{_LAST}({plan.groups[-1].outputs},{plan.last},1,1)"


def read_plan(text: str, space: str) -> Plan:
    """The plan of a string; each block has to take what the one before it gives.

    Example:
        >>> text = "SuperConvK3BNRELU(3,8,2,1)SuperResIDWE6K3(8,32,2,8,1)SuperConvK1BNRELU(32,64,1,1)"
        >>> plan = read_plan(text, "demo")
        >>> plan.groups[0].bottleneck, plan.last
        (8, 64)
    """
    calls = _calls(text, space)
    shape = f"{_STEM}(…), blocks SuperResIDWE<expansion>K<kernel>(…) and {_LAST}(…)"
    for place, wanted in ((0, _STEM), (-1, _LAST)):
        if calls[place][0] != wanted:
            where = "begins" if place == 0 else "ends"
            raise InputError(f"{space}: the network {where} with {calls[place][0]}; expected {wanted}: {shape}")
    if len(calls) < 3:
        raise InputError(f"{space}: there is no block between {_STEM} and {_LAST}; expected {shape}")
    stem = _numbers(calls[0], 4, "inputs,outputs,stride,1", space)
    last = _numbers(calls[-1], 4, "inputs,outputs,1,1", space)
    groups = tuple(_group(call, space) for call in calls[1:-1])
    given = stem[1]
    for (block, _), inputs, outputs in [
        *((call, g.inputs, g.outputs) for call, g in zip(calls[1:-1], groups, strict=True)),
        (calls[-1], last[0], last[1]),
    ]:
        if inputs != given:
            raise InputError(f"{space}: {block} takes {inputs} channels, but the block before it gives {given}")
        given = outputs
    return Plan(stem[1], stem[2], groups, last[1])


def _calls(text: str, space: str) -> list[tuple[str, str]]:
    calls, position = [], 0
    if not text.strip():
        raise InputError(f"{space}: nothing was given; expected {_STEM}(3,8,2,1) and so on (trainless show random)")
    while position < len(text):
        match = _CALL.match(text, position)
        if match is None:
            raise InputError(
                f"{space}: {text[position : position + 30]!r} is no block of numbers; expected such as"
                " SuperResIDWE6K3(8,32,2,8,1)"
            )
        calls.append((match[1], match[2]))
        position = match.end()
    return calls


def _numbers(call: tuple[str, str], length: int, meaning: str, space: str) -> tuple[int, ...]:
    parts = [part.strip() for part in call[1].split(",")]
    if len(parts) != length or not all(re.fullmatch("[0-9]{1,6}", part) for part in parts):
        raise InputError(f"{space}: {call[0]}({call[1]}) was given; expected {call[0]}({meaning})")
    return tuple(map(int, parts))


def _group(call: tuple[str, str], space: str) -> Group:
    match = _GROUP.fullmatch(call[0])
    if match is None:
        raise InputError(f"{space}: {call[0]!r} is not a block; expected SuperResIDWE<expansion>K<kernel>")
    inputs, outputs, stride, bottleneck, layers = _numbers(call, 5, "inputs,outputs,stride,bottleneck,layers", space)
    return Group(int(match[2]), int(match[1]), inputs, outputs, stride, bottleneck, layers)
