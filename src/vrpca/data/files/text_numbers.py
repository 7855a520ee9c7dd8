"""Numbers in text that blanks and line ends separate, and the line where they are not what they should be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from vrpca.typing import Array


def parse_numbers(text: bytes, width: int) -> Array:
    r"""The numbers of a text as a matrix, `width` per line. ValueError where a line is not as many numbers.

    >>> parse_numbers(b"1 2\n3 4.5\n", 2)
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # NumPy's words for what is no number
        try:
            numbers = np.fromstring(text, sep=" ")
        except DeprecationWarning as warning:
            raise ValueError("there is something that is not a number") from warning
    lines = _lines(text)
    if len(numbers) != width * lines:
        raise ValueError(f"{lines} lines have {len(numbers)} numbers, not {width} each")
    return numbers.reshape(-1, width)


def _lines(text: bytes) -> int:
    """How many lines are not empty."""
    if b"\n\n" not in text and not text.startswith(b"\n"):  # nearly always, and ten times as fast
        return text.count(b"\n") + (not text.endswith(b"\n")) if text.strip() else 0
    return sum(bool(line.strip()) for line in text.split(b"\n"))


def first_bad(lines: Sequence[bytes], parse: Callable[[bytes], object]) -> int:
    """The number of the first line that cannot be parsed, by bisection; at least one cannot."""
    good, bad = 0, len(lines)  # so many lines are fine, so many are not
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            parse(b"".join(lines[good:middle]))
            good = middle
        except (ValueError, IndexError, OverflowError):
            bad = middle
    return good
