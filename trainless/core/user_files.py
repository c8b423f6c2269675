"""The one importer of a user's own code: a file or a module, found again in other processes."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from trainless.core.errors import InputError, TrainlessError
from trainless.core.text import one_line

PREFIX = "trainless_user_"  # what the names of modules from users' files begin with


def module_name(path: Path) -> str:
    """The name under which a file is imported: the same in every process."""
    return PREFIX + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def load_module(where: str) -> ModuleType:
    """Import ``path/to/file.py``, or a module by its name, which may lie in the working directory."""
    if where.endswith(".py"):
        return load_file(Path(where))
    _admit(Path.cwd())
    with _running(where):
        return importlib.import_module(where)


def load_file(path: Path) -> ModuleType:
    """Import a file, which runs its code; once, as long as its text stays the same."""
    held = sys.modules.get(module_name(path))
    if not path.is_file():
        if held is not None:  # it came from another machine
            return held
        raise InputError(f"there is no file {path}: check the path before the colon")
    with _running(path):
        text = path.read_bytes()
        if held is not None and vars(held).get("__text__") == text:
            return held
        return _executed(module_name(path), path, text)


def load_text(name: str, path: str, text: bytes) -> ModuleType:
    """Import the text of a file that another process has read, under its name there."""
    held = sys.modules.get(name)
    return held if held is not None and vars(held).get("__text__") == text else _executed(name, Path(path), text)


def loaded_files() -> list[tuple[str, str, bytes]]:
    """Name, path and text of every user's file that was imported here, in the order in which they were."""
    modules = [(name, vars(module)) for name, module in list(sys.modules.items()) if name.startswith(PREFIX)]
    return [(name, str(held["__file__"]), held["__text__"]) for name, held in modules if "__text__" in held]


@contextmanager
def _running(where: object) -> Iterator[None]:
    """Say in one line why a user's code cannot be imported."""
    try:
        yield
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a file raises ends that file, not this program
        raise InputError(f"importing {where} failed ({one_line(error)}): mend it or give another") from error


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
