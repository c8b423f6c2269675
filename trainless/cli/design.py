"""``trainless design``: from your data to an ensemble that knows when it does not know."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainless.core.task import Task
    from trainless.designs.pipeline import Designed

EVALUATIONS = "The most of each search; 0 for the preset's. Pruning takes a fixed number (57 on nb201), or is left out."


def design(
    data: Annotated[str, typer.Argument(help="A built-in task, or a file or folder of your data.")],
    out: Annotated[Path, typer.Option(help="The run folder; the same command goes on from it.")],
    preset: Annotated[str, typer.Option(help="fast, thorough or teacup: how much is done.")] = "fast",
    time_budget: Annotated[str, typer.Option(help="Wall time for everything, such as 30m.")] = "",
    space: Annotated[str, typer.Option(help="The search space (trainless list spaces).")] = "nb201",
    space_args: Annotated[str, typer.Option(help="Its parameters; by default the width that fits.")] = "",
    size: Annotated[str, typer.Option(help="Resize the task's images or volumes, such as 32 or 32x48.")] = "",
    ranking: Annotated[
        str,
        typer.Option(
            help="What the searches go by (trainless list rankings). [default: trainless; with teacup, teacup]"
        ),
    ] = "",
    init: Annotated[
        str,
        typer.Option(
            help="own: PyTorch's weights; kaiming; paper: each proxy's setting. [default: own; for teacup, paper]"
        ),
    ] = "",
    max_params: Annotated[str, typer.Option(metavar="N", help="The most parameters, such as 1.5M.")] = "",
    max_flops: Annotated[str, typer.Option(metavar="N", help="The most multiply-accumulates, such as 50M.")] = "",
    max_layers: Annotated[str, typer.Option(metavar="N", help="The most parameter tensors.")] = "",
    max_memory: Annotated[str, typer.Option(metavar="SIZE", help="Weights and activations, such as 64MB.")] = "",
    max_latency: Annotated[str, typer.Option(metavar="TIME", help="Measured here on one sample, such as 5ms.")] = "",
    evaluations: Annotated[int, typer.Option(min=0, help=EVALUATIONS)] = 0,
    members: Annotated[int, typer.Option(min=0, help="Members of the ensemble; 0 for the preset's.")] = 0,
    epochs: Annotated[int, typer.Option(min=0, help="The most epochs; 0 for the preset's.")] = 0,
    baseline: Annotated[int, typer.Option(min=-1, help="Of one architecture, to compare; -1: the preset's.")] = -1,
    learn: Annotated[bool, typer.Option("--learn", help="Choose later members by what the first ones taught.")] = False,
    coverage: Annotated[float, typer.Option(help="Of prediction sets or intervals.")] = 0.9,
    by_class: Annotated[bool, typer.Option("--by-class", help="Keep the coverage for every class.")] = False,
    accuracy: Annotated[float, typer.Option(help="Promised on what is not referred to a person.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default cuda where there is one.")] = "",
    workers: Annotated[int, typer.Option(min=0, help="Processes, one thread each; 0: one per core.")] = 0,
    timeout: Annotated[str, typer.Option(help="The most that scoring one candidate may take, such as 60s.")] = "",
    memory_limit: Annotated[str, typer.Option(metavar="SIZE", help="The most that one worker may take: 4g.")] = "",
    engine: Annotated[str, typer.Option(help="local: processes of this machine; ray: a Ray cluster.")] = "local",
    address: Annotated[str, typer.Option(help="A Ray cluster's address; one is started here without it.")] = "",
    store: Annotated[
        str,
        typer.Option(metavar="PLACE", help="A file or postgresql://… for scores, searches, members; none: unshared."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")] = False,
) -> None:
    """Search architectures without training, train the best, and join them with honest uncertainty."""
    started = time.monotonic()  # before anything heavy is imported: a time budget counts that too
    import json

    from trainless.execution.fork_server import prepare

    if (workers or cores()) > 1 and engine == "local" and device in ("", "cpu"):
        prepare("trainless.scoring.measures")  # workers import torch while this process does
    from trainless.core.parameters import parse_arguments
    from trainless.core.units import budget_of
    from trainless.designs.pipeline import design as run_design
    from trainless.designs.settings import require_promises
    from trainless.execution.limits import keep_warm
    from trainless.tasks import task as open_task

    keep_warm()
    require_promises(coverage, accuracy)
    budget_of(time_budget or None)
    task = open_task(data, **({"size": size} if size else {}))
    limits = {
        "params": max_params,
        "flops": max_flops,
        "layers": max_layers,
        "memory": max_memory,
        "latency": max_latency,
    }
    place = device or default_device()
    if not as_json:
        _announce(task, preset, out)
    with Bars() as bars:
        found = run_design(
            task,
            out,
            preset=preset,
            space=space,
            space_args=parse_arguments(space_args),
            ranking=ranking,
            init=init,
            constraints={name: most for name, most in limits.items() if most},
            evaluations=evaluations or None,
            members=members or None,
            epochs=epochs or None,
            baseline=None if baseline < 0 else baseline,
            learn=learn,
            time_budget=time_budget or None,
            coverage=coverage,
            by_class=by_class,
            accuracy=accuracy,
            seed=seed,
            device=place,
            workers=workers or (cores() if place == "cpu" else 1),
            timeout=timeout or None,
            memory_limit=memory_limit or None,
            engine=engine,
            address=address,
            store="" if store == "none" else store,
            started=started,
            progress=bars.show,
        )
    if as_json:
        typer.echo(json.dumps(found.summary, indent=2, allow_nan=False))
    else:
        _conclude(found)


def default_device() -> str:
    """A GPU where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def cores() -> int:
    """How many cores this process may use."""
    import os

    return max(1, len(os.sched_getaffinity(0)) if "sched_getaffinity" in dir(os) else os.cpu_count() or 1)


