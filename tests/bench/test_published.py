"""On the peers' own score tables our statistics give the published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainless.bench.statistics import Evaluation, evaluate
from trainless.bench.tables import peer_scores, table


def judged(peer: str, proxy: str, task: str, metric: str = "test", draws: int = 0) -> tuple[Evaluation, Evaluation]:
    nb201, scores = table("nb201"), peer_scores(peer, task)[proxy]
    accuracy = nb201.column(task, metric)[nb201.rows(scores.index)]
    return evaluate(scores.to_numpy(), accuracy, name=proxy, draws=draws)


@pytest.mark.parametrize(("task", "spearman", "kendall"), [("cifar10", 0.87, 0.70), ("ImageNet16-120", 0.85, 0.67)])
def test_epsilons_headline_and_what_is_left_of_it(data_dir: Path, task: str, spearman: float, kendall: float) -> None:
    ours, papers = judged("epsilon", "epsilon", task)
    assert papers.statistics["spearman"].value == pytest.approx(spearman, abs=0.005)
    assert papers.statistics["kendall"].value == pytest.approx(kendall, abs=0.015)
    assert ours.coverage == pytest.approx(9226 / 15625)
    assert ours.statistics["spearman"].value < 0.1
    assert ours.statistics["top10%_in_top10%"].value < 0.5


def test_epsilons_selection_of_one_in_a_thousand(data_dir: Path) -> None:
    # table 3: 93.86 ± 0.43 on CIFAR-10's test images, failures left out
    _, papers = judged("epsilon", "epsilon", "cifar10")
    assert papers.statistics["best_of_1000"].value == pytest.approx(93.86, abs=0.1)
    assert papers.statistics["top64_in_top5%"].value == pytest.approx(59, abs=2)
    assert papers.statistics["top10%_in_top10%"].value == pytest.approx(0.6739, abs=0.005)


@pytest.mark.parametrize(
    ("proxy", "task", "kendall", "spearman"),
    [
        ("synflow", "cifar10", 0.561, 0.758),
        ("naswot", "cifar10", 0.571, 0.762),
        ("snip", "cifar10", 0.431, 0.591),
        ("jacov", "cifar10", 0.616, 0.800),
        ("synflow", "ImageNet16-120", 0.531, 0.719),
        ("naswot", "ImageNet16-120", 0.605, 0.794),
    ],
)
def test_suite_zero_on_9445_networks(data_dir: Path, proxy: str, task: str, kendall: float, spearman: float) -> None:
    # VKDNW's table I: other programs and initialisations on the same networks, so near and not equal; its grad_norm
    # (0.328) and Suite-Zero's (0.441) differ by more than that for a reason we do not know, and are left out
    ours, _ = judged("suite-zero", proxy, task)
    assert ours.population == 9_445
    assert ours.statistics["kendall"].value == pytest.approx(kendall, abs=0.06)
    assert ours.statistics["spearman"].value == pytest.approx(spearman, abs=0.06)
