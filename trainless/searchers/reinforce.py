"""REINFORCE with independent categorical policies (Williams, 1992; TEG-NAS, TEACUP, GradSign)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.parameters import forwards
from trainless.core.types import Floats, Json
from trainless.searchers.policy import Adam, Policy, Reward, RewardKind, derived, draw_allowed
from trainless.searchers.searcher import Incumbent, Told, Vary, room
from trainless.searchers.stopping import Patience
from trainless.spaces.moves import Choices, Feasible


class Reinforce:
    """A policy that makes better archs more likely.

        θ ← θ + Adam(η, mean_i (r_i − b) ∂ log p(a_i)/∂θ),   b an exponential moving average of r (γ = 0.9)

    The baseline takes in a reward before that reward's advantage is formed, as in eq. 13–15 of TEG-NAS and in the
    published programs. The defaults are those of the NAS-Bench-201 baseline that GradSign compares with: one arch per
    iteration, Adam with rate 0.5, logits that start at 1e-3·N(0, 1), the best of the history as the result.

    Deviations: with a limit, actions are drawn from the policy conditioned on being feasible while the gradient is that
    of the unconditioned policy. With ``vary`` (G-REINFORCE) the gradient is that of the policy's own action although a
    variation of it was evaluated, as in GradSign's algorithm 4. TEACUP's paper is followed, not its program (an LSTM
    controller with a replay buffer).

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        rate: Adam's learning rate η.
        batch: Archs per iteration.
        momentum: γ of the baseline.
        debias: Divide the baseline by 1 − γ^t, as the programs do; the papers start it at 0 and leave it there.
        reward: ``value`` or ``change``, see :class:`trainless.searchers.policy.Reward`.
        window: Values over which a change is normalised; None for all.
        iterations: Updates after which it ends; None for no end.
        patience: Iterations without a gain of ``watch`` after which it ends; None for no such end.
        watch: ``reward`` (the mean of an iteration rises) or ``entropy`` (of the policy, falls).
        derive: What is best: the arch of the highest probability (``policy``) or the best told (``history``).
        vary: Evaluate a variation of the action in its place.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Reinforce(NasBench201(), seed=0, iterations=150, derive="policy")
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(p.arch.count(3)) for p in proposals]))
        >>> searcher.best()
        (3, 3, 3, 3, 3, 3)
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        rate: float = 0.5,
        batch: int = 1,
        momentum: float = 0.9,
        debias: bool = True,
        reward: RewardKind = "value",
        window: int | None = None,
        iterations: int | None = None,
        patience: int | None = None,
        watch: Literal["reward", "entropy"] = "reward",
        derive: Literal["policy", "history"] = "history",
        vary: Vary | None = None,
    ) -> None:
        if batch < 1 or rate <= 0 or not 0 <= momentum < 1:
            raise InputError(
                f"reinforce was given batch={batch}, rate={rate}, momentum={momentum}; expected a positive batch"
                " and rate, and a momentum from 0 to below 1"
            )
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._policy = Policy([len(decision) for decision in space.decisions], rng=self._rng, scale=1e-3)
        self._adam = Adam(rate)
        self._batch, self._momentum, self._debias = batch, momentum, debias
        self._reward = Reward(reward, window)
        self._iterations, self._watch, self._derive, self._vary = iterations, watch, derive, vary
        self._patience = Patience(patience, falling=watch == "entropy")
        self._baseline = 0.0
        self._rewards = self._issued = self._updates = 0
        self._over = False
        self._waiting: list[tuple[Arch, float, float]] = []
        self._actions: dict[Arch, list[Arch]] = {}
        self._best = Incumbent()

    @property
    def columns(self) -> int | None:
        """One signal; any number where changes are rewarded and the policy decides."""
        return 1 if self._derive == "history" or self._reward.kind == "value" else None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """Archs drawn from the policy as it is now."""
        wanted = room(limit, self._batch)
        if self._iterations is not None:
            wanted = min(wanted, self._batch * self._iterations - self._issued)
        if self._over or wanted <= 0:
            return []
        table = self._policy.table()
        self._issued += wanted
        return [Proposal(self._act(table)) for _ in range(wanted)]

    def _act(self, table: Floats) -> Arch:
        action = draw_allowed(self._space, table, self._rng, self._feasible)
        if self._vary is None:
            return action
        evaluated = self._vary(action, self._rng)
        self._actions.setdefault(evaluated, []).append(action)
        return evaluated

    def tell(self, told: Told) -> None:
        """Collect an iteration's worth of rewards, then make one step."""
        if not len(told):
            return
        rows = told.matrix().tolist()
        if self._derive == "history":
            for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
                self._best.see(proposal.arch, value)
        for proposal, row in zip(told.proposals, rows, strict=True):
            reward = self._reward(row)
            self._waiting.append((self._action(proposal.arch), reward, self._advantage(reward)))
            if len(self._waiting) == self._batch:
                self._update()

    def _action(self, evaluated: Arch) -> Arch:
        """The policy's own action behind an evaluated arch."""
        actions = self._actions.get(evaluated)
        if not actions:
            return evaluated
        action = actions.pop(0)
        if not actions:
            del self._actions[evaluated]
        return action

    def _advantage(self, reward: float) -> float:
        """The reward less a baseline that has taken it in; 0 for a reward that does not exist."""
        if math.isnan(reward):
            return 0.0
        self._rewards += 1
        self._baseline = self._momentum * self._baseline + (1 - self._momentum) * reward
        correction = 1 - self._momentum**self._rewards if self._debias else 1.0
        return reward - self._baseline / correction

    def _update(self) -> None:
        gradient = sum(advantage * self._policy.gradient(action) for action, _, advantage in self._waiting)
        self._policy.logits += self._adam.step(np.asarray(gradient) / self._batch)
        known = [reward for _, reward, _ in self._waiting if not math.isnan(reward)]
        self._waiting = []
        self._updates += 1
        if self._patience.steps is not None:
            mean = sum(known) / len(known) if known else math.nan
            self._over |= self._patience.over(self._policy.entropy() if self._watch == "entropy" else mean)

    def probabilities(self) -> list[Floats]:
        """The policy, one vector per decision."""
        return self._policy.probabilities()

    def best(self) -> Arch:
        """The most probable feasible arch, or the best told."""
        if self._derive == "history":
            return self._best.arch
        return derived(self._space, self.probabilities(), self._feasible)

    def state(self) -> Json:
        """Generator, policy, optimiser, baseline and what is waiting for an update."""
        return {
            "rng": self._rng.bit_generator.state,
            "logits": self._policy.state(),
            "adam": self._adam.state(),
            "baseline": self._baseline,
            "counters": [self._rewards, self._issued, self._updates],
            "over": self._over,
            "reward": self._reward.state(),
            "patience": self._patience.state(),
            "waiting": [[list(arch), *numbers(values)] for arch, *values in self._waiting],
            "actions": [[list(arch), [list(a) for a in actions]] for arch, actions in self._actions.items()],
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._policy.restore(state["logits"])
        self._adam.restore(state["adam"])
        self._baseline, self._over = state["baseline"], state["over"]
        self._rewards, self._issued, self._updates = state["counters"]
        self._reward.restore(state["reward"])
        self._patience.restore(state["patience"])
        self._waiting = [(tuple(arch), *unnumbers(values)) for arch, *values in state["waiting"]]  # type: ignore[misc]
        self._actions = {tuple(arch): [tuple(a) for a in actions] for arch, actions in state["actions"]}
        self._best.restore(state["best"])


@forwards(Reinforce, rate=0.04, reward="change", iterations=500, watch="entropy", derive="policy")
def teg_reinforce(space: Choices, **parameters: Any) -> Reinforce:
    """TEG-NAS's: reward from the changes of κ, R and MSE, η = 0.04 (0.07 on DARTS), 500 iterations, argmax policy.

    Its stop, "when the entropy stops decreasing", is ``patience`` with ``watch="entropy"``; the paper gives no number
    of steps, only the 500 iterations after which it was so.
    """
    return Reinforce(space, **parameters)


@forwards(Reinforce, rate=0.001, batch=10, iterations=100, patience=30, derive="policy")
def teacup_reinforce(space: Choices, **parameters: Any) -> Reinforce:
    """TEACUP's: ten archs per iteration, η = 0.001, at most 100 iterations, patience 30 on the mean metric.

    Its b₀ = 0 without correction makes the first advantages as large as the metric itself; the corrected baseline is
    used unless ``debias=False`` is given.
    """
    return Reinforce(space, **parameters)
