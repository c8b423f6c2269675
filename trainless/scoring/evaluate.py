"""Scoring: every subject by every proxy with every seed, sharing what can be shared and keeping every result."""

from __future__ import annotations

import functools
import itertools
import math
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import nn

import trainless.rankings  # noqa: F401 - scores.rank() finds them by their names
from trainless.core.errors import InputError, TrainlessError, Unscorable
from trainless.core.machine import worker_count
from trainless.core.processes import process_kept
from trainless.core.progress import on_a_terminal, tracked
from trainless.core.scores import MACHINE, Record, Scores
from trainless.core.seeds import modes_kept
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.text import message, one_line
from trainless.execution.executor import Execution, Job, pool_for
from trainless.probe.probe import Probe, exact_products, remarks
from trainless.proxies.proxy import Proxy, Setting
from trainless.scoring.batches import Batch, BatchSource
from trainless.scoring.candidates import is_alone, subjects_of
from trainless.scoring.costs import forward_backward_ms, timed
from trainless.scoring.request import (
    Init,
    PortableProxies,
    data_for,
    init_named,
    require_named,
    require_room,
    seed_list,
    select,
    setting_for,
)
from trainless.scoring.subjects import Adapter, ArchSubject, Subject
from trainless.spaces.protocol import Counts
from trainless.store import Key, Result, Store, StoreError, store_at, turns

MACHINE_ERRORS = (MemoryError, OSError, torch.OutOfMemoryError)
MACHINE_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "CUDA error")


def score(
    subject: object,
    batch: Batch | int | None = None,
    *,
    task: Task | None = None,
    proxies: str | Proxy | Iterable[str | Proxy] = "all",
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
    init: Init = "own",
    adapter: Adapter | None = None,
    inputs: Mapping[str, Sequence[int]] | str | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    workers: int = 1,
    fbe: bool = False,
) -> Scores:
    """Score networks, or archs of a space, without training.

    The caller's network, the random states and the backend flags are as before afterwards. A score depends on
    what is named here and on nothing else: not on the other proxies, their order or earlier calls. A proxy that
    fails has NaN, and ``scores.failures`` says why. A network that cannot be made, or cannot run on the inputs at all,
    is an error where it was given alone; among others it has NaN everywhere for that reason, and the rest goes on.

    ``ms`` is the time that a proxy added to the proxies scored before it, because they share work; ``fbe``, where it
    was asked for, is that time over the time of one plain forward and backward pass on the same batch.

    Args:
        subject: An ``nn.Module``, a function that makes one, a name such as ``"timm:resnet18"`` or ``"timm:resnet*"``
            (:func:`trainless.networks`), a pair ``(space, arch)`` or ``(space, [arch, …])``; or many: a dict by name,
            or a list or generator of these, of ``(name, network)`` or of ``(name, network, input shape)``. Functions
            are called one at a time. No two candidates have one name: a second ``ResNet`` is ``ResNet-2``.
        batch: ``(x, y)``, tensors or numpy arrays; or with a task, how many samples to draw (64, or the paper's
            number).
        task: Where inputs and labels come from, unless a batch is given.
        proxies: ``"all"``, names (``"zico/batches=4"`` has an option), patterns such as ``"ntk*"``, or proxies.
        seed: The seed of weights, batches and whatever a proxy draws. The weights of a given network are its own
            whatever the seed, and a given batch stays as it is; functions, names and archs are made anew by it.
        seeds: How many seeds from ``seed`` on, or which; each gives a record and the table has their mean.
        init: ``"own"``: the network as it is (an arch: built by PyTorch's rules), on the batch as it is;
            ``"kaiming"``: its weights drawn anew, N(0, 2 / fan_in), on the same batch;
            ``"paper"``: each proxy's published initialisation, inputs, batch and network size.
        adapter: Picks the one tensor of logits or values from a network's tuple or dict of outputs.
        inputs: Input shapes of the networks that take others, by name, as in ``{"inception_v3": (3, 299, 299)}``;
            ``"own"``: the size that each network was made for, where it says so (timm). Noise is drawn in that shape,
            other samples are resized by linear interpolation.
        store: Where to look for and keep scores: a store, a path or ``postgresql://…``; None keeps
            nothing.
        device: Where to build networks; a given network stays where it is.
        workers: How many processes score candidates side by side, each on one thread; 0 for one per core.
        fbe: Whether a plain pass is timed for comparison, which takes as long as some of the measures.

    Example:
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> batch = torch.randn(4, 3, 2, 2), torch.tensor([0, 1, 0, 1])
        >>> score(net, batch, proxies=["params"])["params"]
        122.0
        >>> score({"a": net, "b": lambda: nn.Linear(5, 2)}, batch, proxies="params").to_frame(wide=True)["params"]
        candidate
        a    122.0
        b      NaN
        Name: params, dtype: float64
    """
    init = init_named(init)
    chosen, numbers = select(proxies), seed_list(seed, seeds)
    data = data_for(batch, task, device, inputs)
    subjects, alone = subjects_of(subject, adapter), is_alone(subject)
    total = None
    if isinstance(subjects, list):
        total = len(subjects) * len(chosen) * len(numbers)
        require_named(data.inputs, [each.name for each in subjects])
    how: dict[str, Any] = {"init": init, "store": store, "strict": alone, "workers": workers, "fbe": fbe}
    records = scored(subjects, data, chosen, numbers, **how)
    if not alone and on_a_terminal():
        records = tracked(records, total, "scoring")
    return in_order(records, chosen)


