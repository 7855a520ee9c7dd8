"""Values as plain arrays and JSON, and back: dataclasses, tuples, lists, dictionaries, numbers, NumPy arrays.

Nothing but the classes that the caller lists is ever made of what was read, each with fields of the types that it
declares.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from vrpca.linalg import aligned_copy, aligned_zeros
from vrpca.options import is_integer, is_real, shown

Classes = Mapping[str, type]  # those that may occur, by name
Arrays = dict[str, Any]  # of numpy.ndarray
PLAIN = (bool, int, float, str, type(None))  # what JSON holds as it is; NaN and infinity are numbers to Python's JSON


class Packer:
    """Turns values into what JSON can hold, and collects their arrays. What occurs twice is stored once.

    A plain object is stored by its ``__getstate__``, a dataclass by its fields. Arrays are not copied.
    """

    def __init__(self, classes: Classes):
        self.names = {kind: name for name, kind in classes.items()}
        self.arrays: Arrays = {}
        self.seen: dict[int, tuple[Any, Any]] = {}  # by id: the value, which must live as long, and how it is stored

    def pack(self, value: Any) -> Any:
        """The value for JSON."""
        if type(value) in PLAIN:
            return value
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.pack(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": {name: self.pack(each) for name, each in value.items()}}
        if isinstance(value, np.generic):
            return {"scalar": value.item(), "dtype": value.dtype.name}
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        return self._array(value) if isinstance(value, np.ndarray) else self._object(value)

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        name, pitch = f"array{len(self.arrays)}", _pitch(array)
        self.arrays[name] = array
        stored = {"array": name} | ({"pitch": pitch} if pitch else {})
        self.seen[id(array)] = array, stored
        return stored

    def _object(self, value: Any) -> dict[str, Any]:
        kind, number = type(value), len(self.seen)
        if kind not in self.names:
            raise TypeError(f"A {kind.__name__} cannot be stored: it is not among the classes that can be.")
        self.seen[id(value)] = value, {"number": number}
        return {"number": number, "class": self.names[kind], "content": self._content(value)}

    def _content(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return value.name
        if is_dataclass(value):
            return {each.name: self.pack(getattr(value, each.name)) for each in fields(value)}
        return {name: self.pack(each) for name, each in value.__getstate__().items()}


def _pitch(array: np.ndarray) -> int:
    """Entries from one row to the next where a matrix has room behind its rows, else 0."""
    if array.ndim != 2 or array.flags.c_contiguous or array.flags.f_contiguous or array.strides[1] != array.itemsize:
        return 0
    return max(0, array.strides[0] // array.itemsize)


class Unpacker:
    """Makes values of what a `Packer` left; raises a ValueError where that cannot be.

    Arrays get the memory layout that they had: the order of sums, and so the last bits, may depend on it.
    """

    def __init__(self, classes: Classes, arrays: Arrays):
        self.classes, self.arrays = classes, arrays
        self.made: dict[int, Any] = {}
        self.laid_out: dict[str, np.ndarray] = {}

    def unpack(self, stored: Any) -> Any:
        """The value."""
        if type(stored) in PLAIN:
            return stored
        if not isinstance(stored, dict):
            raise ValueError(f"{shown(stored)} stands for nothing")
        for tag, make in (("list", list), ("tuple", tuple)):
            if tag in stored:
                return make([self.unpack(each) for each in stored[tag]])
        if "dict" in stored:
            return {name: self.unpack(each) for name, each in stored["dict"].items()}
        if "scalar" in stored:
            return np.dtype(stored["dtype"]).type(stored["scalar"])
        return self._array(**stored) if "array" in stored else self._object(**stored)

    def _array(self, array: str, pitch: int = 0) -> np.ndarray:
        if array not in self.laid_out:
            self.laid_out[array] = _laid_out(self.arrays.pop(array), pitch)  # not twice in memory
        return self.laid_out[array]

    def _object(self, number: int, **described: Any) -> Any:
        if described:
            self.made[number] = self._made(described["class"], described["content"])
        return self.made[number]

    def _made(self, name: str, content: Any) -> Any:
        kind = self.classes[name]
        if issubclass(kind, enum.Enum):
            return kind[content]
        values = {each: self.unpack(value) for each, value in content.items()}
        if is_dataclass(kind):
            check_fields(kind, values)
            return kind(**values)
        made: Any = kind.__new__(kind)
        made.__setstate__(values)
        return made


def _laid_out(array: np.ndarray, pitch: int) -> np.ndarray:
    """The array as it lay in memory: on a cache line, and with room behind its rows if it had that."""
    if pitch > array.shape[-1]:
        padded = aligned_zeros((len(array), pitch), array.dtype)[:, : array.shape[1]]
        padded[...] = array
        return padded
    return aligned_copy(array) if array.flags.c_contiguous and array.ndim == 2 else array


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise a ValueError unless these are the fields of a dataclass, with values of the types that they declare."""
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]
    if set(names) != set(values):
        raise ValueError(f"{kind.__name__} has the fields {', '.join(names)}, not {', '.join(values)}")
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} of {kind.__name__} cannot be {shown(value)}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in parts)
    if origin in (list, tuple):
        return isinstance(value, origin) and all(_fits(each, parts[0]) for each in value)
    if hint in (int, float):
        return is_integer(value) if hint is int else is_real(value)
    return hint is Any or isinstance(value, origin or hint)
