"""Score networks for VKDNW's tables V, VII and VIII and its forests: everything of one network at once.

    TRAINLESS_DATA=… python -m benchmarks.vkdnw_tables noise --out runs/vkdnw-noise
    TRAINLESS_DATA=… python -m benchmarks.vkdnw_tables real --out runs/vkdnw-real
    python -m benchmarks.measure_results vkdnw:table5 vkdnw:table7 vkdnw:table8 vkdnw:eigenvalues

The tables differ in which samples, tensors and entries of a tensor the Fisher information is of. All of them are parts
of one matrix of derivatives, which takes one forward and ten backward passes of 128 samples; ``vkdnw`` by itself, with
each of these options, gives the same values. Weights are drawn as in the paper; inputs are noise as there, or
CIFAR-10's images. The networks are a random sample of the classes without dead edges: the first 300 are scored by
everything, 1,000 by what tables V and VII need, and 2,100 by what the forests need, on 64 samples. The same command
again resumes; what there is so far is written to ``results/`` in any case.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from trainless.bench.score_library import ScoreLibrary, results_directory
from trainless.core.errors import Unscorable
from trainless.core.scores import Record
from trainless.core.units import seconds_of
from trainless.probe import Probe
from trainless.probe.entries import Places, selected_jacobian
from trainless.probe.points import First, Inputs, Kaiming, Noise, RealData
from trainless.probe.record import trace
from trainless.proxies import registry
from trainless.proxies.vkdnw import middle, placed_entries, spectrum, summary
from trainless.runs.score_file import Journal, ScoreFile, read_known
from trainless.scoring.request import data_for
from trainless.scoring.subjects import ArchSubject
from trainless.spaces import space
from trainless.tasks import task

TABLE, SAMPLES, SMOOTHING = "nb201", 128, 0.05
SIZES = tuple(f"vkdnw/samples={count}" for count in (8, 16, 32, 64, 128))
DIMENSIONS = tuple(f"vkdnw/samples=64/tensors={count}" for count in (8, 16, 32, 64, 256))
PLACES = (
    "vkdnw/drawn=true/samples=64",
    *(f"vkdnw/position={share}/samples=64" for share in (0.2, 0.4, 0.6, 0.8, 1.0)),
    *(f"vkdnw/samples=64/tensors=32/weights={count}" for count in (2, 4, 8)),
)
DECILES = tuple(f"vkdnw/decile={decile}/samples=64" for decile in range(1, 10))


@dataclass(frozen=True)
class Plan:
    """Into which file what is scored at which inputs: by how many networks, counted from the first, each variant."""

    file: str
    inputs: Inputs
    counts: Mapping[str, int]

    def names(self, place: int) -> tuple[str, ...]:
        """The variants that a network at a place of the sample is scored by."""
        return tuple(name for name, count in self.counts.items() if place < count)


def counted(count: int, *names: str) -> dict[str, int]:
    """So many networks by each of these."""
    return dict.fromkeys(names, count)


PLANS = {
    "noise": Plan(
        "nb201_vkdnw",
        Noise(),
        {
            **counted(1000, *SIZES, *DIMENSIONS),
            **counted(300, *PLACES),
            **counted(2100, "vkdnw/samples=64", *DECILES),
        },
    ),
    "real": Plan("nb201_vkdnw_real", RealData(), counted(1000, *SIZES)),
}


@dataclass(frozen=True)
class Variant:
    """The options of a variant of the proxy that differ among the tables."""

    samples: int
    tensors: int
    position: float
    weights: int
    drawn: bool
    decile: int


def variant(name: str) -> Variant:
    """What a name such as ``vkdnw/samples=64/tensors=8`` stands for."""
    defaults = {option: each.default for option, each in inspect.signature(registry["vkdnw"].fn).parameters.items()}
    given = {**defaults, **dict(registry[name].options)}
    return Variant(**{each.name: given[each.name] for each in fields(Variant)})


def values(p: Probe, names: Sequence[str]) -> dict[str, float]:
    """The scores of a probe by variants of VKDNW, from one matrix of derivatives."""
    wanted = {name: variant(name) for name in names}
    most = max(each.samples for each in wanted.values())
    q = p.once(norm="fresh", x=First(most))
    places = {
        name: placed_entries(q, each.tensors, each.position, each.weights, each.drawn) for name, each in wanted.items()
    }
    every = together(places.values())
    columns = {key: at for at, key in enumerate((name, index) for name, found in every for index in found)}
    matrix = middle(trace(q).outputs.detach().double(), False, "published", SMOOTHING, 1 - SMOOTHING)
    jacobian = selected_jacobian(q, every, matrix.shape[1])
    spectra: dict[tuple[int, Places], torch.Tensor] = {}
    found = {}
    for name, each in wanted.items():
        key = each.samples, places[name]
        if key not in spectra:
            own = [columns[tensor, index] for tensor, indices in places[name] for index in indices]
            spectra[key] = spectrum(jacobian[: each.samples][..., own], matrix[: each.samples])
        found[name] = summary(spectra[key], each.decile)
    return found


def together(places: Iterable[Places]) -> Places:
    """All entries of any of them, each once."""
    found: dict[str, dict[int, None]] = {}
    for each in places:
        for name, indices in each:
            found.setdefault(name, {}).update(dict.fromkeys(indices))
    return tuple((name, tuple(indices)) for name, indices in found.items())


def sample(library: ScoreLibrary, networks: int) -> list[str]:
    """A random sample of the classes without dead edges, always in the same order."""
    rules, table = space(TABLE), library.table(TABLE)
    within = library.population(TABLE, "no-dead-edges")
    archs = [rules.parse(arch) for arch, inside in zip(table.archs, within, strict=True) if inside]
    classes = sorted({rules.format(rules.canonical(arch)) for arch in archs})
    return [classes[place] for place in np.random.default_rng(0).permutation(len(classes))[:networks]]


def scored(arch: str, inputs: Inputs, names: Sequence[str]) -> list[Record]:
    """The scores of one network; one that has none says why."""
    rules, began = space(TABLE), time.monotonic()
    data = data_for(SAMPLES, task("cifar10"), "cpu")
    net, target = ArchSubject(rules, rules.parse(arch)).network("full", data, 0)
    batch = data.batch(max(variant(name).samples for name in names), 0)
    p = Probe.of(net, batch, target, 0, private=True, layout=data.layout).at(weights=Kaiming(), x=inputs)
    status, found = "ok", dict.fromkeys(names, math.nan)
    try:
        found = values(p, names)
    except Unscorable as failure:
        status = str(failure)
    ms = 1000 * (time.monotonic() - began) / len(names)
    return [Record(arch, name, value, True, status, ms) for name, value in found.items()]


def run(plan: Plan, archs: Sequence[str], out: Path, limit: float | None) -> ScoreFile:
    """Score what is not scored yet; the journals in the folder are what a later call goes on from."""
    out.mkdir(parents=True, exist_ok=True)
    known, journal, began = read_known(out), Journal(out, f"w{os.getpid()}"), time.monotonic()
    done = 0
    for place, arch in enumerate(archs):
        if limit is not None and time.monotonic() - began > limit:
            break
        if missing := [name for name, _ in known.missing(arch, [(name, 0) for name in plan.names(place)])]:
            journal.write(arch, scored(arch, plan.inputs, missing))
            done += 1
    journal.close()
    seconds = time.monotonic() - began
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "device": "cpu",
        "processes": 1,
        "archs": done,
        "seconds": round(seconds, 1),
        "archs_per_s": round(done / seconds, 3),
    }
    known = read_known(out)
    there = [arch for arch in archs if any(arch in rows for rows in known.values.values())]
    return replace(
        known.to_file(there, tuple(plan.counts), (0,)), settings=settings(plan), environment={"runs": [about]}
    )


def settings(plan: Plan) -> dict[str, object]:
    """What was asked, in a sweep's words."""
    setting = f"{Kaiming()}, {SAMPLES} × {plan.inputs}"
    return {
        "space": "nb201(channels=16, cells=5)",
        "task": "noise-3x32x32-10" if isinstance(plan.inputs, Noise) else "cifar",
        "init": "paper",
        "batch": SAMPLES,
        "device": "cpu",
        "archs": "classes without dead edges",
        "proxies": {
            name: {"higher_is_better": True, "version": registry[name].version, "setting": setting}
            for name in plan.counts
        },
    }


def main() -> None:
    """Read the options and score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("inputs", choices=PLANS)
    parser.add_argument("--networks", type=int, default=0, help="of the sample; all by default")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the journals")
    parser.add_argument("--results", type=Path, default=results_directory())
    parser.add_argument("--time", default=None, help="such as 30m; the same command resumes")
    given = parser.parse_args()
    plan = PLANS[given.inputs]
    archs = sample(ScoreLibrary(given.results), given.networks or max(plan.counts.values()))
    torch.set_num_threads(1)
    file = run(plan, archs, given.out, seconds_of(given.time))
    file.write(given.results / f"{plan.file}.npz")
    print(f"{len(file.archs)} networks in {given.results.name}/{plan.file}.npz")


if __name__ == "__main__":
    main()
