"""How fast the calls and commands are that people wait for: ``docs/speed.md``.

    python -m benchmarks.speed                    # benchmarks/results/speed.json; 15 minutes on two quiet cores
    python -m benchmarks.speed --device cuda      # benchmarks/results/speed-cuda.json
    python -m benchmarks.speed --parts calls start

Prints a table for each part and writes what it measured; ``make docs-figures`` then writes the page. Everything is wall
time. The unit of a call (FBE) is one plain forward and backward pass of the same network on the same batch, taken
before and after every call, outside it. Commands are run whole, start-up included, in a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

import trainless as tl
from benchmarks.proxies import BEST, OURS
from trainless.execution.limits import keep_warm
from trainless.proxies import registry
from trainless.rankings import registry as rankings
from trainless.spaces import space

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEXT = ROOT / "benchmarks" / "speed_page.md"
BATCH, SHAPE = 64, (3, 32, 32)
RANKING = "the ranking `trainless`"
SIZES: Mapping[str, Sequence[tuple[int, int, int]]] = {  # channels, cells of a stage, samples
    "batch": [(16, 5, samples) for samples in (16, 64, 128)],
    "depth": [(16, cells, BATCH) for cells in (1, 3, 5)],
    "width": [(channels, 1, BATCH) for channels in (8, 16, 32, 64)],
}
TOGETHER = {"cpu": (1, 8), "cuda": (1, 32, 128)}
CANDIDATES = (1_000, 10_000, 100_000)
NET = """\
from torch import nn


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
"""
COMMANDS = {
    "trainless --help": ("--help",),
    "trainless list proxies": ("list", "proxies"),
    "trainless score my_net.py:small": ("score", "my_net.py:small", "--input", "3x32x32", "--classes", "10"),
}


def groups() -> dict[str, tuple[str, ...]]:
    """What is asked of one call, by name."""
    ours = [name for name in registry.names() if registry[name].fn.__module__.startswith("trainless.")]
    published = tuple(name for name in ours if name not in OURS)
    return {
        RANKING: tuple(rankings["trainless"].proxies),
        "all published proxies but GraSP": tuple(name for name in published if name != "grasp"),
        "all published proxies": published,
    }


def fbe(proxies: Sequence[str], sizes: tuple[int, int, int], device: str, repeats: int) -> dict[str, float]:
    """The wall time of one call of ``tl.score`` over that of a plain pass, medians."""
    channels, cells, samples = sizes
    task, rules = tl.Task.noise(SHAPE, 10), space("nb201", channels=channels, cells=cells)
    net = rules.build(BEST, task).to(device)
    x = torch.randn(samples, *SHAPE, device=device)

    def call() -> object:
        return tl.score(net, task=task, proxies=",".join(proxies), batch=samples, device=device)

    def unit() -> object:
        return torch.autograd.grad(net(x).square().mean(), list(net.parameters()))

    for warm in (unit, call, unit):
        _wall(warm, device)
    calls, units = [], [_wall(unit, device)]
    for _ in range(repeats):
        calls.append(_wall(call, device))
        units.append(_wall(unit, device))
    return {"fbe": median(calls) / median(units), "seconds": median(calls), "unit": median(units)}


def _wall(work: Callable[[], object], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def command(arguments: Sequence[str], folder: Path) -> dict[str, float]:
    """Wall seconds and the largest memory of a command of ours."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainless", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"trainless {' '.join(arguments)} ended with {process.returncode}")
    return {"seconds": time.perf_counter() - start, "megabytes": used.ru_maxrss / 1024}


def calls(device: str, repeats: int) -> dict[str, Any]:
    """One call on the best network of NAS-Bench-201."""
    found = {title: fbe(names, (16, 5, BATCH), device, repeats) for title, names in groups().items()}
    for title, one in found.items():
        print(f"{title:<34}{one['fbe']:8.2f} FBE  ({1000 * one['unit']:.1f} ms)", flush=True)
    return found


