"""The options that several commands have: one word, one meaning, one help sentence, defined here and nowhere else.

A command may have a default of its own where its work asks for one; ``tests/cli/test_vocabulary.py`` lists those.
Nothing heavy is imported here: the command line reads this module to print its help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainless.core.settings import setting

LAST_SEED = 2**53 - 1  # what every program that reads JSON can hold exactly
_AS_DEFINED: Any = object()
_WORDS: Mapping[str, Mapping[str, Any]] = {
    "batch": {
        "default": 0,
        "help": "Samples per batch; 0 for 64, or in a paper's setting for the paper's number.",
        "least": 0,
    },
    "csv": {"default": "", "help": "Write the rows to this CSV file; - prints them.", "metavar": "FILE"},
    "dataset": {"default": "cifar10", "help": "The dataset of the table."},
    "device": {
        "default": "cpu",
        "help": "Where the networks are: cpu, cuda, cuda:1, or auto for a GPU where there is one.",
    },
    "draws": {"default": 1000, "help": "Bootstrap draws behind the intervals.", "least": 0},
    "evaluations": {
        "default": None,
        "help": "The most candidates that one search evaluates, twins included.",
        "kind": int,
        "least": 1,
    },
    "host": {"default": "127.0.0.1", "help": "The address to listen at."},
    "init": {
        "default": "own",
        "help": "The weights: own are as the network was made, kaiming are drawn anew from N(0, 2/fan_in), paper is"
        " each proxy's published setting.",
    },
    "log": {
        "default": "",
        "help": "Log every step for tensorboard, mlflow or wandb, with commas between them (trainless list loggers).",
        "metavar": "NAMES",
    },
    "out": {
        "default": "",
        "help": "The run folder; the same command resumes the run in it.",
        "metavar": "FOLDER",
        "shown": "runs/ and the command's name",
    },
    "png": {"default": "", "help": "Draw it into this PNG file.", "metavar": "FILE"},
    "port": {"default": 8501, "help": "The port; 0 for any that is free.", "least": 0},
    "proxies": {
        "default": "",
        "help": "Proxies by name or pattern, with commas between them (trainless list proxies); zico/batches=4 has an"
        " option, file.py:name is your own.",
        "metavar": "NAMES",
    },
    "proxy": {
        "default": "",
        "help": "A proxy (trainless list proxies), or file.py:name of your own.",
        "metavar": "NAME",
    },
    "ranking": {"default": None, "help": "Go by a ranking (trainless list rankings).", "metavar": "NAME"},
    "runs": {"default": None, "help": "Independent runs of each search.", "kind": int, "least": 1},
    "searcher": {"default": "evolution", "help": "The search method (trainless list searchers)."},
    "searcher_args": {
        "default": "",
        "help": "Parameters of the search method, such as population=64,tournament=8.",
        "kind": str,
    },
    "seed": {"default": 0, "help": "The seed of everything that is random.", "least": 0},
    "seeds": {"default": 1, "help": "The number of seeds, from --seed on.", "least": 1},
    "shape": {
        "default": "",
        "help": "Without a task: noise of this shape; own is the size that each network was made for.",
        "flag": "--input",
        "metavar": "CxHxW",
        "shown": "3x32x32",
    },
    "space": {"default": "nb201", "help": "The search space (trainless list spaces), or file.py:name of your own."},
    "space_args": {"default": "", "help": "Parameters of the space, such as channels=8,cells=2.", "kind": str},
    "store": {
        "default": "",
        "help": "The store of scores and runs: a file, folder/ (on shared disks) or postgresql://…; or none.",
        "metavar": "PLACE",
    },
    "table": {"default": "nb201", "help": "The tabular benchmark (trainless list tables)."},
    "task": {
        "default": "",
        "help": "A built-in task (trainless list tasks), a file or folder of your data, or noise such as"
        " noise:3x32x32:10.",
    },
    "time": {"default": None, "help": "The most wall time, such as 90s, 10m or 2h.", "metavar": "TIME"},
    "workers": {
        "default": 1,
        "help": "The number of worker processes, each with one thread; 0 for one per core.",
        "least": 0,
    },
}


def common(name: str, default: Any = _AS_DEFINED, *, shown: str = "", read: Callable[[Any], Any] | None = None) -> Any:
    """A field of a settings class that is an option of several commands.

    Args:
        name: Which option; the field has this name, too.
        default: A default of the command's own.
        shown: That default in words, where the value itself says too little.
        read: Makes the field's value of the text on the command line.

    Example:
        >>> from dataclasses import dataclass
        >>> from trainless.core.settings import options_of
        >>> @dataclass(frozen=True)
        ... class Some:
        ...     seed: int = common("seed")
        ...     init: str = common("init", "paper")
        >>> Some(), [option.help for option in options_of(Some)][0]
        (Some(seed=0, init='paper'), 'The seed of everything that is random.')
    """
    word = dict(_WORDS[name])
    kind = word.pop("kind", None) or (str if word["default"] is None else type(word["default"]))
    if default is not _AS_DEFINED:
        word |= {"default": default, "shown": shown}
    return setting(**{**word, "kind": kind, "shown": shown or word.get("shown", ""), "read": read})
