"""What this machine has: cores for workers, and a GPU or none."""

from __future__ import annotations

import os

from trainless.core.errors import InputError

AUTO = "auto"


def core_count() -> int:
    """The number of cores that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if "sched_getaffinity" in dir(os) else os.cpu_count() or 1)


def device_named(text: str, *, here: bool = True) -> str:
    """The device that is meant: ``auto`` is a GPU where there is one.

    A device that this machine lacks is refused, unless the work is done elsewhere (``here=False``).

    Example:
        >>> device_named("cpu"), device_named("auto") in ("cpu", "cuda")
        ('cpu', True)
        >>> device_named("gpu")
        Traceback (most recent call last):
        trainless.core.errors.InputError: device 'gpu' was given; expected cpu, cuda, cuda:1 or auto
    """
    if text == "cpu":
        return text
    import torch

    if text == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError:
        raise InputError(f"device {text!r} was given; expected cpu, cuda, cuda:1 or auto") from None
    if device.type == "meta":
        raise InputError("device 'meta' was asked for, which computes nothing; expected cpu, cuda or cuda:1")
    if here and device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        there = torch.cuda.device_count()
        found = f"only {there} CUDA device{'s' * (there > 1)}, counted from 0" if there else "no CUDA device"
        raise InputError(f"device {text!r} was asked for, but PyTorch sees {found} here: use --device cpu")
    return text


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
