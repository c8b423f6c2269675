"""Plots of runs by matplotlib: what a search told, two scores against each other, how far an ensemble can be trusted.

Every plot draws on the axes that it is given, or on new ones, and gives them back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.markup import MOST_ROWS, Content, failed_cell, rounded
from trainless.core.opening import is_there
from trainless.core.plots import BLUE, COLOURS, GREY, MARKERS, VERMILION, axes_for, clipped, dot_plot, scatter_plot
from trainless.core.ranks import order
from trainless.core.text import counted
from trainless.core.types import Array, Json
from trainless.learn.calibration import reliability
from trainless.learn.deferral import referral
from trainless.learn.members import MEMBER, history_in, member_folder, read_document
from trainless.learn.metrics import LOWER_IS_BETTER
from trainless.learn.sanity import compared, metric_in_words
from trainless.runs.folder import PREDICTIONS, SUMMARY

if TYPE_CHECKING:
    from trainless.runs.reader import Candidates, Measured

BINS = 10  # of stated probabilities
ENSEMBLE = "this ensemble"


class RunPlots(ABC):
    """Plots of what has a table of candidates and a history."""

    @abstractmethod
    def table(self) -> Candidates:
        """The candidates, best first where they have an order."""

    @abstractmethod
    def told(self, column: str) -> tuple[list[float], bool]:
        """Every value of a column in the order in which they came, and whether higher is better."""

    def plot_history(self, column: str = "", *, ax: Any = None) -> Any:
        """Every candidate's value in the order in which they came, and the best so far.

        Args:
            column: A score; by default what decides the order.
            ax: Matplotlib axes to draw on; new ones by default.
        """
        names = [each.name for each in self.table().columns]
        column = column or next((name for name in names if self.told(name)[0]), "")
        self._named(column)
        values, up = self.told(column)
        if not values:
            raise InputError(
                f"the column {column!r} has no history: it follows from the others, or nothing is measured"
            )
        ax = axes_for(ax)
        found = np.asarray(values, np.float64)
        steps = np.arange(1, len(found) + 1)
        ax.plot(steps, found, "o", color=GREY, markersize=3, alpha=0.6, label="candidates")
        best = (np.fmax if up else np.fmin).accumulate(found)
        ax.step(steps, best, where="post", color=BLUE, label="best so far")
        if missing := int(np.isnan(found).sum()):
            ax.set_title(f"{missing:,} of {len(found):,} could not be scored", color=VERMILION, fontsize="medium")
        ax.set_xlabel("candidate")
        ax.set_ylabel(_directed(column, up))
        ax.legend(frameon=False)
        return ax

    def plot_scatter(self, x: str, y: str, *, ax: Any = None) -> Any:
        """Two columns of the table against each other, with the best candidate marked.

        Args:
            x: The column along the bottom.
            y: The column at the side.
            ax: Matplotlib axes to draw on; new ones by default.
        """
        table = self.table()
        across, up = self._named(x), self._named(y)
        labels = [_directed(x, across.higher_is_better), _directed(y, up.higher_is_better)]
        ax = scatter_plot(table.column(x), table.column(y), labels=labels, ax=ax)
        if table.ranked and len(table):
            ax.scatter(
                table.column(x)[:1], table.column(y)[:1], s=60, marker="D", color=VERMILION, label="first by rank"
            )
            ax.legend(frameon=False)
        return ax

    def plot_leaderboard(self, column: str = "", *, most: int = 15, ax: Any = None) -> Any:
        """The first candidates with their value of a column.

        Args:
            column: By default the first of the table, which decides the order where there is one.
            most: How many at most.
            ax: Matplotlib axes to draw on; new ones by default.
        """
        table = self.table()
        column = column or (table.columns[0].name if table.columns else "")
        up = self._named(column).higher_is_better
        values = table.column(column)
        places = np.arange(len(values)) if table.ranked else order(values if up or up is None else -values)
        chosen = [int(place) for place in places[:most]]
        names = [(table.names or table.archs)[place] or table.archs[place] for place in chosen]
        return dot_plot(names, [float(values[place]) for place in chosen], label=_directed(column, up), ax=ax)

    def _named(self, column: str) -> Measured:
        found = next((each for each in self.table().columns if each.name == column), None)
        if found is None:
            known = ", ".join(each.name for each in self.table().columns) or "none: nothing was measured yet"
            raise InputError(f"the column {column!r} was asked for; expected one of {known}")
        return found


class DesignPlots:
    """Plots of a design, made of the files in its folder.

    Attributes:
        folder: The run folder.
    """

    folder: Path

    def plot_reliability(self, *, ax: Any = None) -> Any:
        """How often the ensemble is right beside how sure it says it is, on the test part."""
        said = self._predictions(classes=True)
        found = reliability(said["mean"], said["y"], bins=BINS)
        ax = axes_for(ax, 4.6, 4.4)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="as sure as right")
        ax.plot(found.confidence, found.accuracy, color=BLUE, linewidth=1)
        ax.scatter(
            found.confidence, found.accuracy, s=20 + 400 * found.share, color=BLUE, alpha=0.7, label="test cases"
        )
        ax.set_xlim(min(0.45, float(found.confidence.min()) - 0.05), 1.02)
        ax.set_ylim(-0.02, 1.04)
        ax.set_xlabel("stated probability of the answer")
        ax.set_ylabel("share that was right")
        ax.legend(frameon=False, loc="upper left")
        return ax

    def plot_deferral(self, *, ax: Any = None) -> Any:
        """How often the answers are right when the least sure cases go to a person, on the test part."""
        said, test = self._predictions(classes=True), self._test()
        p, y = said["mean"], said["y"]
        share, right = referral(1 - p.max(1), p.argmax(1) == y)
        ax = axes_for(ax, 5.2, 4.0)
        ax.step(share, right, where="mid", color=BLUE)
        rule = test.get("deferral") or {}
        if rule:
            ax.axhline(rule["asked"], color=GREY, linewidth=1, linestyle="--", label=f"{rule['asked']:.0%} asked for")
            if rule["promised"]:
                refer = np.asarray(said["refer"], bool)
                kept = float((p.argmax(1) == y)[~refer].mean()) if (~refer).any() else math.nan
                ax.plot([refer.mean()], [kept], "D", color=VERMILION, markersize=8, label="the rule")
            else:
                ax.set_title("No rule could be promised: everything is referred", color=VERMILION, fontsize="medium")
            ax.legend(frameon=False, loc="lower right")
        ax.set_xlabel("share of cases referred to a person")
        ax.set_ylabel("share right among those answered")
        return ax

    def plot_yardsticks(self, *, ax: Any = None) -> Any:
        """The ensemble beside the plain network, trees and a linear model on the same test cases, with intervals."""
        test = self._test()
        found = list(compared(test))
        metric = found[0][1] if found else str(test["main"])
        rows = [(ENSEMBLE, test["ensemble"][metric])]
        rows += [(name, yardstick[metric]) for name, each, _, _, yardstick in found if each == metric]
        ends = [tuple(math.nan if one[end] is None else float(one[end]) for end in ("low", "high")) for _, one in rows]
        values = [math.nan if one["value"] is None else float(one["value"]) for _, one in rows]
        better = "lower" if metric in LOWER_IS_BETTER else "higher"
        label = f"{metric_in_words(metric)} on the test part, {better} is better"
        around = [(low, high) for low, high in ends]
        return dot_plot([name for name, _ in rows], values, label=label, around=around, strong=[ENSEMBLE], ax=ax)

    def plot_training(self, *, ax: Any = None) -> Any:
        """The validation loss of every member that counts, epoch by epoch."""
        ax = axes_for(ax)
        members = [one for one in self._summary()["members"] if one["folder"] and one["weight"]]
        families = list(dict.fromkeys(str(one["search"]).partition("-")[0] for one in members))
        shown: set[str] = set()
        for one in members:
            path = member_folder(self.folder, str(one["folder"]))
            losses = [epoch.valid_loss for epoch in history_in(read_document(path / MEMBER), path)]
            family = str(one["search"]).partition("-")[0]
            place = families.index(family) % len(COLOURS)
            label = "_" if family in shown else family  # one entry of a legend for each family
            shown.add(family)
            mark = MARKERS[place] if len(losses) == 1 else ""
            ax.plot(range(1, len(losses) + 1), losses, color=COLOURS[place], marker=mark, linewidth=1.2, label=label)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch")
        ax.set_ylabel("validation loss")
        ax.legend(frameon=False, title="found by" if len(families) > 1 else None)
        return ax

    def _summary(self) -> Json:
        if not is_there(self.folder / SUMMARY):
            raise InputError(f"the design in {self.folder} is not finished yet: the same command resumes it")
        return read_document(self.folder / SUMMARY)

    def _test(self) -> Json:
        found: Json | None = self._summary()["test"]
        if found is None:
            raise InputError(f"the design in {self.folder} has no test part to judge it on: there is nothing to plot")
        return found

    def _predictions(self, *, classes: bool) -> dict[str, Array]:
        self._test()
        with np.load(self.folder / PREDICTIONS, allow_pickle=False) as stored:
            found: dict[str, Array] = dict(stored)
        if classes and "label" not in found:
            raise InputError(f"the design in {self.folder} predicts values: this plot is of probabilities of classes")
        return found


def lacking(table: Candidates) -> tuple[list[str], bool]:
    """How many candidates lack a value and why most often, nothing where none does; whether they are half or more."""
    reasons = [status for status in table.status if status != "ok"]
    if not reasons:
        return [], False
    reason = Counter(reasons).most_common(1)[0][0]
    said = f"{len(reasons):,} of {counted(len(table), 'candidate')} lack a value, most often: {reason}"
    return [said], 2 * len(reasons) >= len(table)


def table_rows(table: Candidates) -> dict[str, Any]:
    """The table as what :func:`trainless.core.markup.card` shows of it."""
    arrows = {True: " ↑", False: " ↓", None: ""}
    head = ["candidate", *(column.name + arrows[column.higher_is_better] for column in table.columns)]
    rows: list[list[Content]] = []
    for place in range(min(len(table), MOST_ROWS)):
        missing = failed_cell(table.status[place])
        values = table.values[place]
        cells = [missing if math.isnan(value) else rounded(value) for value in values]
        rows.append([clipped((table.names or table.archs)[place] or table.archs[place], 60), *cells])
    return {"head": head, "rows": rows, "total": len(table)}


def _directed(column: str, up: bool | None) -> str:
    return column if up is None else f"{column} ({'higher' if up else 'lower'} is better)"
