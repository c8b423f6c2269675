"""A cluster of one machine: submitit's local executor, or the real one with programs that stand in for SLURM's.

What happens to allocations is done to them from outside, by the signals that SLURM sends.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

SBATCH = """#!{python}
# Runs each task of an array, as SLURM would: again where scontrol has asked for it, and with the script's own lines.
import os, re, subprocess, sys, time
here, script = os.path.dirname(os.path.abspath(__file__)), sys.argv[-1]
text = open(script).read()
number = str(len(os.listdir(here + "/jobs")) + 101)
os.makedirs(here + "/jobs/" + number)
open(here + "/jobs/" + number + "/script", "w").write(text)
array = re.search(r"#SBATCH --array=0-(\\d+)", text)
tasks = range(int(array[1]) + 1) if array else [None]
print("Submitted batch job", number, flush=True)
if os.fork():
    os._exit(0)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for each in range(3):
    os.dup2(null, each)
def started(task):
    name = number if task is None else f"{{number}}_{{task}}"
    own = {{"SLURM_JOB_ID": number, "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}}
    if task is not None:
        own |= {{"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(task)}}
    open(here + "/states/" + name, "w").write("RUNNING")
    return name, subprocess.Popen(["bash", script], env={{**os.environ, **own}}, start_new_session=True)
going = {{task: started(task) for task in tasks}}
while going:
    time.sleep(0.05)
    for task, (name, process) in list(going.items()):
        open(here + "/jobs/" + number + f"/pid_{{name}}", "w").write(str(process.pid))
        if os.path.exists(here + "/cancelled/" + name):
            with __import__("contextlib").suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            open(here + "/states/" + name, "w").write("CANCELLED")
            del going[task]
        elif process.poll() is not None:
            if os.path.exists(here + "/requeued/" + name):
                os.unlink(here + "/requeued/" + name)
                going[task] = started(task)
            else:
                open(here + "/states/" + name, "w").write("COMPLETED" if not process.returncode else "FAILED")
                del going[task]
"""
SRUN = """#!{python}
# Runs the command behind srun's own options, its output where they say.
import os, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    name = words.pop(0)
    if name in ("--output", "--error"):
        task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        path = words.pop(0).replace("%A", os.environ["SLURM_JOB_ID"]).replace("%a", task).replace("%t", "0")
        path = path.replace("%j", os.environ["SLURM_JOB_ID"])
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1 if name == "--output" else 2)
os.execvp(words[0], words)
"""
SCONTROL = """#!{python}
import os, sys
open(os.path.dirname(os.path.abspath(__file__)) + "/requeued/" + sys.argv[-1], "w").close()
"""
SCANCEL = """#!{python}
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
if os.path.exists(here + "/states/" + sys.argv[-1]):
    open(here + "/cancelled/" + sys.argv[-1], "w").close()
"""
SACCT = """#!{python}
import os
states = os.path.dirname(os.path.abspath(__file__)) + "/states/"
print("JobID|State|NodeList")
for name in os.listdir(states):
    print(name, open(states + name).read(), "here", sep="|")
"""


def programs(folder: Path) -> Path:
    """A folder with SLURM's programs for a PATH; submitted scripts come into its ``jobs``."""
    for name in ("jobs", "states", "requeued", "cancelled"):
        (folder / name).mkdir(parents=True)
    texts = {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL, "scancel": SCANCEL, "sacct": SACCT}
    for name, text in texts.items():
        (folder / name).write_text(text.format(python=sys.executable))
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def nodes(parent: Path) -> dict[str, int]:
    """The process of each node that is there, by its allocation, in whatever queue is below a folder."""
    found = {}
    for path in parent.glob("queue-*/nodes/*"):
        with suppress(OSError, ValueError, IndexError):
            found[path.name.rpartition("-")[0]] = int(path.read_text().split()[1])
    return found


def busy(parent: Path) -> dict[str, int]:
    """The same of the nodes that have taken jobs."""
    taken = {path.name.rpartition(".")[2].rpartition("-")[0] for path in parent.glob("queue-*/taken/*")}
    return {name: pid for name, pid in nodes(parent).items() if name in taken}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def preempt(node: int) -> None:
    """Tell the task of a node's allocation that it has to go, as SLURM does before it takes the machine away."""
    task = parent_of(node)
    os.kill(task, signal.SIGTERM)
    os.kill(task, signal.SIGUSR2)


def kill(node: int) -> None:
    """Kill a node itself, as a machine that is short of memory does."""
    os.kill(node, signal.SIGKILL)


def kill_allocation(node: int) -> None:
    """Kill the task of an allocation, with all that it has started."""
    task = parent_of(node)
    os.kill(task, signal.SIGKILL)


def disturb(
    parent: Path, done: Callable[[], int], faults: list[tuple[int, Callable[[int], None]]], seconds: float = 120.0
) -> Iterator[str]:
    """Do each fault once so many jobs were done, to one allocation after the other; the names of what was hit."""
    until, last = time.monotonic() + seconds, ""
    for after, fault in faults:
        while True:
            assert time.monotonic() < until, f"nobody is there to be hit after {done()} jobs"
            there = {name: pid for name, pid in busy(parent).items() if name != last} or busy(parent)
            if done() >= after and there:
                last = sorted(there)[0]
                with suppress(OSError):  # it has just ended by itself: another is hit
                    fault(there[last])
                    yield last
                    break
            time.sleep(0.02)
