"""Searchers that move independent categorical choices: REINFORCE, fast probabilistic NAS, TEACUP's genetic method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.parameters import forwards
from trainless.core.types import Floats
from trainless.searchers.policy import Adam, Policy, Reward, RewardKind, derived, draw_allowed
from trainless.searchers.searcher import Draw, Incumbent, Searcher, SignalSearcher, Told, Vary, room
from trainless.searchers.state import kept
from trainless.searchers.stopping import Patience
from trainless.spaces.moves import Choices


@dataclass(eq=False, kw_only=True)
class PolicySearcher(Searcher):
    """A searcher that moves a policy by rewards; see :class:`.Reward` for ``reward`` and ``window``."""

    reward: RewardKind = "value"
    window: int | None = None
    _policy: Policy = kept()
    _reward: Reward = kept()
    _over: bool = kept(False)

    @final
    def _begin(self, scale: float = 0.0) -> None:
        """Start with a policy that is uniform but for noise of this scale."""
        counts = [len(decision) for decision in self.space.decisions]
        self._policy = Policy(counts, rng=self._rng if scale else None, scale=scale)
        self._reward = Reward(self.reward, self.window)

    @final
    def _action(self, table: Floats) -> Arch:
        return draw_allowed(self.space, table, self._rng, self.feasible)

    @final
    def probabilities(self) -> list[Floats]:
        return self._policy.probabilities()

    @final
    def _likeliest(self) -> Arch:
        return derived(self.space, self.probabilities(), self.feasible)


@dataclass(eq=False, kw_only=True)
class Reinforce(PolicySearcher):
    """A policy that makes better archs more likely (Williams, 1992; TEG-NAS, TEACUP, GradSign).

        θ ← θ + Adam(η, mean_i (r_i − b) ∂ log p(a_i)/∂θ),   b an exponential moving average of r (γ = 0.9)

    The baseline takes in a reward before that reward's advantage is formed, as in eq. 13–15 of TEG-NAS and in the
    published programs. The defaults are those of the NAS-Bench-201 baseline that GradSign compares with: one arch per
    iteration, Adam with rate 0.5, logits that start at 1e-3·N(0, 1), the best of the history as the result.

    Deviations: with a limit, actions are drawn from the policy conditioned on being feasible while the gradient is that
    of the unconditioned policy. With ``vary`` (G-REINFORCE) the gradient is that of the policy's own action although a
    variation of it was evaluated, as in GradSign's algorithm 4. TEACUP's paper is followed, not its program (an LSTM
    controller with a replay buffer).

    With ``debias`` the baseline is divided by 1 − γ^t, as in the programs; the papers start it at 0 and leave it there.
    It ends after ``iterations``, or ``patience`` of them without a gain of ``watch``: ``reward`` (the mean of an
    iteration rises) or ``entropy`` (of the policy, falls). ``derive`` says what is best: the arch of the highest
    probability (``policy``) or the best told (``history``). ``vary`` has a variation of the action evaluated in its
    place.
    """

    rate: float = 0.5
    batch: int = 1
    momentum: float = 0.9
    debias: bool = True
    iterations: int | None = None
    patience: int | None = None
    watch: Literal["reward", "entropy"] = "reward"
    derive: Literal["policy", "history"] = "history"
    vary: Vary | None = None
    _adam: Adam = kept()
    _patience: Patience = kept()
    _baseline: float = kept(0.0)
    _rewards: int = kept(0)
    _issued: int = kept(0)
    _waiting: list[tuple[Arch, float, float]] = kept(list)
    _actions: dict[Arch, list[Arch]] = kept(dict)
    _best: Incumbent = kept(Incumbent)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1 or self.rate <= 0 or not 0 <= self.momentum < 1:
            raise InputError(
                f"reinforce was given batch={self.batch}, rate={self.rate}, momentum={self.momentum}; expected a"
                " positive batch and rate, and a momentum from 0 to below 1"
            )
        self._begin(scale=1e-3)
        self._adam = Adam(self.rate)
        self._patience = Patience(self.patience, falling=self.watch == "entropy")
        self.columns = 1 if self.derive == "history" or self.reward == "value" else None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        wanted = room(limit, self.batch)
        if self.iterations is not None:
            wanted = min(wanted, self.batch * self.iterations - self._issued)
        if self._over or wanted <= 0:
            return []
        table = self._policy.table()
        self._issued += wanted
        return [Proposal(self._varied(self._action(table))) for _ in range(wanted)]

    def _varied(self, action: Arch) -> Arch:
        if self.vary is None:
            return action
        evaluated = self.vary(action, self._rng)
        self._actions.setdefault(evaluated, []).append(action)
        return evaluated

    def tell(self, told: Told) -> None:
        """Collect an iteration's worth of rewards, then make one step."""
        rows = told.rows()
        if rows and self.derive == "history":
            for proposal, value in told.values():
                self._best.see(proposal.arch, value)
        for proposal, row in rows:
            reward = self._reward(row)
            self._waiting.append((self._acted(proposal.arch), reward, self._advantage(reward)))
            if len(self._waiting) == self.batch:
                self._update()

    def _acted(self, evaluated: Arch) -> Arch:
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
        self._baseline = self.momentum * self._baseline + (1 - self.momentum) * reward
        correction = 1 - self.momentum**self._rewards if self.debias else 1.0
        return reward - self._baseline / correction

    def _update(self) -> None:
        gradient = sum(advantage * self._policy.gradient(action) for action, _, advantage in self._waiting)
        self._policy.logits += self._adam.step(np.asarray(gradient) / self.batch)
        known = [reward for _, reward, _ in self._waiting if not math.isnan(reward)]
        self._waiting = []
        if self.patience is not None:
            mean = sum(known) / len(known) if known else math.nan
            self._over |= self._patience.over(self._policy.entropy() if self.watch == "entropy" else mean)

    def best(self) -> Arch:
        return self._best.arch if self.derive == "history" else self._likeliest()


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


