"""Where worker processes come from.

Importing torch takes a worker seconds, so on a CPU one server process imports it once and every worker is forked from
that server, which has no threads and has computed nothing: that takes milliseconds. :func:`prepare` starts the server
before this process imports torch itself, so that both import at the same time. This module imports nothing heavy for
that reason. Workers for a GPU are started afresh, because the environment of the GPU's drivers is theirs alone; several
share one by NVIDIA's multi-process service.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

from trainless.core.processes import lead_group

PRELOADED = ("trainless.execution.worker",)
CONTROL, FOLDERS = "nvidia-cuda-mps-control", ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
AGAIN = (0.05, 0.2, 0.75)  # seconds after which a worker is started again
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def prepare(*also: str) -> None:
    """Start the server that workers are forked from, without waiting for it; it imports these modules, too."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return
    command_line = [name for name in ("trainless.cli",) if name in sys.modules]  # what a script of ours imports
    multiprocessing.forkserver.set_forkserver_preload([*PRELOADED, *command_line, *also])
    with undisturbed(), environment(ONE_THREAD):
        multiprocessing.forkserver.ensure_running()


def context(gpu: bool, *also: str) -> ForkServerContext | SpawnContext:
    """The way in which workers are started here; ``also`` as in :func:`prepare`."""
    if gpu or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    prepare(*also)
    return multiprocessing.get_context("forkserver")


def start(process: BaseProcess) -> None:
    """Start a worker, by the server where it comes from one; a server that a job has ended is started anew."""
    with undisturbed():
        for pause in (*AGAIN, None):
            wake()
            try:
                process.start()
            except (EOFError, OSError):  # it is dying, and no other takes its place until it is dead
                if pause is None:
                    raise
                time.sleep(pause)
            else:
                return


def wake() -> None:
    """Have the server go on: a job may have stopped it, and nobody else would ever start or end a worker."""
    pid = getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Processes that are started inside never see a Ctrl-C, which is the coordinator's to handle."""
    multiprocessing.resource_tracker.ensure_running()  # starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def deaf_to_interrupts() -> None:
    """In a worker: a Ctrl-C reaches every process of the terminal, and the coordinator decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def follow_parent() -> None:
    """In a worker: have the kernel end it and its group when the coordinator is gone, whatever it is computing."""
    lead_group()
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(sentinel, fcntl.F_SETOWN, -os.getpgrp())  # below 0: all processes of the group
    fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if multiprocessing.connection.wait([sentinel], 0):  # it went before this was set
        os.killpg(os.getpgrp(), signal.SIGKILL)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block; all as they were afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
