"""How the last session of a run ended, written down where the run is: in its folder, and in its store.

A session removes the note when it begins and writes one when it ends. A run without a note on which nobody works was
killed, or its machine was lost.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from trainless.core.wording import one_line

ENDING = "ending.json"
Word = Literal["finished", "budget", "interrupted", "failed"]
WORDS: tuple[Word, ...] = ("finished", "budget", "interrupted", "failed")


@dataclass(frozen=True)
class Ending:
    """How a session ended.

    Args:
        end: ``finished`` where the searcher had nothing more to ask, ``budget`` where it was used up, ``interrupted``
            by Ctrl-C, ``failed`` by a mistake, a full disk and the like.
        reason: In words, where it failed.
    """

    end: Word
    reason: str = ""

    @property
    def concluded(self) -> bool:
        """Whether the run came to its end."""
        return self.end in ("finished", "budget")

    def to_json(self) -> str:
        """As it is written down."""
        return json.dumps(asdict(self))


def ending_by(error: BaseException) -> Ending:
    """The ending of a session that an exception ended.

    Example:
        >>> ending_by(KeyboardInterrupt()), ending_by(OSError("disk full"))
        (Ending(end='interrupted', reason=''), Ending(end='failed', reason='OSError: disk full'))
    """
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted")
    return Ending("failed", one_line(error))


def read_ending(text: str) -> Ending | None:
    """What :meth:`Ending.to_json` wrote; None where there is none.

    Example:
        >>> read_ending(Ending("budget").to_json()), read_ending("")
        (Ending(end='budget', reason=''), None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    word = next((word for word in WORDS if isinstance(found, dict) and found.get("end") == word), None)
    return None if word is None else Ending(word, str(found.get("reason", ""))[:400])
