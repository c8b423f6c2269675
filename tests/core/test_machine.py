from __future__ import annotations

import os

import pytest
import torch

from trainless.core.errors import InputError
from trainless.core.machine import core_count, device_named, worker_count


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_named("auto") == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_named("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_named("cuda:1") == "cuda:1"
    with pytest.raises(
        InputError, match="'cuda:2' was asked for, but PyTorch sees only 2 CUDA devices, counted from 0"
    ):
        device_named("cuda:2")
    assert device_named("cuda:2", here=False) == "cuda:2"
    for wrong in ("gpu", "meta"):
        with pytest.raises(InputError, match=f"device '{wrong}'.*; expected cpu, cuda"):
            device_named(wrong)


@pytest.mark.skipif("sched_getaffinity" not in dir(os), reason="the system does not say")
def test_no_number_of_workers_is_one_per_core_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 6})
    assert core_count() == worker_count(0) == 3
    assert worker_count(0, "cuda") == 1
    assert worker_count(5) == 5
