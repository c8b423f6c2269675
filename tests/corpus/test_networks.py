"""Each network of the corpus beside plain autograd, and by every proxy."""

from __future__ import annotations

import re

import pytest

from tests.corpus.networks import TIMM, TIMM_CLASSES, Case, corpus
from tests.corpus.torchvision_standin import install
from trainless.scoring.evaluate import score
from trainless.testing import check_network

CORPUS = corpus()
LEAST = 0.97  # 0.976 on these: every reason is listed when it falls
EXCEPTIONS = re.compile(r"\b\w+(Error|Exception)\b|Traceback|tensor a|mat1|requires_grad|dtype|not implemented")


def parametrised(cases: list[Case]) -> pytest.MarkDecorator:
    marks = {
        package: pytest.mark.skip(reason=f"{package} is not installed: make setup")
        for package in {case.package for case in cases if case.missing}
    }
    return pytest.mark.parametrize(
        "case", [pytest.param(c, id=c.name, marks=[marks[c.package]] if c.package in marks else []) for c in cases]
    )


def test_the_corpus_is_large() -> None:
    kinds = [case.name.partition(":")[0] for case in CORPUS]
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 90
    assert kinds.count("hf") >= 12
    assert kinds.count("monai") >= 8
    assert kinds.count("torch") >= 12


def test_fifty_families_of_timm() -> None:
    """A family is a module of theirs."""
    install()
    registry = pytest.importorskip("timm.models._registry", reason="timm is not installed: make setup")
    families = {registry._model_to_module[name] for name in TIMM}
    assert len(families | {name.partition(".")[0] for name in TIMM_CLASSES}) >= 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrised(CORPUS)
def test_scored_as_what_it_computes(case: Case) -> None:
    check_network(case.network(), case.batch(), adapter=case.adapter)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nearly_everything_is_finite_and_every_reason_is_the_networks() -> None:
    """All networks in one test: their share together counts."""
    missing, scored = [], 0
    for case in CORPUS:
        if not case.missing:
            scores = score(case.network(), case.batch(), adapter=case.adapter)
            scored += len(scores.records)
            missing += [f"{case.name} {record.proxy}: {record.status}" for record in scores if record.failed]
    assert not [line for line in missing if EXCEPTIONS.search(line)]
    share = 1 - len(missing) / scored
    assert share >= LEAST, f"{share:.1%} of {scored} are finite\n" + "\n".join(missing)
