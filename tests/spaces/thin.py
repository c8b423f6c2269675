"""Every registered space in a size that is quick to build and score, and the tasks that it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Region
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.spaces import registry, space
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space

SIGNAL, IMAGE, VOLUME = (Task.noise(shape, classes=3) for shape in [(2, 9), (3, 8, 8), (1, 5, 4, 6)])
LARGE = [Task.noise(shape, classes=3) for shape in [(2, 33), (3, 32, 32), (1, 32, 32, 32)]]
TOKENS = Task("tokens", (5,), Target("tokens", 11), vocabulary=11)


@dataclass(frozen=True)
class Thin:
    """Parameters of a thin variant, its tasks, and the options to draw from where not all of them are cheap."""

    parameters: dict[str, Any] = field(default_factory=dict)
    tasks: tuple[Task, ...] = (SIGNAL, IMAGE, VOLUME)
    cheap: dict[str, int] = field(default_factory=dict)
    """The first so many options of decisions whose name ends so are drawn for scoring."""

    def space(self, name: str) -> Space:
        return space(name, **self.parameters)

    def archs(self, name: str, count: int, seed: int = 0) -> list[Arch]:
        """Different random archs."""
        made, rng = self.space(name), np.random.default_rng(seed)
        found: dict[Arch, None] = {}
        while len(found) < count:
            found.setdefault(sample(made, rng, region=self._region(made)))
        return list(found)

    def _region(self, made: Space) -> Region:
        def most(decision_name: str, count: int) -> int:
            return next((n for end, n in self.cheap.items() if decision_name.endswith(end)), count)

        return tuple(frozenset(range(min(most(d.name, len(d)), len(d)))) for d in made.decisions)


CELLS = Thin({"channels": 2, "cells": 3})
MOBILE = {"channels": 2, "bottleneck": 2, "a.layers": 2, "b.layers": 2, "expansion": 2, "stem": 1}
THIN = {
    "nb201": Thin({"channels": 4, "cells": 1}),
    "nb101": Thin({"channels": 5, "cells": 1}),
    **dict.fromkeys(("darts", "enas", "pnas", "nasnet", "amoeba"), CELLS),
    "mobilenet": Thin({}, tuple(LARGE), MOBILE),
    "mobilenet-small": Thin({}, cheap=MOBILE),
    "transnas-micro": Thin({"channels": 4, "cells": 1}),
    "nb-macro": Thin({"channels": 2, "last": 8}),
    "recurrent": Thin({"emsize": 6, "nhid": 8, "layers": 2, "nodes": 12}, (TOKENS,)),
    "nats-size": Thin(cheap={"layer": 8}),
    "transformer": Thin({"patches": (2, 4)}, cheap={"depth": 3, "width": 3}),
    "residual": Thin(cheap={"width": 1, "depth": 2, "kernel": 2}),
    "inception": Thin({}, (SIGNAL,), {"filters": 1, "modules": 2}),
    "mlp": Thin({}, (Task.noise((5,), classes=3), SIGNAL), {"width": 2}),
    "rocket": Thin(cheap={"features": 3}),  # 24: tests draw 20 different ones
}
assert sorted(THIN) == registry.names(), "a new space needs a line here"
