"""`DaskSource`: a matrix in chunks of rows that dask holds. A pass is one task per chunk and a tree of merges."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from vrpca.data.cluster import tasks
from vrpca.data.cluster.engine import Engine, Graph, Tasks, new_name, result_of, task
from vrpca.data.cluster.faults import Attempts
from vrpca.data.cluster.tasks import Facts, Part, Work
from vrpca.data.source import A, Source, check_shape
from vrpca.errors import DataError
from vrpca.memory import in_words
from vrpca.typing import Array, Rng

log = logging.getLogger("vrpca")
T = TypeVar("T")

SAMPLE_BYTES = 256e6  # of a sample that is fetched: a fraction of a second in a network of 10 Gbit/s
# Chunks whose sums are merged at once, by the number of chunks from which that pays. Merging two at a time sends least;
# with many chunks, tasks of the scheduler (about 1 ms each) cost more.
FAN = ((512, 8), (64, 4), (0, 2))
CONVERTED = 12 << 20  # bytes of a piece of a chunk that has to be converted, with what it is made from (data/memory.py)


@dataclass(frozen=True)
class Chunks:
    """Where the chunks are, and what they hold."""

    base: Tasks  # the user's graph, or what is kept of it
    refs: Sequence[Any]  # of each chunk: a key of the graph, or how it is made
    facts: Sequence[Facts]
    column_names: Sequence[str] | None = None
    places: Sequence[str | None] | None = None  # the workers that keep them, if they were asked to

    def without_empty(self) -> Chunks:
        """The chunks that have rows."""
        full = [number for number, facts in enumerate(self.facts) if not facts.empty]
        places = None if self.places is None else [self.places[number] for number in full]
        return replace(
            self,
            refs=[self.refs[number] for number in full],
            facts=[self.facts[number] for number in full],
            places=places,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return sum(facts.nbytes for facts in self.facts)


def parts_of(facts: Sequence[Facts], dtype: np.dtype, sparse: bool) -> list[Part]:
    """Number chunks and their rows."""
    ends = np.cumsum([each.rows for each in facts]).tolist()
    return [
        Part(number, end - each.rows, end, facts[0].features, dtype, sparse)
        for number, (each, end) in enumerate(zip(facts, ends, strict=True))
    ]


def tree(graph: Graph, name: str, keys: Sequence[str], places: Sequence[str | None]) -> str:
    """Add merges of consecutive results to a graph, in an order that depends on their number alone.

    Results are merged where the first of them is.
    """
    fan = next(fan for count, fan in FAN if len(keys) >= count)
    level = 0
    while len(keys) > 1:
        groups, places = [list(keys[at : at + fan]) for at in range(0, len(keys), fan)], places[::fan]
        keys = [
            group[0] if len(group) == 1 else graph.merging(f"{name}-merge-{level}-{i}", tasks.merged, group, places[i])
            for i, group in enumerate(groups)
        ]
        level, fan = level + 1, 2
    return keys[0]


class DaskSource(Source):
    """A matrix in chunks of rows.

    Chunks that fit in memory are kept there from the first pass on, unless memory is limited (`keeps`). Others are
    made again for every pass. Where `chunks` are in memory already, `unkept` says how they were made.
    """

    trusted = True
    columnwise = False
    wide_at = float("inf")
    reads_files = True
    sample_bytes = SAMPLE_BYTES
    file: Source | None = None  # that the chunks are read from, where it is one

    def __init__(
        self, chunks: Chunks, engine: Engine, keeps: bool, unkept: Chunks | None = None, passes_to_open: int = 0
    ):
        self.engine, self.chunks = engine, chunks.without_empty()
        self.unkept = self.chunks if unkept is None else unkept.without_empty()  # how they are made
        facts = self.chunks.facts
        if not facts:
            raise DataError("X has no rows: all of its chunks are empty.")
        widths = sorted({each.features for each in facts})
        if len(widths) > 1:
            raise DataError(f"The chunks of X have {widths[0]} to {widths[-1]} columns: all must have the same.")
        self.shape = sum(each.rows for each in facts), facts[0].features
        check_shape(self.shape)
        self.dtype = np.result_type(*{each.dtype for each in facts})
        self.sparse = any(each.sparse for each in facts)
        self.parts = parts_of(facts, self.dtype, self.sparse)
        self.keeps, self.kept, self.passes_to_open = keeps, unkept is not None, passes_to_open
        self.told = False  # whether it has been logged what is done with the chunks
        self.elsewhere, self.column_names = engine.remote, chunks.column_names
        self.slow_to_read = engine.remote or not keeps
        self.held_bytes = 0 if engine.remote or not keeps else self.chunks.nbytes

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return sum(each.entries for each in self.chunks.facts)

    @property
    def by_rows(self) -> bool:
        """Chunks have rows: the transposed matrix is not walked."""
        return True

    @property
    def largest(self) -> int:
        """Rows of the longest chunk."""
        return max(each.rows for each in self.chunks.facts)

    def rows_of_blocks(self, block_bytes: int) -> int:
        """Chunks are as the user made them."""
        return self.largest

    def block_memory(self, block_bytes: int, transpose: bool = False) -> int:
        """Bytes of the chunks that one process works on at a time, if they are not kept."""
        chunk = max(each.nbytes for each in self.chunks.facts)
        return self.engine.task_threads * (CONVERTED + (0 if self.keeps else chunk))

    def allele_frequencies(self) -> Array | None:
        """Those of the file."""
        return None if self.file is None else self.file.allele_frequencies()

    def with_allele_frequencies(self, frequencies: Array, scaled: bool) -> Source:
        """The file with these frequencies, read by this process."""
        return self if self.file is None else self.file.with_allele_frequencies(frequencies, scaled)

    def described(self) -> str:
        """How the chunks are read, in words."""
        count = f"{len(self.parts)} chunks of dask, {in_words(self.chunks.nbytes)}"
        return f"{count}: " + (
            f"kept in the memory of {self.engine.name}"
            if self.keeps
            else f"made again by {self.engine.name} in every pass"
        )

    def transposed(self) -> Source:
        """Not possible: every chunk has a part of all columns."""
        raise DataError("The chunks of a dask array cannot be walked by columns: transpose X and rechunk it.")

    def _keep(self) -> None:
        """Keep the chunks in memory, where that is the choice; again, if they are lost. Tell it once."""
        chunks, engine = self.chunks, self.engine
        if self.kept and (engine.lost(chunks.base.values()) or engine.gone(chunks.places or ())):
            self.chunks, self.kept = self.unkept, False
        if self.keeps and not self.kept:
            self.chunks = self._tried(lambda: keep(self.chunks, self.engine))
            self.kept = True
        if not self.told:
            log.info("X: %s", self.described())
            self.told = True

    def reduce(self, accumulator: A, rng: Rng | None = None) -> A:
        """One pass: feed every chunk to an accumulator of its own, and merge them."""
        seed = None if rng is None else int(rng.integers(2**63))
        reduction: Any = accumulator
        reduction.merge(self._tried(lambda: self._pass(reduction, seed)))
        return accumulator

    def _pass(self, reduction: Any, seed: int | None) -> Any:
        self._keep()
        engine, name, graph = self.engine, new_name("pass"), Graph(self.chunks.base)
        graph.base[f"{name}-shared"] = task(f"{name}-shared", tasks.unpacked, engine.packed(reduction.shared()))
        shared = result_of(f"{name}-shared")
        n_threads = max(1, engine.threads // len(self.parts))
        places = self._places()
        keys = []
        for part, ref, place in zip(self.parts, self.chunks.refs, places, strict=True):
            work = Work(part, reduction.of_rows(part.rows), n_threads, seed)
            keys.append(graph.leaf(f"{name}-{part.number}", tasks.fed, work, ref, shared, place=place))
        return engine.run(graph, tree(graph, name, keys, places))

    def _places(self) -> Sequence[str | None]:
        """The workers that should work on the chunks: those that keep them."""
        if self.chunks.places is not None:
            return self.chunks.places
        return places_of(self.chunks, self.engine)

    def _tried(self, work: Callable[[], T]) -> T:
        """Work with the chunks, with further attempts if it fails."""
        return Attempts(self.engine, self.chunks.base, self.chunks.refs, self.parts)(work)

    def _of_chunk(self, number: int, task: Any, *arguments: Any) -> Any:
        """The result of a task with one chunk."""
        graph, name = Graph(self.chunks.base), new_name("chunk")
        graph.leaf(name, task, self.chunks.refs[number], *arguments)
        return self._tried(lambda: self.engine.run(graph, name))

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """Fetch one chunk after the other."""
        self._keep()
        order = np.arange(len(self.parts))
        if rng is not None:
            rng.shuffle(order)
        for number in order.tolist():
            yield self.parts[number].start, self._of_chunk(number, tasks.block, self.parts[number])

    def head(self, rows: int) -> Any:
        """The first rows."""
        part = self.parts[0]
        return self._of_chunk(0, tasks.some_rows, part, np.arange(min(rows, part.stop)))

    def sample(self, rows: int, rng: Rng) -> tuple[Array, Any, int]:
        """Rows at random: of all chunks where they are in memory, else of a few chunks, which are made for that."""
        self._keep()
        chosen, fetched = list(self.parts), rows
        if not self.kept:
            count = -(-rows * len(self.parts) // self.shape[0])
            edges = np.arange(count + 1) * len(self.parts) // count
            chosen = [self.parts[number] for number in rng.integers(edges[:-1], edges[1:]).tolist()]
            fetched = sum(part.stop - part.start for part in chosen)
        ends = np.cumsum([part.stop - part.start for part in chosen])
        drawn = np.sort(rng.choice(ends[-1], min(rows, int(ends[-1])), replace=False))
        shares = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        picks = [
            (part, share - (end - (part.stop - part.start)))
            for part, share, end in zip(chosen, shares, ends, strict=True)
            if len(share)
        ]
        found = self._tried(lambda: self._picked(picks))
        numbers = np.concatenate([part.start + share for part, share in picks])
        return numbers, sp.vstack(found, format="csr") if self.sparse else np.vstack(found), max(fetched, len(numbers))

    def _picked(self, picks: Sequence[tuple[Part, Array]]) -> list[Any]:
        graph, name = Graph(self.chunks.base), new_name("sample")
        places = self._places()
        keys = [
            graph.leaf(
                f"{name}-{part.number}",
                *(tasks.some_rows, self.chunks.refs[part.number], part, numbers),
                place=places[part.number],
            )
            for part, numbers in picks
        ]
        return self.engine.run(graph, graph.merging(name, tasks.together, keys))


def keep(chunks: Chunks, engine: Engine) -> Chunks:
    """The same chunks in memory."""
    graph, name = Graph(chunks.base), new_name("keep")
    places = places_of(chunks, engine)
    keys = [
        graph.leaf(f"{name}-{number}", tasks.kept, ref, place=place)
        for number, (ref, place) in enumerate(zip(chunks.refs, places, strict=True))
    ]
    base = dict(zip(keys, engine.keep(graph, keys), strict=True))
    return replace(chunks, base=base, refs=[result_of(key) for key in keys], places=places)


def places_of(chunks: Chunks, engine: Engine) -> Sequence[str | None]:
    """The workers that should make the chunks; none where tasks of the user's graph may have to be near."""
    return [None] * len(chunks.refs) if chunks.base else engine.places(len(chunks.refs))
