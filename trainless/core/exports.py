"""The public names of a package: those that are imported when they are first used, and those that will go."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package.

    ``homes`` are the modules below the package, and the names that each has for it.
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names


def deprecated(*, since: str, removed_in: str, instead: str) -> Callable[[T], T]:
    """Mark a function or class as deprecated: its first use in a process warns, and its docstring says so.

    Args:
        since: The version that deprecates it.
        removed_in: The version that will no longer have it.
        instead: What to write in its place.

    Example:
        >>> @deprecated(since="0.2", removed_in="0.4", instead="double(x)")
        ... def twice(x):
        ...     return 2 * x
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as said:
        ...     warnings.simplefilter("always")
        ...     twice(2), twice(3)
        (4, 6)
        >>> [str(each.message) for each in said]
        ['twice is deprecated since trainless 0.2 and will be removed in 0.4: use double(x) instead']
    """

    def mark(thing: T) -> T:
        name = getattr(thing, "__qualname__", str(thing))
        message = (
            f"{name} is deprecated since trainless {since} and will be removed in {removed_in}: use {instead} instead"
        )
        said = False

        def say() -> None:
            nonlocal said
            if not said:
                said = True
                warnings.warn(message, DeprecationWarning, stacklevel=3)

        thing.__doc__ = f"{(thing.__doc__ or '').rstrip()}\n\nDeprecated since {since}: use {instead}.\n".lstrip()
        if isinstance(thing, type):
            _warn_when_made(thing, say)
            return thing

        @functools.wraps(thing)
        def warned(*args: Any, **options: Any) -> Any:
            say()
            return thing(*args, **options)

        return warned  # type: ignore[return-value]

    return mark


def _warn_when_made(thing: Any, say: Callable[[], None]) -> None:
    """Change the class in place, so that isinstance and pickle still know it."""
    make = thing.__init__

    @functools.wraps(make)
    def warned(self: Any, *args: Any, **options: Any) -> None:
        say()
        make(self, *args, **options)

    thing.__init__ = warned
