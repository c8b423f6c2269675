from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.commands import said_by
from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.search import search
from trainless.spaces import moves
from trainless.spaces.custom import Code, load, space_from
from trainless.spaces.protocol import Space, key
from trainless.testing import check_space

USER_FILE = """\
from torch import nn

from trainless.spaces.custom import space_from


def net(choices, task):
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[task.dims]
    activation = {"relu": nn.ReLU, "gelu": nn.GELU}[choices["activation"]]
    layers, inputs = [], task.input_shape[0]
    for _ in range(choices["depth"]):
        layers += [conv(inputs, choices["width"], choices["kernel"], padding="same"), activation()]
        inputs = choices["width"]
    pool = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}[task.dims](1)
    return nn.Sequential(*layers, pool, nn.Flatten(), nn.Linear(inputs, task.target.outputs))


def affordable(choices):
    return choices["depth"] * choices["width"] <= 64


my_space = space_from(
    net,
    {"depth": [1, 2, 4], "width": [8, 16, 32], "kernel": [3, 5], "activation": ["relu", "gelu"]},
    valid=affordable,
    name="plain",
)
a_number = 3


def make():
    return my_space
"""
TASK = Task.noise((3, 8, 8), classes=4)


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "my_file.py"
    path.write_text(USER_FILE)
    return path


def test_thirty_lines_make_a_space_that_searches(user_file: Path) -> None:
    assert len([line for line in USER_FILE.split("a_number")[0].splitlines() if line.strip()]) <= 30
    space = load(f"{user_file}:my_space")
    assert isinstance(space, Space)
    archs = list(moves.enumerate_archs(space))
    assert len(archs) == (3 + 3 + 2) * 2 * 2
    arch = moves.sample(space, np.random.default_rng(0))
    for shape in [(3, 8, 8), (2, 20), (1, 5, 5, 5)]:
        task = Task.noise(shape, classes=4)
        assert space.build(arch, task)(task.batch(2, seed=0)[0]).shape == (2, 4)
    assert space.parse(space.format(arch)) == arch


def test_choices_keep_their_types() -> None:
    seen: list[dict[str, Any]] = []

    def net(choices: dict[str, Any]) -> nn.Module:
        seen.append(choices)
        return nn.Linear(1, choices["n"])

    space = space_from(net, {"n": [1, 2], "rate": [0.5], "bias": [True, False], "kind": ["a"]})
    assert space.name == "net"
    space.build(space.parse("kind=a,bias=False,rate=0.5,n=2"), TASK)
    assert seen == [{"n": 2, "rate": 0.5, "bias": False, "kind": "a"}]


def test_key_changes_with_options_and_code_and_with_nothing_else(user_file: Path) -> None:
    first, again = load(f"{user_file}:my_space"), load(f"{user_file}:make")
    assert key(first) == key(again)
    user_file.write_text(USER_FILE.replace("[8, 16, 32]", "[8, 16]"))
    fewer = load(f"{user_file}:my_space")
    user_file.write_text(USER_FILE.replace('padding="same"', "padding=0"))
    other = load(f"{user_file}:my_space")
    assert len({key(first), key(fewer), key(other)}) == 3


MAIN = """\
from trainless.spaces.custom import space_from
import helper
from parts import blocks  # a comment
import torch


def net(choices, task):
    return helper.block(choices["n"])


class Mine:
    name, decisions = "mine", ()

    def check(self, task): pass

    def valid(self, arch): return True

    def canonical(self, arch): return arch

    def build(self, arch, task): return helper.block(1)

    def parse(self, text): return ()

    def format(self, arch): return ""


my_space = space_from(net, {"n": [1, 2]})

if __name__ == "__main__":
    raise SystemExit
"""
FILES = {
    "main.py": MAIN,
    "helper.py": "from torch import nn\n\ndef block(n):\n    return nn.Linear(1, n)\n",
    "parts/__init__.py": "",
    "parts/blocks.py": "def later():\n    from . import sizes\n",
    "parts/sizes.py": "WIDTH = 3\n",
    "stranger.py": "NUMBER = 1\n",
}
KEYS = """
import sys
from trainless.spaces.custom import load
from trainless.spaces.protocol import key
sys.stdout.write(f"{key(load('main.py:my_space'))}\\n{key(load('main.py:Mine'))}")
"""


