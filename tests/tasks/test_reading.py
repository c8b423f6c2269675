from __future__ import annotations

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.tasks.reading import channels_first, detect, parse_size
from trainless.tasks.settings import Reading


@pytest.mark.parametrize(
    ("sample", "shape"),
    [
        ((256,), (1, 256)),
        ((12, 1000), (12, 1000)),
        ((1000, 12), (12, 1000)),
        ((1, 40), (1, 40)),
        ((8, 8), (1, 8, 8)),
        ((28, 28), (1, 28, 28)),
        ((32, 48), (1, 32, 48)),
        ((28, 28, 1), (1, 28, 28)),
        ((32, 32, 3), (3, 32, 32)),
        ((3, 32, 32), (3, 32, 32)),
        ((64, 64, 4), (4, 64, 64)),
        ((28, 28, 28), (1, 28, 28, 28)),
        ((2, 16, 16, 16), (2, 16, 16, 16)),
        ((16, 20, 24, 2), (2, 16, 20, 24)),
    ],
)
def test_the_layout_is_detected(sample: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = np.empty((2, *sample))
    layout = detect(sample, Reading())
    assert channels_first(x, layout).shape == (2, *shape)
    assert layout.dims == len(shape) - 1


def test_channels_last_moves_the_values_with_the_axis() -> None:
    x = np.arange(2 * 5 * 6 * 3).reshape(2, 5, 6, 3)
    moved = channels_first(x, detect((5, 6, 3), Reading()))
    assert moved[1, 2, 3, 4] == x[1, 3, 4, 2]


@pytest.mark.parametrize(
    ("sample", "reading", "shape"),
    [
        ((12, 1000), Reading(dims=2), (1, 12, 1000)),
        ((64, 256), Reading(dims=1), (64, 256)),
        ((28, 28, 28), Reading(dims=2), (28, 28, 28)),
        ((9, 9, 20), Reading(channels="last"), (20, 9, 9)),
        ((4, 30, 30), Reading(channels="none"), (1, 4, 30, 30)),
    ],
)
def test_the_layout_can_be_forced(sample: tuple[int, ...], reading: Reading, shape: tuple[int, ...]) -> None:
    assert channels_first(np.empty((1, *sample)), detect(sample, reading)).shape == (1, *shape)


@pytest.mark.parametrize(
    "reading", [Reading(dims=1), Reading(dims=3, channels="last"), Reading(dims=2, channels="none")]
)
def test_a_layout_that_does_not_fit_says_so(reading: Reading) -> None:
    with pytest.raises(InputError, match=r"does not fit --dims [123]"):
        detect((5, 6, 7), reading)


@pytest.mark.parametrize("sample", [(), (2, 3, 4, 5, 6)])
def test_too_few_or_many_axes(sample: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="expected one to three spatial sizes"):
        detect(sample, Reading())


def test_what_could_be_meant_otherwise_is_noted() -> None:
    assert "--dims 2 reads them as images" in detect((12, 1000), Reading()).note
    assert "reads them as images" in detect((16, 64, 64), Reading()).note


@pytest.mark.parametrize("options", [{"kind": "x"}, {"dims": 7}, {"channels": "middle"}, {"seed": -1}])
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"was given; expected"):
        Reading(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["a", "3x4x5", "0", (1, 2, 3), -3])
def test_sizes_out_of_range(size: int | str | tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="expected a whole number above 0, such as 64, or one per axis, such as 64x64"):
        parse_size(size, 2)
