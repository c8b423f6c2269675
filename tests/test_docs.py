"""docs/proxies.md says what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import trainless.proxies
from benchmarks.render_proxies import cited, page, papers, shipped
from trainless.proxies import Paper, registry

HOME = Path(trainless.proxies.__file__).parent
DEFINED = re.findall(
    r"^@proxy\((?:.|\n)*?^def (\w+)", "\n".join(f.read_text() for f in HOME.glob("*.py")), re.MULTILINE
)
ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
ENDINGS = ("md", "py", "npz", "json", "toml", "txt")
MADE = re.compile(r"(run|runs|site|my_\w+|docs/decisions/NNNN)\b|.*\b(report\.html|shown\.npz|run\.json|README\.md)$")
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
        assert f"- `{option}" in entry, f"{name}: {option} is not documented"
    assert f"`{proxy.aspect}`" in CONTRIBUTING, f"{name}: CONTRIBUTING does not name the aspect {proxy.aspect}"


def test_costs_are_shown_where_they_were_measured() -> None:
    text = page(RESULTS)
    assert "| snip | 1.23 | 1500 |" in text
    assert "| grasp | – | – |" in text
    assert "Cost in FBE: 1.23 on resnet50." in text
    assert "## Costs" not in page(None)


def test_costs_of_well_known_networks_and_by_width() -> None:
    about = {"device": "processor", "torch": "2", "date": "today", "load": "alone"}
    found = {"unit": {"fbe": 1.0}, "suite": {"fbe": 7.254, "floor": 91.6}, "meco": {"fbe": 0.4}}
    networks = {"small × 16": found, "small × 64": {"suite": {"fbe": 5.0}}}
    text = page(None, {**about, "networks": networks, "widths": {"64": {"meco": 1.5, "together": 2.0}}})
    assert "| small × 16 | 7.25 (92) | 0.40 |\n| small × 64 | 5.00 | – |" in text
    assert "| 64 | 1.50 | 2.00 |" in text


def test_every_paper_is_used_and_every_row_is_whole() -> None:
    text = page(None)
    for paper in papers(shipped()):
        assert paper.reference in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(widths) == 1


def test_every_page_is_in_the_menu_of_the_site() -> None:
    """The site's own test builds it; this one says in a moment what is missing."""
    menu = re.findall(r"^ +- (?:[^:\n]+: )?([\w./-]+\.md|[\w./-]+/)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    folders = tuple(entry for entry in menu if entry.endswith("/"))
    assert sorted(page for page in there - set(menu) if not page.startswith(folders)) == [], "add it to mkdocs.yml"


def test_words_on_where_a_proxy_comes_from_stand_for_themselves() -> None:
    assert cited("nobody1999") == "[nobody1999](#references)"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_path_of_a_page_exists(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    named = [text for text in re.findall(r"`([^`\s]+)`", prose) if "/" in text or text.endswith(ENDINGS)]
    paths = [text for text in named if re.fullmatch(r"\w[\w./-]*", text) and not MADE.match(text)]
    paths += [link for link in re.findall(r"\]\(([^)#]+)", prose) if not link.startswith("http")]
    assert len(paths) >= 8
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_module_of_a_page_can_be_imported(page: str) -> None:
    named = re.findall(
        r"^(?:from|import) (trainless[\w.]*)|`(trainless\.[\w.]+)`", (ROOT / page).read_text(), re.MULTILINE
    )
    assert len(named) >= 3
    for name in {"".join(each) for each in named}:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # a name in a module
            module, _, attribute = name.rpartition(".")
            assert attribute in dir(importlib.import_module(module)), name


def test_the_attacks_have_the_tests_that_the_threat_model_names() -> None:
    rows = (ROOT / "docs" / "threat-model.md").read_text().partition("## What did harm once")[2].partition("\n## ")[0]
    named = re.findall(r"`(tests/[\w/]+\.py)`|`(test_\w+)`", rows)
    files = [file for file, _ in named if file]
    tests = "".join((ROOT / file).read_text() for file in set(files))
    assert len(files) > 10
    for _, test in named:
        assert not test or f"def {test}(" in tests, test
