"""Measures of a proposal: by proxies, by a table, or by a function of one's own.

A measure runs wherever an executor puts it, so it travels between processes: it names its proxies instead of holding
them, and opens the store where it works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from trainless.core.arch import Arch, Candidate, Proposal, is_region
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.execution.limits import explained
from trainless.proxies.proxy import Proxy
from trainless.scoring.batches import BatchSource
from trainless.scoring.evaluate import evaluate
from trainless.scoring.request import Init, PortableProxies
from trainless.scoring.subjects import ArchSubject
from trainless.spaces.moves import has_options
from trainless.spaces.protocol import Space, key
from trainless.store import Key, Result, Store, store_at, turns


@dataclass(frozen=True)
class Outcome:
    """The values that measuring a proposal gave, and why some are missing.

    Args:
        values: One number per name, NaN where there is none.
        failures: Why a value is NaN, by name.
        cost: The seconds that a table says it would have taken.
    """

    values: Mapping[str, float]
    failures: Mapping[str, str] = field(default_factory=dict)
    cost: float = 0.0


class Measure(Protocol):
    """Measures a proposal; the same answer in any process. A measure of one's own is a subclass.

    Attributes:
        higher_is_better: The direction of each value that it gives.
    """

    higher_is_better: Mapping[str, bool]

    def __call__(self, proposal: Proposal, /) -> Outcome:
        """The values of a proposal."""
        ...

    def failed(self, reason: str) -> Outcome:
        """NaN everywhere, for one reason."""
        names = self.higher_is_better
        return Outcome(dict.fromkeys(names, math.nan), dict.fromkeys(names, reason))

    def close(self) -> None:
        """Let go of whatever is open."""
        return


class StoredMeasure(Measure):
    """A measure that keeps what it measures in a store, opened where it works.

    Args:
        store: The store, as :func:`trainless.store.store_at` takes it; empty keeps nothing.
    """

    def __init__(self, store: str) -> None:
        self._path = store
        self._opened: Store | None = None

    @property
    def _store(self) -> Store | None:
        if self._path and self._opened is None:
            self._opened = store_at(self._path)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


class ByProxies(StoredMeasure):
    """Scores by proxies, kept in a store the moment they exist.

    Args:
        space: The space of the candidates.
        task: Where batches come from.
        proxies: The proxies; in another process they are found again by their names.
        seed: The seed of weights and batches.
        init: As in :func:`trainless.score`.
        batch: Samples per batch; 0 leaves it to the setting.
        device: Where to build the networks.
        store: The store, as :func:`trainless.store.store_at` takes it; empty keeps nothing.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> from trainless.scoring.request import select
        >>> measure = ByProxies(NasBench201(2, 1), Task.noise((3, 8, 8)), select("params"))
        >>> measure(Proposal((1, 1, 1, 1, 1, 1))).values
        {'params': 1332.0}
    """

    def __init__(
        self,
        space: Space,
        task: Task,
        proxies: Sequence[Proxy],
        *,
        seed: int = 0,
        init: Init = "own",
        batch: int = 0,
        device: str = "cpu",
        store: str = "",
    ) -> None:
        super().__init__(store)
        self.space = space
        self.higher_is_better: Mapping[str, bool] = {proxy.name: proxy.higher_is_better for proxy in proxies}
        self._data = BatchSource(task, size=batch, device=torch.device(device))
        self._seed, self._init = seed, init
        self._proxies = PortableProxies(proxies)

    def __call__(self, proposal: Proposal) -> Outcome:
        subject = ArchSubject(self.space, proposal.candidate)
        records = evaluate([subject], self._data, self._proxies.found, [self._seed], init=self._init, store=self._store)
        found = {record.proxy: record for record in records}
        return Outcome(
            {name: found[name].value for name in self.higher_is_better},
            {name: explained(found[name].status) for name in self.higher_is_better if found[name].failed},
        )


class ByFunction(StoredMeasure):
    """Whatever a function makes of an arch and a fidelity, such as the accuracy after real training.

    Args:
        name: What the value is called; the store keeps it under this name.
        function: From an arch and a share of full training to a number; in other processes only a function that can
            be imported works.
        space: The space of the archs.
        task: Fingerprint of the data that the value depends on.
        higher_is_better: The direction.
        seed: The seed that the value depends on.
        store: The store, as :func:`trainless.store.store_at` takes it; empty keeps nothing.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> measure = ByFunction("ones", lambda arch, fidelity: arch.count(1), NasBench201())
        >>> measure(Proposal((1, 1, 0, 0, 0, 0))).values
        {'ones': 2.0}
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Arch, float], float],
        space: Space,
        *,
        task: str = "",
        higher_is_better: bool = True,
        seed: int = 0,
        store: str = "",
    ) -> None:
        super().__init__(store)
        self.higher_is_better: Mapping[str, bool] = {name: higher_is_better}
        self._name, self._function = name, function
        self._space, self._task, self._seed = key(space), task, seed

    def __call__(self, proposal: Proposal) -> Outcome:
        where = Key(
            *(self._space, ",".join(map(str, proposal.arch)), self._name, 1),
            *(f"fidelity={proposal.fidelity!r}", self._task, self._seed),
        )
        with closing(turns(self._store, [where])) as rounds:
            known, _ = next(rounds)
            result = known[where] if where in known else self._called(proposal)
            if self._store and where not in known:
                self._store.keep([(where, result)])
        return Outcome({self._name: result.value}, {} if result.status == "ok" else {self._name: result.status})

    def _called(self, proposal: Proposal) -> Result:
        value = float(self._function(proposal.arch, proposal.fidelity))
        status = "ok" if math.isfinite(value) else f"the value is {value}, not a finite number"
        return Result(value if math.isfinite(value) else math.nan, status, math.nan, math.nan)