def written(folder: Path, changed: str = "", old: str = "", new: str = "") -> Path:
    """The files, one of them changed."""
    for name, text in FILES.items():
        assert name != changed or old in text
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text.replace(old, new) if name == changed else text)
    return folder


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets the modules beside the user's file, as another process would not have them."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = list(sys.path)

    def forget() -> None:
        sys.path[:] = before
        for name in [name for name in sys.modules if name.partition(".")[0] in ("helper", "parts", "stranger")]:
            del sys.modules[name]

    return forget


@pytest.mark.slow
def test_a_stored_score_is_of_the_code_that_gave_it(tmp_path: Path, forgetful: Callable[[], None]) -> None:
    def keys(folder: str, changed: str = "", old: str = "", new: str = "") -> list[str]:
        forgetful()
        place = written(tmp_path / folder, changed, old, new)
        return [key(load(f"{place}/main.py:{name}")) for name in ("my_space", "Mine")]

    first = keys("first")
    assert all("#" in each for each in first)
    same = (
        keys("a", "stranger.py", "1", "2"),  # nobody imports it
        keys("b", "main.py", "  # a comment", "\n\n# another\n"),
        keys("c", "main.py", "raise SystemExit", "pass"),  # what it does as a program
    )
    assert same == (first, first, first)  # wherever the files are
    for number, changed in enumerate((
        ("helper.py", "Linear(1, n)", "Linear(1, 2 * n)"),  # beside it
        ("parts/sizes.py", "3", "4"),  # two steps away, imported when a function is called
        ("main.py", "import torch", "import torch as t"),  # elsewhere in the file
    )):  # fmt: skip
        assert all(a != b for a, b in zip(keys(f"{number}", *changed), first, strict=True)), changed
    forgetful()
    assert said_by(KEYS, tmp_path / "first").splitlines() == first


def test_the_digest_is_of_the_code_that_runs_not_of_a_file_that_was_edited_since(
    tmp_path: Path, forgetful: Callable[[], None]
) -> None:
    forgetful()
    written(tmp_path)
    first = key(load(f"{tmp_path}/main.py:my_space"))
    (tmp_path / "helper.py").write_text(FILES["helper.py"].replace("1, n", "1, 9"))
    (tmp_path / "main.py").write_text(f"{MAIN}# read again\n")
    assert key(load(f"{tmp_path}/main.py:my_space")) == first  # the helper that was imported is the old one
    importlib.reload(sys.modules["helper"])
    (tmp_path / "main.py").write_text(MAIN)
    assert key(load(f"{tmp_path}/main.py:my_space")) != first
    forgetful()


def test_what_a_function_encloses_is_in_its_key() -> None:
    def of(width: object) -> Code:
        def net(choices: dict[str, Any]) -> nn.Module:
            return nn.Linear(1, int(str(width)))

        return Code(net)

    assert repr(of(16)) == repr(of(16)) != repr(of(32))
    assert repr(of(object())) == repr(of(object()))  # its text would differ from process to process


def test_code_without_source_has_a_name_too() -> None:
    assert repr(Code(len)).startswith("len#")


def test_lazy_layers_are_settled() -> None:
    def net(choices: dict[str, Any]) -> nn.Module:
        return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(choices["n"]))

    space = space_from(net, {"n": [4, 5]})
    made = space.build((0,), TASK)
    assert made.training
    assert sum(tensor.numel() for tensor in made.parameters()) == 3 * 4 * 9 + 4 + 8 + 4 * 36 * 4 + 4
    check_space(space, TASK, archs=[(0,)], samples=0)
    with pytest.raises(InputError, match="net: the network cannot run on noise-3x8-4"):
        space.build((0,), Task.noise((3, 8), classes=4))


