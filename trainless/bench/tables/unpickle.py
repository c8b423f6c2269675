"""Pickles as plain data: dictionaries, lists, tuples, numbers, text and numeric arrays; anything else is refused."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError

_KINDS = "biufcSU"


class _Maker:
    """The only thing that a pickle can call; it can neither be changed nor inspected by one."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., object]) -> None:
        self._make = make

    def __call__(self, *arguments: object) -> object:
        return self._make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a pickle tried to change how it is read")


class _Dtype:
    """A numeric data type on its way; arrays and scalars are made from it here, not by numpy's own pickling."""

    __slots__ = ("value",)

    def __init__(self, text: object, *_: object) -> None:
        if not isinstance(text, str):
            raise pickle.UnpicklingError(f"a data type called {text!r}")
        self.value = np.dtype(text)
        if self.value.kind not in _KINDS:
            raise pickle.UnpicklingError(f"an array of {text!r}: only numbers and text are read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.value = self.value.newbyteorder(state[1] if state[1] in "<>" else "=")


class _Array:
    """A numeric array on its way."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: npt.NDArray[np.generic] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array that does not hold plain numbers")
        self.value = np.frombuffer(data, dtype.value).reshape(shape, order="F" if fortran else "C").copy()


def _from_buffer(data: object, dtype: object, shape: object, order: object, *_: object) -> _Array:
    """An array as protocol 5 writes it."""
    array = _Array()
    array.__setstate__((1, shape, dtype, order == "F", bytes(data) if isinstance(data, bytearray) else data))
    return array


def _scalar(dtype: object, data: object) -> object:
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("a number that is not plain")
    return np.frombuffer(data, dtype.value, count=1)[0].item()


def _encoded(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("bytes that are not written as latin1")
    return text.encode("latin1")


_MAKERS: Mapping[tuple[str, str], _Maker] = {
    ("collections", "OrderedDict"): _Maker(OrderedDict),
    ("_codecs", "encode"): _Maker(_encoded),
    ("numpy", "dtype"): _Maker(_Dtype),
    ("numpy", "ndarray"): _Maker(_Array),
    **{
        (f"numpy.{core}.multiarray", name): _Maker(make)
        for core in ("core", "_core")
        for name, make in (("_reconstruct", _Array), ("scalar", _scalar))
    },
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Maker(_from_buffer) for core in ("core", "_core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _Maker:
        if (module, name) not in _MAKERS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _MAKERS[module, name]

    def persistent_load(self, identity: object) -> object:
        raise pickle.UnpicklingError("it refers to data outside of it, such as tensors")


def load_plain(stream: BinaryIO, name: str) -> Any:
    """Read the next pickle of a stream as plain data; raises InputError where it asks for anything else.

    Example:
        >>> from io import BytesIO
        >>> load_plain(BytesIO(pickle.dumps({"a": (1, 2.0)})), "example")
        {'a': (1, 2.0)}
        >>> load_plain(BytesIO(pickle.dumps(print)), "example")
        Traceback (most recent call last):
        trainless.core.errors.InputError: example is not read: it asks for builtins.print, but only plain data is made
    """
    try:
        return _finished(_PlainUnpickler(stream).load(), {})
    except pickle.UnpicklingError as error:
        raise InputError(f"{name} is not read: {error}, but only plain data is made") from None
    except (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{name} is not read: it is not a whole pickle ({error})") from None
    except (RecursionError, MemoryError):
        raise InputError(f"{name} is not read: it is nested too deeply or too large") from None


def _finished(value: Any, done: dict[int, Any]) -> Any:
    """The same data with arrays in place of what carried them; shared parts are visited once."""
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, (_Maker, _Dtype)):
        raise pickle.UnpicklingError("it holds something that is not data")
    done[id(value)] = value
    if isinstance(value, dict):
        for key in value:
            value[key] = _finished(value[key], done)
    elif isinstance(value, list):
        value[:] = [_finished(item, done) for item in value]
    elif isinstance(value, tuple):
        done[id(value)] = result = tuple(_finished(item, done) for item in value)
        return result
    return value
