"""Jobs and answers in a folder: one taker for each, nobody else's files, and what came too late refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.execution import queue as queue_module
from trainless.execution.queue import ANSWERS, JOBS, TAKEN, Name, Queue


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.made(tmp_path / "queues")


def test_a_folder_that_others_may_use_is_refused(queue: Queue, tmp_path: Path) -> None:
    assert queue.folder.stat().st_mode & 0o777 == 0o700
    queue.folder.chmod(0o750)
    with pytest.raises(InputError, match=r"may be used by others, who could run code by it: expected mode 0700"):
        Queue(queue.folder)
    queue.folder.chmod(0o700)
    (tmp_path / "link").symlink_to(queue.folder)
    with pytest.raises(InputError, match="may be used by others"):
        Queue(tmp_path / "link")
    if os.geteuid() == 0:
        os.chown(queue.folder, 12345, 12345)
        with pytest.raises(InputError, match="may be used by others"):
            Queue(queue.folder)


def test_a_place_where_others_may_exchange_folders_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InputError, match="lets others put their folders in the place of yours"):
        Queue.made(tmp_path / "open")
    (tmp_path / "open").chmod(0o1777)  # as /tmp
    assert Queue.made(tmp_path / "open").nodes() == {}


def test_nobody_elses_file_is_unpickled(queue: Queue, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(pickle.dumps("harm"))
    (queue.folder / JOBS / "1.1").symlink_to(theirs)
    with pytest.raises(OSError, match="symbolic"):
        queue.take("here")
    if os.geteuid() == 0:
        queue.put(Name(2, 1), "job")
        os.chown(queue.folder / JOBS / "2.1", 12345, 12345)
        (queue.folder / TAKEN / "1.1.here").unlink()
        with pytest.raises(InputError, match="is not this user's own file: it is not read"):
            queue.take("here")


def test_work_is_checked_by_its_digest(queue: Queue) -> None:
    digest = queue.offer(("work", 1))
    assert queue.work(digest) == ("work", 1)
    queue.offer(("harm", 1))
    with pytest.raises(InputError, match="is not what this node was started for"):
        queue.work(digest)


def test_a_job_goes_to_one_node_and_its_answer_comes_once(queue: Queue) -> None:
    for number in (12, 7):
        queue.put(Name(number, 1), f"job {number}")
    assert queue.take("one") == (Name(7, 1, "one"), "job 7")
    assert queue.take("two") == (Name(12, 1, "two"), "job 12")
    assert queue.take("one") is None
    assert queue.names(TAKEN) == [Name(7, 1, "one"), Name(12, 1, "two")]
    queue.answer(Name(12, 1, "two"), "answer 12")
    assert list(queue.answers()) == [(Name(12, 1, "two"), "answer 12")]
    assert list(queue.answers()) == []
    queue.give_back(Name(7, 1, "one"))
    assert queue.take("two") == (Name(7, 1, "two"), "job 7")


def test_a_job_that_was_taken_back_is_not_answered(queue: Queue) -> None:
    for number in (1, 2):
        queue.put(Name(number, 1), "job")
    name, _ = queue.take("one") or (None, None)
    queue.retract(Name(1, 1))
    queue.retract(Name(2, 1))
    assert name is not None
    queue.answer(name, "late")
    assert (queue.names(JOBS), queue.names(TAKEN), queue.names(ANSWERS)) == ([], [], [])


def test_what_is_no_answer_is_told_as_what_is_wrong_with_it(queue: Queue) -> None:
    (queue.folder / ANSWERS / "3.1.one").write_bytes(b"garbage")
    ((name, answer),) = queue.answers()
    assert name == Name(3, 1, "one")
    assert isinstance(answer, pickle.UnpicklingError)


def test_whoever_is_there_says_so_again_and_again(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "BEAT_SECONDS", 0.02)
    with queue.beating("one"), queue.beating():
        first, began = queue.nodes(), queue.waited_for()
        until = time.monotonic() + 10
        while queue.nodes() == first or queue.waited_for() == began:
            assert time.monotonic() < until
    assert (queue.nodes(), queue.waited_for()) == ({}, 0)
    assert not queue.stopped
    queue.remove()
    assert queue.stopped


TAKER = """
import sys
from pathlib import Path
from trainless.execution.queue import Queue
queue, took = Queue(Path(sys.argv[1])), []
print("ready", flush=True)
sys.stdin.readline()
while (found := queue.take(sys.argv[2])) is not None:
    took.append(found[0].id)
print(*took)
"""


def test_many_takers_share_all_jobs_and_none_twice(queue: Queue) -> None:
    for number in range(200):
        queue.put(Name(number, 1), number)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    takers = [subprocess.Popen([sys.executable, "-c", TAKER, queue.folder, f"{n}"], **pipes) for n in range(3)]  # type: ignore[call-overload]
    assert [taker.stdout.readline() for taker in takers] == ["ready\n"] * 3
    said = [taker.communicate("go\n", timeout=60)[0] for taker in takers]
    assert sorted(int(word) for text in said for word in text.split()) == list(range(200))
