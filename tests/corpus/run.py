"""Run the corpus by hand: ``python tests/corpus/run.py [part of a name …] [--all]``, or ``run.py equivalence``.

Each network beside plain autograd (``trainless.testing.check_network``); with ``--all`` every proxy in single precision
too, with the reasons of what has no value.
"""
# ruff: noqa: T201

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from pathlib import Path

OWN = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(OWN)]
tests = importlib.import_module("tests.corpus.networks")  # from here, whichever trainless is looked at
sys.path[0] = os.environ.get("PYTHONPATH", "").partition(":")[0] or str(OWN)
importlib.import_module("trainless.testing").__path__.append(str(OWN / "trainless" / "testing"))

warnings.simplefilter("ignore")


def main() -> None:
    from trainless.scoring.evaluate import score
    from trainless.testing.networks import compare

    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    every = "--all" in sys.argv
    if words == ["equivalence"]:
        forms = importlib.import_module("tests.corpus.test_equivalence")
        for family in forms.FAMILIES:
            print("\n    ".join([f"{family}:", *(forms.differences(family) or ["ok"])]), flush=True)
        return
    bad = total = finite = 0
    for case in tests.corpus():
        if case.missing or (words and not any(word in case.name for word in words)):
            continue
        begun = time.process_time()
        try:
            net, batch = case.network(), case.batch()
            found = compare(net, batch, adapter=case.adapter)
        except Exception as error:
            bad += 1
            print(
                f"ERROR {case.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}", flush=True
            )
            continue
        wrong = [each for each in found.comparisons if not each.agrees()]
        bad += bool(wrong)
        took = time.process_time() - begun
        own = "" if found.double else ", own precision"
        print(f"{'BAD  ' if wrong else 'ok   '} {case.name} ({took:.1f} s{own})", flush=True)
        for each in wrong:
            print(f"        {each}", flush=True)
        if every:
            begun = time.process_time()
            scores = score(net, batch, adapter=case.adapter)
            failed = [record for record in scores if record.failed]
            total += len(scores.records)
            finite += len(scores.records) - len(failed)
            print(
                f"        all proxies: {len(failed)} of {len(scores.records)} NaN, {time.process_time() - begun:.1f} s"
            )
            for record in failed:
                print(f"          NaN {record.proxy}: {record.status}", flush=True)
    print(f"{bad} networks deviate" + (f"; {finite} of {total} finite ({finite / max(total, 1):.1%})" if every else ""))


main()