class Bars:
    """One bar per stage on the error stream."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, stage: str, done: float, total: float, detail: str) -> None:
        """Draw a stage as far as it is; what went wrong stays above the bars."""
        if stage not in self._rows:
            self._rows[stage] = self._bar.add_task(stage, total=total, detail="")
        if "diverged" in detail:
            self._bar.console.print(detail, markup=False)
        self._bar.update(self._rows[stage], completed=done, total=total, detail=detail)


def _announce(task: Task, preset: str, out: Path) -> None:
    for note in task.notes:
        typer.echo(f"note: {note}", err=True)
    shape = "×".join(map(str, task.input_shape))
    counts = ", ".join(f"{len(part)} {name}" for name, part in _parts(task).items())
    typer.echo(f"{task.name}: {task.target.kind}, inputs {shape}, {counts}; preset {preset}, into {out}", err=True)


def _parts(task: Task) -> dict[str, Any]:
    named = {"train": task.train, "valid": task.valid, "test": task.test}
    return {name: part for name, part in named.items() if part is not None}


def _conclude(found: Designed) -> None:

    summary, folder, new = found.summary, found.folder, found.predictor.task.source.example
    healthy = [member for member in summary["members"] if member["folder"] and member["search"] != "single"]
    spent = summary["spent"]
    typer.echo(
        f"{spent['evaluations']} candidates were looked at in {spent['search_seconds']:.0f} s without training;"
        f" {len(healthy)} networks of {summary['plan']['space']} are the ensemble:"
    )
    for member in healthy:
        typer.echo(f"  {member['folder']:<6} {member['search']:<11} {member['arch']}")
    for name, reason in {**summary["replaced"], **summary["left_out"]}.items():
        typer.echo(f"  {name}: {reason}")
    for note in summary["plan"].get("notes", ()):
        typer.echo(f"  {note}")
    if summary["test"] is not None:
        for line in lines_of(summary["test"]):
            typer.echo(line)
    typer.echo(
        f"Look at {folder / 'report.html'}. Everything is in {folder}: summary.json (all figures), predictions.npz"
    )
    typer.echo(f"(the test part), members/, searches/. Next: trainless predict {folder} {new} --csv out.csv")


def lines_of(test: Mapping[str, Any]) -> list[str]:
    """The verdict on the test part in words."""
    lines = [f"On {test['samples']} test samples:"]
    for name, value in test["ensemble"].items():
        mean = test["members_mean"][name]
        lines.append(f"  {name:<18} {_number(value)}  (members on average {_plain(mean)})")
    if "single" in test:
        main = test["main"]
        lines.append(
            f"  one architecture, {test['single']['size']} times: {main} {_number(test['single']['ensemble'][main])}"
        )
    if "confidence_curve" in test:
        area = f"  accuracy, mean over the surest 5 %, …, 100 %: {_plain(test['confidence_curve']['area'])}"
        if "single" in test:
            area += f" (one architecture {_plain(test['single']['confidence_curve']['area'])})"
        lines.append(area)
    if "calibration_error" in test:
        lines.append(f"  calibration error  {_number(test['calibration_error'])}")
    for kind, size in (("sets", "mean_size"), ("intervals", "mean_width")):
        if kind in test:
            own = test[kind]
            lines.append(
                f"  {kind} that promise {own['promised']:.0%} hold the truth in {_number(own['coverage'])};"
                f" {size.replace('_', ' ')} {_plain(own[size])}"
            )
    if "deferral" in test:
        own = test["deferral"]
        lines.append(f"  deferral: {own['rule']}")
        if own["promised"]:
            lines.append(
                f"    on the test part: {_number(own['accuracy'])} right, {own['referred']:.0%} referred; {_kept(own)}"
            )
    if "drift" in test:
        lines.append(f"  drift: {test['drift']['text']}")
    return lines


def _kept(own: Mapping[str, Any]) -> str:
    if not own["holds"]:
        return "THE PROMISE DOES NOT HOLD"
    right = own["accuracy"]["value"]
    less = right is not None and right < own["asked"]
    return "less than promised, but no more so than chance explains" if less else "the promise holds"


def _number(value: Mapping[str, Any]) -> str:
    return f"{_plain(value['value'])} [{_plain(value['low'])}, {_plain(value['high'])}]"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
