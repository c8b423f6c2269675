"""Opening files of folders that nobody has to trust: no link is followed, and only plain files are opened.

Every part of a path is opened from the folder before it, so nothing can be put in its way in the meantime, and whatever
is joined to a folder's path stays in that folder. A path that the user names may have links of his own:
:func:`without_links` makes it one without any, once, where a run begins.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, cast

from trainless.core.errors import InputError
from trainless.core.processes import require_room

LATEST = 1.0  # seconds after which what was appended is on the disk
GROWTH = 10  # times a text's bytes that reading it may take in memory
Mode = Literal["read", "append", "create", "change", "lock"]
_FLAGS: dict[Mode, tuple[int, str]] = {
    "read": (os.O_RDONLY, "rb"),
    "append": (os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab"),
    "create": (os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb"),
    "change": (os.O_RDWR, "r+b"),
    "lock": (os.O_RDWR | os.O_CREAT, "r+b"),
}
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = _FOLDER | (os.O_PATH if "O_PATH" in dir(os) else os.O_RDONLY)  # a folder that may be entered and not listed


def without_links(path: str | os.PathLike[str]) -> Path:
    """A path that the user names, by the folders that it really leads through; as it is where there is no link in it.

    Example:
        >>> without_links("runs/one"), without_links("/usr/../usr")
        (PosixPath('runs/one'), PosixPath('/usr'))
    """
    given = Path(path)
    try:
        if ".." in given.parts or any(part.is_symlink() for part in (given, *given.parents)):
            return given.resolve()
    except (OSError, ValueError, RuntimeError):  # whoever opens it says what is wrong
        pass
    return given


def below(folder: Path, *names: str) -> Path:
    """A place in a folder by names that come from a file: each is one plain name, which leads nowhere else.

    Example:
        >>> below(Path("run"), "members", "00")
        PosixPath('run/members/00')
        >>> below(Path("run"), "../other")
        Traceback (most recent call last):
        trainless.core.errors.InputError: '../other' cannot name a part of run: expected letters, digits, '-' and '_'
    """
    for name in names:
        if not name or len(name) > 200 or not all(sign.isalnum() or sign in "-_" for sign in name):
            raise InputError(f"{name[:80]!r} cannot name a part of {folder}: expected letters, digits, '-' and '_'")
    return folder.joinpath(*names)


@contextmanager
def folder_at(path: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached without following a link; to ``make`` makes what is missing of it."""
    handle = os.open(path.anchor or ".", _SEARCH)
    try:
        for part in path.parts[1:] if path.anchor else path.parts:
            handle = _entered(handle, part, path, make)
        yield handle
    finally:
        os.close(handle)


def _entered(handle: int, part: str, path: Path, make: bool) -> int:
    """The folder of a name in a folder, in the place of its descriptor."""
    if part == "..":
        raise InputError(f"{path} leads out of its folder: give another one")
    try:
        found = os.open(part, _SEARCH, dir_fd=handle)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=handle)
        sync_folder(handle)
        found = os.open(part, _SEARCH, dir_fd=handle)
    except OSError as error:
        raise _refused(path, part, error, _kind(handle, part)) from error
    os.close(handle)
    return found


def _kind(folder: int, name: str) -> int:
    """What stands under a name in a folder, as ``st_mode``; 0 for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _refused(path: Path, part: str, error: OSError, kind: int) -> Exception:
    if stat.S_ISLNK(kind):
        return InputError(
            f"{path}: {part!r} is a link, not a file or folder of its own: remove it or give another folder"
        )
    return OSError(error.errno, error.strerror, str(path))


def sync_folder(folder: int) -> None:
    """Have the names in a folder on the disk: of what was made, renamed and removed there."""
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; raises OSError where that cannot be."""
    with folder_at(path, make=True):
        pass


