"""The settings of a design: for the Python call, the command's options, the estimators and ``run.json``.

Nothing heavy is imported here: the command line reads these classes to print its help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from trainless.core.errors import InputError
from trainless.core.parameters import parse_arguments
from trainless.core.registry import Registry
from trainless.core.settings import setting
from trainless.core.units import budget_of
from trainless.core.vocabulary import common
from trainless.learn.callbacks import logger_names
from trainless.learn.reading import ReadingSettings
from trainless.runs.settings import ExecutionSettings, LimitSettings

if TYPE_CHECKING:
    from trainless.core.types import Json

_PRESETS: Any = None  # a field that the preset fills in
WINNERS = ("best", "own")
INITS = {"teacup": "paper", "teacup-published": "kaiming"}
"""The initialisation that a ranking was fitted in, where that is not a network's own."""
LEAST = {"evaluations": 1, "members": 1, "epochs": 1, "baseline": 0}


@dataclass(frozen=True)
class DesignSettings(ReadingSettings, LimitSettings, ExecutionSettings):
    """Everything about a design but its data and its folder; what is None is as the preset has it.

    A run that is resumed must have the same settings, but for where it is executed.

    Args:
        preset: A registered name, such as ``"fast"``: the numbers of everything.
        time: Wall time in seconds, or text such as ``"30m"``; the numbers are planned to fit.
        space: The search space.
        space_args: Its parameters; by default the width that fits the data and the preset.
        ranking: What the searches go by.
        init: ``"own"`` scores networks as they are built, ``"kaiming"`` with weights by He et al.'s rule, ``"paper"``
            each proxy in its own paper's setting. By default ``"kaiming"`` for ``teacup-published``, whose batches are
            of 32 as in TEACUP's program, ``"paper"`` for ``teacup`` and ``"own"`` for all other rankings.
        evaluations: The most candidates of each search. Pruning takes a fixed number (57 on ``nb201``) and is left out
            where that is more, or where the members leave it no place.
        members: Networks that are trained for the ensemble: searched ones and, where ``plain`` says so, plain residual
            networks, two of three.
        epochs: The epochs without a time budget; a recipe of fewer keeps its number.
        recipe: A registered recipe, or ``"paper"`` for that of the data's own paper; by default one for any data.
        plain: Whether plain residual networks compete with those that were found.
        pretrained: Weights of a backbone of timm that lie on this machine (:mod:`trainless.spaces.pretrained`): every
            second plain network is that backbone, whose learning rates are a tenth; empty for none.
        symmetry: Flips and turns that training may add (:mod:`trainless.learn.symmetry`): their names with commas, or
            ``"learn"`` for those that a short training without them does not mind; empty for none.
        diversity: Searched members are chosen by their rank and, with this share, by how unlike their features are at
            initialisation (:mod:`trainless.designs.diversity`); 0 takes the first by rank.
        classical: Whether random convolutions with a ridge head compete too, on signals.
        folds: On small data every network holds another fold out, of so many; 1 keeps the validation part as it is.
        baseline: Members of the ensemble of one architecture to compare with (TEACUP, 7.7); 0 for none.
        learn: Whether only the first half of the members, two at least, is chosen by the ranking, and the others once
            those are trained, by what :func:`trainless.rankings.learn` makes of their validation losses.
        coverage: Of conformal sets or intervals.
        by_class: Whether sets keep their coverage for every class.
        accuracy: What the deferral rule promises on what it answers.
        searches: Independent runs of each search method.
        methods: Which of ``planning.SEARCHERS`` to run.
        searcher_args: Parameters of each search method.
        winner: What a search ends with: ``"best"`` is the first of its leaderboard, ``"own"`` the searcher's choice,
            which is the most probable architecture of a policy (as in TEACUP's paper) and the path that pruning leaves.
        distinct: Whether an architecture that several searches end with is trained once.
        rungs: Channels and cells per stage to choose the width from, the thinnest first.
        work: Multiply–accumulates of the whole training that the width is chosen for, on a CPU.
        interval: Seconds between checkpoints of a training.
    """

    preset: str = setting("fast", "How much is done: fast, thorough, or teacup for the paper's numbers.")
    time: float | str | None = common("time")
    space: str = common("space", None, shown="residual; nb201 with --preset teacup")
    space_args: Mapping[str, Any] = common(
        "space_args", {}, shown="the width that fits the data and the preset", read=parse_arguments
    )
    ranking: str = common("ranking", None, shown="the preset's")
    init: str = common("init", None, shown="own; paper and kaiming with TEACUP's rankings")
    evaluations: int = common("evaluations", None, shown="the preset's")
    members: int = setting(None, "The members of the ensemble.", kind=int, least=LEAST["members"])
    epochs: int = setting(None, "The epochs of a training without --time.", kind=int, least=LEAST["epochs"])
    recipe: str = setting(None, "How networks are trained (trainless list recipes); paper is the data's own paper's.")
    baseline: int = setting(
        None, "The members of an ensemble of one architecture, to compare with.", kind=int, least=LEAST["baseline"]
    )
    pretrained: str = setting(
        "",
        "Weights on this machine for a backbone of timm that competes too: a folder with config.json, a model's folder"
        " of the Hub's cache, or ARCHITECTURE=FILE. Nothing is fetched.",
        metavar="PATH",
    )
    symmetry: str = setting(
        "",
        "Flips and turns in training: learn, to find out which ones change nothing, or their names with commas (time;"
        " depth, updown, leftright, turn); none by default.",
        metavar="NAMES",
    )
    diversity: float = setting(
        0.0, "Choose searched members by how unlike they are at initialisation too, from 0 for not at all to 1."
    )
    learn: bool = setting(False, "Choose the later half of the members by what the first half taught.")
    coverage: float = setting(0.9, "The share of prediction sets or intervals that hold the truth.")
    by_class: bool = setting(False, "Keep the coverage for every class.")
    accuracy: float = setting(0.95, "The accuracy that is promised on what is not referred to a person.")
    winner: str = setting(
        None,
        "What a search ends with: best, the first of its leaderboard, or own, what its policy or pruning came to.",
    )
    seed: int = common("seed")
    log: str = common("log")
    plain: bool = _PRESETS
    classical: bool = _PRESETS
    folds: int = _PRESETS
    searches: int = _PRESETS
    methods: tuple[str, ...] = _PRESETS
    searcher_args: Mapping[str, Mapping[str, Any]] = _PRESETS
    distinct: bool = _PRESETS
    rungs: tuple[tuple[int, int], ...] = _PRESETS
    work: float = _PRESETS
    interval: float = 20.0

    @property
    def seconds(self) -> float | None:
        return budget_of(self.time)

    def resolved(self) -> DesignSettings:
        """Fill in the preset's values.

        Raises:
            InputError: There is no such preset, or a value cannot be.

        Example:
            >>> made = DesignSettings(members=3).resolved()
            >>> made.members, made.epochs, made.ranking, made.init
            (3, 30, 'trainless', 'own')
            >>> DesignSettings(accuracy=2.0).resolved()
            Traceback (most recent call last):
            trainless.core.errors.InputError: accuracy=2.0 was given; expected a number between 0 and 1, such as 0.95
        """
        for name, usual in (("coverage", 0.9), ("accuracy", 0.95)):
            if not 0 < (value := getattr(self, name)) < 1:
                raise InputError(f"{name}={value} was given; expected a number between 0 and 1, such as {usual}")
        if not 0 <= self.diversity <= 1:
            raise InputError(f"diversity={self.diversity} was given; expected a share from 0 to 1")
        self.check_reading()
        logger_names(self.log)
        for name, least in LEAST.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise InputError(f"{name}={value} was given; expected at least {least}")
        budget_of(self.time)
        preset = registry[self.preset]
        missing = [each.name for each in fields(self) if getattr(self, each.name) is None]
        made = replace(self, **{name: getattr(preset, name) for name in missing})
        if made.winner not in WINNERS:
            raise InputError(f"winner={made.winner!r} was given; expected {' or '.join(map(repr, WINNERS))}")
        return replace(made, init=made.init or INITS.get(made.ranking, "own"))

    def described(self) -> Json:
        """The settings that ``run.json`` holds and a resumed run must ask for again."""
        elsewhere = {each.name for kind in (LimitSettings, ExecutionSettings) for each in fields(kind)}
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in elsewhere}
        del own["interval"], own["log"]
        return {**own, "time": self.seconds or 0.0, "limits": self.limits, "device": self.device}


