"""Callbacks: what is told how a training or a search goes on, and those that write it down for other programs."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainless.core.errors import InputError
from trainless.core.opening import make_folder, open_file
from trainless.core.registry import Registry

if TYPE_CHECKING:
    from trainless.learn.checkpoint import Epoch

PROJECT = "trainless"  # where MLflow and W&B file runs whose user says nothing else


class Callback(Protocol):
    """Is told of every epoch of a training, or of every step of a search, and of its end.

    Example:
        >>> class Best:
        ...     loss = math.inf
        ...     def log(self, step, values):
        ...         self.loss = min(self.loss, values["valid_loss"])
        ...     def end(self, status):
        ...         print(f"{status} after a loss of {self.loss}")
        >>> best = Best()
        >>> best.log(0, {"valid_loss": 0.5})
        >>> best.end("ok")
        ok after a loss of 0.5
    """

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of one step; what does not exist, such as an accuracy of a regression, is not among them."""

    def end(self, status: str) -> None:
        """Nothing more comes: ``"ok"``, or why."""


@contextmanager
def told_of_errors(callbacks: Sequence[Callback]) -> Iterator[None]:
    """Tell callbacks of an end by an error or Ctrl-C, which is raised again."""
    try:
        yield
    except BaseException as error:
        for callback in callbacks:
            callback.end(f"ended by {type(error).__name__}")
        raise


def values_of(epoch: Epoch) -> dict[str, float]:
    """The values of an epoch that exist.

    Example:
        >>> from trainless.learn.checkpoint import Epoch
        >>> values_of(Epoch(0, 0.1, 2.0, 3.0, math.nan, 1.5))
        {'lr': 0.1, 'train_loss': 2.0, 'valid_loss': 3.0, 'seconds': 1.5}
    """
    return {name: value for name, value in vars(epoch).items() if name != "number" and not math.isnan(value)}


class TensorBoard:
    """Event files for TensorBoard, in the folder ``tensorboard`` of a run (extra ``tensorboard``).

    Args:
        folder: The run folder.
        name: What is logged, such as ``members/00``.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self._place = Path(folder) / "tensorboard" / name
        self._writer: Any = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if self._writer is None:
            make_folder(self._place)
            self._writer = SummaryWriter(str(self._place), purge_step=step)  # after a break steps may come again
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, status: str) -> None:
        if self._writer is not None:
            self._writer.close()


class Mlflow:
    """A run of MLflow: where ``MLFLOW_TRACKING_URI`` says, else in ``mlflow/`` of the run folder (extra ``mlflow``).

    A training that is resumed goes on in its run. The experiment is ``MLFLOW_EXPERIMENT_NAME``, else ``trainless``.

    Args:
        folder: The run folder.
        name: What is logged, such as ``members/00``.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self._folder, self._name = Path(folder).resolve(), name
        self._client: Any = None
        self._id = ""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        with _others_warnings():
            run = self._run()
            for name, value in values.items():
                self._client.log_metric(run, name, value, step=step)

    def end(self, status: str) -> None:
        if self._client is not None:
            with _others_warnings():
                self._client.set_tag(self._run(), "trainless-status", status)
                self._client.set_terminated(self._run(), "FINISHED" if status == "ok" else "FAILED")

    def _run(self) -> str:
        if self._client is not None:
            return self._id
        from mlflow.tracking import MlflowClient

        client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self._own_file()}")
        wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        known = client.get_experiment_by_name(wanted)
        experiment = client.create_experiment(wanted) if known is None else known.experiment_id
        key = _key(self._folder, self._name)
        held = client.search_runs([experiment], f"tags.`trainless-key` = '{key}'", max_results=1)
        tags = {"trainless-key": key, "trainless-folder": str(self._folder)}
        title = f"{self._folder.name}/{self._name}"
        run = held[0] if held else client.create_run(experiment, tags=tags, run_name=title)
        if held:
            client.update_run(run.info.run_id, status="RUNNING")
        self._id = str(run.info.run_id)
        self._client = client
        return self._id

    def _own_file(self) -> Path:
        file = self._folder / "mlflow" / "mlflow.db"
        make_folder(file.parent)
        open_file(file, "append").close()  # a link is refused
        return file


class WeightsAndBiases:
    """A run of Weights & Biases, offline in the folder ``wandb`` of a run (extra ``wandb``).

    Nothing is sent anywhere unless ``WANDB_MODE`` says so; ``wandb sync`` sends it later. The project is
    ``WANDB_PROJECT``, else ``trainless``; the runs of one folder are a group.

    Args:
        folder: The run folder.
        name: What is logged, such as ``members/00``.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self._folder, self._name = Path(folder).resolve(), name
        self._run: Any = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self._run is None:
            import wandb

            make_folder(self._folder / "wandb")

            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT") or PROJECT,
                name=f"{self._folder.name}/{self._name}",
                group=self._folder.name,
                id=_key(self._folder, self._name),
                resume="allow",
                reinit="create_new",
                dir=str(self._folder),
                mode=os.environ.get("WANDB_MODE") or "offline",  # type: ignore[arg-type]
                settings=wandb.Settings(silent=True, console="off", x_disable_meta=True, disable_git=True),
            )
        self._run.log(dict(values), step=step)

    def end(self, status: str) -> None:
        if self._run is not None:
            self._run.summary["status"] = status
            self._run.finish(0 if status == "ok" else 1)


registry: Registry[Callable[[str | Path, str], Callback]] = Registry("logger", "loggers")
registry.add("tensorboard", TensorBoard)
registry.add("mlflow", Mlflow)
registry.add("wandb", WeightsAndBiases)
NEEDS = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy"), "wandb": ("wandb",)}


def logger_names(text: str) -> tuple[str, ...]:
    """The names in ``"tensorboard,mlflow"``; raises InputError where one is unknown or its package is not installed."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        registry[name]
        if not all(map(importlib.util.find_spec, NEEDS.get(name, ()))):
            raise InputError(f"--log {name} was given, which is not installed: pip install 'trainless[{name}]'")
    return names


def loggers(text: str, folder: Path, name: str) -> list[Callback]:
    """The callbacks that write down what happens in a run folder, by their names with commas between them.

    Nothing is written, and no package imported, before the first value comes.

    Example:
        >>> [type(each).__name__ for each in loggers("tensorboard", Path("runs/demo"), "members/00")]
        ['TensorBoard']
    """
    return [registry[each](folder, name) for each in logger_names(text)]


def _key(folder: Path, name: str) -> str:
    """The same for the same part of the same run folder on every call."""
    return hashlib.sha256(f"{folder}\n{name}".encode()).hexdigest()[:16]


@contextmanager
def _others_warnings() -> Iterator[None]:
    """Leave out what one package of others warns another one of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
