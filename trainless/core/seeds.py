"""Randomness and threads: everything that a value may depend on besides its inputs, fixed for a block and put back."""

from __future__ import annotations

import pickle
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def generator(seed: int, tag: str) -> torch.Generator:
    """A generator that depends on the seed and on what it is for, and on nothing else."""
    return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{tag}".encode()))


def seed_torch(seed: int, device: torch.device | str = "cpu") -> None:
    """Seed PyTorch's default generators of the CPU and of a GPU; other GPUs are left alone."""
    torch.default_generator.manual_seed(seed)
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.default_generators[where.index or 0].manual_seed(seed)


def random_states(device: torch.device | str = "cpu") -> tuple[object, ...]:
    """The states of PyTorch's, NumPy's and Python's random numbers, for comparison: equal where nothing was drawn."""
    where = torch.device(device)
    states = [torch.default_generator.get_state()]
    if where.type == "cuda":
        states.append(torch.cuda.get_rng_state(where))
    drawn = pickle.dumps(np.random.get_state()), random.getstate()
    return *(state.numpy().tobytes() for state in states), *drawn


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Give the block random states fixed by a seed: PyTorch's, NumPy's and Python's; all as they were afterwards.

    Example:
        >>> with seeded(1):
        ...     first = torch.rand(1)
        >>> with seeded(1):
        ...     bool(torch.rand(1) == first)
        True
    """
    where = torch.device(device)
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng([where.index or 0] if where.type == "cuda" else []):
        seed_torch(seed, where)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def modes_kept() -> Iterator[None]:
    """Put PyTorch's modes back after a block that may leave other ones behind, so that what follows is not changed.

    Example:
        >>> with modes_kept():
        ...     torch.set_default_dtype(torch.float64)
        >>> torch.get_default_dtype()
        torch.float32
    """
    gradients, dtype, device = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device()
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        if torch.get_float32_matmul_precision() != precision:
            torch.set_float32_matmul_precision(precision)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()) != (
            strict,
            warns,
        ):
            torch.use_deterministic_algorithms(strict, warn_only=warns)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute the block on one thread, so that its values do not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
