"""Letting several processes share one GPU at the same time, by NVIDIA's multi-process service."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from trainless.execution.fork_server import environment

CONTROL = "nvidia-cuda-mps-control"
FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@contextmanager
def shared_gpu(wanted: bool = True) -> Iterator[bool]:
    """Start the service in a folder of its own and stop it afterwards; does nothing where there is none.

    Processes started inside find it by their environment. Yields whether it runs.
    """
    control = shutil.which(CONTROL) if wanted else None
    if control is None:
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, environment(dict.fromkeys(FOLDERS, folder)):
        started = subprocess.run([control, "-d"], capture_output=True, check=False)  # noqa: S603 - no shell
        try:
            yield started.returncode == 0
        finally:
            subprocess.run([control], input=b"quit\n", capture_output=True, check=False)  # noqa: S603 - no shell
