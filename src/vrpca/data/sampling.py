"""Drawing rows at random: with replacement for stochastic steps, without for samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import Source

DRAWN_AT_ONCE = 32768  # row numbers drawn at a time: 256 kB of them
LEAST_RUNS = 8  # runs of consecutive rows that are gathered together, at least: fewer would not mix


@dataclass(frozen=True)
class Draw:
    """Rows of a source, and an order in which to step through them.

    Attributes
    ----------
    where : slice or numpy.ndarray
        The numbers of the rows.
    X : array or CSR matrix
        The rows.
    order : numpy.ndarray
        The draws, as numbers within X; there may be none.
    rows_read : int
        Rows that were read for them.
    """

    where: slice | np.ndarray
    X: Any
    order: np.ndarray
    rows_read: int


def draws(source: Source, m: int, rng: np.random.Generator, norms: np.ndarray | None) -> Iterator[Draw]:
    """Draw m rows with replacement: uniformly or, with `norms`, in proportion to the squared norms of the rows.

    A source that is one block is sampled exactly as the paper does. A source that can gather rows from anywhere comes
    close to that, whatever the order of its rows. Others are sampled block after block, in random order.
    """
    if not source.gather_rows:
        return _block_after_block(source, m, rng, norms)
    n, rows = source.shape[0], source.gather_rows
    return _gathered(
        source, _dealt(n, rows, source.neighbours, m, rng) if norms is None else _drawn(norms, rows, m, rng)
    )


def passes_of_draws(source: Source, m: int) -> float:
    """Passes that m draws take."""
    return m / source.shape[0] if source.block is not None or source.gather_rows else 1.0


def _gathered(source: Source, parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[Draw]:
    for numbers, order in parts:
        yield Draw(numbers, source.gather(numbers), order, len(order))


def _block_after_block(source: Source, m: int, rng: np.random.Generator, norms: np.ndarray | None) -> Iterator[Draw]:
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
        yield Draw(where, X, np.zeros(0, np.int64), share if source.block is not None else length)
        for at in range(0, share, DRAWN_AT_ONCE):
            yield Draw(where, X, _numbers(length, cumulative, min(DRAWN_AT_ONCE, share - at), rng), 0)


def _dealt(n: int, rows: int, run: int, m: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, draws from them), m draws in all: runs of rows are dealt out at random, `rows` at a time.

    Each row is fetched once per n draws: dealing comes close to drawing from all rows at a fraction of the price.
    """
    run = max(1, min(run, rows // LEAST_RUNS))
    while m > 0:
        starts = rng.permutation(np.arange(0, n, run))
        while m > 0 and len(starts):
            hand, starts = np.split(starts, [min(rows // run, -(-m // run))])
            numbers = (np.sort(hand)[:, None] + np.arange(run)).ravel()
            numbers = numbers[numbers < n]
            order = rng.integers(len(numbers), size=min(m, len(numbers)))
            yield numbers, order
            m -= len(order)


def _drawn(norms: np.ndarray, rows: int, m: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (row numbers, draws from them): rows drawn by their squared norms, `rows` at a time."""
    cumulative = np.cumsum(norms)
    for at in range(0, m, rows):
        yield np.unique(_numbers(len(norms), cumulative, min(rows, m - at), rng), return_inverse=True)


def _numbers(n: int, cumulative: np.ndarray | None, count: int, rng: np.random.Generator) -> np.ndarray:
    if cumulative is None:
        return rng.integers(n, size=count)
    drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    return np.minimum(drawn, n - 1)


def sample_rows(source: Source, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, Any, int]:
    """Some rows at random, without replacement: their numbers, themselves, and how many were read for that.

    Where rows come in blocks that have to be fetched, they are the rows of a few blocks.
    """
    n = source.shape[0]
    if source.gather_rows:
        index = np.sort(rng.choice(n, rows, replace=False))
        return index, source.gather(index), rows
    numbers, parts, fetched = [], [], 0
    for start, X in source.blocks(rng) if source.block is None else [(0, source.block)]:
        if X.shape[0] == n:
            index = np.sort(rng.choice(n, rows, replace=False))
            return index, X[index], rows if source.block is not None else n
        numbers.append(np.arange(start, start + X.shape[0]))
        parts.append(X)
        fetched += X.shape[0]
        if fetched >= rows:
            break
    together = sp.vstack(parts) if sp.issparse(parts[0]) else np.vstack(parts)
    return np.concatenate(numbers), together, fetched