def trainers(settings: DesignSettings) -> int:
    """How many members are trained side by side: one on a GPU, as many as there are workers otherwise."""
    return settings.workers if settings.device == "cpu" else 1


registry: Registry[DesignSettings] = Registry("preset", "presets")
_COMMON: Mapping[str, Any] = {
    "space": "residual",
    "recipe": "",
    "plain": True,
    "classical": True,
    "folds": 5,
    "methods": ("genetic",),
    "ranking": "trainless",
    "distinct": True,
    "winner": "best",
    "baseline": 0,
    "work": 1e13,
    "rungs": ((4, 1), (8, 1), (8, 2), (16, 1), (16, 2), (16, 3), (16, 5)),
    "searcher_args": {"rl": {"rate": 0.1}, "genetic": {"sets": 3}},
}
for _preset in (
    DesignSettings(preset="fast", searches=1, evaluations=120, members=8, epochs=30, **_COMMON),
    DesignSettings(preset="thorough", searches=2, evaluations=600, members=16, epochs=100, **_COMMON),
    DesignSettings(
        preset="teacup",
        space="nb201",
        recipe="paper",
        plain=False,
        classical=False,
        folds=1,
        searches=10,
        evaluations=1050,  # the genetic search: 50 at random and a hundred iterations of ten
        members=30,
        epochs=200,
        baseline=10,
        work=1e12,
        methods=("rl", "genetic", "prune"),
        ranking="teacup-published",
        winner="own",
        distinct=False,
        rungs=((16, 5),),
        searcher_args={"prune": {"first": ()}},
    ),
):
    registry.add(_preset.preset, _preset)
descriptions: Mapping[str, str] = {
    "fast": "minutes on two cores",
    "thorough": "an hour or more: more searches, members and epochs",
    "teacup": "the paper's: ten runs of each of three methods, 30 members, 10 of one architecture",
}
