"""The settings of searches and sweeps: for the Python call, the command's options and what ``run.json`` holds.

Nothing heavy is imported here: the command line reads these classes to print its help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from trainless.core.errors import InputError
from trainless.core.machine import device_named, worker_count
from trainless.core.parameters import parse_arguments
from trainless.core.settings import setting
from trainless.core.units import quantity, seconds_of
from trainless.core.vocabulary import LAST_SEED, common
from trainless.learn.callbacks import logger_names

if TYPE_CHECKING:
    from trainless.core.arch import Arch
    from trainless.execution.executor import Execution
    from trainless.learn.callbacks import Callback
    from trainless.proxies.proxy import Proxy
    from trainless.rankings import Ranking
    from trainless.runs.loop import Loop
    from trainless.scoring.costs import Tried
    from trainless.scoring.measures import Measure
    from trainless.searchers.searcher import Searcher
    from trainless.searchers.stopping import Budget

Watch: TypeAlias = "Callable[[Loop, Budget], None]"
COSTS = ("params", "flops", "layers", "memory", "latency")
EVALUATIONS = 1000  # of a search that was given no limit at all


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

    device: str = common("device")
    workers: int = common("workers")
    timeout: float | str | None = setting(None, "The longest time that one candidate may take, such as 60s.")
    memory_limit: float | str | None = setting(None, "The most memory of one worker, such as 4g.", metavar="SIZE")
    executor: str = setting("local", "Where the workers are: local is this machine (trainless list executors).")
    address: str = setting(
        "", "A Ray cluster's address, or what to ask of SLURM: partition=gpu,time=2h or a TOML file."
    )
    store: str = common("store", "", shown="a file in the run folder", read=lambda text: "" if text == "none" else text)

    def placed(self) -> Self:
        """The same on this machine: the device that ``auto`` means, and the number of workers that 0 means."""
        device = device_named(self.device, here=self.executor == "local")
        return replace(self, device=device, workers=worker_count(self.workers, device))

    @property
    def execution(self) -> Execution:
        from trainless.execution.executor import Execution
        from trainless.store import is_file

        here, memory = self.placed(), None
        if self.memory_limit is not None:
            memory = int(quantity(self.memory_limit, "memory"))
        execution = Execution(self.executor, here.workers, seconds_of(self.timeout), memory, here.device, self.address)
        if self.store not in ("", "none") and execution.spans_machines and is_file(self.store):
            raise InputError(
                f"--store {self.store} is a file for one machine, and --executor {self.executor} works on several: give"
                " a folder that all of them see (--store shared/), or postgresql://user@host/database"
            )
        return execution


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
        evaluations: 1,000 where no limit is given at all: no evaluations, no time and no simulated time.
        simulated: The most seconds that a table says training takes.
        ahead: With four proposals for each worker hardly one waits for a slow neighbour's candidate to be told first.
        name: What the run is called in its store; the folder's name by default.
    """

    searcher: str | Callable[..., Searcher] = common("searcher")
    searcher_args: Mapping[str, Any] = common(
        "searcher_args", {}, read=lambda text: parse_arguments(text, "--searcher-args", "population=64,tournament=8")
    )
    proxies: str | Proxy | Sequence[str | Proxy] | None = common("proxies", None)
    ranking: str | Ranking | None = common("ranking")
    assist: str | Proxy | None = setting(None, "The proxy of an assisted search method, such as g_rea.")
    measure: Measure | None = None
    costs: Mapping[str, Callable[[Arch], float]] = field(default_factory=dict)
    objectives: Sequence[str] = setting(
        (), "Costs to lower as well, such as flops,latency (for nsga2).", kind=str, read=names_in
    )
    evaluations: int | None = common("evaluations", None, shown=f"{EVALUATIONS} without --time")
    time: float | str | None = common("time")
    simulated: float | str | None = None
    seed: int = common("seed")
    init: str = common("init")
    batch: int = common("batch")
    log: str = common("log")
    ahead: int | None = setting(
        None, "Single proposals in flight; 0 for four per worker, or 1 with one.", kind=int, least=0, read=_or_none
    )
    name: str = ""
    fork: str | Path = setting("", "Begin as this run was after --step, with --seed.", metavar="RUN")
    step: int = setting(0, "The step to fork from.", least=0)

    def __post_init__(self) -> None:
        if bool(self.fork) != bool(self.step):
            raise InputError("--fork and --step belong together: the run to begin from and the step of it")
        logger_names(self.log)

    @property
    def unlimited(self) -> bool:
        """Whether no limit was given at all, so that the usual number of evaluations is the limit."""
        return self.evaluations is None and self.time is None and self.simulated is None

    @property
    def budget(self) -> Budget:
        from trainless.searchers.stopping import Budget

        most = EVALUATIONS if self.unlimited else self.evaluations
        return Budget(most, seconds_of(self.time), seconds_of(self.simulated))


@dataclass(frozen=True)
class SweepSettings(ExecutionSettings):
    """A sweep, in words that travel to a bare machine and into every worker process."""

    out: str = common("out", "runs/sweep")
    space: str = common("space")
    space_args: str = common("space_args")
    archs: str = setting(
        "canonical",
        "The networks: canonical (one of each set of twins, which compute the same function), all, sample:500, or a"
        " file with one notation per line.",
    )
    proxies: str = common("proxies", "all")
    init: str = common("init", "paper")
    batch: int = common("batch")
    task: str = common("task", "noise:3x32x32:10")
    seed: int = common("seed")
    seeds: int = common("seeds")
    time: float | str | None = common("time")
    store: str = common("store", "", shown="a file in the user's cache, at the end")
    together: int = setting(
        1, "How many networks a worker runs side by side, as one: faster where they are small, on a GPU above all."
    )

    def __post_init__(self) -> None:
        if self.together < 1:
            raise InputError(f"together={self.together} was given; expected at least 1, such as 32")
        if self.seed < 0 or self.seeds < 1 or self.seed + self.seeds - 1 > LAST_SEED:
            raise InputError(
                f"seed={self.seed} and seeds={self.seeds} were given; expected at least one seed, from 0 to {LAST_SEED}"
            )

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        """The seeds that every proxy has."""
        return tuple(range(self.seed, self.seed + self.seeds))

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
        stepped: Told of every step: how many candidates there were, the best signal so far, and the mean of what was
            told of the step.
    """

    measured: Watch = _nothing
    interrupted: Callable[[], None] = _nothing
    tried: Tried = _nothing
    stepped: Sequence[Callback] = ()
