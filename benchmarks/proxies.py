"""What each proxy costs: forward-backward equivalents (FBE) and peak memory, on six networks.

    python -m benchmarks.proxies             # batch 64, writes benchmarks/results/proxies.json
    python -m benchmarks.proxies --quick     # batch 16, one repetition
    make docs-figures      # then docs/proxies.md from the results

Every measure runs in a process of its own on one thread, so that the peak is its own: first alone, when memory is
read, then many times in turn with one plain forward and backward pass of the same network on the same batch in the
default memory layout. Times are the process's own (waiting for a busy machine does not count), and its FBE is the lower
quartile of its times over the lower quartile of the plain pass's: neighbours can only make a pass slower.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cost import WIDTHS, by_width, width_table
from trainless.core.arch import Arch
from trainless.core.errors import Unscorable
from trainless.core.task import Task
from trainless.execution.limits import keep_warm
from trainless.probe.points import Crops
from trainless.probe.probe import Probe
from trainless.proxies import registry
from trainless.rankings import registry as rankings
from trainless.scoring.batches import BatchSource
from trainless.scoring.costs import warm_up
from trainless.scoring.subjects import CELL_TARGET
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.protocol import Network

METHOD = (
    "processor time of one thread, in turn with the plain pass in the default layout;"
    " lower quartile of the measure's times over lower quartile of the plain pass's"
)
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "proxies.json"
BEST: Arch = (3, 3, 3, 1, 3, 3)
MEDIAN: Arch = (2, 4, 1, 3, 4, 3)
EMPTIEST: Arch = (0, 0, 0, 1, 0, 0)
IMAGES = (3, 32, 32)

Option = tuple[str, Any]
Part = tuple[str, tuple[Option, ...]]
"""A proxy and its options."""


# --- networks ---------------------------------------------------------------------------------------------------
class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        width = outputs // 4
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        same = inputs == outputs and stride == 1
        projection = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if same else projection
        self.last = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.body(x) + self.shortcut(x))
        return result


class ResNet50(Network):
    """He et al.'s 50 layers and 23.5 million parameters for 10 classes, with a 3×3 stem for small images."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        blocks, inputs = [], 64
        for stage, repeats in enumerate((3, 4, 6, 3)):
            for index in range(repeats):
                outputs = 256 * 2**stage
                blocks.append(_Bottleneck(inputs, outputs, 2 if stage and not index else 1))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.pool, self.classifier = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, classes)
        self.block_names = ("stem", *(f"blocks.{index}" for index in range(len(blocks))))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(self.pool(x).flatten(1))
        return logits


@dataclass(frozen=True)
class Case:
    """A network to measure on.

    Attributes:
        words: What it is.
        shape: Of an input.
        build: How it is built.
        cell: How TE-NAS's single cell of one channel is built, where it has one.
    """

    words: str
    shape: tuple[int, ...]
    build: Callable[[Task], nn.Module]
    cell: Callable[[], nn.Module] | None = None


def _cell(words: str, arch: Arch, shape: tuple[int, ...] = IMAGES, channels: int = 16, cells: int = 5) -> Case:
    space = NasBench201(channels, cells)
    return Case(words, shape, lambda task: space.build(arch, task), lambda: space.build_cell(arch, len(shape) - 1))


NETWORKS = {
    "nb201-best": _cell("best of NAS-Bench-201", BEST),
    "nb201-median": _cell("a median one of NAS-Bench-201", MEDIAN),
    "nb201-emptiest": _cell("emptiest of NAS-Bench-201: a single skip", EMPTIEST),
    "resnet50": Case("ResNet-50 with a 3×3 stem", IMAGES, lambda task: ResNet50(task.target.outputs)),
    "1d": _cell("NAS-Bench-201's best cell on signals", BEST, (1, 1500)),
    "3d": _cell("NAS-Bench-201's best cell on volumes, one cell per stage", BEST, (1, 16, 16, 16), cells=1),
    "tiny": _cell("a network for tests", BEST, (3, 8, 8), channels=2, cells=1),
}
USUAL = tuple(name for name in NETWORKS if name != "tiny")


