"""Fast probabilistic NAS (Yan et al., 2021), as TEG-NAS uses it."""

from __future__ import annotations

import math

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber
from trainless.core.types import Floats, Json
from trainless.searchers.policy import Policy, Reward, RewardKind, derived, draw_allowed
from trainless.searchers.searcher import Told, room
from trainless.searchers.stopping import Patience
from trainless.spaces.moves import Choices, Feasible


class FpNas:
    """Importance-weighted Monte-Carlo empirical Bayes on a policy (TEG-NAS, eq. 19–20).

        θ ← θ + η Σ_i w_i ∂ log p(a_i)/∂θ,   w = softmax(r),   |{a_i}| = ⌈λ·H(p)⌉

    Deviations: the papers count epochs over the data, a step here is one sample set; FP-NAS shares the weights of a
    supernet, which is a matter of how candidates are evaluated and not of this searcher. A candidate without a reward
        has
    weight 0.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        rate: η.
        scale: λ, archs per nat of entropy.
        reward: ``value``, or ``change`` for several columns (TEG-NAS).
        window: Values over which a change is normalised; None for all.
        iterations: Steps after which it ends; None for no end.
        patience: Steps without a fall of the entropy after which it ends; None for no such end.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = FpNas(NasBench201(), seed=0, rate=0.5, reward="value", iterations=60)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [3.0 * p.arch.count(3) for p in proposals]))
        >>> searcher.best().count(3) > 3
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        rate: float = 0.1,
        scale: float = 0.25,
        reward: RewardKind = "change",
        window: int | None = None,
        iterations: int | None = 100,
        patience: int | None = None,
    ) -> None:
        if rate <= 0 or scale <= 0:
            raise InputError(f"fpnas was given rate={rate} and scale={scale}; expected positive numbers")
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._policy = Policy([len(decision) for decision in space.decisions])
        self._rate, self._scale, self._iterations = rate, scale, iterations
        self._reward = Reward(reward, window)
        self._patience = Patience(patience, falling=True)
        self._over = False
        self._steps = self._outstanding = 0
        self._waiting: list[tuple[Arch, float]] = []
        self._wanted = self._samples()

    def _samples(self) -> int:
        return max(1, math.ceil(self._scale * self._policy.entropy()))

    @property
    def columns(self) -> int | None:
        """One signal, or any number of which the changes are rewarded."""
        return 1 if self._reward.kind == "value" else None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The archs that this step still lacks; none while all of them are being evaluated."""
        if self._over or (self._iterations is not None and self._steps >= self._iterations):
            return []
        missing = self._wanted - len(self._waiting) - self._outstanding
        count = max(0, min(room(limit, missing), missing))
        table = self._policy.table()
        self._outstanding += count
        return [Proposal(draw_allowed(self._space, table, self._rng, self._feasible)) for _ in range(count)]

    def tell(self, told: Told) -> None:
        """Collect a step's rewards, then move the policy."""
        if not len(told):
            return
        for proposal, row in zip(told.proposals, told.matrix().tolist(), strict=True):
            self._waiting.append((proposal.arch, self._reward(row)))
            self._outstanding = max(0, self._outstanding - 1)
            if len(self._waiting) >= self._wanted:
                self._update()

    def _update(self) -> None:
        known = [(arch, reward) for arch, reward in self._waiting if not math.isnan(reward)]
        self._waiting = []
        if known:
            rewards = np.array([reward for _, reward in known])
            weights = np.exp(rewards - rewards.max())
            weights /= weights.sum()
            gradient = sum(w * self._policy.gradient(arch) for (arch, _), w in zip(known, weights, strict=True))
            self._policy.logits += self._rate * np.asarray(gradient)
        self._steps += 1
        self._wanted = self._samples()
        if self._patience.steps is not None:
            self._over |= self._patience.over(self._policy.entropy())

    def probabilities(self) -> list[Floats]:
        """The policy, one vector per decision."""
        return self._policy.probabilities()

    def best(self) -> Arch:
        """The feasible arch of the highest probability."""
        return derived(self._space, self.probabilities(), self._feasible)

    def state(self) -> Json:
        """Generator, policy and what is waiting for an update."""
        return {
            "rng": self._rng.bit_generator.state,
            "logits": self._policy.state(),
            "reward": self._reward.state(),
            "patience": self._patience.state(),
            "over": self._over,
            "counters": [self._steps, self._outstanding, self._wanted],
            "waiting": [[list(arch), number(reward)] for arch, reward in self._waiting],
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._policy.restore(state["logits"])
        self._reward.restore(state["reward"])
        self._patience.restore(state["patience"])
        self._over = state["over"]
        self._steps, self._outstanding, self._wanted = state["counters"]
        self._waiting = [(tuple(arch), unnumber(reward)) for arch, reward in state["waiting"]]