def sizes(device: str, repeats: int) -> dict[str, Any]:
    """The ranking by batch, depth and width."""
    names, found = groups()[RANKING], dict[str, list[dict[str, float]]]()
    for title, every in SIZES.items():
        found[title] = [dict(zip(("channels", "cells", "samples"), one, strict=True)) for one in every]
        for row, one in zip(found[title], every, strict=True):
            row |= fbe(names, one, device, repeats)
            print(f"{title:<8}{one!s:<18}{row['fbe']:8.2f} FBE", flush=True)
    return found


def sweeps(device: str, networks: int) -> list[dict[str, float]]:
    """Whole commands that score thin networks by the ranking's measures, one by one and side by side."""
    found = []
    for together in TOGETHER[device]:
        with tempfile.TemporaryDirectory() as folder:
            done = command(
                [
                    *("bench", "sweep", "--out", "run", "--archs", f"sample:{networks}", "--init", "own"),
                    *("--space", "nb201", "--space-args", "channels=8,cells=1", "--batch", str(BATCH)),
                    *("--proxies", ",".join(groups()[RANKING]), "--together", str(together)),
                    *("--device", device, "--store", "none"),
                ],
                Path(folder),
            )
        found.append({"together": together, "networks": networks, **done, "rate": networks / done["seconds"]})
        print(f"{together:>4} side by side: {found[-1]['rate']:8.2f} networks/s", flush=True)
    return found


def whole(device: str) -> dict[str, Any]:
    """All classes of NAS-Bench-201 from the command line; on a GPU only."""
    asked = {"the ranking": ",".join(groups()[RANKING]), "all proxies but GraSP": "all"}
    found = {}
    for title, proxies in asked.items() if device != "cpu" else ():
        with tempfile.TemporaryDirectory() as folder:
            found[title] = command(
                [
                    *("bench", "sweep", "--out", "run", "--archs", "canonical", "--init", "own", "--batch", str(BATCH)),
                    *("--proxies", proxies, "--together", "64", "--device", device, "--store", "none"),
                ],
                Path(folder),
            )
        print(f"{title:<24}{found[title]['seconds']:8.1f} s", flush=True)
    return found