# --- measures ---------------------------------------------------------------------------------------------------
def measures() -> dict[str, tuple[Part, ...]]:
    """What is measured by name: each proxy alone, those that share most of their work, and all of them."""
    names = [name for name in registry.names() if registry[name].fn.__module__.startswith("trainless.")]
    groups = {
        "grad_norm + snip + plain + fisher": ("grad_norm", "snip", "plain", "fisher"),
        "expressivity + progressivity + trainability": ("expressivity", "progressivity", "trainability"),
        "gradsign + ntk_condition": ("gradsign", "ntk_condition"),
        "published suite without grasp": tuple(name for name in names if name not in ("grasp", *OURS)),
        "published suite": tuple(name for name in names if name not in OURS),
        "suite without grasp": tuple(name for name in names if name != "grasp"),
        "suite": tuple(names),
        "ranking trainless": rankings["trainless"].proxies,
    }
    alone = {name: (name,) for name in names}
    found: dict[str, tuple[Part, ...]] = {
        title: tuple((name, ()) for name in members) for title, members in {**alone, **groups}.items()
    }
    found["vkdnw (64 samples)"] = (("vkdnw", (("samples", 64),)),)
    found[CROPS] = (("linear_regions", (("batches", 3),)),)
    return {**found, JOINT: (("ntk_condition", (("coupling", "joint"),)),)}


OURS = (
    "block_meco",
    "feature_rank",
    "isolated_jacov",
    "isometry",
    "layer_entropy",
    "loss_ntk",
    "loss_synflow",
    "paths",
    "sample_zico",
)
"""Measures of our own, and TEACUP's variants of two that are in the suite under the names of their first papers."""

CROPS = "linear_regions (one cell, 3,000 crops)"
"""At the papers' setting, where the number means something; in FBE of the full network."""

JOINT = "ntk_condition (joint)"
"""One backward pass per sample: only measured when it is asked for."""


@dataclass
class Cost:
    """What a measure costs on a network.

    Attributes:
        fbe: Its time over that of a plain forward and backward pass.
        ms: Its milliseconds of processor time, the lower quartile over repetitions.
        unit_ms: Those of the plain pass.
        peak_mb: The process's largest memory during the first time it ran.
        before_mb: The process's memory just before: Python, PyTorch, the network and the batch.
        repeats: Number of repetitions.
        failed: Why there is no score, by proxy.
        error: Why there is no measurement.
    """

    fbe: float | None = None
    ms: float | None = None
    unit_ms: float | None = None
    peak_mb: float | None = None
    before_mb: float | None = None
    repeats: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    error: str = ""


def measure(network: str, parts: Sequence[Part], batch: int, repeats: int, seconds: float, crops: bool = False) -> Cost:
    """Run a measure in this process: once for the memory, then in turn with the plain pass."""
    torch.set_num_threads(1)
    keep_warm()
    torch.manual_seed(0)
    case = NETWORKS[network]
    task = Task.noise(case.shape)
    net, (x, y) = case.build(task), task.batch(batch, seed=0)
    if crops and case.cell is None:
        return Cost(error="this network has no cell of one channel")
    cell = case.cell() if crops and case.cell else net
    target = CELL_TARGET if crops else task.target

    def probe() -> Probe:
        p = Probe.of(cell, (x, y), target, layout=BatchSource(task).layout)
        return p.at(x=Crops()) if crops else p

    for name, _ in parts:
        registry[name]
    cost = Cost(before_mb=_peak_mb())
    start = time.perf_counter()
    cost.failed = _run(probe(), parts)
    cost.peak_mb = _peak_mb()
    if not repeats:
        return cost
    warm_up(x.device)
    _plain(net, x)
    own: list[float] = []
    plain = [_processor_ms(partial(_plain, net, x))]
    while len(own) < repeats and (not own or time.perf_counter() - start < seconds):
        own.append(_processor_ms(partial(_run, probe(), parts)))
        plain.append(_processor_ms(partial(_plain, net, x)))
    cost.ms, cost.unit_ms, cost.repeats = _lower_quartile(own), _lower_quartile(plain), len(own)
    cost.fbe = cost.ms / cost.unit_ms
    return cost


def _plain(net: nn.Module, x: Tensor) -> None:
    """The unit: PyTorch's forward and backward pass, nothing else."""
    torch.autograd.grad(net(x).square().mean(), list(net.parameters()), allow_unused=True)


