"""Machines in network namespaces of this one: addresses of their own, on a wire that nothing else is on.

The wire is a bridge in the first machine's namespace, so this machine's own network is left alone. All see the same
disk. What runs in a machine ends with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NET = "10.213.77"


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Machine:
    """A machine with an address; the first one has the wire."""

    def __init__(self, number: int, wire: Machine | None) -> None:
        self.name, self.address = f"tl{os.getpid()}-{number}", f"{NET}.{number}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")
        if wire is None:
            ip("-n", self.name, "link", "add", "wire", "type", "bridge")
            ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "wire")
            ip("-n", self.name, "link", "set", "wire", "up")
            return
        port = f"port{number}"
        ip("-n", wire.name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("-n", wire.name, "link", "set", port, "master", "wire", "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")

    def network(self) -> str:
        """Its network as a process there sees it in ``/proc/self/ns/net``."""
        return f"net:[{Path('/run/netns', self.name).stat().st_ino}]"

    def start(self, *words: str | Path, hidden: tuple[Path, ...] = (), **options: Any) -> subprocess.Popen[str]:
        """Start a command there; folders that are hidden from it are empty for it."""
        command = ["ip", "netns", "exec", self.name]
        if hidden:
            mounts = "".join(f"mount -t tmpfs none {shlex.quote(str(folder))} && " for folder in hidden)
            command += ["unshare", "-m", "sh", "-c", f'{mounts}exec "$@"', "sh"]
        return subprocess.Popen([*command, *map(str, words)], text=True, **options)

    def unplug(self) -> None:
        """Lose the machine: nobody hears of it any more, and no connection is closed."""
        ip("-n", self.name, "link", "set", "eth0", "down")

    def pids(self) -> list[int]:
        return [int(word) for word in ip("netns", "pids", self.name).split()]

    def end(self) -> None:
        """Kill what runs there and remove it."""
        until = time.monotonic() + 10
        while (pids := self.pids()) and time.monotonic() < until:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        ip("netns", "del", self.name)


def missing() -> str:
    """Why there can be no machines here; empty where there can."""
    if shutil.which("ip") is None:
        return "there is no ip command (apt install iproute2)"
    if os.geteuid():
        return "namespaces need root"
    name = f"tl{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "wire", "type", "bridge")
            ip("-n", name, "link", "add", "left", "type", "veth", "peer", "name", "right")
        finally:
            ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"no namespaces can be made here ({error.stderr.strip()})"
    return ""


@contextmanager
def machines(number: int) -> Iterator[list[Machine]]:
    """So many machines; more that are added to the list end with them."""
    there: list[Machine] = []
    try:
        for each in range(1, number + 1):
            add(there, each)
        yield there
    finally:
        for machine in reversed(there):
            machine.end()


def add(there: list[Machine], number: int) -> Machine:
    there.append(Machine(number, there[0] if there else None))
    return there[-1]
