"""What this machine has: cores for workers, and a GPU or none."""

from __future__ import annotations

import os

from trainless.core.errors import InputError

AUTO = "auto"


def core_count() -> int:
    """The number of cores that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if "sched_getaffinity" in dir(os) else os.cpu_count() or 1)


def device_named(text: str) -> str:
    """The device that is meant: ``auto`` is a GPU where there is one.

    Example:
        >>> device_named("cpu"), device_named("auto") in ("cpu", "cuda")
        ('cpu', True)
    """
    if text != AUTO:
        return text
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def worker_count(workers: int, device: str = "cpu") -> int:
    """The number of workers that is meant: 0 is one per core, and a single one for a GPU.

    Example:
        >>> worker_count(3), worker_count(0) == core_count(), worker_count(0, "cuda:1")
        (3, True, 1)
        >>> worker_count(-1)
        Traceback (most recent call last):
        trainless.core.errors.InputError: workers=-1 was given; expected at least 1, or 0 for one per core
    """
    if workers < 0:
        raise InputError(f"workers={workers} was given; expected at least 1, or 0 for one per core")
    return workers or (core_count() if device == "cpu" else 1)