def scored(
    subjects: Iterable[Subject],
    data: BatchSource,
    proxies: Sequence[Proxy],
    seeds: Sequence[int],
    *,
    init: Init = "own",
    store: Store | str | os.PathLike[str] | None = None,
    strict: bool = True,
    workers: int = 1,
    fbe: bool = False,
) -> Iterator[Record]:
    """Score everything, here or in several processes, one record at a time; candidates in the order given."""
    workers = worker_count(workers, data.device.type)
    if workers > 1:
        if store is not None and not isinstance(store, (str, os.PathLike)):
            raise InputError(f"workers={workers} and an open store were given: give its path or postgresql://… instead")
        place = os.fspath(store) if store is not None else ""
        work = _SubjectWork(data, proxies, seeds, place, {"init": init, "strict": strict, "fbe": fbe})
        yield from _side_by_side(subjects, work, Execution(workers=workers, device=str(data.device)))
        return
    with store_at(store) if isinstance(store, (str, os.PathLike)) else nullcontext(store) as keeper:
        yield from evaluate(subjects, data, proxies, seeds, init=init, store=keeper, fbe=fbe, strict=strict)


def evaluate(
    subjects: Iterable[Subject],
    data: BatchSource,
    proxies: Sequence[Proxy],
    seeds: Sequence[int],
    *,
    init: Init = "own",
    store: Store | None = None,
    fbe: bool = False,
    strict: bool = True,
) -> Iterator[Record]:
    """Score everything, one record at a time, as each comes to exist; what the store knows comes first.

    Args:
        subjects: What is scored; where this is a generator, one at a time is in memory.
        data: What it is scored on.
        proxies: By what.
        seeds: With which seeds.
        init: As in :func:`score`.
        store: Where scores are found and kept.
        fbe: Whether a plain pass is timed for comparison.
        strict: Whether a subject that cannot be scored at all is an error, before anything is scored; otherwise it has
            NaN for every proxy and the rest goes on.
    """
    require_room(proxies, init, data)
    if strict:
        subjects = list(subjects)
        known = {id(subject): subject.fitted(data, seeds[0]) for subject in subjects}
    for subject in subjects:
        try:
            fitted = known[id(subject)] if strict else subject.fitted(data, seeds[0])
        except TrainlessError as error:
            if strict or isinstance(error, StoreError):
                raise
            yield from failed_records(subject.name, proxies, seeds, _reason(error))
            continue
        for seed in seeds:
            yield from _Evaluation(subject, fitted, seed, init, store, fbe, strict).records(proxies)
        subject.release()


def _reason(error: TrainlessError) -> str:
    cause = error.__cause__
    return f"{MACHINE if isinstance(cause, Exception) and _of_the_machine(cause) else ''}{message(error)}"


def failed_records(name: str, proxies: Iterable[Proxy], seeds: Iterable[int], reason: str) -> list[Record]:
    """NaN for every proxy and seed, for one reason."""
    wanted = itertools.product(proxies, seeds)
    return [Record(name, proxy.name, math.nan, proxy.higher_is_better, reason, seed=seed) for proxy, seed in wanted]


def in_order(records: Iterable[Record], proxies: Sequence[Proxy]) -> Scores:
    """The records as a table: candidates in the order of their first record, proxies as they were given."""
    found = list(records)
    places = {name: place for place, name in enumerate(dict.fromkeys(record.candidate for record in found))}
    columns = {proxy.name: index for index, proxy in enumerate(proxies)}
    return Scores(sorted(found, key=lambda r: (places[r.candidate], columns[r.proxy], r.seed)))


