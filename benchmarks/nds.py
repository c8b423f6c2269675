"""Score the networks of Network Design Spaces, each in its own width and depth, for GradSign's table 5.3.

Get a family's file, such as ``DARTS.json``, from https://github.com/facebookresearch/nds (its data, ``nds_data``)::

    python -m benchmarks.nds darts --source DARTS.json --out runs/nds-darts --device cuda
    python -m benchmarks.measure_results gradsign:table5.3

The file is converted into the data directory, and every group of networks of one size is a sweep of its own: the same
command again resumes. What there is so far is written to ``results/nds-FAMILY.npz`` in any case.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainless.bench.score_library import results_directory
from trainless.bench.tables.darts import convert_nds
from trainless.bench.tables.nds import OFFICIAL, nds_file, notation, sized
from trainless.core.checksums import digest
from trainless.core.files import data_directory, write_atomic
from trainless.core.units import seconds_of
from trainless.runs.score_file import ABSENT, OK, ScoreFile
from trainless.runs.settings import SweepSettings
from trainless.runs.sweep import sweep

PROXIES = "grad_norm,synflow,naswot,gradsign"  # the table's rows
BATCH = 128  # the paper's, for its Kendall's τ


def convert(family: str, source: Path) -> str:
    """Convert an official file into the data directory, and say its checksum, which the release does not publish."""
    destination = data_directory() / nds_file(family).path
    convert_nds(source, destination)
    return f"{destination}: converted from {source.name}, SHA-256 {digest(source)} (the release publishes none)"


def score_nds(
    family: str, settings: SweepSettings, limit: float | None = None, say: Callable[[str], None] = lambda text: None
) -> ScoreFile:
    """Score all networks of a family, size by size, into one file in the table's order."""
    networks, ends = sized(family), None if limit is None else time.monotonic() + limit
    found = []
    for width, depth in sorted({(width, depth) for width, depth, _ in networks}):
        left = None if ends is None else max(0.0, ends - time.monotonic())
        if left == 0:
            break
        mine = dict.fromkeys(arch for *size, arch in networks if tuple(size) == (width, depth))
        folder = Path(settings.out) / f"{width}x{depth}"
        write_atomic(folder / "archs.txt", "\n".join(mine))
        size = f"channels={width},cells={depth}"
        asked = replace(
            settings, out=str(folder), space=family, space_args=size, archs=str(folder / "archs.txt"), time=left
        )
        say(f"{family}, {size}: {len(mine)} networks")
        found.append((width, depth, sweep(asked)))
    return joined([notation(*network) for network in networks], found)


def joined(archs: Sequence[str], found: Sequence[tuple[int, int, ScoreFile]]) -> ScoreFile:
    """The scores of several sizes as one file of these archs; what was not reached is absent."""
    first = found[0][2]
    shape = (len(archs), len(first.proxies), len(first.seeds))
    values, codes, reasons = np.full(shape, np.nan), np.ones(shape, np.uint16), [OK, ABSENT]
    place: dict[str, list[int]] = {}
    for row, arch in enumerate(archs):
        place.setdefault(arch, []).append(row)
    for width, depth, file in found:
        order = [file.proxies.index(proxy) for proxy in first.proxies]
        reasons += [reason for reason in file.reasons if reason not in reasons]
        codes_now = np.array([reasons.index(reason) for reason in file.reasons], np.uint16)
        for row, arch in enumerate(file.archs):
            for at in place[notation(width, depth, arch)]:
                values[at], codes[at] = file.values[row][order], codes_now[file.codes[row][order]]
    settings = {**first.settings, "space_args": "each network's own width and depth"}
    return ScoreFile(
        tuple(archs), first.proxies, first.seeds, values, codes, tuple(reasons), first.ms, settings, first.environment
    )


def main() -> None:
    """Read the options, convert and score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("family", choices=OFFICIAL)
    parser.add_argument("--source", type=Path, help="the official JSON file, the first time")
    parser.add_argument("--out", default="", help="the folder of the sweeps")
    parser.add_argument("--results", type=Path, default=results_directory())
    parser.add_argument("--proxies", default=PROXIES)
    parser.add_argument("--task", default="cifar10")
    parser.add_argument("--time", default=None, help="such as 30m; the same command resumes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.source:
        print(convert(given.family, given.source))
    settings = SweepSettings(
        out=given.out or f"runs/nds-{given.family}",
        proxies=given.proxies,
        batch=BATCH,
        task=given.task,
        workers=given.workers,
        device=given.device,
    )
    file = score_nds(given.family, settings, seconds_of(given.time), lambda text: print(text, flush=True))
    file.write(given.results / f"nds-{given.family}.npz")


if __name__ == "__main__":
    main()
