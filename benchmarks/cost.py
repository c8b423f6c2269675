"""What scoring real networks costs in forward-backward equivalents (FBE), on a processor or a GPU, and by width.

    python -m benchmarks.cost                                # every network at batch 16 and 64, and the widths
    python -m benchmarks.cost --device cuda --output cost-gpu.json
    python -m benchmarks.cost --quick                        # batch 16, the small networks, two widths

The unit is one plain forward and backward pass of the same network on the same batch. Every measure runs on a fresh
probe between two of them: processor time on a processor (one thread), wall time between two synchronisations on a GPU;
the median over the repetitions of its time over theirs, after one that warms up. Needs torch, numpy and scipy.

A GPU is done with a small network before Python has launched its operations: what then counts is how many launches
there are. With ``--launches`` their number is written beside the time, over the unit's: no measure costs less than that
many units while the GPU waits, however fast it is. On a processor, operations that compute something are counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.networks import ViT, convnext, mobilenet, plain, resnet50
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe.probe import Probe
from trainless.proxies import registry
from trainless.rankings import registry as rankings

NETWORKS: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "macro": (32, partial(mobilenet, small=True)),
    "mobilenetv2": (128, mobilenet),
    "vit-s": (128, partial(ViT, 128)),
    "convnext-t": (128, convnext),
    "resnet50": (128, resnet50),
}
"""The side of the images, and how the network is built."""

WIDTHS = (64, 128, 256, 512, 1024, 2048)
BLOCK_MEASURES = ("meco", "expressivity", "progressivity", "trainability", "isometry", "block_meco", "feature_rank")
GOALS = {"suite without grasp": 9.0, "meco": 0.5, "ranking trainless": 3.0}
ANY = 3.0  # FBE that no proxy goes above


def measures(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What is measured, by name: each proxy alone, all but GraSP together, the ranking."""
    every = tuple(names)
    groups = {"suite without grasp": tuple(name for name in every if name != "grasp")}
    groups["ranking trainless"] = tuple(rankings["trainless"].proxies)
    return {**{name: (name,) for name in every}, **groups}


def seconds(compute: Callable[[], object], device: torch.device) -> float:
    """The time that a computation takes."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        compute()
        torch.cuda.synchronize(device)
        return time.perf_counter() - start
    start = time.process_time()
    compute()
    return time.process_time() - start


class _Operations(TorchDispatchMode):
    """Counts what is computed, views aside: about what a GPU would be told to launch."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view and func.overloadpacket not in _NOTHING
        return func(*args, **(kwargs or {}))


_NOTHING = (torch.ops.aten.detach, torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.lift_fresh)


def launches(compute: Callable[[], object], device: torch.device) -> int:
    """How many operations a computation launches on a GPU, or would launch there."""
    if device.type != "cuda":
        with _Operations() as counted:  # type: ignore[no-untyped-call]
            compute()
        return counted.count
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU], acc_events=True) as found:
        compute()
        torch.cuda.synchronize()
    return sum(
        event.name.startswith(("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset")) for event in found.events()
    )


def unit(net: nn.Module, x: Tensor) -> None:
    """One plain forward and backward pass."""
    torch.autograd.grad(net(x).square().mean(), list(net.parameters()))


def scored(net: nn.Module, x: Tensor, y: Tensor, names: Sequence[str], failed: dict[str, str]) -> None:
    """Score on a fresh probe; note the reasons of what has no score."""
    p = Probe.of(net, (x, y), Target("multiclass", 10), layout="given" if x.is_cuda else "channels_last")
    for name in names:
        try:
            registry[name](p)
        except Unscorable as error:
            failed[name] = str(error)


