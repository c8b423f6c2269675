"""Write docs/search.md and its pictures from search_quality.json and search_overhead.json of benchmarks/results.

``make docs-figures`` does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainless.bench.papers import definitions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "search_quality.json"
OVERHEAD = ROOT / "benchmarks" / "results" / "search_overhead.json"
TASKS = ("cifar10", "cifar100", "ImageNet16-120")
TOLERANCE = dict(zip(TASKS, (0.3, 0.6, 0.7), strict=True))
LABELS = {"RS": "random", "REA": "evolution", "REINFORCE": "reinforce", "BOHB": "bohb"}
PAIRS = {"G-RS": "RS", "G-REA": "REA", "G-REINFORCE": "REINFORCE", "G-HB": "BOHB"}
COUNTERPART = {
    **{"g_rs": "random", "g_rea": "evolution", "g_reinforce": "reinforce", "g_hb": "hyperband"},
    **{"warm_random": "random", "warm_evolution": "evolution", "move_evolution": "evolution"},
}
SEARCHERS = {label: label.lower().replace("-", "_") for label in PAIRS}
Json = Mapping[str, Any]


def published() -> dict[str, dict[str, dict[str, float]]]:
    """Label to dataset to mean and deviation of the test accuracy."""
    rows = [row for row in definitions()["gradsign:table5.5"].rows if row.label.endswith(", test")]
    return {row.label.removesuffix(", test"): {task: dict(row.published[task]) for task in TASKS} for row in rows}


def page(found: Json, cost: Json) -> str:
    """The page."""
    parts = [TOP, *_plain(found), *_rates(found), *_assisted(found), *_others(found), *_curves(found), _bottom(found)]
    parts.append(_cost(cost))
    return "\n\n".join(parts) + "\n"


def rendered() -> str:
    """The page by the results."""
    return page(json.loads(RESULTS.read_text(encoding="utf-8")), json.loads(OVERHEAD.read_text(encoding="utf-8")))


def _cost(cost: Json) -> str:
    """What the loop itself takes."""
    run, setting = cost["mobilenet"], cost["setting"]
    shares = run["share_by_thousand"].values()
    return COST.format(
        evaluations=run["evaluations"],
        limit=run["flops_limit"] / 1e6,
        minutes=run["seconds"] / 60,
        share=100 * run["share_outside_scoring"],
        low=100 * min(shares),
        high=100 * max(shares),
        each=run["ms_outside_each"],
        scoring=run["ms_scoring_each"],
        scored=run["networks_scored"],
        twins=run["evaluations"] - run["networks_scored"],
        **{name: setting[name] for name in ("proxy", "size", "batch")},
    )


def _test(row: Json, task: str) -> dict[str, float]:
    numbers: dict[str, float] = row["worth"][task]["test"]
    return numbers


def _pair(numbers: Mapping[str, float]) -> str:
    return f"{numbers['mean']:.2f} ± {numbers['std']:.2f}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def _plain(found: Json) -> Iterator[str]:
    yield PLAIN.format(runs=found["plain"]["random"]["runs"])
    rows = []
    for label, name in LABELS.items():
        ours = [_test(found["plain"][name], task) for task in TASKS]
        theirs = [published()[label][task] for task in TASKS]
        cells = [f"{_pair(them)} → {_pair(us)}" for them, us in zip(theirs, ours, strict=True)]
        near = all(
            abs(them["mean"] - us["mean"]) <= TOLERANCE[task]
            for them, us, task in zip(theirs, ours, TASKS, strict=True)
        )
        rows.append([label, f"`{name}`", *cells, "yes" if near else "**no**"])
    hyperband = found["plain"]["hyperband"]
    rows.append(["–", "`hyperband`", *(f"– → {_pair(_test(hyperband, task))}" for task in TASKS), "–"])
    yield _table(["paper", "searcher", *TASKS, f"within {' / '.join(map(str, TOLERANCE.values()))}"], rows)
    seconds = found["plain"]["evolution"]["cpu_seconds"]
    yield f"{found['plain']['evolution']['runs']} runs of evolution took {seconds:.1f} s of one core."


def _rates(found: Json) -> Iterator[str]:
    yield RATES.format(runs=next(iter(found["reinforce_rates"].values()))["runs"])
    rows = [[rate, *(_pair(_test(row, task)) for task in TASKS)] for rate, row in found["reinforce_rates"].items()]
    yield _table(["rate", *TASKS], rows)


def _assisted(found: Json) -> Iterator[str]:
    rows, worse = [], []
    for label, plain in PAIRS.items():
        row, base = found["assisted"]["gradsign"][SEARCHERS[label]], found["plain"][COUNTERPART[SEARCHERS[label]]]
        cells = []
        for task in TASKS:
            them, they_were = published()[label][task], published()[plain][task]
            us, we_were = _test(row, task), _test(base, task)
            gain = us["mean"] - we_were["mean"]
            cells.append(f"{_pair(them)} ({them['mean'] - they_were['mean']:+.2f}) → {_pair(us)} (**{gain:+.2f}**)")
            if gain <= 0:
                worse.append(f"{label} on {task}")
        rows.append([label, f"`{SEARCHERS[label]}`", *cells])
    yield ASSISTED.format(runs=found["assisted"]["gradsign"]["g_rs"]["runs"])
    yield _table(["paper", "searcher", *TASKS], rows)
    yield f"No gain: {', '.join(worse)}." if worse else "Every assisted variant gains on all three datasets."


def _others(found: Json) -> Iterator[str]:
    rows = []
    for proxy, searchers in found["assisted"].items():
        for name, row in searchers.items():
            if proxy == "gradsign" and name.startswith("g_"):
                continue
            base = found["plain"][COUNTERPART[name]]
            gains = [_test(row, task)["mean"] - _test(base, task)["mean"] for task in TASKS]
            rows.append(
                [
                    f"`{name}`",
                    proxy,
                    *(f"{_test(row, t)['mean']:.2f} ({g:+.2f})" for t, g in zip(TASKS, gains, strict=True)),
                    "yes" if min(gains) > 0 else "no",
                ]
            )
    yield OTHERS.format(runs=found["assisted"]["naswot"]["g_rs"]["runs"])
    yield _table(["searcher", "proxy", *TASKS, "gains on all"], rows)


def _curves(found: Json) -> Iterator[str]:
    curves = found["curves"]
    yield CURVES.format(runs=curves["runs"], trained=curves["points"][-1])
    for paper, words in WORDS.items():
        yield f"### {words[0]}"
        yield words[1]
        for kind, _ in _kinds(curves["figures"][paper]["cifar10"]):
            yield f"![{words[0]}, {kind}](figures/{_picture(paper, kind)})"
        yield _readings(curves, paper)


def _bottom(found: Json) -> str:
    """What did not improve, in figures."""
    curves, at = found["curves"], found["curves"]["points"].index(100)

    def gaps(paper: str, place: int) -> list[float]:
        lines = [curves["figures"][paper][task] for task in TASKS]
        return [
            each["ageing evolution, move"]["mean"][place] - each["ageing evolution"]["mean"][place] for each in lines
        ]

    def gains(name: str, proxy: str) -> list[float]:
        row, base = found["assisted"][proxy][name], found["plain"][COUNTERPART[name]]
        return [_test(row, task)["mean"] - _test(base, task)["mean"] for task in TASKS]

    moves = [gain for proxy in found["assisted"] for gain in gains("move_evolution", proxy)]
    return BOTTOM.format(
        trained=curves["points"][-1],
        curve=_between([-gap for gap in gaps("epsilon", -1)], 2),
        budget=_between([-gain for gain in moves], 2),
        middle=_between(gaps("zero-cost-nas", at), 1),
        end=-gaps("zero-cost-nas", -1)[-1],
        warm=_between([-gain for gain in gains("warm_evolution", "naswot")[:2]], 2),
    )


def _between(values: list[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _kinds(lines: Json) -> Iterator[tuple[str, list[str]]]:
    for kind in ("ageing evolution", "random search"):
        yield kind, [name for name in lines if name.startswith(kind)]


def _picture(paper: str, kind: str) -> str:
    return f"search-{paper}-{kind.replace(' ', '-')}.svg"


def _readings(curves: Json, paper: str) -> str:
    points = curves["points"]
    at = [points.index(number) for number in (64 if 64 in points else 65, 100, points[-1])]
    rows = []
    for task, lines in curves["figures"][paper].items():
        for name, line in lines.items():
            rows.append(
                [
                    task,
                    name,
                    *(f"{line['mean'][place]:.2f}" for place in at),
                    f"{line['best_test_seen'][-1]:.2f}",
                    _reaches(lines, name, points),
                ]
            )
    header = ["dataset", "search", *(f"after {points[place]}" for place in at)]
    return _table([*header, f"best test seen of {points[-1]}", "plain's final value after"], rows)


def _reaches(lines: Json, name: str, points: list[int]) -> str:
    """After how many networks a line is where its plain counterpart ends."""
    goal = lines[name.partition(",")[0]]["mean"][-1]
    place = next((place for place, value in enumerate(lines[name]["mean"]) if value >= goal), None)
    return "not" if place is None else str(points[place])


def pictures(folder: Path) -> None:
    """Draw the curves, by matplotlib."""
    from trainless.bench.figures import bands

    curves = json.loads(RESULTS.read_text(encoding="utf-8"))["curves"]
    for paper, tasks in curves["figures"].items():
        for kind, names in _kinds(tasks["cifar10"]):
            panels = {
                task: {name: (lines[name]["mean"], lines[name]["low"], lines[name]["high"]) for name in names}
                for task, lines in tasks.items()
            }
            path = folder / _picture(paper, kind)
            bands(path, curves["points"], panels, across="networks trained", up="test accuracy in %")


TOP = """# Search methods on NAS-Bench-201

