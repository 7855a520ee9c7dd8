"""Drawing rows at random: with replacement for stochastic steps, without for samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.data.source import Source
from vrpca.typing import Array, Rng, Where

DRAWN_AT_ONCE = 32768  # row numbers drawn at a time: 256 kB of them
LEAST_RUNS = 8  # runs of consecutive rows that are gathered together, at least: fewer would not mix


@dataclass(frozen=True)
class Draw:
    """Rows of a source, and the order in which to step through them."""

    where: Where  # the numbers of the rows
    X: Any  # the rows
    orders: Iterable[Array]  # the draws, as numbers within X, a portion at a time; there may be none
    rows_read: int  # rows that were read for them


def draws(source: Source, m: int, rng: Rng, norms: Array | None) -> Iterator[Draw]:
    """Draw m rows with replacement: uniformly or, with `norms`, in proportion to the squared norms of the rows.

    A source that is one block is sampled exactly as the paper does. A source that can gather rows from anywhere comes
    close to that, whatever the order of its rows. Others are sampled block after block, in random order.
    """
    if not source.gather_rows:
        return _block_after_block(source, m, rng, norms)
    parts = _dealt(source, m, rng) if norms is None else _drawn(norms, source.gather_rows, m, rng)
    return (Draw(numbers, source.gather(numbers), [order], len(order)) for numbers, order in parts)


def passes_of_draws(source: Source, m: int) -> float:
    """Passes that m draws take."""
    return m / source.shape[0] if source.block is not None or source.gather_rows else 1.0


def _block_after_block(source: Source, m: int, rng: Rng, norms: Array | None) -> Iterator[Draw]:
    """Give every block its share of the m draws: by rows, or by squared norms."""
    n = source.shape[0]
    whole = n if norms is None else norms.sum()
    done, seen = 0, 0.0
    for start, X in source.blocks(rng):
        length = X.shape[0]
        where = slice(start, start + length)
        inside = None if norms is None else norms[where]
        seen += length if inside is None else inside.sum()
        share = round(m * min(seen / whole, 1.0)) - done
        done += share
        cumulative = None if inside is None else np.cumsum(inside)
        # A block that had to be fetched was read whole, and once, however many of its rows were drawn.
        rows_read = share if source.block is not None else length
        yield Draw(where, X, _numbers(length, cumulative, share, DRAWN_AT_ONCE, rng), rows_read)


def _dealt(source: Source, m: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
    """Yield (row numbers, draws from them), m draws in all: runs of neighbours are dealt out at random.

    Each row is fetched once per n draws: dealing comes close to drawing from all rows at a fraction of the price.
    """
    n, rows = source.shape[0], source.gather_rows
    run = max(1, min(source.neighbours, rows // LEAST_RUNS))
    while m > 0:
        starts = rng.permutation(np.arange(0, n, run))
        while m > 0 and len(starts):
            hand, starts = np.split(starts, [min(rows // run, -(-m // run))])
            numbers = (np.sort(hand)[:, None] + np.arange(run)).ravel()
            numbers = numbers[numbers < n]
            order = rng.integers(len(numbers), size=min(m, len(numbers)))
            yield numbers, order
            m -= len(order)


def _drawn(norms: Array, rows: int, m: int, rng: Rng) -> Iterator[tuple[Array, Array]]:
    """Yield (row numbers, draws from them): rows drawn by their squared norms, `rows` at a time."""
    for numbers in _numbers(len(norms), np.cumsum(norms), m, rows, rng):
        yield np.unique(numbers, return_inverse=True)


def _numbers(n: int, cumulative: Array | None, m: int, portion: int, rng: Rng) -> Iterator[Array]:
    """Draw m of the numbers 0..n-1, a portion at a time: uniformly, or by weights with these cumulative sums."""
    for at in range(0, m, portion):
        count = min(portion, m - at)
        if cumulative is None:
            yield rng.integers(n, size=count)
        else:
            drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
            yield np.minimum(drawn, n - 1)
