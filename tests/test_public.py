from __future__ import annotations

import subprocess
import sys

import pytest

import trainless as tl

BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def test_every_public_name_is_there() -> None:
    assert list(tl.__all__) == sorted(tl.__all__)
    for name in tl.__all__:
        assert getattr(tl, name) is not None
    assert set(tl.__all__) <= set(dir(tl))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tl.nothing


def test_importing_is_light() -> None:
    check = "import sys, trainless; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'typer')))"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.slow
def test_no_package_hides_a_name_or_can_be_called() -> None:
    check = (
        "import importlib, pkgutil, types, trainless as tl\n"
        "for each in pkgutil.iter_modules(tl.__path__):\n"
        "    if not each.name.startswith('__'):\n"
        "        module = importlib.import_module(f'trainless.{each.name}')\n"
        "        assert each.name not in tl.__all__ and not callable(module), each.name\n"
        "assert isinstance(tl.search, types.FunctionType) and isinstance(tl.design, types.FunctionType)\n"
        "assert isinstance(tl.score, types.FunctionType)\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_promised_surface() -> None:
    assert {"snip", "gradsign"} <= set(tl.list_proxies())
    assert "nb201" in tl.list_spaces()
    assert tl.space("nb201", channels=16, cells=5).name == "nb201"
    assert "digits" in tl.list_tasks()
    space = tl.space("nb201", channels=4, cells=1)
    task = tl.task("digits")
    arch = space.parse(BEST)
    net = space.build(arch, task)
    x, y = task.batch(16, seed=0)
    scores = tl.score(net, batch=(x, y), proxies=["snip", "gradsign"], seed=0)
    assert isinstance(scores["snip"], float)
    assert scores.failures == {}
    assert {"candidate", "proxy", "value", "status"} <= set(scores.to_frame().columns)
    assert tl.Task.noise((3, 32, 32), classes=10).input_shape == (3, 32, 32)