def costs(
    net: nn.Module, x: Tensor, y: Tensor, wanted: dict[str, tuple[str, ...]], repeats: int, counted: bool = False
) -> dict[str, dict[str, Any]]:
    """The FBE of each measure, in turn with the unit."""
    unit(net, x)
    found: dict[str, dict[str, Any]] = {}
    for title, names in wanted.items():
        failed: dict[str, str] = {}
        compute = partial(scored, net, x, y, names, failed)
        if x.is_cuda:
            compute()  # warms up, as a small network does on a processor
        else:
            scored(plain(8), *batch(4, 8, x.device), names, {})
        own, units = [], [seconds(partial(unit, net, x), x.device)]
        for _ in range(repeats):
            own.append(seconds(compute, x.device))
            units.append(seconds(partial(unit, net, x), x.device))
        over = [2 * each / (before + after) for each, (before, after) in zip(own, pairwise(units), strict=True)]
        found[title] = {"fbe": median(over), "seconds": median(own), "unit": median(units), "failed": failed}
        if counted and len(names) > 1:
            found[title]["launches"] = launches(compute, x.device)
    alone = launches(partial(unit, net, x), x.device) if counted else 0
    for one in found.values():
        if "launches" in one:
            one["floor"] = one["launches"] / alone
    least = min(one["unit"] for one in found.values())
    return {"unit": {"seconds": least, "fbe": 1.0, "failed": {}, "launches": alone}, **found}


def batch(samples: int, side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Noise and labels."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 3, side, side, generator=source)
    return x.to(device), torch.randint(10, (samples,), generator=source).to(device)


def by_width(
    widths: Sequence[int], samples: int, device: torch.device, repeats: int = 1
) -> dict[int, dict[str, float]]:
    """The FBE of the measures that look at blocks, by the network's width: four blocks on images of 8 × 8."""
    table = {}
    for width in widths:
        torch.manual_seed(0)
        net, (x, y) = plain(width).to(device), batch(samples, 8, device)
        wanted: dict[str, tuple[str, ...]] = {name: (name,) for name in BLOCK_MEASURES}
        found = costs(net, x, y, {**wanted, "together": BLOCK_MEASURES}, 1)
        table[width] = {title: one["fbe"] for title, one in found.items() if title != "unit"}
    return table


def width_table(table: dict[int, dict[str, float]]) -> str:
    """The table as text, one row per width."""
    titles = list(next(iter(table.values())))
    rows = [f"  {'width':>6}" + "".join(f"{title:>15}" for title in titles)]
    rows += [f"  {width:>6}" + "".join(f"{row[title]:>15.2f}" for title in titles) for width, row in table.items()]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="batch 16, the smallest network, two widths")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, metavar="NAME")
    parser.add_argument(
        "--measures", nargs="+", metavar="NAME", help="proxies, alone, or groups of them; all by default"
    )
    parser.add_argument("--launches", action="store_true", help="count what the groups launch; slow")
    parser.add_argument("--widths", type=int, nargs="*")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.device.type == "cpu":
        torch.set_num_threads(1)
    else:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    names = [name for name in registry.names() if registry[name].fn.__module__.startswith("trainless.")]
    every = measures(names)
    wanted = {name: every.get(name, (name,)) for name in chosen.measures} if chosen.measures else every
    results: dict[str, Any] = {"torch": torch.__version__, "device": _device(chosen.device), "networks": {}}
    missed = []
    for name in chosen.networks or (["macro"] if chosen.quick else NETWORKS):
        side, build = NETWORKS[name]
        for samples in chosen.batches or ([16] if chosen.quick else [16, 64]):
            torch.manual_seed(0)
            net, (x, y) = build().to(chosen.device), batch(samples, side, chosen.device)
            found = results["networks"][f"{name} × {samples}"] = costs(
                net, x, y, wanted, chosen.repeats, chosen.launches
            )
            print(f"{name}, batch {samples}: unit {1000 * found['unit']['seconds']:.1f} ms")
            for title, one in found.items():
                over = one["fbe"] > GOALS.get(title, ANY) and title != "grasp"
                missed += [f"{name} × {samples}: {title} {one['fbe']:.2f}"] if over else []
                note = f"{one['floor']:8.2f} by launches" if "floor" in one else ""
                note += "  over the goal" if over else ""
                print(f"  {title:<24}{one['fbe']:8.2f}{note}{''.join(f'  ({why})' for why in one['failed'].values())}")
            sys.stdout.flush()
    widths = chosen.widths if chosen.widths is not None else ((64, 256) if chosen.quick else WIDTHS)
    if widths:
        results["widths"] = by_width(widths, 16, chosen.device)
        print(f"FBE by width, batch 16:\n{width_table(results['widths'])}")
    print("over the goal: " + ("; ".join(missed) or "nothing"))
    if chosen.output:
        chosen.output.write_text(json.dumps(results, indent=1) + "\n")
    return int(bool(missed))


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "processor, one thread"


if __name__ == "__main__":
    sys.exit(main())
