from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from trainless.core.errors import InputError
from trainless.core.task import Part, Task
from trainless.tasks import task
from trainless.tasks.builtin import NOUNS, VERBS, corpus
from trainless.tasks.text import tokenise


def decode(made: Task, part: Part | None) -> tuple[list[str], list[str]]:
    assert part is not None
    names = made.target.names
    return [names[t] for t in np.ravel(part.x[:])], [names[t] for t in part.y.ravel()]


def test_windows_are_contiguous_and_targets_are_one_further(tmp_path: Path) -> None:
    words = [f"w{i % 7}" for i in range(400)]
    (tmp_path / "a.tokens").write_text(" ".join(words))
    made = task(tmp_path / "a.tokens", length=9)
    everything = [*words, "<eos>"]
    cuts = [0, int(0.7 * 401), int(0.85 * 401), 401]
    for part, start, end in zip((made.train, made.valid, made.test), cuts[:-1], cuts[1:], strict=True):
        x, y = decode(made, part)
        expected = everything[start:end]
        usable = (len(expected) - 1) // 9 * 9
        known = [word if word in made.target.names[:-1] or word != "<eos>" else "<unk>" for word in expected]
        assert x == known[:usable]
        assert y == [word.replace("<eos>", "<unk>") for word in expected[1 : usable + 1]]


def test_a_batch_of_tokens_fits_the_loss() -> None:
    made = task("tiny-text", length=12, sentences=200)
    x, y = made.batch(5, seed=0)
    assert (x.shape, y.shape, x.dtype, y.dtype) == ((5, 12), (5, 12), torch.int64, torch.int64)
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert int(x.max()) < made.vocabulary
    losses = made.target.losses(torch.zeros(5, 12, made.vocabulary), y)
    torch.testing.assert_close(losses, torch.full((5,), float(np.log(made.vocabulary))))


@pytest.mark.parametrize(
    ("level", "tokens"),
    [
        ("words", {"hello", ",", "you", "<eos>"}),
        ("tokens", {"hello,", "you", "<eos>"}),
        ("characters", set("hello, you\n")),
    ],
)
def test_levels(tmp_path: Path, level: str, tokens: set[str]) -> None:
    (tmp_path / "a.txt").write_text("hello, you\n" * 40)
    made = task(tmp_path / "a.txt", level=level, length=4)
    assert set(made.target.names) == tokens


def test_a_folder_with_its_own_parts(tmp_path: Path) -> None:
    for part, text in (("train", "a b c d"), ("valid", "a b x d"), ("test", "d c b a")):
        (tmp_path / f"ptb.{part}.txt").write_text((text + "\n") * 20)
    made = task(tmp_path, length=5)
    assert set(made.target.names) == {"a", "b", "c", "d", "<eos>", "<unk>"}
    assert decode(made, made.valid)[0][:5] == ["a", "b", "<unk>", "d", "<eos>"]


def test_the_vocabulary_can_be_limited(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a a a a b b b c c d\n" * 50)
    made = task(tmp_path / "a.txt", vocabulary=3, length=5)
    assert made.target.names == ("a", "b", "<unk>")
    assert decode(made, made.train)[0][:10] == ["a"] * 4 + ["b"] * 3 + ["<unk>"] * 3


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b" \n", {}, "a.txt has no text in it"),
        (b"\xff\xfe\x00bad", {}, "a.txt cannot be read as UTF-8 text"),
        (b"a b c", {}, "part of the text has .* tokens; expected more than length=32"),
        (b"a\n" * 99, {"level": "letters"}, "level='letters' was given; expected one of words, tokens, characters"),
        (b"a " * 999, {"level": "tokens"}, "the text has 1 different tokens"),
        (b"a b " * 99, {"length": 0}, "length=0 was given"),
        (b"a b " * 999, {"size": 3}, "size=3 was given, but a has tokens"),
        (
            b"a b " * 99,
            {"dims": 3},
            "a.txt has no option 'dims'; it has: classes, length, level, name, size",
        ),
    ],
)
def test_bad_text(tmp_path: Path, content: bytes, options: dict[str, object], message: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        task(tmp_path / "a.txt", **options)


def test_the_grammar_agrees_in_number() -> None:
    singular, plural = ({pair[k] for pair in NOUNS} for k in (0, 1))
    verbs = [{pair[k] for pair in VERBS} for k in (0, 1)]
    for line in corpus(300, seed=1).splitlines():
        words = line.split()
        subject = next(word for word in words if word in singular | plural)
        main = [word for word in words if word in verbs[0] | verbs[1]][-1]
        assert main in verbs[subject in plural], line
        assert not any(first == "a" and second[0] in "aeiou" for first, second in pairwise(words))


def test_tiny_text_is_the_same_every_time_and_differs_by_seed() -> None:
    prints = [task("tiny-text", sentences=300, seed=seed).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]
    assert task("tiny-text", level="characters").vocabulary < 30


def test_text_is_split_by_level() -> None:
    assert tokenise("The cat, too.", "words") == ["The", "cat", ",", "too", ".", "<eos>"]
    assert tokenise("a <unk>", "tokens") == ["a", "<unk>", "<eos>"]
    assert tokenise("a b", "characters") == ["a", " ", "b"]
