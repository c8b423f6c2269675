"""Scoring: every subject by every proxy with every seed, sharing what can be shared and keeping every result."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn

from trainless.core.errors import TrainlessError, Unscorable
from trainless.core.scores import MACHINE, Record, Scores
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.core.text import message, one_line
from trainless.probe.probe import Probe, exact_products
from trainless.proxies.proxy import Proxy, Setting
from trainless.scoring.batches import Batch, BatchSource
from trainless.scoring.costs import forward_backward_ms, timed
from trainless.scoring.request import Init, data_for, init_named, require_room, seed_list, select, setting_for
from trainless.scoring.subjects import Adapter, Subject, subjects_of
from trainless.store import Key, Result, Store, store_at, turns

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
    store: Store | str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
) -> Scores:
    """Score a network, or archs of a space, without training.

    The caller's network, the random states and the backend flags are as before afterwards. A score depends on
    what is named here and on nothing else: not on the other proxies, their order or earlier calls. A proxy that
    fails has NaN, and ``scores.failures`` says why; a network that cannot run on the inputs at all is an error.

    ``ms`` is the time that a proxy added to the proxies scored before it, because they share work; ``fbe`` is
    that time over the time of one plain forward and backward pass on the same batch.

    Args:
        subject: An ``nn.Module``, a pair ``(space, arch)``, a pair ``(space, [arch, …])`` or a list of pairs.
        batch: ``(x, y)``; or with a task, how many samples to draw (64, or the paper's number).
        task: Where inputs and labels come from, unless a batch is given.
        proxies: ``"all"``, names (``"zico/batches=4"`` has an option), patterns such as ``"ntk*"``, or proxies.
        seed: The seed of weights, batches and whatever a proxy draws.
        seeds: How many seeds from ``seed`` on, or which; each gives a record and the table has their mean.
        init: ``"own"``: the network as it is (an arch: built by PyTorch's rules), on the batch as it is;
            ``"kaiming"``: its weights drawn anew, N(0, 2 / fan_in), on the same batch;
            ``"paper"``: each proxy's published initialisation, inputs, batch and network size.
        adapter: Picks the one tensor of logits or values from a network's tuple or dict of outputs.
        store: Where to look for and keep scores: a store, a path or ``postgresql://…``; None keeps
            nothing.
        device: Where to build the networks of a space; a given network stays where it is.

    Example:
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> scores = score(net, (torch.randn(4, 3, 2, 2), torch.tensor([0, 1, 0, 1])), proxies=["params"])
        >>> scores["params"]
        122.0
    """
    init = init_named(init)
    subjects = subjects_of(subject, adapter)
    chosen = select(proxies)
    data = data_for(batch, task, subjects, device)
    numbers = seed_list(seed, seeds)
    with nullcontext(store) if not isinstance(store, (str, os.PathLike)) else store_at(store) as keeper:
        records = list(evaluate(subjects, data, chosen, numbers, init=init, store=keeper))
    return in_order(records, subjects, chosen)


def evaluate(
    subjects: Sequence[Subject],
    data: BatchSource,
    proxies: Sequence[Proxy],
    seeds: Sequence[int],
    *,
    init: Init = "own",
    store: Store | None = None,
    fbe: bool = True,
) -> Iterator[Record]:
    """Score everything, one record at a time, as each comes to exist; what the store knows comes first.

    Without ``fbe`` no plain pass is timed for comparison, which saves a good part of a sweep's time.
    """
    require_room(proxies, init, data)
    for subject in subjects:
        subject.check(data, seeds[0])
    for subject in subjects:
        for seed in seeds:
            yield from _Evaluation(subject, data, seed, init, store, fbe).records(proxies)


def in_order(records: Iterable[Record], subjects: Sequence[Subject], proxies: Sequence[Proxy]) -> Scores:
    """The records as a table, in the order in which subjects and proxies were given."""
    candidates = {subject.name: index for index, subject in enumerate(subjects)}
    columns = {proxy.name: index for index, proxy in enumerate(proxies)}
    return Scores(sorted(records, key=lambda r: (candidates[r.candidate], columns[r.proxy], r.seed)))


@dataclass
class _Tally:
    """A proxy's values over the repeats of its setting so far."""

    values: list[float] = field(default_factory=list)
    ms: float = 0.0
    references: list[float] = field(default_factory=list)
    status: str = "ok"
    lasting: bool = True

    def result(self) -> Result:
        if self.status != "ok":
            return Result(math.nan, self.status, math.nan, math.nan)
        reference = sum(self.references) / len(self.references)
        return Result(sum(self.values) / len(self.values), "ok", self.ms, self.ms / reference)


@dataclass(frozen=True)
class _Evaluation:
    """One subject with one seed."""

    subject: Subject
    data: BatchSource
    seed: int
    init: Init
    store: Store | None
    fbe: bool = True
    networks: dict[tuple[str, int], tuple[nn.Module, Target]] = field(default_factory=dict)

    def records(self, proxies: Sequence[Proxy]) -> Iterator[Record]:
        """One record per proxy: what is known, what is ours to compute, and what others are computing meanwhile."""
        if self.store is None:
            yield from self._computed(proxies, {})
            return
        keys = self._keys(proxies)
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
            for proxy, tally in self._group(group):
                result = tally.result()
                if self.store and tally.lasting:
                    self.store.keep([(keys[proxy.name], result)])
                yield self._record(proxy, result)

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
        return Record(name, proxy.name, result.value, up, result.status, result.ms, result.fbe, self.seed)


def _add(tally: _Tally, proxy: Proxy, setting: Setting, probe: Callable[[], Probe], fbe: bool) -> None:
    """Compute a proxy at one probe; whatever goes wrong becomes the reason of a NaN."""
    try:
        p = probe()
        tally.references.append(forward_backward_ms(p.at(x=setting.inputs)) if fbe else math.nan)
        options = dict(setting.options)
        with exact_products():
            value, ms = timed(lambda: proxy(p.at(weights=setting.weights, x=setting.inputs), **options), p.x.device)
    except (Unscorable, TrainlessError) as error:
        tally.status = message(error)
    except Exception as error:
        tally.lasting = not _of_the_machine(error)
        tally.status = one_line(error) if tally.lasting else f"{MACHINE}{one_line(error)}"
    else:
        tally.ms += ms
        tally.values.append(value)
        if not math.isfinite(value):
            tally.status = f"the value is {value}, not a finite number"


def _of_the_machine(error: Exception) -> bool:
    """Whether another machine, or this one at another time, may give the score."""
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in MACHINE_WORDS)
    return said or isinstance(error, MACHINE_ERRORS)
