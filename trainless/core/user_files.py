"""Python files of the user's own: imported where they are named, and found again in other processes."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from trainless.core.errors import InputError

PREFIX = "trainless_user_"  # what the names of modules from users' files begin with


def module_name(path: Path) -> str:
    """The name under which a file is imported: the same in every process."""
    return PREFIX + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def load_file(path: Path) -> ModuleType:
    """Import a file, which runs its code; once, as long as its text stays the same.

    Raises:
        InputError: There is no such file, or it is no Python.
        Exception: Whatever the code raises.
    """
    held = sys.modules.get(module_name(path))
    if not path.is_file():
        if held is not None:  # it came from another machine
            return held
        raise InputError(f"there is no file {str(path)!r}: check the path before the colon")
    text = path.read_bytes()
    if held is not None and vars(held).get("__text__") == text:
        return held
    return _executed(module_name(path), path, text)


def load_text(name: str, path: str, text: bytes) -> ModuleType:
    """Import the text of a file that another process has read, under its name there."""
    held = sys.modules.get(name)
    return held if held is not None and vars(held).get("__text__") == text else _executed(name, Path(path), text)


def loaded_files() -> list[tuple[str, str, bytes]]:
    """Name, path and text of every user's file that was imported here, in the order in which they were.

    Example:
        >>> all(name.startswith(PREFIX) for name, path, text in loaded_files())
        True
    """
    modules = [(name, vars(module)) for name, module in list(sys.modules.items()) if name.startswith(PREFIX)]
    return [(name, str(held["__file__"]), held["__text__"]) for name, held in modules if "__text__" in held]


def _executed(name: str, path: Path, text: bytes) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise InputError(f"{str(path)!r} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    vars(module)["__text__"] = text
    before = sys.modules.get(name)
    sys.modules[name] = module
    _admit(path.resolve().parent)
    try:
        exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102 - the user named this file
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _admit(folder: Path) -> None:
    """Let a file import what lies beside it, now and when its functions are called; what is installed comes first."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
