"""How arrays, data frames and lists of delayed blocks of dask become a `DaskSource`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.cluster import tasks
from vrpca.data.cluster.engine import Engine, Graph, Tasks, current_engine, new_name, result_of
from vrpca.data.cluster.faults import Attempts
from vrpca.data.cluster.source import Chunks, DaskSource, keep
from vrpca.data.cluster.tasks import Facts, FilePart, Recipe
from vrpca.data.files.base import FileSource
from vrpca.data.frames import column_dtype
from vrpca.data.source import Source, check_shape
from vrpca.errors import DataError, warn

FILE_CHUNK = 64 << 20  # bytes of a chunk of a file: half of what dask makes chunks of by itself, so that all have work


def array_source(X: Any, limited: bool = False) -> DaskSource:
    """A dask array. Chunks that split columns are put together first."""
    if X.ndim != 2:
        check_shape(tuple(0 if math.isnan(n) else n for n in X.shape))
    if len(X.chunks[1]) > 1:
        pieces = len(X.chunks[1])
        warn(
            f"The chunks of X split its columns into {pieces} parts; they are put together, which moves data in every "
            "pass where they are not kept. Rechunk X with chunks of whole rows: X.rechunk({0: 'auto', 1: -1})."
        )
        known = not math.isnan(X.shape[0])
        X = X.rechunk({0: "auto", 1: -1} if known else {1: -1})
    lengths, sparse = X.chunks[0], sp.issparse(X._meta)
    facts = None
    if not sparse and not any(math.isnan(length) for length in lengths) and isinstance(X._meta, np.ndarray):
        dtype, d = tasks.meta_dtype(X.dtype), int(X.shape[1])
        facts = [Facts(n, d, dtype, False, n * d, n * d * X.dtype.itemsize) for n in map(int, lengths)]
    return opened(optimised([X]), facts, None, limited)


def frame_source(X: Any, limited: bool = False) -> DaskSource:
    """A dask data frame: its partitions are the chunks."""
    for name, kind in zip(X.columns, X.dtypes, strict=True):
        column_dtype(name, kind)  # raises where a column holds no numbers
    return opened([X.optimize()], None, frame_names(X), limited)


def frame_names(X: Any) -> list[str] | None:
    """The names of a data frame's columns, if they are text."""
    return list(X.columns) if all(isinstance(name, str) for name in X.columns) else None


def blocks_source(X: Sequence[Any], limited: bool = False) -> DaskSource:
    """Delayed blocks, one below the other."""
    return opened(optimised(X), None, None, limited)


def optimised(collections: Sequence[Any]) -> Sequence[Any]:
    """The same collections, with what dask does to graphs before it runs them."""
    import dask

    return dask.optimize(*collections)


def opened(
    collections: Sequence[Any], facts: Sequence[Facts] | None, names: Sequence[str] | None, limited: bool
) -> DaskSource:
    """The source of the chunks of collections. Where nothing is known of them, they are looked at."""
    from dask.core import flatten
    from dask.utils import ensure_dict

    engine, base, keys = current_engine(), dict[Any, Any](), list[Any]()
    for each in collections:
        base |= ensure_dict(each.__dask_graph__())
        keys += list(flatten([each.__dask_keys__()]))
    refs: Any = recipes(base, keys)
    base, refs = (base, [result_of(key) for key in keys]) if refs is None else ({}, refs)
    if facts is not None:
        chunks = Chunks(base, refs, facts, names)
        return DaskSource(chunks, engine, not limited and chunks.nbytes <= engine.memory)
    return _looked_at(Chunks(base, refs, [], names), engine, limited)


def _looked_at(chunks: Chunks, engine: Engine, limited: bool) -> DaskSource:
    """The source after a look at all chunks, which are kept if the first of them says that there is room."""
    tried = Attempts(engine, chunks.base, chunks.refs, [f"chunk {number}" for number in range(len(chunks.refs))])
    keeps = not limited and tried(lambda: _expected_bytes(chunks, engine)) <= engine.memory
    found = tried(lambda: keep(chunks, engine)) if keeps else chunks
    facts = tried(lambda: _facts(found.base, found.refs, engine))
    known, made = replace(found, facts=facts), replace(chunks, facts=facts)
    return DaskSource(known, engine, keeps, made if keeps else None, passes_to_open=0 if keeps else 1)


def _expected_bytes(chunks: Chunks, engine: Engine) -> int:
    """Bytes of all chunks, if they are as large as the first one that is not empty."""
    looks = (found for ref in chunks.refs for found in _facts(chunks.base, [ref], engine))
    return len(chunks.refs) * next((found.nbytes for found in looks if not found.empty), 0)


def _facts(base: Tasks, refs: Sequence[Any], engine: Engine) -> list[Facts]:
    graph, name = Graph(base), new_name("facts")
    keys = [graph.leaf(f"{name}-{number}", tasks.facts, ref) for number, ref in enumerate(refs)]
    return list(engine.run(graph, graph.merging(name, tasks.together, keys)))


def recipes(graph: Tasks, keys: Sequence[Any]) -> list[Recipe] | None:
    """The part of a graph that each chunk is made by; None if chunks share a part, or something lies on workers.

    Such a part is one task then, whatever it consists of: it runs where it is wanted, and nothing is kept between.
    """
    owners: dict[Any, int] = {}
    found: list[Recipe] = []
    for number, key in enumerate(keys):
        mine, waiting = {}, [key]
        while waiting:
            each = waiting.pop()
            if each in mine:
                continue
            if owners.setdefault(each, number) != number or each not in graph or _on_workers(graph[each]):
                return None
            mine[each] = graph[each]
            waiting += _needed(graph, each)
        found.append(Recipe(mine, key))
    return found


def _on_workers(task: Any) -> bool:
    return type(task).__module__.partition(".")[0] == "distributed"


def _needed(graph: Tasks, key: Any) -> list[Any]:
    """The keys that a task needs, those that are not in the graph as well."""
    from dask._task_spec import GraphNode
    from dask.core import get_dependencies

    task = graph[key]
    return list(task.dependencies) if isinstance(task, GraphNode) else list(get_dependencies(graph, key))


def file_source(file: Source, limited: bool = False) -> DaskSource:
    """A file that all workers of the current cluster can read, in chunks of its rows."""
    if not isinstance(file, FileSource) or file.by_columns:
        raise DataError(
            "Workers cannot read parts of this file's rows: it is loaded whole, or stored by columns. Convert it to "
            ".npy, .parquet or .zarr, or leave out --scheduler and --workers."
        )
    engine = current_engine()
    n, d = file.shape
    per_row, entries = max(1.0, file.bytes_per_row), file.entries / n
    rows = max(file.unit_rows, int(FILE_CHUNK / per_row) // file.unit_rows * file.unit_rows, 1)
    cuts = [slice(at, min(at + rows, n)) for at in range(0, n, rows)]
    facts = [
        Facts(count, d, file.dtype, file.sparse, round(entries * count), round(per_row * count))
        for count in (cut.stop - cut.start for cut in cuts)
    ]
    chunks = Chunks({}, [FilePart(file, cut) for cut in cuts], facts, file.column_names)
    source = DaskSource(chunks, engine, not limited and chunks.nbytes <= engine.memory)
    source.file, source.genotypes_scaled, source.alleles = file, file.genotypes_scaled, file.alleles
    return source