def start(device: str, repeats: int) -> dict[str, Any]:
    """Commands that should answer at once, and Python with torch."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "my_net.py").write_text(NET, encoding="utf-8")
        for title, arguments in COMMANDS.items():
            found[title] = median(command(arguments, Path(folder))["seconds"] for _ in range(repeats))
    python = [sys.executable, "-c", "import torch"]
    found["python -c 'import torch'"] = median(
        _wall(lambda: subprocess.run(python, check=True), "cpu") for _ in range(repeats)
    )
    for title, seconds in found.items():
        print(f"{title:<36}{seconds:8.2f} s", flush=True)
    return found


def search(device: str, most: int) -> list[dict[str, float]]:
    """Searches whose scores are counts, with the store on, and the same command once more."""
    found = []
    for candidates in (number for number in CANDIDATES if number <= most):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [
                *("search", "noise:3x32x32:10", "--space", "mobilenet", "--searcher", "evolution"),
                *("--proxies", "params", "--evaluations", str(candidates), "--out", "run", "--store", "s.sqlite"),
            ]
            done, again = command(arguments, Path(folder)), command(arguments, Path(folder))
        found.append({"candidates": candidates, **done, "resume": again["seconds"]})
        print(f"{candidates:>8,} candidates: {done['seconds']:7.1f} s, {done['megabytes']:6.0f} MB,", end=" ")
        print(f"again {again['seconds']:.1f} s", flush=True)
    return found


def measured(device: str, parts: Sequence[str], quick: bool) -> dict[str, Any]:
    """Every part that is asked for."""
    repeats = 1 if quick else 5
    every: dict[str, Callable[[], Any]] = {
        "calls": lambda: calls(device, repeats),
        "sizes": lambda: sizes(device, repeats),
        "sweeps": lambda: sweeps(device, 8 if quick else 200 if device == "cpu" else 2000),
        "whole": lambda: whole(device),
        "start": lambda: start(device, repeats),
        "search": lambda: search(device, CANDIDATES[0] if quick else CANDIDATES[-1]),
    }
    return {part: every[part]() for part in parts}


PARTS = ("calls", "sizes", "sweeps", "whole", "start", "search")


# --- the page ---------------------------------------------------------------------------------------------------
def rendered() -> str:
    """The page by the results."""
    found = {device: _read(device) for device in TOGETHER}
    return TEXT.read_text(encoding="utf-8") + "\n".join(_device(device, one) for device, one in found.items())


def file_of(device: str) -> Path:
    """Where the results of a device are."""
    return RESULTS / ("speed.json" if device == "cpu" else f"speed-{device}.json")


def _read(device: str) -> dict[str, Any] | None:
    path = file_of(device)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _device(device: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return f"\n## On {device}\n\nNot measured: `python -m benchmarks.speed --device {device}`.\n"
    about = found["environment"]
    lines = [
        f"\n## On {about['device']}\n",
        f"{about['threads']} thread a process, PyTorch {about['torch']}, a load of {about['load']:.1f} before.\n",
    ]
    for part in PARTS:
        if found.get(part):
            lines += [*_TABLES[part](found[part]), ""]
    return "\n".join(lines)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"### {title}\n", "| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def _calls(found: Mapping[str, Any]) -> list[str]:
    rows = [(title, f"{one['fbe']:.2f}", f"{one['seconds']:.2f}") for title, one in found.items()]
    return _table("One call on one network", ("what is asked for", "FBE", "seconds"), rows)


def _sizes(found: Mapping[str, Any]) -> list[str]:
    rows = [
        (title, str(row["channels"]), str(row["cells"]), str(row["samples"]), f"{1000 * row['unit']:.0f}", _two(row))
        for title, every in found.items()
        for row in every
    ]
    head = ("what grows", "channels", "cells of a stage", "samples", "plain pass, ms", "ranking, FBE")
    return _table("By batch, depth and width", head, rows)


def _two(row: Mapping[str, float]) -> str:
    return f"{row['fbe']:.2f}"


def _sweeps(found: Sequence[Mapping[str, float]]) -> list[str]:
    rows = [(f"{one['together']:.0f}", f"{one['networks']:,.0f}", f"{one['rate']:.2f}") for one in found]
    return _table("Thin networks from the command line", ("side by side", "networks", "networks a second"), rows)


def _whole(found: Mapping[str, Any]) -> list[str]:
    rows = [(title, f"{one['seconds']:.0f}") for title, one in found.items()]
    return _table("All classes of NAS-Bench-201", ("measures", "seconds"), rows)


def _start(found: Mapping[str, float]) -> list[str]:
    return _table("Start-up", ("command", "seconds"), [(f"`{name}`", f"{each:.2f}") for name, each in found.items()])


def _search(found: Sequence[Mapping[str, float]]) -> list[str]:
    rows = [
        (f"{one['candidates']:,.0f}", f"{one['seconds']:.1f}", f"{one['megabytes']:.0f}", f"{one['resume']:.1f}")
        for one in found
    ]
    return _table(
        "A search by counts, with the store",
        ("candidates", "seconds", "memory, MB", "the command again, seconds"),
        rows,
    )


_TABLES: Mapping[str, Callable[[Any], list[str]]] = {
    "calls": _calls,
    "sizes": _sizes,
    "sweeps": _sweeps,
    "whole": _whole,
    "start": _start,
    "search": _search,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=TOGETHER, default="cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="once each, small")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    keep_warm()
    name = torch.cuda.get_device_name() if given.device == "cuda" else platform.processor() or platform.machine()
    about = {"device": name, "torch": torch.__version__, "threads": 1, "load": os.getloadavg()[0]}
    before = _read(given.device) if given.output is None else None
    found = {**(before or {}), "environment": about, **measured(given.device, given.parts, given.quick)}
    (given.output or file_of(given.device)).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
