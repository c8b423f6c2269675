"""Hostile inputs for every reader: what was found before, a part of the corpus, and some that are new.

``make fuzz TIME=600`` goes on for a time, by another seed each time; what it finds is kept beside this file and thrown
again here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.run import FOUND, corpus, fuzz, kept, throw
from trainless.core.errors import InputError, TrainlessError
from trainless.core.opening import whole_lines
from trainless.core.text import printable
from trainless.core.units import quantity, seconds_of
from trainless.scoring.request import select
from trainless.spaces import registry, space
from trainless.store.postgres import masked
from trainless.ui.serve import safe_name
from trainless.ui.server import limits_of

MOST = {"watch a design": 500, "resume a search": 40, "fork a search": 20, "study a search": 8, "resume a design": 25}
CHEAP = ("shared", "watch a search", "show a search", "report a search", "sweep", "load", "new", "store", "scores")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINLESS_STORE", "none")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in FOUND.glob("*.json")))
def test_what_was_found_before(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    assert throw(kept(FOUND / name), folder) == ""


@pytest.mark.slow
def test_the_corpus(tmp_path: Path) -> None:
    """Of readers that take long a part; ``python -m tests.fuzz.run --corpus`` throws all of it."""
    thrown: Counter[str] = Counter()
    wrong = []
    for reader, cases in itertools.groupby(corpus(), key=lambda case: case.reader):
        every = list(cases)
        most = MOST.get(reader, len(every) if any(word in reader for word in CHEAP) else 40)
        for number, case in enumerate(every[:: max(1, len(every) // most)]):
            folder = tmp_path / f"{reader}-{number}"
            folder.mkdir()
            if said := throw(case, folder):
                wrong.append((case.reader, case.file, case.kind, said))
            thrown[reader] += 1
    assert wrong == []
    assert thrown.total() >= 1500


@pytest.mark.slow
def test_some_that_are_new(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz(seconds=60, seed=7, most=250) == [], capsys.readouterr().out


ODD = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    ["|none~0|", "e3_k5", "[[0]]", "{}", "1,2", "()", "9" * 500]
)


@given(ODD, st.sampled_from(sorted(registry.names())))
@settings(max_examples=300, deadline=None)
def test_notations_are_parsed_or_refused_in_a_sentence(text: str, name: str) -> None:
    opened, said = space(name), ""
    try:
        assert opened.valid(opened.parse(text))
    except TrainlessError as error:
        said = str(error)
    assert "\n" not in said


@given(ODD)
@settings(max_examples=200, deadline=None)
def test_words_of_the_command_line_are_understood_or_refused(text: str) -> None:
    for read in (
        lambda: quantity(text, "params"),
        lambda: seconds_of(text),
        lambda: limits_of(text),
        lambda: select(text),
    ):
        with suppress(TrainlessError):
            read()


SIGNS = "abcXYZ019-._~!$&'()*+,;=:/?#[]@% \\\"<>^`{|}é"


@given(
    st.text("klmnopq", min_size=4, max_size=8),
    st.lists(st.sampled_from(SIGNS), max_size=4),
    st.text("rstuvw", min_size=4, max_size=8),
)
@settings(max_examples=300, deadline=None)
def test_no_part_of_a_password_is_shown(first: str, between: list[str], last: str) -> None:
    secret = first + "".join(between) + last
    try:
        shown = masked(f"postgresql://me:{secret}@host:5432/db?sslmode=require")
    except InputError as error:
        shown = str(error)
    assert first not in shown
    assert last not in shown


@given(st.binary(max_size=200))
def test_whole_lines_are_whole(content: bytes) -> None:
    kept = whole_lines(content)
    assert content.startswith(kept)
    assert not kept or kept.endswith(b"\n")
    assert b"\0" not in kept


@given(st.text(max_size=50))
def test_names_that_are_sent_lead_nowhere(text: str) -> None:
    name = safe_name(text)
    assert name not in ("", ".", "..")
    assert Path(name).name == name
    assert printable(name) == name
