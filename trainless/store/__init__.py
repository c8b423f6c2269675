"""The store: every score that was ever computed, found again by what it depends on.

A file of SQLite for one machine; for many a folder on a disk that they share, or a PostgreSQL database.
:func:`open_store` opens each by its name. What a score depends on is in ``keys``, the schema in ``schema``, what all
databases do in ``sql``.
"""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from trainless.core.errors import InputError
from trainless.store.claims import turns
from trainless.store.keys import Count, Key, Result, Row, Selection, Store, StoreError
from trainless.store.runs import RunEntry
from trainless.store.sql import SqlStore, merge
from trainless.store.sqlite import SqliteStore, copy_database

__all__ = [
    "Count",
    "Key",
    "Result",
    "Row",
    "RunEntry",
    "Selection",
    "SqlStore",
    "SqliteStore",
    "Store",
    "StoreError",
    "copy_database",
    "default_path",
    "is_away",
    "is_file",
    "is_folder",
    "merge",
    "open_store",
    "place_of",
    "scheme_of",
    "store_at",
    "turns",
]


def default_path() -> Path:
    """``$TRAINLESS_STORE``, else ``scores.sqlite`` in the user's cache directory."""
    named = os.environ.get("TRAINLESS_STORE")
    if named:
        return Path(named)
    import platformdirs

    return platformdirs.user_cache_path("trainless") / "scores.sqlite"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
_LIKE_AN_ADDRESS = re.compile(r"://|^\s*postgres(ql)?:|\bpassword\s*=", re.IGNORECASE)


def scheme_of(place: str) -> str:
    """The scheme of a store's address, such as ``postgresql``; empty where the place is a file or a folder.

    A mistyped address is refused: as the name of a file it would be shown, with its password.

    Example:
        >>> scheme_of("postgresql://me@host/scores"), scheme_of("shared/")
        ('postgresql', '')
    """
    found = _SCHEME.match(place)
    if found is not None and found[0] in ("postgresql", "postgres"):
        return found[0]
    if found is not None:
        raise InputError(
            f"a store at {found[0]}:// was given; expected a file, a folder (shared/), or"
            " postgresql://user@host/database"
        )
    if _LIKE_AN_ADDRESS.search(place):
        raise InputError(
            "the place of a store is nearly an address (it is not shown, for it may hold a password); expected a file,"
            " a folder (shared/), or postgresql://user:password@host:port/database"
        )
    return ""


def store_at(place: str | os.PathLike[str]) -> SqlStore:
    """The store at a path, or at ``postgresql://user@host/database``.

    A path that ends in ``/`` is a folder that many machines may share, as is a folder that is there; else it is a file
    for one machine.
    """
    text = os.fspath(place)
    if not scheme_of(text):
        if not is_folder(text):
            return SqliteStore(text)
        from trainless.store.folder import FolderStore

        return FolderStore(text)
    from trainless.store.postgres import PostgresStore

    return PostgresStore(text)


def is_folder(place: str) -> bool:
    """Whether a place without ``://`` is a store in a folder."""
    return place.endswith("/") or Path(place).expanduser().is_dir()


def is_away(place: str) -> bool:
    """Whether a store is a server that does not answer now."""
    if "://" not in place:
        return False
    from trainless.store.postgres import answers

    return not answers(place)


def is_file(place: str) -> bool:
    """Whether a place is a file, for one machine alone."""
    return not scheme_of(place) and not is_folder(place)


def open_store(text: str = "") -> AbstractContextManager[SqlStore | None]:
    """A store by its place as given by hand: empty for the default one, ``none`` for none at all."""
    place = place_of(text)
    return nullcontext(None) if place is None else store_at(place)


def place_of(text: str = "") -> str | None:
    """The place of a store as given by hand, for other processes to open: empty is the default one, ``none`` is None.

    Example:
        >>> place_of("scores.sqlite"), place_of("none")
        ('scores.sqlite', None)
    """
    return None if text == "none" else text or os.environ.get("TRAINLESS_STORE") or str(default_path())
