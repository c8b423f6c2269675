"""Executors: where jobs run: in this process, in several on this machine, on a Ray cluster or on SLURM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainless.core.registry import Registry

if TYPE_CHECKING:
    from trainless.execution.pool import Pool

registry: Registry[type[Pool[Any, Any, Any]]] = Registry("executor", "executors")
registry.add("local", "trainless.execution.local:Processes")
registry.add("ray", "trainless.execution.ray:Cluster")
registry.add("slurm", "trainless.execution.slurm:Slurm")