def open_file(path: Path, mode: Mode = "read") -> BinaryIO:
    """Open a plain file: no link, pipe or device, and to be written in place none that has a second name elsewhere.

    Raises:
        InputError: It is no plain file.
        OSError: It cannot be opened.
    """
    flags, how = _FLAGS[mode]
    with folder_at(path.parent) as folder:
        kind = _kind(folder, path.name)
        if stat.S_ISLNK(kind):
            raise InputError(f"{path} is a link, not a file of its own: remove it or give another folder")
        if kind and not stat.S_ISREG(kind):
            raise InputError(f"{path} is no plain file: give another folder")
        try:
            handle = os.open(path.name, flags | _SAFE, 0o666, dir_fd=folder)
        except OSError as error:
            raise _refused(path, path.name, error, _kind(folder, path.name)) from error
        if not kind:
            sync_folder(folder)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or (mode in ("append", "change") and about.st_nlink > 1):
        os.close(handle)
        what = "has a second name elsewhere (a hard link)" if stat.S_ISREG(about.st_mode) else "is no plain file"
        raise InputError(f"{path} {what}: copy the folder, or give another")
    return cast(BinaryIO, os.fdopen(handle, how))


class Appender:
    """Appends to a file of its own: every piece is with the operating system at once, and on the disk within a second.

    A process that is killed loses nothing, a machine that loses power at most the last second.
    """

    def __init__(self, path: Path, mode: Literal["append", "create"] = "append") -> None:
        self._file = open_file(path, mode)
        self._synced = time.monotonic()

    def write(self, text: str) -> None:
        self._file.write(text.encode())
        self._file.flush()
        if time.monotonic() - self._synced >= LATEST:
            self.sync()

    def sync(self) -> None:
        """Have everything on the disk."""
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._file.close()


def read_bytes(path: Path, start: int = 0, most: int = -1, *, growth: float = 1.0) -> bytes:
    """Read a plain file from a place on, weighed before: ``growth`` is how much more memory its reader takes."""
    with open_file(path) as file:
        size = max(0, os.fstat(file.fileno()).st_size - start)
        require_room(growth * (size if most < 0 else min(size, most)), str(path), "give another folder")
        file.seek(start)
        return file.read(most)


def read_text(path: Path) -> str:
    """Read a plain text file; raises ValueError where it is no UTF-8."""
    return read_bytes(path, growth=GROWTH).decode("utf-8")


def whole_lines(content: bytes) -> bytes:
    r"""The whole lines of a file that is appended to, without what a crash left of the last ones.

    A process that is killed leaves the beginning of a line, a machine that loses power also blocks of zeros in the
    place of what it had not written yet, and whatever follows them.

    Example:
        >>> whole_lines(b"one\ntwo\n\0\0\nfour\n"), whole_lines(b"one\ntw")
        (b'one\ntwo\n', b'one\n')
    """
    content = content.partition(b"\0")[0]
    return content[: content.rfind(b"\n") + 1]


def status_of(path: Path) -> os.stat_result | None:
    """The status of a plain file that is reached without a link; None where there is none."""
    try:
        with folder_at(path.parent) as folder:
            about = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError, InputError):
        return None
    return about if stat.S_ISREG(about.st_mode) else None


def is_plain(path: Path) -> bool:
    """Whether this is a file of its own: no link, no pipe, no device, and not reached through a link."""
    return status_of(path) is not None


def is_there(path: Path) -> bool:
    """Whether anything stands in a place, be it a link to nowhere."""
    return os.path.lexists(path)


def changed_at(path: Path) -> float:
    """When a plain file was written last, in seconds since 1970; 0 where there is none."""
    about = status_of(path)
    return about.st_mtime if about else 0.0


def folders_in(folder: Path, file: str = "") -> list[str]:
    """Names of the folders in a folder, those that hold a plain file of a name; links are left alone."""
    return [name for name in _names(folder, folders=True) if not file or is_plain(folder / name / file)]


def files_in(folder: Path) -> list[str]:
    """Names of the plain files in a folder, in order."""
    return _names(folder, folders=False)


def _names(folder: Path, *, folders: bool) -> list[str]:
    try:
        with folder_at(folder) as handle:
            readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
        try:
            with os.scandir(readable) as entries:
                wanted = os.DirEntry.is_dir if folders else os.DirEntry.is_file
                return sorted(entry.name for entry in entries if wanted(entry, follow_symlinks=False))
        finally:
            os.close(readable)
    except (OSError, ValueError, InputError):
        return []


def remove(path: Path) -> None:
    """Remove a file, where there is one; of a link the link itself."""
    try:
        with suppress(FileNotFoundError), folder_at(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)
    except OSError as error:
        raise InputError(f"{path} cannot be removed ({error.strerror}): give another folder") from error