class _SubjectWork:
    """Work whose jobs are subjects, pickled; the result is their records, or why there are none."""

    def __init__(
        self, data: BatchSource, proxies: Sequence[Proxy], seeds: Sequence[int], store: str, how: dict[str, Any]
    ) -> None:
        self.proxies, self.seeds = PortableProxies(proxies), seeds
        self._data, self._how, self._place = data, how, store
        self._store: Store | None = None

    def __call__(self, packed: bytes) -> list[Record] | str:
        subject: Subject = pickle.loads(packed)  # noqa: S301 - packed by our own coordinator
        if self._place and self._store is None:
            self._store = store_at(self._place)
        return list(evaluate([subject], self._data, self.proxies.found, self.seeds, store=self._store, **self._how))

    def failed(self, reason: str) -> list[Record] | str:
        return reason

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _side_by_side(subjects: Iterable[Subject], work: _SubjectWork, execution: Execution) -> Iterator[Record]:
    """Have workers score subjects; the records of one come once those of all before it are there."""
    pool = pool_for(work, execution)
    waiting, running = iter(subjects), dict[int, tuple[int, str]]()
    done: dict[int, list[Record]] = {}
    begun, told, whole = itertools.count(), 0, False
    try:
        while True:
            while len(running) < pool.slots and (subject := next(waiting, None)) is not None:
                place = next(begun)
                try:
                    job = Job(_packed(subject))
                except InputError as error:
                    if not place:  # those after it are likely of its kind
                        raise
                    done[place] = failed_records(subject.name, work.proxies.found, work.seeds, message(error))
                    continue
                running[job.id] = place, subject.name
                pool.submit(job)
            if not running:
                break
            finished, result = pool.next()
            place, name = running.pop(finished.id)
            if isinstance(result, str):
                result = failed_records(name, work.proxies.found, work.seeds, result)
            done[place] = result
            while told in done:
                yield from done.pop(told)
                told += 1
        whole = True
    finally:
        pool.close(now=not whole)


def _packed(subject: Subject) -> bytes:
    """A subject as bytes: to share a network's memory with a worker would change the caller's tensors."""
    try:
        return pickle.dumps(subject)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"{subject.name} cannot be sent to other processes ({one_line(error)}): define it in a module, or use"
            " workers=1"
        ) from error


COUNTS = tuple(each.name for each in fields(Counts))  # the proxies that spaces know without building


@dataclass
class _Tally:
    """A proxy's values over the repeats of its setting so far."""

    values: list[float] = field(default_factory=list)
    ms: float = 0.0
    references: list[float] = field(default_factory=list)
    status: str = "ok"
    lasting: bool = True
    notes: dict[str, None] = field(default_factory=dict)

    def result(self) -> Result:
        if self.status != "ok":
            return Result(math.nan, self.status, math.nan, math.nan)
        reference = sum(self.references) / len(self.references)
        value, notes = sum(self.values) / len(self.values), "; ".join(self.notes)
        return Result(value, "ok", self.ms, self.ms / reference, notes)


