"""A process that writes into a store until a time: rows of its own, and rows that all writers share.

    python tests/store/writers.py STORE NUMBER SECONDS [FILE [PAUSE]]

Prints how many rows of its own it has kept and how many of the shared ones it has computed; a file gets the number of
each row of its own, once it is kept. It pauses for so many seconds after each.
"""

from __future__ import annotations

import os
import sys
import time

from trainless.store import Key, Result, store_at, turns

SHARED = 3  # every so many rounds a row that everybody wants


def own(writer: int, number: int) -> Key:
    return Key("own", f"{writer},{number}", "snip", 1, "own", "cafe", number % 5)


def shared(number: int) -> Key:
    return Key("shared", f"{number}", "snip", 1, "own", "cafe", 0)


def main(place: str, writer: int, seconds: float, file: str = os.devnull, pause: str = "0") -> None:
    computed = number = 0
    with store_at(place) as store, open(file, "a", buffering=1) as said:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            store.keep([(own(writer, number), Result(float(number), "ok", 1.0, float(writer)))])
            said.write(f"{number}\n")
            time.sleep(float(pause))
            if number % SHARED == 0:
                for _, mine in turns(store, [shared(number // SHARED)]):
                    computed += len(mine)
                    store.keep([(key, Result(float(number), "ok", 1.0, float(writer))) for key in mine])
            number += 1
    sys.stdout.write(f"{number} {computed}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