def _processor_ms(compute: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    compute()
    return 1000 * (time.process_time() - start)


def _lower_quartile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0] if len(values) > 1 else values[0]


def _run(p: Probe, parts: Sequence[Part]) -> dict[str, str]:
    failed = {}
    for name, options in parts:
        try:
            registry[name](p, **dict(options))
        except Unscorable as error:
            failed[name] = str(error)
    return failed


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


# --- one process per measure ------------------------------------------------------------------------------------
def measure_apart(network: str, title: str, batch: int, repeats: int, seconds: float) -> Cost:
    """Run a measure in a fresh process; what goes wrong there is told, not raised."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", network, title]
    command += ["--batch", str(batch), "--repeats", str(repeats), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if done.returncode:
        return Cost(error=(done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return Cost(**json.loads(done.stdout))


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "threads": 1,
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _measured(path: Path, now: dict[str, Any]) -> dict[str, Any]:
    """What the file already holds of other networks, if it was measured in the same way on the same machine."""
    old: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    same = all(
        {**old.get("environment", {}), "date": ""} == {**now["environment"], "date": ""} and old.get(key) == now[key]
        for key in ("batch", "method")
    )
    return dict(old["networks"]) if same else {}


def _line(title: str, cost: Cost) -> str:
    if cost.fbe is None or cost.ms is None:
        return f"  {title:<44} {cost.error or f'{cost.peak_mb:28.0f} {cost.before_mb:8.0f}'}"
    note = f"  no score: {', '.join(cost.failed)}" if cost.failed else ""
    return f"  {title:<44} {cost.fbe:8.3f} {cost.ms:10.1f} {cost.peak_mb:8.0f} {cost.before_mb:8.0f}{note}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 where something could not be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="batch 16 and one repetition")
    parser.add_argument("--batch", type=int, help="samples; 64, or 16 with --quick")
    parser.add_argument("--repeats", type=int, help="repetitions at most; 12, or 1 with --quick; 0: memory only")
    parser.add_argument("--seconds", type=float, default=30.0, help="no new repetition of a measure after so many")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=USUAL, metavar="NAME")
    parser.add_argument("--measures", nargs="+", choices=measures(), metavar="NAME", help="all but the joint kernel")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "MEASURE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    batch = chosen.batch or (16 if chosen.quick else 64)
    repeats = (1 if chosen.quick else 12) if chosen.repeats is None else chosen.repeats
    if chosen.one:
        network, title = chosen.one
        cost = measure(network, measures()[title], batch, repeats, chosen.seconds, title == CROPS)
        print(json.dumps(asdict(cost)))
        return 0
    titles = chosen.measures or [title for title in measures() if title != JOINT]
    results: dict[str, Any] = {"environment": environment(), "method": METHOD, "batch": batch, "networks": {}}
    results["networks"] = _measured(chosen.output, results)
    for network in chosen.networks:
        print(f"{network}: {NETWORKS[network].words}\n  {'':<44} {'FBE':>8} {'ms':>10} {'peak MB':>8} {'before':>8}")
        costs = {}
        for title in titles:
            if title == CROPS and NETWORKS[network].cell is None:
                continue
            costs[title] = measure_apart(network, title, batch, repeats, chosen.seconds)
            print(_line(title, costs[title]), flush=True)
        held = results["networks"].get(network, {}).get("costs", {})
        results["networks"][network] = {
            "words": NETWORKS[network].words,
            "input_shape": NETWORKS[network].shape,
            "costs": {**held, **{title: asdict(cost) for title, cost in costs.items()}},
        }
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(json.dumps(results, indent=1) + "\n")
    if not chosen.measures:
        torch.set_num_threads(1)
        results["widths"] = by_width((64, 256) if chosen.quick else WIDTHS, 16, torch.device("cpu"))
        print(f"FBE of what looks at blocks, by width, batch 16:\n{width_table(results['widths'])}")
        chosen.output.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(cost["error"] for one in results["networks"].values() for cost in one["costs"].values()))


def _environment() -> dict[str, str]:
    """That of a process of its own: one thread, and this folder's modules where it can import them."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    sys.exit(main())