@dataclass(eq=False, kw_only=True)
class FpNas(PolicySearcher):
    """Importance-weighted Monte-Carlo empirical Bayes on a policy (Yan et al., 2021; TEG-NAS, eq. 19–20).

        θ ← θ + η Σ_i w_i ∂ log p(a_i)/∂θ,   w = softmax(r),   |{a_i}| = ⌈λ·H(p)⌉

    Deviations: the papers count epochs over the data, a step here is one sample set; FP-NAS shares the weights of a
    supernet, which is a matter of how candidates are evaluated and not of this searcher. A candidate without a reward
    has weight 0.

    ``rate`` is η, ``scale`` λ, archs per nat of entropy. It ends after so many ``iterations``, or ``patience`` of them
    without a fall of the entropy; None for no such end.
    """

    reward: RewardKind = "change"
    rate: float = 0.1
    scale: float = 0.25
    iterations: int | None = 100
    patience: int | None = None
    _patience: Patience = kept()
    _steps: int = kept(0)
    _outstanding: int = kept(0)
    _wanted: int = kept(0)
    _waiting: list[tuple[Arch, float]] = kept(list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate <= 0 or self.scale <= 0:
            raise InputError(f"fpnas was given rate={self.rate} and scale={self.scale}; expected positive numbers")
        self._begin()
        self._patience = Patience(self.patience, falling=True)
        self._wanted = self._samples()
        self.columns = 1 if self.reward == "value" else None

    def _samples(self) -> int:
        return max(1, math.ceil(self.scale * self._policy.entropy()))

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The archs that this step still lacks; none while all of them are being evaluated."""
        if self._over or (self.iterations is not None and self._steps >= self.iterations):
            return []
        missing = self._wanted - len(self._waiting) - self._outstanding
        count = max(0, min(room(limit, missing), missing))
        table = self._policy.table()
        self._outstanding += count
        return [Proposal(self._action(table)) for _ in range(count)]

    def tell(self, told: Told) -> None:
        for proposal, row in told.rows():
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
            self._policy.logits += self.rate * np.asarray(gradient)
        self._steps += 1
        self._wanted = self._samples()
        if self.patience is not None:
            self._over |= self._patience.over(self._policy.entropy())

    def best(self) -> Arch:
        return self._likeliest()


@dataclass(eq=False, kw_only=True)
class Pmbga(SignalSearcher):
    """Every decision's options have a Dirichlet–multinomial posterior, fed by the better part of a buffer.

        α_k = 1 + #{survivors with option k},   θ ~ Dir(α),   survivors: reward above the buffer's mean

    Each iteration adds ``batch`` archs drawn from θ and drops as many of the oldest (TEACUP, eq. 8–11).

    Deviations: the paper draws θ from the posterior and its program takes the posterior mean: ``posterior`` chooses.
    The result is the best ever told, not the best of the last population. A candidate without a value is never a
    survivor.

    The buffer keeps ``sets`` iterations; the first ``batch × sets`` archs are drawn at random. It ends after
    ``iterations``, or ``patience`` of them without a gain of the mean reward; None for no such end.
    """

    batch: int = 10
    sets: int = 5
    posterior: Literal["draw", "mean"] = "draw"
    iterations: int | None = 100
    patience: int | None = 30
    draw: Draw | None = None
    _buffer: list[tuple[Arch, float]] = kept(list)
    _new: list[tuple[Arch, float]] = kept(list)
    _theta: Floats = kept()
    _issued: int = kept(0)
    _rounds: int = kept(0)
    _patience: Patience = kept()
    _over: bool = kept(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1 or self.sets < 1 or self.posterior not in ("draw", "mean"):
            raise InputError(
                f"pmbga was given batch={self.batch}, sets={self.sets}, posterior={self.posterior!r}; expected positive"
                " numbers and 'draw' or 'mean'"
            )
        self._theta = self._posterior([])
        self._patience = Patience(self.patience)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return self._proposed(room(limit, self.batch), self._following)

    def _following(self) -> Arch | None:
        first = self.batch * self.sets
        if self._over or (self.iterations is not None and self._issued >= first + self.batch * self.iterations):
            return None
        self._issued += 1
        if self._issued <= first:
            return self._drawn(self.draw)
        return draw_allowed(self.space, self._theta, self._rng, self.feasible)

    def tell(self, told: Told) -> None:
        for arch, value in self._see(told):
            self._new.append((arch, value))
            if len(self._new) == self.batch:
                self._update()

    def _update(self) -> None:
        self._buffer = (self._buffer + self._new)[-self.batch * self.sets :]
        recent = np.array([value for _, value in self._new])
        self._new = []
        self._rounds += 1
        values = np.array([value for _, value in self._buffer])
        known = values[np.isfinite(values)]
        mean = known.mean() if len(known) else np.inf
        self._theta = self._posterior([arch for arch, value in self._buffer if value > mean])
        if self._rounds >= self.sets:
            finite = recent[np.isfinite(recent)]
            self._over |= self._patience.over(float(finite.mean()) if len(finite) else float("nan"))

    def _posterior(self, survivors: list[Arch]) -> Floats:
        """Decisions × options probabilities, 0 in the padding."""
        counts = [len(decision) for decision in self.space.decisions]
        table = np.zeros((len(counts), max(counts, default=1)))
        for decision, count in enumerate(counts):
            options = [arch[decision] for arch in survivors]
            alpha = np.bincount(np.array(options, dtype=np.intp), minlength=count) + 1.0
            table[decision, :count] = self._rng.dirichlet(alpha) if self.posterior == "draw" else alpha / alpha.sum()
        return table
