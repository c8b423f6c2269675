"""Do the CPU and the GPU agree on every proxy? Prints and writes the relative differences.

Where single precision differs by more than a thousandth, both are run again in double precision: what agrees there
differed by rounding.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from pathlib import Path

import torch

from trainless.core.errors import Unscorable
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.probe.points import Kaiming
from trainless.probe.probe import exact_products
from trainless.proxies import registry
from trainless.spaces import space

CASES = (
    (
        "nb201",
        {},
        (3, 32, 32),
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|",
    ),
    (
        "nb201",
        {},
        (3, 32, 32),
        "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|none~1|avg_pool_3x3~2|",
    ),
    (
        "nb201",
        {"channels": 8, "cells": 1},
        (1, 256),
        "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
    ),
    (
        "nb201",
        {"channels": 8, "cells": 1},
        (1, 16, 16, 16),
        "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
    ),
)


def value(name: str, net: torch.nn.Module, task: Task, device: str, dtype: torch.dtype = torch.float32) -> float:
    """One proxy on one device, from the same weights and batch."""
    x, y = task.batch(16, 0)
    net = copy.deepcopy(net).to(device, dtype)
    p = Probe.of(net, (x.to(device, dtype), y.to(device)), task.target)
    with exact_products():
        try:
            return registry[name](p.at(weights=Kaiming()))
        except Unscorable:
            return math.nan


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/agreement.json"))
    arguments = parser.parse_args()
    rows = []
    for kind, parameters, shape, text in CASES:
        where, task = space(kind, **parameters), Task.noise(shape, 10)
        torch.manual_seed(0)
        net = where.build(where.parse(text), task)
        for name in registry.names():
            cpu, gpu = (value(name, net, task, device) for device in ("cpu", "cuda"))
            both_fail = math.isnan(cpu) and math.isnan(gpu)
            difference = 0.0 if both_fail else abs(cpu - gpu) / max(abs(cpu), 1e-12)
            rows.append(
                {"arch": text, "input": shape, "proxy": name, "cpu": cpu, "cuda": gpu, "difference": difference}
            )
            if not difference < 1e-3:
                exact = [value(name, net, task, device, torch.float64) for device in ("cpu", "cuda")]
                rows[-1] |= {"cpu_double": exact[0], "cuda_double": exact[1]}
                print(f"{name:16s} {shape} {cpu:.7g} {gpu:.7g} {difference:.1e}, in doubles {exact}", flush=True)
    environment = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1))
    print(f"{len(rows)} comparisons, largest difference {max(row['difference'] for row in rows):.1e}")


if __name__ == "__main__":
    main()