Generated from `benchmarks/results/search_quality.json` (`benchmarks/search_quality.py`) by
`make docs-figures`; do not edit. Accuracies are test accuracies after 200 epochs in percent, mean ±
standard deviation over runs."""
PLAIN = """## Trained accuracy alone

The setting of GradSign's table 5.5: the search sees CIFAR-10's validation accuracy after 12 epochs, pays 12/200 of the
recorded training time for each network, and has 12,000 simulated seconds. {runs} runs each; a cell is published → ours.
One searcher: `trainless bench search --dataset cifar10 --searcher evolution --simulated 12000s --runs 500`."""
RATES = """### REINFORCE's learning rate

REINFORCE depends on Adam's rate. The default here is <!-- setting -->0.5<!-- -->, chosen because the published figures
are met there. It is not the best: with <!-- setting -->0.001<!-- --> the policy hardly moves within the budget, so that
the result is random search's, and <!-- setting -->0.1<!-- --> finds better networks than evolution. {runs} runs
each:"""
ASSISTED = """## With GradSign's help

Best-of-pool proposals (10 candidates, GradSign's algorithms 2–5) by our own GradSign scores: PyTorch's initialisation,
64 images of CIFAR-10, one seed, in `results/nb201_own.npz`; twins share their canonical arch's score. {runs} runs each;
a cell is published → ours, with the gain over the plain counterpart in brackets. G-HB is Hyperband without a model: the
paper compares it with BOHB, ours is compared with `hyperband`."""
OTHERS = """## Other proxies, warm-up and move

The same setting with other scores of ours, {runs} runs each, in brackets the gain over the plain counterpart
(`random`, `evolution` with 10 members and tournaments of 3, `reinforce`, `hyperband`)."""
CURVES = """## Warm-up and move curves

The setting of epsilon's integration figure and of zero-cost-nas: {trained} trained networks, {runs} rounds, ageing
evolution with 64 members and tournaments of 10; a warm-up trains the best 64 of 3,000 random networks first. The search
follows the validation accuracy after 200 epochs of the dataset that is shown. Lines are the mean test accuracy of the
network that validation chooses, bands the middle half of the rounds. The published programs report the best *test*
accuracy seen, which no user could know; it is in the tables' last column but one. The papers draw these curves and
print no figures, so that there is nothing to put beside ours but their words."""
WORDS = {
    "epsilon": (
        "Epsilon",
        "By the scores that epsilon's authors published (those of CIFAR-10 for CIFAR-100, which the release does not"
        " have; networks without a score are last). Its move chooses the tournament's parent by the proxy instead of by"
        " accuracy. The paper: considerable improvements in time and precision, the best performance with a warm-up.",
    ),
    "zero-cost-nas": (
        "Zero-cost-nas",
        "By our synflow scores. Its move takes, three times out of four, the best of all neighbours of the most"
        " accurate parent.",
    ),
}
BOTTOM = """## What did not improve, and why

- **Epsilon's move** (the parent by the proxy instead of by accuracy) never ends above plain evolution: with {trained}
  networks it is {curve} points below, in the 12,000 simulated seconds {budget}. It gives up the measured accuracy for
  the choice of parents. In the simulated time there is a second reason: some 100 networks can be trained, and its first
  population of 64 random ones takes most of them, while plain evolution starts with 10.
- **Zero-cost-nas's move** is much faster in the middle (after 100 networks {middle} points above plain evolution),
  but on ImageNet16-120 it ends {end:.2f} below: it stays where synflow is highest.
- **G-REA with naswot and meco** loses, although the same scores help random search and Hyperband. The best of ten
  mutants is nearly the best of all 24 neighbours, so that evolution climbs the proxy and proposes the same networks
  again: of <!-- record -->about 72 networks that it trains only 47 are different (plain evolution: 89 of 100)<!-- -->;
  networks that these proxies like also take longer to train. So it depends on what is at the proxy's top: the best
  of <!-- record -->naswot's 64 favourites has 93.98 on CIFAR-10, that of gradsign's, synflow's and meco's 94.36 or
  94.37<!-- -->. For meco this is no
  explanation, and we have none.
- **Warm-up with naswot** before evolution loses on CIFAR-10 and CIFAR-100 by {warm}, for the same reason: none of its
  favourites is among the very best. With gradsign and synflow a warm-up is the best use of a proxy in this table, even
  though it takes two thirds of the budget."""

COST = """## What the search itself takes

A MobileNetV2 search of {evaluations:,} evaluations by evolution under a limit on FLOPs (`benchmarks/search.py --whole`,
`benchmarks/results/search_overhead.json`): the published 450 M at 224×224 are {limit:.1f} M at the {size}×{size}
of this run, scored by {proxy} on {batch} samples, on one core of a machine that others used too. It took
{minutes:.0f} minutes, of which **{share:.1f} %** were not spent building and scoring networks ({low:.1f} to
{high:.1f} % of each thousand): {each:.1f} ms per evaluation for limits, asking, telling, the store and the trajectory,
beside {scoring:.0f} ms for scoring a network.
{scored:,} networks were scored; the other {twins:,} evaluations were networks proposed again, which cost no scoring."""
