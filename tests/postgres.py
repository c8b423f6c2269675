"""A real PostgreSQL that the tests start: its own folder, a free port on loopback, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from trainless.core.processes import descendants

INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
USER = "trainless"
QUIET = ("-c", "fsync=off", "-c", "log_min_messages=fatal", "-c", "max_connections=60", "-c", "shared_buffers=32MB")


def binary(name: str) -> str:
    """A program of PostgreSQL's; CI installs it, so that its absence is an error there and a skip elsewhere."""
    found = shutil.which(name) or next((str(folder / name) for folder in INSTALLED if (folder / name).exists()), None)
    if found is None:
        pytest.skip(f"no {name}: install PostgreSQL (apt-get install postgresql) to run this test")
    return found


def unprivileged() -> list[str]:
    """How to run as somebody else where we are root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_somebody()}", "--clear-groups", f"--regid={_group()}"]


def _somebody() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _group() -> str:
    return str(pwd.getpwnam(_somebody()).pw_gid)


class Server:
    """One server with its folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trainless-postgres-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, _somebody())
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The URL of an empty database."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def start(self) -> None:
        places = ("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}")
        command = [*unprivileged(), binary("postgres"), "-D", str(self.data), "-p", str(self.port), *places, *QUIET]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self, mode: str = "fast") -> None:
        """End it: ``fast`` ends connections, ``immediate`` is a crash."""
        self._run("pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w")
        if self._process is not None:
            self._process.wait(30)

    def freeze(self) -> None:
        """Have all its processes stand still: connections stay, and nothing is answered."""
        self._tell(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._tell(signal.SIGCONT)

    def _tell(self, number: signal.Signals) -> None:
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        for pid in [first, *descendants(first)]:
            os.kill(pid, number)

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [*unprivileged(), binary(name), *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for the whole session; tests that stop it start it again."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def database(postgres: Server) -> str:
    """The URL of an empty database."""
    return postgres.fresh()