class Wrong:
    """A space of two decisions in which something can be broken."""

    name = "wrong"
    decisions = (Decision("a", ("1", "2")), Decision("b", ("1", "2")))

    def check(self, task: Task) -> None:
        pass

    def valid(self, arch: Arch) -> bool:
        return len(arch) == 2 and all(0 <= option < 2 for option in arch)

    def canonical(self, arch: Arch) -> Arch:
        return arch

    def build(self, arch: Arch, task: Task) -> nn.Module:
        layers = [nn.Linear(8, 8) for _ in range(arch[0])]
        return nn.Sequential(nn.AdaptiveAvgPool2d((8, 1)), nn.Flatten(), nn.Linear(24, 8), *layers, nn.Linear(8, 4))

    def parse(self, text: str) -> Arch:
        first, second = map(int, text.split("-"))
        return first, second

    def format(self, arch: Arch) -> str:
        return "-".join(map(str, arch))


class OtherNotation(Wrong):
    def format(self, arch: Arch) -> str:
        return f"{arch[0]}-0"


class OtherTwin(Wrong):
    def canonical(self, arch: Arch) -> Arch:
        return (1 - arch[0], arch[1])


class NoTwin(Wrong):
    def canonical(self, arch: Arch) -> Arch:
        return (0, arch[1])


class OtherOutputs(Wrong):
    def build(self, arch: Arch, task: Task) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 7))


class Fails(Wrong):
    def build(self, arch: Arch, task: Task) -> nn.Module:
        return nn.Linear(1, {"breadth": 3}["width"])


