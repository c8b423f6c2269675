"""Mistakes that a newcomer makes: each is answered in one line that says what was given and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trainless.cli.app import run

RUNS = {"design": {"format": 1, "verb": "design"}, "search": {"format": 1, "searcher": "evolution"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of several kinds, and with the beginnings of runs."""
    root, random = tmp_path_factory.mktemp("mistakes"), np.random.default_rng(0)
    for name in ("benign", "malignant"):
        (root / "images" / name).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(0, 255, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "images" / name / f"{number}.png")
    lines = [",".join([("well", "ill")[n % 2], *(f"{v:.3f}" for v in random.normal(size=8))]) for n in range(40)]
    (root / "bare.csv").write_text("\n".join(lines))
    (root / "signals.csv").write_text("\n".join(["label," + ",".join("abcdefgh"), *lines]))
    np.savez(root / "masks.npz", x=random.normal(size=(9, 1, 8, 8)), y=random.integers(0, 2, (9, 8, 8)))
    for name, about in RUNS.items():
        (root / f"a-{name}").mkdir()
        (root / f"a-{name}" / "run.json").write_text(json.dumps(about))
    (root / "empty").mkdir()
    return root


MISTAKES = (
    ("design images --preset fats", "no preset is called 'fats'; did you mean 'fast'"),
    ("look bare.csv", r"bare.csv begins with well, .* add one, such as label,t0,t1"),
    ("look masks.npz", r"expected one class or value per sample: masks \(segmentation\) are not supported"),
    ("look images/benign", "benign holds images and no table of labels; expected .*then give the folder above"),
    ("look images --label diagnosis", "--label diagnosis was given, but images has no table with a column of files"),
    ("design images --out a-search", "a-search holds a run of trainless search, and this is trainless design"),
    (
        "search images --proxies params --evaluations 2 --out a-design",
        "a-design holds a run of trainless design, and this is trainless search",
    ),
    ("export a-search --onnx m.onnx", "a-search is no folder of trainless design"),
    ("export-study a-design s.db", "a-design is a design: expected the run folder of trainless search"),
    ("search images", "nothing to search by was given; expected a ranking or proxies: --ranking az-nas, or --proxies"),
    ("search images --evaluations many", "--evaluations many was given; expected a whole number .trainless search -"),
    ("design images --coverage=high", "--coverage high was given; expected a number .trainless design --help"),
    ("design", "DATA is missing; expected a built-in task, or a file or folder of your data .trainless design --help"),
    ("export a-design", "--onnx is missing; expected the file to write"),
    ("design images --out signals.csv", "signals.csv is a file; expected a folder for the run: give another --out"),
    ("look a-design", "a-design is the folder of a run; expected data"),
    ("look signals.csv --dims 2", r"has shape \(8,\), which does not fit --dims 2: leave it out"),
    ("look images --kind=odd", "--kind 'odd' was given; expected one of binary"),
    ("look images --size 10000", "--size 10000x10000 was given for inputs of 8x8; expected at most 256x256"),
    ("look digits --time-column t", "digits has no option --time-column; it has: classes"),
    ("look images --size 0", "--size '0' was given; expected a whole number above 0, such as 64, or one per axis"),
    ("predict signals.csv a-design", "signals.csv is a file; expected a run folder: give the folder that --out named"),
    ("report a-search --store none.db", "there is no store none.db: give the file"),
    ("report nowhere", "nowhere is not there; expected a run folder"),
    ("watch empty --once", r"empty is no run: it has no run.json; give the folder that --out named"),
    ("score my_net.py", "my_net.py was given; expected a function in it, too, such as my_net.py:net"),
    ("search images --proxies params --device gpu", "device 'gpu' was given; expected cpu, cuda, cuda:1 or auto"),
)


@pytest.mark.parametrize(("line", "wanted"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line(
    line: str, wanted: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert run(line.split()) == 2
    said = [text for text in capsys.readouterr().err.splitlines() if text.startswith("trainless: ")]
    assert len(said) == 1
    assert re.search(wanted, said[0]), said[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("line", ["search images --proxies params", "design images", "score m.py:net"])
def test_a_gpu_that_is_not_there_is_said_before_anything_is_done(
    line: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "m.py").write_text("from torch import nn\n\n\ndef net():\n    return nn.Linear(3, 2)\n")
    more = ["--out", "fresh"] if "images" in line else ["--input", "3"]
    assert run([*line.split(), "--device", "cuda", *more]) == 2
    assert "device 'cuda' was asked for, but PyTorch sees no CUDA device here: use --device cpu" in (
        capsys.readouterr().err
    )
    assert not (place / "fresh").exists()
