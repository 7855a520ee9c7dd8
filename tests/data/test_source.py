"""The contract of a source: what a subclass has to bring, what it is given, and that solvers need no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrpca.data.open import as_source
from vrpca.data.source import walk

pytestmark = pytest.mark.reference


@given(st.integers(1, 200), st.integers(1, 250), st.integers(0, 2**32 - 1))
def test_walks_cover_every_row_once(n, rows, seed):
    for rng in (None, np.random.default_rng(seed)):
        seen = np.concatenate([np.arange(n)[piece] for piece in walk(n, rows, rng)])
        assert sorted(seen) == list(range(n))
        assert rng is not None or (np.diff(seen) == 1).all()


def test_random_walks_repeat_with_their_seed_and_differ_without(monkeypatch):
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 64)
    source = as_source(np.arange(400, dtype=np.int64).reshape(100, 4))
    starts = [[s for s, _ in source.blocks(np.random.default_rng(seed))] for seed in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    assert starts[0] != sorted(starts[0])
