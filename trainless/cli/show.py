"""``trainless show``: one architecture, drawn and counted; the arrows of a cell or the blocks of a network as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.cli.options import AsJson, with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.tasks.settings import Reading

if TYPE_CHECKING:
    from trainless.core.arch import Arch
    from trainless.core.task import Task
    from trainless.spaces.protocol import Space
    from trainless.spaces.sketch import Chain, Graph

RANDOM = "random"


@dataclass(frozen=True)
class ShowSettings:
    """What is drawn, and for which inputs it is counted."""

    space: str = common("space")
    space_args: str = common("space_args")
    task: str = common("task")
    shape: str = common("shape")
    seed: int = common("seed")
    svg: str = setting("", "Draw it into this SVG file.", metavar="FILE")
    png: str = common("png")


@with_settings
def show(
    arch: Annotated[str, typer.Argument(help="An architecture in the space's own notation, or random.")],
    settings: ShowSettings,
    form: Reading,
    as_json: AsJson = False,
) -> None:
    """Draw an architecture and count its parameters, multiply-accumulates and layers."""
    import json

    from trainless.report import draw
    from trainless.spaces import open_space

    svg, png = settings.svg, settings.png
    opened = open_space(settings.space, settings.space_args)
    chosen = _drawn(opened, settings.seed) if arch == RANDOM else opened.parse(arch)
    data = _task_for(opened, settings.task, settings.shape, form)
    numbers = measured(opened, chosen, data)
    if svg:
        _writable(svg).write_text(draw.svg(opened, chosen, data), encoding="utf-8")
    if png:
        draw.png(opened, chosen, _writable(png), data)
    if as_json:
        typer.echo(json.dumps({"arch": opened.format(chosen), "task": data.name, **numbers}, indent=2))
        return
    say(f"{opened.name}: {opened.format(chosen)}", "", *in_text(opened, chosen).splitlines(), "")
    say(f"For {data.name}, inputs of {'x'.join(map(str, data.input_shape))}:")
    for name, value in numbers.items():
        say(f"  {name.replace('_', ' '):<22} {value:>15,}")
    for path in filter(None, (svg, png)):
        say(f"Drawn in {path}.")


def measured(space: Space, arch: Arch, task: Task) -> dict[str, int]:
    """Costs of a network of a space: as the space says, or as they are counted on the built network.

    Example:
        >>> from trainless.core.task import Task
        >>> from trainless.spaces.sizes import Sizes
        >>> measured(Sizes(), (0, 0, 0, 0, 0), Task.noise((3, 32, 32)))
        {'parameters': 11714, 'multiply-accumulates': 4481104, 'depth': 15, 'parameter tensors': 66}
    """
    from trainless.core.errors import InputError, TrainlessError, Unscorable
    from trainless.core.seeds import seeded
    from trainless.core.text import one_line
    from trainless.probe.counts import count, depth
    from trainless.spaces.protocol import Counted

    try:
        with seeded(0):
            net = space.build(arch, task)
    except TrainlessError:
        raise
    except Exception as error:
        raise InputError(f"{space.name}: building {arch} failed ({one_line(error)}): mend the space's build") from error
    dtype = task.batch(1, seed=0)[0].dtype
    try:
        layers = depth(net, task.input_shape, dtype)
        counts = space.counts(arch, task) if isinstance(space, Counted) else count(net, task.input_shape, dtype)
    except Unscorable as error:
        raise InputError(f"{space.name}: {error}; give the inputs that it takes by --task or --input") from error
    return {
        "parameters": counts.params,
        "multiply-accumulates": counts.flops,
        "depth": layers,
        "parameter tensors": counts.layers,
    }


def _drawn(space: Space, seed: int) -> Arch:
    import numpy as np

    from trainless.spaces.moves import sample

    return sample(space, np.random.default_rng(seed))


def _task_for(space: Space, task: str, shape: str, form: Reading) -> Task:
    """The task that was named; where none was and images do not fit, the built-in text."""
    from trainless.cli.inputs import task_or_noise
    from trainless.core.errors import InputError
    from trainless.tasks import task as find

    opened = task_or_noise(task, shape, form)
    try:
        space.check(opened)
    except InputError:
        if task or shape:
            raise
        opened = find("tiny-text")
        space.check(opened)
    return opened


def _writable(text: str) -> Path:
    from trainless.core.errors import InputError

    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{text} cannot be written: expected a file in a folder that is there")
    return path


def in_text(space: Space, arch: Arch) -> str:
    """An arch as lines of text.

    Example:
        >>> from trainless.spaces.sizes import Sizes
        >>> "24 channels" in in_text(Sizes(), (0, 1, 2, 3, 4))
        True
    """
    from trainless.spaces.sketch import Chain, Drawable

    if not isinstance(space, Drawable):
        pairs = zip(space.decisions, arch, strict=True)
        return "\n".join(f"  {decision.name}: {decision.options[option]}" for decision, option in pairs)
    parts = space.sketch(arch)
    return "\n".join(chain_text(part) if isinstance(part, Chain) else graph_text(part) for part in parts)


def graph_text(graph: Graph) -> str:
    """One line per arrow, in the order of the nodes that they lead to.

    Example:
        >>> from trainless.spaces.sketch import edge_cell
        >>> drawn = graph_text(edge_cell("cell", [(0, 1), (0, 2), (1, 2)], ["conv", "none", "skip"], hide="none"))
        >>> [line.strip() for line in drawn.splitlines()]
        ['cell', 'input ── conv ──▶ 1', '1     ── skip ──▶ output']
    """
    labels = _names(graph)
    places = {node.key: place for place, node in enumerate(graph.nodes)}
    edges = sorted(graph.edges, key=lambda edge: (places[edge.target], places[edge.source]))
    left = max((len(labels[edge.source]) for edge in edges), default=0)
    wide = max((len(edge.label) for edge in edges), default=0)
    lines = [f"  {labels[e.source]:<{left}} {_shaft(e.label, wide)}▶ {labels[e.target]}" for e in edges]
    return "\n".join([graph.title, *lines])


def _names(graph: Graph) -> dict[str, str]:
    """The label of each node; nodes of the same label are numbered by their place among those."""
    labels = [node.label for node in graph.nodes]
    seen: dict[str, int] = {}
    names: dict[str, str] = {}
    for node in graph.nodes:
        seen[node.label] = seen.get(node.label, 0) + 1
        names[node.key] = f"{node.label} #{seen[node.label]}" if labels.count(node.label) > 1 else node.label
    return names


def _shaft(label: str, wide: int) -> str:
    return (f"── {label} " if label else "").ljust(wide + 4, "─") + "──" if wide else "──"


def chain_text(chain: Chain) -> str:
    """One line per block.

    Example:
        >>> from trainless.spaces.sketch import Block, Chain
        >>> [line.strip() for line in chain_text(Chain("network", (Block("stem", "3×3"), Block("head")))).splitlines()]
        ['network', 'stem  3×3', '↓', 'head']
    """
    left = max((len(block.label) for block in chain.blocks), default=0)
    blocks = [f"  {block.label:<{left}}  {block.detail}".rstrip() for block in chain.blocks]
    return "\n".join([chain.title, "\n  ↓\n".join(blocks)])
