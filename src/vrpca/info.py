"""`info`: what a fit of some data would do, told by their headers alone. No row is read."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Unpack, cast

from vrpca.data.cluster.source import DaskSource
from vrpca.data.files import contents, split_name
from vrpca.data.files.base import FileSource
from vrpca.data.files.paths import as_path
from vrpca.data.memory import ArraySource, on_disk, physical_memory
from vrpca.data.open import as_source, is_path, whole_file
from vrpca.data.source import Source
from vrpca.data.unloaded import UnloadedFile
from vrpca.memory import Demand, in_words
from vrpca.options import MLE, Options, SolveOptions, check_k
from vrpca.plan import Plan, expected_passes, for_source, make_plan, smallest_limit
from vrpca.threads import n_threads


@dataclass(frozen=True)
class Info:
    """What is known of data before they are read, and what a fit would do with them.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    dtype : str
        Number type in which a fit works.
    sparse : bool
        Whether zeros are not stored.
    entries : int
        Number of stored entries.
    density : float or None
        Their part of all entries; None for dense data, whose zeros are not known without reading them.
    size_on_disk : int or None
        Bytes of the file, where there is one.
    row_names, column_names : int or None
        How many names there are for rows and columns.
    reading : str
        How the data are read: mapped, loaded, or block by block.
    solver, reason : str
        The solver that a fit would take, and why.
    memory, what : int, str
        Bytes that a fit takes at most, and what takes most of them.
    available : int or None
        Bytes of memory that the machine has, or that the container allows; None where nobody says.
    smallest_limit : int or None
        The smallest `memory_limit` that would do; None where no limit can be kept.
    passes : float
        Passes over the data that the cost model expects; spectra of real data differ.
    bytes_read : int
        Bytes that these passes read from files; what is loaded whole is read once.
    """

    shape: tuple[int, int]
    dtype: str
    sparse: bool
    entries: int
    density: float | None
    size_on_disk: int | None
    row_names: int | None
    column_names: int | None
    reading: str
    solver: str
    reason: str
    memory: int
    what: str
    available: int | None
    smallest_limit: int | None
    passes: float
    bytes_read: int

    def __str__(self) -> str:
        n, d = self.shape
        stored = f"{self.entries} entries stored" + ("" if self.density is None else f", density {self.density:.3g}")
        names = [
            f"{count} {what}" for what, count in (("rows", self.row_names), ("columns", self.column_names)) if count
        ]
        lines = {
            "shape": f"{n} x {d}, {'sparse' if self.sparse else 'dense'}, {self.dtype}",
            "entries": stored + ("" if self.sparse else "; how many are zero is not known without reading them"),
            "on disk": "no file" if self.size_on_disk is None else in_words(self.size_on_disk),
            "names": " and ".join(names) or "none",
            "reading": self.reading,
            "solver": f"{self.solver}: {self.reason}",
            "memory": f"at most {in_words(self.memory)}{self._of()}, most of it for {self.what}",
            "limit": self._limit(),
            "passes": f"about {self.passes:.2g}, which read {in_words(self.bytes_read)} from files",
        }
        return "\n".join(f"{name:<9} {line}" for name, line in lines.items())

    def _of(self) -> str:
        return "" if self.available is None else f" of {in_words(self.available)}"

    def _limit(self) -> str:
        least = self.smallest_limit
        return (
            "none can be kept" if least is None else f"memory_limit={least} would do ({in_words(least)}), and no less"
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def info(
    X: Any, k: int | float | Literal["mle"] | None = 2, *, center: bool = True, **options: Unpack[SolveOptions]
) -> Info:
    """Tell what a fit of X would do, without reading X beyond its headers.

    Text files (CSV, TSV, MatrixMarket, svmlight) are converted into the cache first, as by a fit.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame, path or Source of shape (n, d)
        The data.
    k : int, float, "mle" or None
        Number of components, a fraction of the variance, or as `vrpca.pca` takes it.
    center : bool
        Whether the column means would be subtracted.
    **options
        As for `vrpca.PCA`: `solver`, `tol`, `memory_limit`, ...

    Returns
    -------
    Info

    Examples
    --------
    >>> import numpy as np, vrpca
    >>> found = vrpca.info(np.zeros((1000, 50)), 3)
    >>> found.solver, found.passes, found.reading
    ('gram', 1.0, 'in memory: nothing is copied')
    """
    checked = Options.given(options)
    unread = is_path(X) and checked.memory_limit is None and contents(X) is not None  # it would be loaded whole
    source = whole_file(X) if unread else as_source(X, checked.memory_limit is not None)
    limited = as_source(X, True)
    fraction = check_k(k, source.shape)
    proof = checked.certificate == "probabilistic"
    wanted = Demand(center=center, norms=checked.needs_norms, proof=proof, n_threads=n_threads(checked.n_threads))
    wanted = replace(wanted, checkpoint=checked.checkpoint is not None)
    asked = min(source.shape) if k is None or k == MLE else cast(float, k)  # all components are found at first
    plan = make_plan(for_source(checked, source), source, asked, fraction, wanted)
    under_limit = replace(for_source(checked, limited), memory_limit=1)
    least = smallest_limit(under_limit, limited, asked, fraction, wanted) if limited.unlimited is None else None
    return _told(X, source, plan, least)


def _told(X: Any, source: Source, plan: Plan, least: int | None) -> Info:
    passes = expected_passes(plan)
    row_names, column_names = (None if each is None else len(each) for each in (source.row_names, source.column_names))
    n, d = source.shape
    size = _size_on_disk(X, source)
    return Info(
        shape=(n, d),
        dtype=str(source.dtype),
        sparse=source.sparse,
        entries=source.entries,
        density=source.entries / (n * d) if source.sparse else None,
        size_on_disk=size,
        row_names=row_names,
        column_names=column_names,
        reading=_reading(source, plan),
        solver=plan.name,
        reason=plan.reason,
        memory=plan.need.bytes,
        what=plan.need.what,
        available=None if math.isinf(memory := physical_memory()) else int(memory),
        smallest_limit=least,
        passes=passes,
        bytes_read=0 if size is None else size if isinstance(source, UnloadedFile) else round(passes * size),
    )


def _size_on_disk(X: Any, source: Source) -> int | None:
    """Bytes of the files behind X, where there are any."""
    paths = list(source.paths) if isinstance(source, FileSource) else []
    if isinstance(X, str | os.PathLike) and os.path.exists(path := split_name(as_path(X))[0]):
        paths = [path, *path.rglob("*")] if path.is_dir() else [path]
    sizes = [os.path.getsize(path) for path in paths if path.is_file()]
    return sum(sizes) if sizes else None


def _reading(source: Source, plan: Plan) -> str:
    """How the data are read, in words."""
    side = ", walked by columns" if plan.transpose else ""
    if isinstance(source, FileSource):
        rows = source.rows_of_blocks(plan.block_bytes)
        return f"block by block: {rows} rows, {in_words(rows * source.bytes_per_row)} at a time{side}"
    if isinstance(source, DaskSource):
        return source.described()
    if isinstance(source, UnloadedFile):
        return f"loaded whole: {in_words(source.held_bytes)}{side}"
    if isinstance(source, ArraySource) and on_disk(source.X):
        return f"mapped: pages are read when they are needed{side}"
    if source.block is None:
        return f"in memory, converted block by block{side}"
    return f"in memory: nothing is copied{side}"