@dataclass(frozen=True)
class _Evaluation:
    """One subject with one seed."""

    subject: Subject
    data: BatchSource
    seed: int
    init: Init
    store: Store | None
    fbe: bool = False
    strict: bool = True
    networks: dict[tuple[str, int], tuple[nn.Module, Target]] = field(default_factory=dict)

    def records(self, proxies: Sequence[Proxy]) -> Iterator[Record]:
        """One record per proxy: what is known, what is ours to compute, and what others are computing meanwhile."""
        if self.store is None:
            yield from self._computed(proxies, {})
            return
        try:
            keys = self._keys(proxies)
        except TrainlessError as error:
            if self.strict or isinstance(error, StoreError):
                raise
            yield from failed_records(self.subject.name, proxies, [self.seed], _reason(error))
            return
        named = {keys[proxy.name]: proxy for proxy in proxies}
        with closing(turns(self.store, named)) as rounds:
            for known, mine in rounds:
                for key, result in known.items():
                    yield self._record(named[key], result)
                yield from self._computed([named[key] for key in mine], keys)

    def _computed(self, proxies: Sequence[Proxy], keys: dict[str, Key]) -> Iterator[Record]:
        """One record per proxy, grouped by the point that they share; each is kept as soon as it is there."""
        groups: dict[tuple[object, ...], list[Proxy]] = {}
        for proxy in proxies:
            setting = self._setting(proxy)
            groups.setdefault((setting.network, setting.batch), []).append(proxy)
        for group in groups.values():
            for proxy, tally in self._counted(group) or self._group(group):
                result = tally.result()
                if self.store and tally.lasting:
                    self.store.keep([(keys[proxy.name], result)])
                yield self._record(proxy, result)

    def _counted(self, proxies: Sequence[Proxy]) -> list[tuple[Proxy, _Tally]]:
        """Counts, where nothing else is asked of a network and its space knows them without building it."""
        subject = self.subject
        if self.fbe or not isinstance(subject, ArchSubject) or not all(map(self._is_count, proxies)):
            return []
        counts, ms = timed(lambda: subject.counts(self.data.task), torch.device("cpu"))
        if counts is None:
            return []
        values = ((proxy, float(getattr(counts, proxy.name))) for proxy in proxies)
        return [(proxy, _Tally([value], ms / len(proxies), [math.nan])) for proxy, value in values]

    def _is_count(self, proxy: Proxy) -> bool:
        ours = proxy.fn.__module__.startswith("trainless.")
        return ours and proxy.name in COUNTS and self._setting(proxy).network == "full"

    def _setting(self, proxy: Proxy) -> Setting:
        return setting_for(proxy, self.init, self.data)

    def _group(self, proxies: Sequence[Proxy]) -> Iterator[tuple[Proxy, _Tally]]:
        """Proxies that share network and batch; the probe of a repeat dies before the next is made."""
        tallies = {proxy.name: _Tally() for proxy in proxies}
        settings = {proxy.name: self._setting(proxy) for proxy in proxies}
        last: dict[int, Probe] = {}

        def probe(setting: Setting, seed: int) -> Probe:
            if seed not in last:
                last.clear()
                last[seed] = self._probe(setting, seed)
            return last[seed]

        for repeat in range(max(setting.repeats for setting in settings.values())):
            for proxy in sorted(proxies, key=lambda each: settings[each.name].repeats):
                tally, setting = tallies[proxy.name], settings[proxy.name]
                if repeat < setting.repeats and tally.status == "ok":
                    seed = self.seed * setting.repeats + repeat
                    _add(tally, proxy, setting, functools.partial(probe, setting, seed), self.fbe)
                if repeat == setting.repeats - 1:
                    yield proxy, tally

    def _probe(self, setting: Setting, seed: int) -> Probe:
        if (setting.network, seed) not in self.networks:  # probes never change it, so batches of all sizes share it
            self.networks[setting.network, seed] = self.subject.network(setting.network, self.data, seed)
        net, target = self.networks[setting.network, seed]
        x, y = self.data.batch(setting.batch, seed)
        if target is not self.data.task.target:  # a cell alone, whose two outputs have nothing to do with the labels
            y = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return Probe.of(net, (x, y), target, seed, private=True, layout=self.data.layout)

    def _keys(self, proxies: Sequence[Proxy]) -> dict[str, Key]:
        space, arch = self.subject.identity(self.data, self.seed)
        device = "" if self.data.device.type == "cpu" else f" on {self.data.device.type}"
        where = (self.data.task.fingerprint, self.seed)
        return {
            proxy.name: Key(space, arch, proxy.name, proxy.version, f"{self._setting(proxy)!r}{device}", *where)
            for proxy in proxies
        }

    def _record(self, proxy: Proxy, result: Result) -> Record:
        up, name = proxy.higher_is_better, self.subject.name
        return Record(name, proxy.name, result.value, up, result.status, result.ms, result.fbe, self.seed, result.notes)


def _add(tally: _Tally, proxy: Proxy, setting: Setting, probe: Callable[[], Probe], fbe: bool) -> None:
    """Compute a proxy at one probe; whatever goes wrong becomes the reason of a NaN."""
    try:
        p = probe()
        tally.references.append(forward_backward_ms(p.at(x=setting.inputs)) if fbe else math.nan)
        options = dict(setting.options)
        with exact_products(), modes_kept(), process_kept(), remarks() as said:
            value, ms = timed(lambda: proxy(p.at(weights=setting.weights, x=setting.inputs), **options), p.x.device)
    except (Unscorable, TrainlessError) as error:
        tally.status = message(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's proxy may raise whatever it likes
        tally.lasting = not _of_the_machine(error)
        tally.status = _said(error) if tally.lasting else f"{MACHINE}{one_line(error)}"
    else:
        tally.ms += ms
        tally.notes.update(said)
        tally.values.append(value)
        if not math.isfinite(value):
            tally.status = f"the value is {value}, not a finite number"


_COARSE = "the network computes in bfloat16 on its way (autocast), which this measure cannot: switch that off"
_REASONS = {
    "modified by an inplace operation": "the network changes in place what its gradient needs: it cannot be trained",
    "use_reentrant=True": "the network recomputes its activations in the backward pass (checkpointing): turn that off",
    "does not require grad": "the outputs do not depend on weights or inputs by differentiable operations",
    "not have been used in the graph": "the outputs do not depend on all that this measure differentiates by",
    "BFloat16": _COARSE,
    "primitive descriptor": _COARSE,  # of a convolution in bfloat16 that the processor has no other way for
}
"""What PyTorch says of networks that cannot be differentiated or computed with, and what that means."""


def _said(error: BaseException) -> str:
    return next((reason for words, reason in _REASONS.items() if words in message(error)), one_line(error))


def _of_the_machine(error: BaseException) -> bool:
    """Whether another machine, or this one at another time, may give the score."""
    said = isinstance(error, RuntimeError) and any(words in message(error) for words in MACHINE_WORDS)
    return said or isinstance(error, MACHINE_ERRORS)
