"""The settings of searches and sweeps: for the Python call, the command's options and what ``run.json`` holds.

Nothing heavy is imported here: the command line reads these classes to print its help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from trainless.core.errors import InputError
from trainless.core.parameters import parse_arguments
from trainless.core.settings import setting
from trainless.core.units import quantity, seconds_of

if TYPE_CHECKING:
    from trainless.core.arch import Arch
    from trainless.execution.engine import Engine
    from trainless.proxies.proxy import Proxy
    from trainless.rankings import Ranking
    from trainless.runs.loop import Loop
    from trainless.scoring.costs import Tried
    from trainless.scoring.measures import Measure
    from trainless.searchers.searcher import Searcher
    from trainless.searchers.stopping import Budget

Watch: TypeAlias = "Callable[[Loop, Budget], None]"
COSTS = ("params", "flops", "layers", "memory", "latency")


def _or_none(number: int) -> int | None:
    return number or None


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class LimitSettings:
    """The most that an architecture may cost; text may have a unit, as in ``"50M"``, ``"64MB"`` and ``"5ms"``.

    ``constraints`` are limits by the name of a cost, such as one of your own.
    """

    max_params: float | str | None = setting(None, "The most parameters, such as 1.5M.", metavar="N")
    max_flops: float | str | None = setting(None, "The most multiply-accumulates, such as 50M.", metavar="N")
    max_layers: float | str | None = setting(None, "The most parameter tensors.", metavar="N")
    max_memory: float | str | None = setting(
        None, "The most bytes of weights and activations, such as 64MB.", metavar="SIZE"
    )
    max_latency: float | str | None = setting(
        None, "The longest time for one sample, measured here, such as 5ms.", metavar="TIME"
    )
    constraints: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, float]:
        """All limits as numbers.

        Example:
            >>> LimitSettings(max_flops="50M", constraints={"energy": 3}).limits
            {'energy': 3.0, 'flops': 50000000.0}
        """
        own = {name: getattr(self, f"max_{name}") for name in COSTS}
        given = {**self.constraints, **{name: most for name, most in own.items() if most is not None}}
        return {name: quantity(most, name) for name, most in given.items()}


@dataclass(frozen=True)
class ExecutionSettings:
    """The machine that scores networks; none of this changes a score, but for the device."""

    device: str = setting("cpu", "The device of the networks: cpu, cuda or cuda:1.")
    workers: int = setting(1, "The number of worker processes, each with one thread.", least=1)
    timeout: float | str | None = setting(None, "The longest time that one candidate may take, such as 60s.")
    memory_limit: float | str | None = setting(None, "The most memory of one worker, such as 4g.", metavar="SIZE")
    engine: str = setting("local", "Where the workers are: local is this machine (trainless list executors).")
    address: str = setting("", "The address of a Ray cluster; one is started here without it.")
    store: str = setting(
        "",
        "A file or postgresql://… in which scores and runs are shared; none shares nothing.",
        metavar="PLACE",
        read=lambda text: "" if text == "none" else text,
    )

    @property
    def execution(self) -> Engine:
        from trainless.execution.engine import Engine

        memory = None if self.memory_limit is None else int(quantity(self.memory_limit, "memory"))
        return Engine(self.engine, self.workers, seconds_of(self.timeout), memory, self.device, self.address)


@dataclass(frozen=True)
class SearchSettings(LimitSettings, ExecutionSettings):
    """Everything about a search but its task, its space and its folder.

    A run that is resumed must have the same settings, but for its budgets and for where it is executed. Of several
    proxies without a ranking all are told as columns, to searchers that take them (evolution, history_evolution,
    teg_reinforce, prune, nsga2). A ranking's proxies are scored too; searchers that rank by themselves are told those
    as columns: ``prune``, ``history_evolution`` with a product of ranks (AZ-NAS) and ``evolution`` with a sum of ranks
    (TEG-NAS). A run is kept in its store, too, so that any machine can resume it.

    Args:
        searcher: May be whatever makes a searcher from a space, ``seed`` and ``feasible``.
        measure: Anything else than proxies that measures a proposal, such as real training or a table.
        costs: Costs of your own by name, such as a table's latency or energy.
        simulated: The most seconds that a table says training takes.
        ahead: With four proposals for each worker hardly one waits for a slow neighbour's candidate to be told first.
        name: What the run is called in its store; the folder's name by default.
    """

    searcher: str | Callable[..., Searcher] = setting("evolution", "The search method (trainless list searchers).")
    searcher_args: Mapping[str, Any] = setting(
        {},
        "Parameters of the search method, such as population=64,tournament=8.",
        kind=str,
        read=lambda text: parse_arguments(text, "--searcher-args", "population=64,tournament=8"),
    )
    proxies: str | Proxy | Sequence[str | Proxy] | None = setting(
        None, "Search by proxies, one value or several columns; zico/batches=4 has an option, file.py:name is your own."
    )
    ranking: str | Ranking | None = setting(None, "Search by a ranking over everything seen (trainless list rankings).")
    assist: str | Proxy | None = setting(None, "The proxy of an assisted search method, such as g_rea.")
    measure: Measure | None = None
    costs: Mapping[str, Callable[[Arch], float]] = field(default_factory=dict)
    objectives: Sequence[str] = setting(
        (), "Costs to lower as well, such as flops,latency (for nsga2).", kind=str, read=names_in
    )
    evaluations: int | None = setting(
        None, "How many candidates to evaluate, twins included; 0 for no such limit.", kind=int, least=0, read=_or_none
    )
    time: float | str | None = setting(None, "The wall time of all sessions together, such as 90s, 10m or 2h.")
    simulated: float | str | None = None
    seed: int = setting(0, "The seed of the search method and of the scores.", least=0)
    init: str = setting("own", "The weights: own are PyTorch's; kaiming; paper is each proxy's published setting.")
    batch: int = setting(0, "Samples per batch; 0 for 64, or the paper's number.", least=0)
    ahead: int | None = setting(
        None, "Single proposals in flight; 0 for four per worker, or 1 with one.", kind=int, least=0, read=_or_none
    )
    name: str = ""
    fork: str | Path = setting("", "Begin as this run was after --step, with --seed.", metavar="RUN")
    step: int = setting(0, "The step to fork from.", least=0)

    def __post_init__(self) -> None:
        if bool(self.fork) != bool(self.step):
            raise InputError("--fork and --step belong together: the run to begin from and the step of it")

    @property
    def budget(self) -> Budget:
        from trainless.searchers.stopping import Budget

        return Budget(self.evaluations, seconds_of(self.time), seconds_of(self.simulated))


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--seeds {text} was given; expected numbers such as 0,1,2") from None


@dataclass(frozen=True)
class SweepSettings(ExecutionSettings):
    """A sweep, in words that travel to a bare machine and into every worker process."""

    out: str = setting("", "The folder of the journals and of scores.npz; given again, the sweep resumes.")
    space: str = setting("nb201", "The search space (trainless list spaces).")
    space_args: str = setting("", "Parameters of the space, such as channels=8,cells=2.")
    archs: str = setting(
        "canonical",
        "The networks: canonical (one of each set of twins, which compute the same function), all, sample:500, or a"
        " file with one notation per line.",
    )
    proxies: str = setting(
        "all", "Names (with options, as in zico/batches=4) or patterns with commas between them, or file.py:name."
    )
    init: str = setting("paper", "The weights: paper is each proxy's published setting; own are PyTorch's; kaiming.")
    batch: int = setting(0, "Samples per batch; 0 leaves it to each proxy's setting.", least=0)
    task: str = setting("noise:3x32x32:10", "A built-in task, a file or folder of your data, or noise:SHAPE:CLASSES.")
    seeds: tuple[int, ...] = setting((0,), "The seeds, such as 0,1,2.", kind=str, read=_seeds)
    time: float | str | None = setting(None, "The wall time after which no network is begun, such as 90s, 10m or 2h.")
    store: str = setting(
        "",
        "A file or postgresql://… to share with other sweeps; none keeps nothing. [default: a file in the user's cache,"
        " at the end]",
        metavar="PLACE",
    )

    def __post_init__(self) -> None:
        for seed in self.seeds:
            if not 0 <= seed < 2**63:
                raise InputError(f"seed {seed} was given; expected whole numbers from 0 to {2**63 - 1}")

    @property
    def shared(self) -> str:
        """The store that the workers look into and write to; empty for none."""
        return "" if self.store == "none" else self.store


def _nothing(*about: Any) -> None:
    pass


@dataclass(frozen=True)
class SearchCallbacks:
    """Functions that are called while a search goes on.

    Args:
        measured: Called with the loop and its budget whenever anything was measured.
        interrupted: Called at the first Ctrl-C.
        tried: Called with the cost, the number of networks and the least so far whenever a network was made to see
            whether it keeps a limit on memory or latency.
    """

    measured: Watch = _nothing
    interrupted: Callable[[], None] = _nothing
    tried: Tried = _nothing
