"""What is asked of SLURM, as options or from a small TOML file that is named once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.units import seconds_of

VARIABLE = "TRAINLESS_SLURM"
EXAMPLE = "partition=gpu,time=2h,cpus=4 or the name of a TOML file"
EXTRA = "sbatch."
KINDS: dict[str, type] = {"cpus": int, "gpus": int, "sbatch": Mapping, "setup": tuple}  # all others are text


@dataclass(frozen=True)
class SlurmOptions:
    """An allocation, of which there are as many as it takes.

    Args:
        partition: The partition; the cluster's own default without it.
        account: Who pays.
        time: How long an allocation lasts; one that ends is asked for again until there is nothing left to do.
        cpus: Cores of an allocation, each with a worker.
        memory: Of an allocation, such as ``8GB``; the cluster's own default without it.
        gpus: Of an allocation; one where the device is a GPU.
        sbatch: Any other options of sbatch by their names, such as ``{"qos": "low"}``.
        setup: Lines of shell before anything is started, such as ``module load cuda``.
        folder: Where jobs and answers go: a folder that all machines see, by default in the home directory.
        cluster: ``slurm``, or ``local`` to try it without one.
    """

    partition: str = ""
    account: str = ""
    time: str = "1h"
    cpus: int = 1
    memory: str = ""
    gpus: int = 0
    sbatch: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    folder: str = "~/.cache/trainless/slurm"
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), KINDS.get(each.name, str)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"{each.name}={value!r} was given for slurm; expected {EXAMPLE}")
        if self.cpus < 1 or self.gpus < 0:
            raise InputError(f"cpus={self.cpus}, gpus={self.gpus} were given for slurm; expected at least one core")
        if self.cluster not in ("slurm", "local"):
            raise InputError(f"cluster={self.cluster!r} was given for slurm; expected slurm or local")
        if self.minutes < 1:
            raise InputError(f"time={self.time!r} was given for slurm; expected at least a minute, such as 2h")

    @property
    def minutes(self) -> int:
        return int((seconds_of(self.time) or 0.0) // 60)


def slurm_options(text: str) -> SlurmOptions:
    """Read options, or the file that they name; without any, what ``$TRAINLESS_SLURM`` says.

    Example:
        >>> slurm_options("partition=gpu,cpus=4,sbatch.qos=low").sbatch
        {'qos': 'low'}
    """
    text = text or os.environ.get(VARIABLE, "")
    return SlurmOptions(**_known(_file(Path(text)) if text.endswith(".toml") else _split(text)))


def _file(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): expected a TOML file with lines such as time = '2h'"
        ) from None
    return {**found, "setup": tuple(found["setup"])} if isinstance(found.get("setup"), list) else found


def _split(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or name in ("setup", "sbatch"):
            raise InputError(f"{part!r} was given for slurm; expected {EXAMPLE}")
        if name.startswith(EXTRA):
            found.setdefault("sbatch", {})[name.removeprefix(EXTRA)] = value
        else:
            found[name] = int(value) if name in ("cpus", "gpus") and value.isdecimal() else value
    return found


def _known(found: dict[str, Any]) -> dict[str, Any]:
    names = [each.name for each in fields(SlurmOptions)]
    for name in found:
        if name not in names:
            raise InputError(
                f"{name!r} was given for slurm; expected {', '.join(names)} (other options of sbatch: sbatch.NAME=…)"
            )
    return found
