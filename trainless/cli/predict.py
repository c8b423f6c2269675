"""``trainless predict`` and ``trainless export``: what a finished design is used for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainless.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from trainless.learn.predictor import Prediction, Predictor

    Array = npt.NDArray[np.generic]

OWN = "The space of your own that the run was made with; its code is run."
NAMES = ("x", "test_images", "x_test", "images", "inputs")


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    inputs: Annotated[Path, typer.Argument(help="New inputs: an .npz with x (or one array), or an .npy.")],
    csv: Annotated[Path, typer.Option(help="Where to write one line per case.")],
    space: Annotated[str, typer.Option(metavar="FILE.py:NAME", help=OWN)] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda; by default cuda where there is one.")] = "",
) -> None:
    """Probabilities, label, uncertainty, prediction set, referral and drift of every case."""
    from trainless.cli.design import default_device
    from trainless.learn.drift import drift_warning
    from trainless.run.joining import one_thread
    from trainless.run.verdict import drift_level

    predictor = open_predictor(run, space)
    x = as_inputs(read_inputs(inputs), predictor.task.input_shape)
    require_finite(x)
    with one_thread():
        said = predictor.predict(x, device or default_device())
    write_csv(csv, predictor, said)
    typer.echo(f"{len(x)} cases are in {csv}.")
    if said.refer is not None:
        typer.echo(f"{int(said.refer.sum())} of them are to be referred to a person.")
    if said.drift is not None:
        warning = drift_warning(said.drift, level=drift_level(predictor))
        typer.echo(f"{'warning: ' if warning.warn else ''}{warning}", err=warning.warn)


def export(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    space: Annotated[str, typer.Option(metavar="FILE.py:NAME", help=OWN)] = "",
) -> None:
    """Write the whole ensemble with its uncertainty as one ONNX graph, checked against PyTorch."""
    from trainless.learn.export import export_onnx

    names = export_onnx(open_predictor(run, space), onnx)
    typer.echo(f"{onnx} is written and gives the same as PyTorch. Input: inputs; outputs: {', '.join(names)}.")


def open_predictor(run: Path, space: str = "") -> Predictor:
    """The ensemble of a run folder; the code of a space of one's own is run only where the user names it.

    Args:
        run: The run folder.
        space: ``my_file.py:my_space``, where the run has one.
    """
    from trainless.core.damage import undamaged
    from trainless.learn.files import ENSEMBLE, load_predictor
    from trainless.run.folder import CONFIGURATION, read_configuration
    from trainless.spaces import space as find_space

    configuration = read_configuration(run)
    if not (run / ENSEMBLE).exists():
        raise InputError(f"{run} has no ensemble yet: run trainless design again to finish it")
    name = str(configuration.get("space", ""))
    if bool(space) != (":" in name):
        wanted = f"is {name}, whose code runs only where you name it: give" if ":" in name else f"is {name}: leave out"
        raise InputError(f"the space of {run} {wanted} --space {name if ':' in name else space}")
    with undamaged(run / CONFIGURATION, "give another run"):
        chosen = find_space(space, **configuration["space_args"]) if space else None
    return load_predictor(run, chosen)


def read_inputs(path: Path) -> Array:
    """The inputs of a file; an ``.npy`` is memory-mapped."""
    import numpy as np

    from trainless.tasks.npz import arrays_of, reading_numpy

    if not path.is_file():
        raise InputError(f"there is no file {path}: expected an .npz or .npy of inputs")
    if path.suffix == ".npy":
        with reading_numpy(path):
            return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if path.suffix != ".npz":
        raise InputError(f"{path.name} is of a kind that cannot be read; expected .npz or .npy")
    arrays = arrays_of(path)
    for name in NAMES:
        if name in arrays:
            return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise InputError(f"{path.name} has the arrays {', '.join(sorted(arrays)) or 'none'}; expected one called x")


def as_inputs(x: Array, shape: tuple[int, ...]) -> Array:
    """Inputs as ``(N, C, *spatial)``: channels may be first, last or, where there is one, left out.

    Example:
        >>> import numpy as np
        >>> as_inputs(np.zeros((5, 28, 28)), (1, 28, 28)).shape
        (5, 1, 28, 28)
    """
    import numpy as np

    if x.dtype.kind not in "biuf":
        raise InputError(f"inputs are of type {x.dtype}; expected integers or floats")
    if x.shape[1:] == shape:
        return x
    if shape[0] == 1 and x.shape[1:] == shape[1:]:
        return x[:, np.newaxis]
    if x.shape[1:] == (*shape[1:], shape[0]):
        return np.moveaxis(x, -1, 1)
    wanted = ", ".join(map(str, shape))
    raise InputError(f"inputs of shape {x.shape} were given; expected (N, {wanted}), or with the channels last")


def require_finite(x: Array) -> None:
    """Raise InputError where an input is NaN or infinite."""
    from trainless.tasks.statistics import require_finite as check

    check(x, "new")


def write_csv(path: Path, predictor: Predictor, said: Prediction) -> None:
    """One line per case."""
    import csv

    rows = rows_of(predictor, said)
    first = next(rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(first), lineterminator="\n")
            writer.writeheader()
            writer.writerow(first)
            writer.writerows(rows)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): give another --csv") from error


def rows_of(predictor: Predictor, said: Prediction) -> Iterator[dict[str, Any]]:
    """What is said of each case, by column."""
    from trainless.run.verdict import drift_level

    target, level = predictor.task.target, drift_level(predictor)
    names = list(target.names) or [str(number) for number in range(target.outputs)]
    for case in range(len(said.mean)):
        row: dict[str, Any] = {"case": case}
        if target.kind == "regression":
            many = target.outputs > 1
            for number in range(target.outputs):
                end = f"_{number}" if many else ""
                row[f"value{end}"] = repr(float(said.mean[case, number]))
                if said.low is not None and said.high is not None:
                    row[f"low{end}"] = repr(float(said.low[case, number]))
                    row[f"high{end}"] = repr(float(said.high[case, number]))
        elif said.label is not None:
            row["label"] = names[int(said.label[case])]
            row |= {f"p_{name}": repr(float(p)) for name, p in zip(names, said.mean[case], strict=True)}
        row["variance"] = repr(float(said.variance[case]))
        for what, values in (("entropy", said.total), ("aleatoric", said.aleatoric), ("epistemic", said.epistemic)):
            if values is not None:
                row[what] = repr(float(values[case]))
        if said.sets is not None:
            row["set"] = " | ".join(name for name, inside in zip(names, said.sets[case], strict=True) if inside)
        if said.refer is not None:
            row["refer"] = "yes" if said.refer[case] else "no"
        if said.drift is not None:
            row["like_training_p"] = repr(float(said.drift[case]))
            row["unlike_training"] = "yes" if said.drift[case] <= level else "no"
        yield row
