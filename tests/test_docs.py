"""docs/proxies.md says what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import trainless.proxies
from benchmarks import render_clinical
from benchmarks.render_proxies import PAGE, cited, page, papers, read_results, shipped
from trainless.proxies import Paper, registry

HOME = Path(trainless.proxies.__file__).parent
DEFINED = re.findall(
    r"^@proxy\((?:.|\n)*?^def (\w+)", "\n".join(f.read_text() for f in HOME.glob("*.py")), re.MULTILINE
)
RESULTS = {
    "environment": {"date": "2026-01-01", "torch": "2", "cpu": "a CPU", "threads": 1},
    "batch": 64,
    "networks": {
        "resnet50": {
            "words": "ResNet-50",
            "input_shape": [3, 32, 32],
            "costs": {
                "snip": {"fbe": 1.234, "peak_mb": 1500.4, "error": ""},
                "grasp": {"fbe": None, "peak_mb": None, "error": "killed"},
            },
        }
    },
}


def test_all_that_are_registered_are_defined_here() -> None:
    assert len(DEFINED) == len(set(DEFINED)) >= 29
    assert set(DEFINED) <= set(registry.names())


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text()
    assert written == page(read_results()), "run: python benchmarks/render_proxies.py"


def test_the_page_of_the_clinical_study_is_up_to_date() -> None:
    assert render_clinical.PAGE.read_text() == render_clinical.rendered(), "run: python -m benchmarks.render_clinical"


@pytest.mark.parametrize("name", DEFINED)
def test_every_proxy_has_a_formula_a_paper_and_documented_options(name: str) -> None:
    proxy = registry[name]
    text = page(None)
    entry = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert proxy.summary in entry
    assert proxy.setting.describe() in entry
    assert ("Higher" if proxy.higher_is_better else "Lower") + " is better" in entry
    assert isinstance(proxy.paper, Paper) or proxy.paper in ("baseline", "trainless")
    assert proxy.aspect, f"{name} does not say what it looks at"
    formula = entry.split("- Setting:")[1].split("\n", 1)[1].strip().split("\n")[0]
    assert formula, f"{name} has no formula below the first line of its docstring"
    assert not formula.startswith("**"), f"{name} has no formula below the first line of its docstring"
    options = [option for option in inspect.signature(proxy.fn).parameters if option != "p"]
    for option in options:
        if proxy.section("Args"):
            assert f"- `{option}" in entry, f"{name}: {option} is not documented"


def test_costs_are_shown_where_they_were_measured() -> None:
    text = page(RESULTS)
    assert "| snip | 1.23 | 1500 |" in text
    assert "| grasp | – | – |" in text
    assert "Cost in FBE: 1.23 on resnet50." in text
    assert "## Costs" not in page(None)


def test_every_paper_is_used_and_every_row_is_whole() -> None:
    text = page(None)
    for paper in papers(shipped()):
        assert paper.reference in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(widths) == 1


def test_words_on_where_a_proxy_comes_from_stand_for_themselves() -> None:
    assert cited("nobody1999") == "[nobody1999](#references)"
