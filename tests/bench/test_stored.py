"""What is stored of the published tables is what they give today."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Answer
from tests.cli.conftest import trainless as trainless
from trainless.bench.papers import COLUMNS, definitions, stored
from trainless.bench.papers.stored import TableCheck, check, read, some, write
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.sheet import Sheet
from trainless.core.errors import InputError

RESULTS = Path(__file__).resolve().parents[2] / "results"


def changed(sheet: Sheet, place: int, column: str, value: float) -> Sheet:
    """A sheet with another figure in one of its rows."""
    row = list(sheet.rows[place])
    row[COLUMNS.index(column)] = value
    return replace(sheet, rows=(*sheet.rows[:place], tuple(row), *sheet.rows[place + 1 :]))


def test_every_table_is_stored() -> None:
    known = read(RESULTS / stored.FILE)
    assert set(known) == {*definitions(), stored.PEERS}
    for name, definition in definitions().items():
        printed = [len(statistics) for row in definition.rows for statistics in row.published.values()]
        assert len(known[name].rows) == sum(printed), name


def test_nothing_stored_names_a_folder_of_a_machine() -> None:
    for path in RESULTS.glob("*.json"):
        assert re.findall(r"(?<![\w.])/(?:home|root|tmp|work|Users|mnt|data)/", path.read_text()) == [], path.name


@pytest.mark.slow
def test_a_random_tenth_gives_what_is_stored(data_dir: Path) -> None:
    seed = secrets.randbelow(10_000)
    library, known = ScoreLibrary(RESULTS), read(RESULTS / stored.FILE)
    found = [check(definition, library, known) for definition in some(seed)]
    assert [each for each in found if each.faults] == [], f"trainless bench paper --check --seed {seed}"
    assert sum(each.figures for each in found) > 0


def test_what_is_stored_wrongly_is_found(data_dir: Path) -> None:
    library, known = ScoreLibrary(RESULTS), read(RESULTS / stored.FILE)
    definition = definitions()["gradsign:tableA.2"]
    sheet = known[definition.name]
    assert check(definition, library, known) == TableCheck(definition.name, len(sheet.rows), ())
    ours = sheet.rows[0][COLUMNS.index("ours")]
    assert isinstance(ours, float)
    wrong = changed(sheet, 0, "ours", ours + 0.001)
    (fault,) = check(definition, library, {definition.name: wrong}).faults
    assert fault.endswith(f"{ours + 0.001:.6g} stored, {ours:.6g} now")
    printed = changed(sheet, 0, "published", 0.5)
    assert len(check(definition, library, {definition.name: printed}).faults) == 1
    fewer = replace(sheet, rows=sheet.rows[1:])
    assert "other rows are stored" in check(definition, library, {definition.name: fewer}).faults[0]
    assert "nothing is stored" in check(definition, library, {}).faults[0]


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    known = read(RESULTS / stored.FILE)
    write(known, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (RESULTS / stored.FILE).read_bytes()


@pytest.mark.parametrize(
    ("text", "message"), [(None, "there are no stored results"), ('{"a": 1}', "has no stored results")]
)
def test_what_holds_no_results_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "some.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "some.json")


def test_the_command_ends_with_one_where_something_differs(
    trainless: Callable[..., Answer], data_dir: Path, tmp_path: Path
) -> None:
    known = read(RESULTS / stored.FILE)
    for file in RESULTS.glob("*.npz"):
        (tmp_path / file.name).symlink_to(file)
    sheet = known["gradsign:tableA.2"]
    write({**known, "gradsign:tableA.2": changed(sheet, 0, "ours", 0.9)}, tmp_path / stored.FILE)
    arguments = ("bench", "paper", "gradsign:tableA.2", "--check", "--results")
    fine = trainless(*arguments, str(RESULTS))
    assert (fine.code, fine.out) == (0, f"gradsign:tableA.2: of {len(sheet.rows)} figures all as stored\n")
    answer = trainless(*arguments, str(tmp_path))
    assert answer.code == 1
    assert "1 figure not as stored" in answer.out
    assert "0.9 stored" in answer.out
    assert "no table was given" in trainless("bench", "paper").err
