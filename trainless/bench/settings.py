"""The settings of ``bench correlate``: for the Python call and for the command's options. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

from trainless.core.settings import setting


@dataclass(frozen=True)
class TruthSettings:
    """The trained accuracies that scores are measured against."""

    table: str = setting("nb201", "The tabular benchmark (trainless list tables).")
    task: str = setting("cifar10", "The dataset whose accuracy counts.")
    metric: str = setting("test", "The accuracy: valid or test, or any other column of the table.")
    population: str = setting("all", "The networks that count: all, no-dead-edges or canonical.")
    draws: int = setting(1000, "Bootstrap draws behind the intervals.", least=0)

    @property
    def title(self) -> str:
        """One line on them."""
        return f"{self.table}, {self.task} {self.metric}"


@dataclass(frozen=True)
class JudgeSettings(TruthSettings):
    """A new proxy against the built-in ones, on a sample of a table."""

    proxy: str = setting("", "A proxy of yours, ranked among the built-in ones.", metavar="FILE.py:NAME")
    sample: int = setting(500, "With --proxy: the number of networks to score.", least=10)
    against: str = setting("all", "With --proxy: the built-in proxies to compare with.")
    rescore: bool = setting(
        False, "With --proxy: score the built-in ones on the same networks, in place of stored scores."
    )
    inputs: str = setting(
        "", "With --proxy: a task's name, file.npz or noise:3x32x32:10; the task's own images by default."
    )
    space_args: str = setting("", "With --proxy: a smaller network, such as channels=4,cells=1.")
    batch: int = setting(0, "With --proxy: samples per batch; 0 for each proxy's own.", least=0)
    workers: int = setting(2, "With --proxy: the number of worker processes.", least=1)
    device: str = setting("cpu", "With --proxy: cpu or cuda.")
    out: str = setting("", "With --proxy: the folder of the sweep, to resume; a temporary one by default.")


@dataclass(frozen=True)
class CorrelateSettings(JudgeSettings):
    """Columns of scores, or a new proxy, against a table."""

    scores: str = setting("", "Scores: a CSV file, or the scores.npz of a sweep.", metavar="FILE")
    column: str = setting("", "The column, or several with commas; all of an npz where it is left out.")
    key: str = setting("arch_str", "How the CSV file names networks: arch_index or arch_str.")
    where: str = setting("", "Only these rows of the CSV file.", metavar="COLUMN=VALUE")
    lower_is_better: bool = setting(False, "The CSV file's scores are better the lower they are.")
    plot: str = setting("", "Write a scatter plot, .svg or .png.", metavar="FILE")
    everything: bool = setting(
        False, "Print every statistic with its interval, one per line; so it is for one column.", flag="--all"
    )
