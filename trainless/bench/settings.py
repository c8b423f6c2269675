"""The settings of ``bench correlate``: for the Python call and for the command's options. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

from trainless.core.settings import setting
from trainless.core.vocabulary import common

RESULTS: str = setting("", "The folder of our stored scores.", metavar="FOLDER", shown="results")


@dataclass(frozen=True)
class TruthSettings:
    """The trained accuracies that scores are measured against."""

    table: str = common("table")
    dataset: str = common("dataset")
    metric: str = setting("test", "The accuracy: valid or test, or any other column of the table.")
    population: str = setting("all", "The networks that count: all, no-dead-edges or canonical.")
    draws: int = common("draws")

    @property
    def title(self) -> str:
        """One line on them."""
        return f"{self.table}, {self.dataset} {self.metric}"


@dataclass(frozen=True)
class SampleSettings:
    """How a sample of a table's networks is scored by a new proxy.

    Args:
        task: What is scored; the dataset's own images by default, where they are here.
        out: The folder of the sweep; a temporary one by default.
    """

    table: str = common("table")
    proxy: str = common("proxy")
    sample: int = setting(500, "With --proxy: the number of networks to score.", least=10)
    task: str = common("task", "", shown="the dataset's own images, or noise")
    space_args: str = common("space_args")
    batch: int = common("batch")
    workers: int = common("workers")
    device: str = common("device")
    out: str = common("out", "", shown="a temporary folder")


@dataclass(frozen=True)
class JudgeSettings(SampleSettings, TruthSettings):
    """A new proxy against the built-in ones, on a sample of a table."""

    against: str = setting("all", "With --proxy: the built-in proxies to compare with.")
    rescore: bool = setting(
        False, "With --proxy: score the built-in ones on the same networks, in place of stored scores."
    )


@dataclass(frozen=True)
class ColumnSettings:
    """Scores that are in a file."""

    scores: str = setting("", "Scores: a CSV file, or the scores.npz of a sweep.", metavar="FILE")
    column: str = setting("", "The column, or several with commas; all of an npz where it is left out.")
    key: str = setting("arch_str", "How the CSV file names networks: arch_index or arch_str.")
    where: str = setting("", "Only these rows of the CSV file.", metavar="COLUMN=VALUE")
    lower_is_better: bool = setting(False, "The CSV file's scores are better the lower they are.")


@dataclass(frozen=True)
class CorrelateSettings(ColumnSettings, JudgeSettings):
    """Columns of scores, or a new proxy, against a table."""

    plot: str = setting("", "Write a scatter plot, .svg or .png.", metavar="FILE")
    everything: bool = setting(
        False, "Print every statistic with its interval, one per line; so it is for one column.", flag="--all"
    )
    csv: str = common("csv")


@dataclass(frozen=True)
class SiteSettings(ColumnSettings, SampleSettings):
    """The leaderboard as a page, with a proxy or scores of one's own where they are given."""

    out: str = common("out", "site")
    draws: int = common("draws")
    results: str = RESULTS


@dataclass(frozen=True)
class PaperSettings:
    """How a published table is run."""

    check: bool = setting(
        False,
        "Run what is named, or a random tenth of all tables, again in small and compare it with the stored results.",
    )
    seed: int | None = common("seed", None, shown="drawn, and printed")
    draws: int = common("draws", 200)
    runs: int | None = common("runs", shown="the paper's number")
    results: str = RESULTS
    csv: str = common("csv")


@dataclass(frozen=True)
class SimulationSettings:
    """Many runs of a search method on a table, in simulated time."""

    table: str = common("table")
    dataset: str = common("dataset")
    searcher: str = common("searcher")
    searcher_args: str = common("searcher_args")
    simulated: str = setting("12000s", "The training time of each run that the table simulates.", metavar="TIME")
    evaluations: int | None = common("evaluations")
    fidelity: int = setting(0, "Epochs behind the signal; 0 for the fewest.", least=0)
    runs: int = common("runs", 500)
    seed: int = common("seed")
    proxy_scores: str = setting("", "Scores that assist g_*, warm_* and move_* searchers.", metavar="FILE.csv:COLUMN")