class AcceptsAll(Wrong):
    def valid(self, arch: Arch) -> bool:
        return True


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (OtherNotation(), r"\(1, 1\) is written as '1-0', which is \(1, 0\)"),
        (OtherTwin(), r"canonical is not idempotent: \(1, 1\) → \(0, 1\) → \(1, 1\)"),
        (NoTwin(), r"\(1, 1\) and its canonical form \(0, 1\) differ with all weights equal"),
        (OtherOutputs(), "7"),
        (Fails(), r"network of 1-1 cannot be built and run on noise-3x8x8-4: KeyError: 'width'"),
        (Wrong(), r"parse\('\?!'\) raises ValueError; expected an InputError"),
        (AcceptsAll(), "takes an arch without entries for valid"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_check_space_says_what_is_wrong(space: Wrong, message: str) -> None:
    with pytest.raises((AssertionError, InputError), match=message):
        check_space(space, TASK, archs=[(1, 1)], samples=0)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nb201", "does not name a space; expected my_file.py:my_space"),
        ("absent.py:space", "there is no file absent.py"),
        ("{file}:other", r"has no 'other': its spaces are: my_space; write .*my_file.py:my_space"),
        ("{file}:a_number", "is int, not a space: its spaces are: my_space"),
        ("{file}:net", "needs choices, task: give choices=… by --space-args, or name a space instead"),
        ("{file}", "names a file and no space in it: its spaces are: my_space; write .*my_file.py:my_space"),
        (
            "no_such_package.spaces:mine",
            r"importing no_such_package.spaces failed \(ModuleNotFoundError: No module named 'no_such_package'\)",
        ),
    ],
)
def test_what_is_wrong_with_a_reference_is_said(user_file: Path, reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(reference.format(file=user_file))


def test_a_file_that_fails_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(InputError, match=r"importing .*broken.py failed \(ZeroDivisionError"):
        load(f"{path}:space")


def test_what_is_wrong_with_decisions_is_said() -> None:
    def net(choices: dict[str, Any]) -> nn.Module:
        return nn.Linear(1, 1)

    with pytest.raises(InputError, match="no decisions were given"):
        space_from(net, {})
    with pytest.raises(InputError, match=r"options \[1, '1'\] of 'a' have to be a list of different values"):
        space_from(net, {"a": [1, "1"]})
    with pytest.raises(InputError, match="options 'ab' of 'a'"):
        space_from(net, {"a": "ab"})
    with pytest.raises(InputError, match="'x=1' cannot name a decision"):
        space_from(net, {"x=1": [1]})


def test_what_is_wrong_with_a_build_is_said() -> None:
    space = space_from(lambda choices: torch.zeros(1), {"a": [1]}, name="wrong")  # type: ignore[arg-type,return-value]
    with pytest.raises(InputError, match=r"returned Tensor for a=1; expected a torch.nn.Module"):
        space.build((0,), TASK)
    with pytest.raises(InputError, match="a=2 was given; expected one of 1"):
        space.parse("a=2")


def test_a_rule_that_fails_or_refuses_says_so() -> None:
    def net(choices: dict[str, Any]) -> nn.Module:
        return nn.Linear(1, 1)

    def wide(choices: dict[str, Any]) -> bool:
        return bool(choices["widht"])

    with pytest.raises(InputError, match=r"net: wide\({'a': 1}\) could not be run: KeyError: 'widht'"):
        space_from(net, {"a": [1, 2]}, valid=wide).valid((0,))
    with pytest.raises(InputError, match="net: odd does not allow a=2"):
        space_from(net, {"a": [1, 2]}, valid=odd).parse("a=2")
    with pytest.raises(InputError, match="none of 100,000 random architectures was valid"):
        check_space(space_from(net, {"a": [2, 4]}, valid=odd), TASK)


def odd(choices: dict[str, Any]) -> bool:
    return bool(choices["a"] % 2)


def test_parameters_of_what_makes_a_space_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(USER_FILE + "\n\ndef wide(width: int = 8):\n    return my_space\n")
    with pytest.raises(
        InputError, match=r"made.py:wide has no parameter 'breadth'; it has: width=8 \(a whole number\)"
    ):
        load(f"{path}:wide", breadth=3)
    with pytest.raises(InputError, match="width=x was given; expected a whole number, such as width=8"):
        load(f"{path}:wide", width="x")
    with pytest.raises(InputError, match="is a space already and takes no width"):
        load(f"{path}:my_space", width=3)


def test_a_file_that_ends_the_program_does_not_end_ours(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(InputError, match=r"importing .*script.py failed \(SystemExit"):
        load(f"{path}:space")


def test_a_class_that_lacks_a_method_says_which(tmp_path: Path) -> None:
    path = tmp_path / "partial.py"
    path.write_text("class Mine:\n    name = 'mine'\n    decisions = ()\n    def valid(self, arch): return True\n")
    with pytest.raises(InputError, match="is Mine, which lacks check, canonical, build, parse, format"):
        load(f"{path}:Mine")


BESIDE = """\
from dataclasses import dataclass

from my_own_blocks import widths
from trainless.core.arch import Decision
from trainless.spaces.custom import space_from


def net(choices, task):
    from my_own_layers import layer
    return layer(choices["width"], task)


mine = space_from(net, {"width": widths()})


@dataclass(frozen=True)
class Mine:
    name = "mine"
    decisions = (Decision("width", ("4", "8")),)

    def check(self, task): pass
    def valid(self, arch): return len(arch) == 1 and 0 <= arch[0] < 2
    def canonical(self, arch): return arch
    def build(self, arch, task): return mine.build(arch, task)
    def parse(self, text): return mine.parse(text)
    def format(self, arch): return mine.format(arch)
"""


@pytest.fixture
def files_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_own_blocks.py").write_text("def widths():\n    return [4, 8]\n")
    (tmp_path / "my_own_layers.py").write_text(
        "from torch import nn\n\ndef layer(width, task):\n"
        "    return nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.Linear(width, task.target.outputs))\n"
    )
    (tmp_path / "my_nets.py").write_text(BESIDE)
    return tmp_path / "my_nets.py"


def test_a_file_imports_what_lies_beside_it(files_beside: Path) -> None:
    for name in ("mine", "Mine"):
        space = load(f"{files_beside}:{name}")
        check_space(space, TASK, samples=2)
        assert space.build((1,), TASK)(TASK.batch(2, seed=0)[0]).shape == (2, 4)
    with pytest.raises(InputError, match=r"its spaces are: mine, Mine; write .*my_nets.py:mine"):
        load(str(files_beside))


@pytest.mark.slow
def test_spaces_from_a_file_travel_to_worker_processes(files_beside: Path) -> None:
    for name in ("mine", "Mine"):
        space = load(f"{files_beside}:{name}")
        found = search(TASK, space, "exhaustive", proxies="params", workers=2, evaluations=2)
        weights = {place.text: place.scores["params"] for place in found.places}
        assert weights == {f"width={w}": (192 + 1) * w + (w + 1) * 4 for w in (4, 8)}
