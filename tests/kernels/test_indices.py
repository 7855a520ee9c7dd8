"""Column numbers: which ones occur, and other numbers for them."""

from __future__ import annotations

import numpy as np
import pytest

from vrpca.kernels import _native as native
from vrpca.kernels import reference

TYPES = (np.int32, np.int64)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_columns_that_occur(kind, count, rng):
    indices = rng.integers(0, 300, count).astype(kind)
    found, expected = np.zeros(301, bool), np.zeros(301, bool)
    found[7] = expected[7] = True  # what is there stays
    native.occurring(indices, found)
    reference.occurring(indices, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_other_numbers(kind, count, rng):
    indices, numbers = rng.integers(0, 300, count).astype(kind), rng.permutation(300).astype(kind)
    found, expected = np.full(count, -1, kind), np.full(count, -1, kind)
    native.renumbered(indices, numbers, found)
    reference.renumbered(indices, numbers, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1])
def test_indices_out_of_range_are_refused(kind, wrong):
    indices = np.array([0, wrong, 1], kind)
    with pytest.raises(ValueError, match="out of range"):
        native.occurring(indices, np.zeros(5, bool))
    with pytest.raises(ValueError, match="out of range"):
        native.renumbered(indices, np.arange(5, dtype=kind), np.zeros(3, kind))


def test_other_numbers_need_as_much_room():
    with pytest.raises(ValueError, match="as long as"):
        native.renumbered(np.zeros(3, np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32))
