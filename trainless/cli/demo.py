"""``trainless demo``: the best of some architectures for a task, without training any."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainless.cli.options import with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.vocabulary import common

if TYPE_CHECKING:
    from trainless.core.arch import Arch
    from trainless.core.scores import Scores
    from trainless.spaces.protocol import Space

PROXIES = "naswot,synflow,gradsign"
THIN = "channels=8,cells=1"
SHOWN = 10


@dataclass(frozen=True)
class DemoSettings:
    """What is drawn and ranked."""

    count: int = setting(100, "How many architectures to draw.", least=1)
    task: str = common("task", "digits")
    space: str = common("space")
    space_args: str = common("space_args", "", shown=f"{THIN} of nb201")
    out: str = common("out", "runs/demo")
    seed: int = common("seed")


@with_settings
def demo(settings: DemoSettings) -> None:
    """Draw architectures, score and rank them, and show the winning cell."""
    from trainless.cli.inputs import say_capped
    from trainless.core.progress import tracked
    from trainless.scoring.evaluate import evaluate, in_order
    from trainless.scoring.request import data_for, seed_list, select
    from trainless.scoring.subjects import ArchSubject
    from trainless.spaces import open_space
    from trainless.store import SqliteStore
    from trainless.tasks import task as find_task

    out, numbers = Path(settings.out), seed_list(settings.seed, None)
    thin = THIN if settings.space == "nb201" else ""
    opened, found = find_task(settings.task), open_space(settings.space, settings.space_args or thin)
    _require_folder(out)
    archs = draw_archs(found, settings.count, settings.seed)
    subjects, chosen = [ArchSubject(found, arch) for arch in archs], select(PROXIES)
    say(f"scoring {len(archs)} architectures of {found.name} for {opened.name} by {PROXIES}; nothing is trained")
    with SqliteStore(out / "scores.sqlite") as store:
        data = data_for(None, opened)
        records = evaluate(subjects, data, chosen, numbers, store=store)
        scores = in_order(tracked(records, len(subjects) * len(chosen), "scoring"), chosen)
    say_capped(chosen, "own", data)
    ranked = by_rank_sum(scores)
    _show(scores, ranked, out)
    _picture(found, archs[ranked[0][0]], out)


def _require_folder(out: Path) -> None:
    """Make the folder, or say before anything is scored that it cannot be written."""
    import os

    from trainless.core.errors import InputError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be made ({error.strerror}): give another folder") from error
    if not os.access(out, os.W_OK):
        raise InputError(f"--out {out} cannot be written: give another folder")


def draw_archs(space: Space, count: int, seed: int) -> list[Arch]:
    """Different canonical archs, drawn uniformly."""
    import numpy as np

    from trainless.spaces.moves import sample

    rng = np.random.default_rng(seed)
    drawn: dict[Arch, None] = {}
    for _ in range(100 * count):
        drawn.setdefault(sample(space, rng, canonical=True))
        if len(drawn) == count:
            break
    return list(drawn)


def by_rank_sum(scores: Scores) -> list[tuple[int, int]]:
    """Places of candidates with the sum of their ranks over all proxies (0 is the best in all), best first."""
    import numpy as np

    from trainless.rankings import RankSum

    sums = -RankSum(tuple(scores.proxies))(scores)
    return [(int(place), int(sums[place])) for place in np.argsort(sums, kind="stable")]


def _show(scores: Scores, ranked: list[tuple[int, int]], out: Path) -> None:
    import csv
    import io

    from trainless.cli.table import number, print_leaderboard
    from trainless.core.files import write_atomic
    from trainless.core.opening import without_links

    header = ["rank", "architecture", *scores.proxies, "sum of ranks"]
    shown: list[list[str]] = []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for rank, (place, total) in enumerate(ranked, start=1):
        values = [float(scores.column(proxy)[place]) for proxy in scores.proxies]
        writer.writerow([rank, scores.candidates[place], *values, total])
        if rank <= SHOWN:
            shown.append([str(rank), scores.candidates[place], *map(number, values), str(total)])
    write_atomic(without_links(out) / "leaderboard.csv", text.getvalue())
    print_leaderboard(f"The best {len(shown)} of {len(ranked)}", header, shown, 1)


def _picture(space: Space, arch: Arch, out: Path) -> None:
    from trainless.cli.show import in_text
    from trainless.report import draw

    say(f"The winner is {space.format(arch)}:", *in_text(space, arch).splitlines())
    svg, png = out / "best.svg", out / "best.png"
    svg.write_text(draw.svg(space, arch))
    draw.png(space, arch, png)
    say(f"Pictures of it are in {svg} and {png}, all scores in {out / 'leaderboard.csv'}.")
