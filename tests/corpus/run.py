"""Run the corpus by hand: ``python -m tests.corpus.run [part of a name …] [--all]``, or ``… run equivalence``.

Each network beside plain autograd (``trainless.testing.check_network``); with ``--all`` every proxy in single precision
too, with the reasons of what has no value.
"""
# ruff: noqa: T201

from __future__ import annotations

import sys
import time
import warnings

from tests.corpus import test_equivalence
from tests.corpus.networks import Case, corpus
from trainless.scoring.evaluate import score
from trainless.testing.networks import compare


def beside(case: Case) -> bool:
    """Print how a network compares; whether all agrees."""
    begun = time.process_time()
    try:
        found = compare(case.network(), case.batch(), adapter=case.adapter)
    except Exception as error:
        print(f"ERROR {case.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        return False
    wrong = [each for each in found.comparisons if not each.agrees()]
    own = "" if found.double else ", own precision"
    took = time.process_time() - begun
    print(f"{'BAD  ' if wrong else 'ok   '} {case.name} ({took:.1f} s{own})", flush=True)
    for each in wrong:
        print(f"        {each}", flush=True)
    return not wrong


def by_every_proxy(case: Case) -> tuple[int, int]:
    """Print what has no value; how many there are, of how many."""
    begun = time.process_time()
    scores = score(case.network(), case.batch(), adapter=case.adapter)
    failed = [record for record in scores if record.failed]
    took = time.process_time() - begun
    print(f"        all proxies: {len(failed)} of {len(scores.records)} NaN, {took:.1f} s")
    for record in failed:
        print(f"          NaN {record.proxy}: {record.status}", flush=True)
    return len(failed), len(scores.records)


def main() -> None:
    warnings.simplefilter("ignore")
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if words == ["equivalence"]:
        for family in test_equivalence.FAMILIES:
            print("\n    ".join([f"{family}:", *(test_equivalence.differences(family) or ["ok"])]), flush=True)
        return
    bad = missing = total = 0
    for case in corpus():
        if case.missing or (words and not any(word in case.name for word in words)):
            continue
        bad += not beside(case)
        if "--all" in sys.argv:
            failed, scored = by_every_proxy(case)
            missing, total = missing + failed, total + scored
    print(f"{bad} networks deviate" + (f"; {1 - missing / total:.1%} of {total} finite" if total else ""))


if __name__ == "__main__":
    main()
