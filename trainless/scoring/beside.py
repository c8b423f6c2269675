"""Archs of a space scored side by side, as one network: far fewer operations, which is what a GPU waits for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import torch

from trainless.core.arch import Arch
from trainless.core.errors import TrainlessError
from trainless.core.scores import Record
from trainless.probe.points import Own, RealData
from trainless.probe.probe import Probe, exact_products
from trainless.proxies.proxy import Proxy, registry
from trainless.scoring.batches import BatchSource
from trainless.scoring.costs import timed
from trainless.scoring.request import Init, setting_for
from trainless.scoring.subjects import ArchSubject
from trainless.spaces.protocol import Space
from trainless.stack import MEASURES, NotAligned, Stack


def suits(proxy: Proxy, init: Init, data: BatchSource) -> bool:
    """Whether a proxy at its setting has a form for networks that lie side by side."""
    setting = setting_for(proxy, init, data)
    plain = (setting.weights, setting.inputs, setting.network, setting.repeats, setting.options)
    known = proxy.name in MEASURES and registry[proxy.name] is proxy
    return known and plain == (Own(), RealData(), "full", 1, ())


def side_by_side(
    space: Space, archs: Sequence[Arch], data: BatchSource, proxies: Sequence[Proxy], seed: int, init: Init
) -> dict[Arch, list[Record]]:
    """The scores that come of running networks side by side; whatever is missing is to be computed one by one.

    Args:
        space: The space.
        archs: Distinct archs of it.
        data: Where the batch comes from.
        proxies: By what; those that do not suit are left out.
        seed: Of weights and batch.
        init: As in :func:`trainless.score`.
    """
    chosen = [proxy for proxy in proxies if suits(proxy, init, data)]
    found: dict[Arch, list[Record]] = {arch: [] for arch in archs}
    if not chosen or len(archs) < 2:
        return found
    try:
        x, y = data.batch(setting_for(chosen[0], init, data).batch, seed)
        networks = [ArchSubject(space, arch).network("full", data, seed) for arch in archs]
        stack = Stack.of([Probe.of(net, (x, y), target, seed, private=True) for net, target in networks])
    except (NotAligned, TrainlessError):
        return found  # one by one, each has its scores or its reason
    for proxy in chosen:
        with suppress(NotAligned, TrainlessError, torch.OutOfMemoryError), exact_products():
            values, ms = timed(lambda name=proxy.name: MEASURES[name](stack).tolist(), x.device)  # type: ignore[misc]
            for arch, value in zip(archs, values, strict=True):
                if math.isfinite(value):
                    name, share = space.format(arch), ms / len(archs)
                    found[arch].append(Record(name, proxy.name, value, proxy.higher_is_better, "ok", share, seed=seed))
    return found
