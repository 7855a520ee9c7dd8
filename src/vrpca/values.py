"""Frozen values: copies of them with other fields."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **fields: Any) -> T:
    """The value with some fields changed, as by `dataclasses.replace`, but nothing is checked or worked out again.

    It takes a tenth of the time: small fits consist of many small steps.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> changed(Point(1, 2), y=3)
    Point(x=1, y=3)
    """
    other = object.__new__(type(value))
    vars(other).update(vars(value), **fields)
    return other