class Lookup(Measure):
    """A table's value at a fidelity, with the seconds that it would have cost.

    Args:
        name: What the value is called.
        archs: The rows.
        columns: Values by the share of full training after which they were recorded; a proposal gets the lowest share
            that is not below its fidelity.
        seconds: Seconds of full training of each row.
        higher_is_better: The direction.

    Example:
        >>> table = Lookup("accuracy", [(0,), (1,)], {0.5: np.array([60.0, 70.0]), 1.0: np.array([80.0, 90.0])},
        ...                seconds=np.array([10.0, 20.0]))
        >>> table(Proposal((1,), 0.25))
        Outcome(values={'accuracy': 70.0}, failures={}, cost=10.0)
    """

    def __init__(
        self,
        name: str,
        archs: Sequence[Arch],
        columns: Mapping[float, Floats],
        seconds: Floats,
        *,
        higher_is_better: bool = True,
    ) -> None:
        for values in (*columns.values(), seconds):
            if len(values) != len(archs):
                raise InputError(f"{len(archs)} archs were given with a column of {len(values)} values")
        self.higher_is_better: Mapping[str, bool] = {name: higher_is_better}
        self._name = name
        self._rows = {arch: row for row, arch in enumerate(archs)}
        self._columns = dict(sorted(columns.items()))
        self._seconds = np.asarray(seconds, np.float64)

    def __call__(self, proposal: Proposal) -> Outcome:
        row = self._rows.get(proposal.arch)
        if row is None:
            raise InputError(f"the table has no row for {proposal.arch}; restrict the search by constraints")
        share = next((share for share in self._columns if share >= proposal.fidelity), max(self._columns))
        value = float(self._columns[share][row])
        failures = {} if math.isfinite(value) else {self._name: "the table has no value"}
        return Outcome({self._name: value}, failures, share * float(self._seconds[row]))


def canonical_key(space: Space, feasible: Callable[[Arch], bool] | None) -> Callable[[Candidate], Candidate]:
    """From a candidate to the twin that is scored in its place: the canonical one, unless that breaks a limit.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> canonical_key(NasBench201(), None)((3, 0, 0, 1, 0, 0))
        (0, 0, 0, 1, 0, 0)
    """

    def twin(candidate: Candidate) -> Candidate:
        if is_region(candidate):
            return candidate
        arch = Proposal(candidate).arch
        if not has_options(space, arch):
            raise InputError(
                f"{arch} was proposed, which {space.name} has no options for: the run's folder is damaged, or the"
                " searcher is mistaken; give another --out or --searcher"
            )
        canonical = space.canonical(arch)
        if canonical == arch or (space.valid(canonical) and (feasible is None or feasible(canonical))):
            return canonical
        return arch

    return twin
