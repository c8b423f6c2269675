"""What a design spent, and what training its candidates instead would have cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.report.contents import Contents
from trainless.report.figures_training import costs_figure
from trainless.report.markup import duration, tag
from trainless.report.page import Section, drawn


def different(contents: Contents) -> int:
    """Different networks that were looked at: what computes the same counts once, and supernets do not count."""
    archs = {c for one in contents.searches for c in one.candidates if not is_region(c)}
    archs |= {arch for one in contents.searches for arch in one.best[:1]}
    return len(archs if contents.space is None else {contents.space.canonical(cast(Arch, arch)) for arch in archs})


def training_seconds(contents: Contents) -> Mapping[str, float]:
    """Seconds of each trained member."""
    return {name: sum(epoch.seconds for epoch in history) for name, history in contents.histories.items()}


def instead_seconds(contents: Contents) -> float:
    """Every different candidate × the mean time of a trained member: a full training each, on the same machine."""
    held = list(training_seconds(contents).values())
    return different(contents) * float(np.mean(held)) if held else 0.0


def costs_section(contents: Contents) -> Section:
    """Time and evaluations."""
    spent, seconds = contents.summary["spent"], training_seconds(contents)
    single = sum(value for name, value in seconds.items() if name.startswith("single"))
    instead, count = instead_seconds(contents), different(contents)
    costs = {
        "judging candidates": (spent["search_seconds"], "c0"),
        "training the members": (sum(seconds.values()) - single, "c2"),
        **({"training the comparison": (single, "c1")} if single else {}),
        "training every candidate": (instead, "cn"),
    }
    regions = sum(is_region(c) for one in contents.searches for c in one.candidates)
    also = f" {regions:,} of them were supernets of the pruning, which stand for many networks each." if regions else ""
    return Section(
        "costs",
        "What was spent",
        (
            tag(
                "p",
                f"{spent['evaluations']:,} candidates were judged, {count:,} of them different networks.{also} The mean"
                f" training of a member took {duration(float(np.mean(list(seconds.values()) or [0.0])))}.",
            ),
            drawn(
                "Time",
                costs_figure(costs),
                f"The grey bar is an estimate, not a measurement: {count:,} different networks, each trained as long as"
                " a member on average, on this machine. Who searches by training would stop poor candidates early and"
                " pay less; who repeats each training, as tables of benchmarks do, would pay more. The times of"
                " members that were trained side by side are added up.",
            ),
        ),
    )
