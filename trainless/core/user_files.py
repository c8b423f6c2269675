"""A user's own code: the one importer of files and modules, found again in other processes, and a digest of the code.

The digest changes with the code and not with the comments. It is of the whole file in which a thing is defined, because
nobody can tell which lines of it matter, and of what the file imports, directly or through others, of its own folder or
package. What is installed beside it is not looked at, nor is what stands below ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

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


INSTALLED = ("site-packages", "dist-packages")
OURS = __name__.partition(".")[0]
DIGITS = 12
_read: WeakKeyDictionary[ModuleType, tuple[ModuleSpec | None, bytes]] = WeakKeyDictionary()


def digest(thing: Callable[..., Any]) -> str:
    """The first digits of a SHA-256 of a function or class, the code it depends on and the values it holds."""
    parts = [thing.__qualname__, *sources(thing), repr(_held(thing))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGITS]


def version_of(thing: Callable[..., Any], declared: int) -> int:
    """The version of something that is stored by name: as declared in installed code, else changing with the code."""
    module = sys.modules.get(thing.__module__)
    installed = any(part in Path(getattr(module, "__file__", None) or "").parts for part in INSTALLED)
    if installed or thing.__module__.partition(".")[0] == OURS:
        return declared
    return int(digest(thing), 16) + declared


@functools.lru_cache(maxsize=64)
def class_digest(kind: type) -> str:
    """The digest of a class, taken once: a file that is loaded again makes another class."""
    return digest(kind)


def sources(thing: Callable[..., Any]) -> list[str]:
    """The code that a thing depends on, a file each, without comments; its own lines where they are in no file."""
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    if module is None or not file or (not Path(file).is_file() and "__text__" not in vars(module)):
        try:
            return [inspect.getsource(thing)]
        except (OSError, TypeError):
            return []
    path = Path(file).resolve()
    root = _root(path, module)
    found: dict[Path, bytes] = {path: _text_of(module, path)}
    waiting = [path]
    while waiting:
        place = waiting.pop()
        for name in _imported(found[place], _package(place, root)):
            for neighbour in _files(root, name):
                if neighbour not in found and _counts(name, root, path):
                    found[neighbour] = _text_of(_loaded(neighbour, root), neighbour)
                    waiting.append(neighbour)
    others = sorted((place.relative_to(root).as_posix(), text) for place, text in found.items() if place != path)
    return [_plain(found[path]), *(f"{name}\n{_plain(text)}" for name, text in others)]


def _held(thing: Callable[..., Any]) -> list[Any]:
    """What a function keeps from where it was defined, as far as it is plain: enclosed variables and defaults."""
    if not isinstance(thing, FunctionType):
        return []
    enclosed = [_contents(cell) for cell in thing.__closure__ or ()]
    return [*enclosed, _value(thing.__defaults__), _value(thing.__kwdefaults__)]


def _contents(cell: CellType) -> Any:
    try:
        return _value(cell.cell_contents)
    except ValueError:  # nothing was put into it yet
        return None


def _value(value: Any) -> Any:
    """A plain value as it is; of anything else its type, because its text may differ from process to process."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, (tuple, list)):
        return [_value(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_value(part)) for part in value)
    if isinstance(value, dict):
        return [(_value(name), _value(part)) for name, part in value.items()]
    return type(value).__qualname__


def _text_of(module: ModuleType | None, path: Path) -> bytes:
    """A file as it was when its module was loaded, or looked at first, so that the digest is of the code that runs."""
    if module is None:
        return path.read_bytes()
    if "__text__" in vars(module):  # a file that the command line named
        return bytes(vars(module)["__text__"])
    held = _read.get(module)
    if held is None or held[0] is not module.__spec__:  # a module that is loaded again has another
        held = _read[module] = (module.__spec__, path.read_bytes())
    return held[1]


@functools.lru_cache(maxsize=256)
def _plain(text: bytes) -> str:
    """Code without comments and without what runs only as a program; a text that is no Python as it is."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text.decode("utf-8", "replace")
    tree.body = [statement for statement in tree.body if not _is_program(statement)]
    return ast.unparse(tree)


def _is_program(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _root(path: Path, module: ModuleType) -> Path:
    package = module.__package__ or ""
    return path.parents[len(package.split("."))] if package else path.parent


def _package(path: Path, root: Path) -> tuple[str, ...]:
    """The package that a file's relative imports start from."""
    return path.parent.relative_to(root).parts


def _imported(text: bytes, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every module that a file may import, anywhere in it, by the parts of its name."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield base
            yield from ((*base, alias.name) for alias in node.names)


def _files(root: Path, name: tuple[str, ...]) -> Iterator[Path]:
    """The files below a folder that importing a name runs: the packages that hold it, and itself."""
    for end in range(1, len(name) + 1):
        place = root.joinpath(*name[:end])
        yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())


def _loaded(path: Path, root: Path) -> ModuleType | None:
    parts = path.relative_to(root).with_suffix("").parts
    module = sys.modules.get(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    file = getattr(module, "__file__", None)
    return module if file and Path(file).resolve() == path else None


def _counts(name: tuple[str, ...], root: Path, path: Path) -> bool:
    """Whether a neighbour is the user's: not this package, and among installed ones only of the same package."""
    if root.name in INSTALLED:
        return name[0] == path.relative_to(root).parts[0]
    return name[0] != OURS
