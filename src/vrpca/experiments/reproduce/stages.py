"""The data of the figures: the paper's synthetic matrices, MNIST and RCV1, each prepared when it is needed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.errors import DataError, OptionError
from vrpca.experiments.reproduce.curves import Problem, Stage
from vrpca.experiments.shared.datasets import (
    UNCENTRED,
    content_key,
    gaussian,
    load,
    open_array,
    paper_rows,
    standardised,
    stored,
)
from vrpca.experiments.shared.log import Say
from vrpca.experiments.shared.synthetic import PaperMatrix
from vrpca.experiments.shared.truth import optimum

GAPS = (0.16, 0.05, 0.016, 0.005, 0.0016, 0.0005)  # the paper's lambda
TINY_GAPS = GAPS[:3]
MNIST, RCV1 = "MNIST", "RCV1"
PAPER_ROWS = {MNIST: 70_000, RCV1: 781_265}  # rows that the paper's data have
BLOCK_K = {MNIST: 6, RCV1: 3}  # components in the paper's figure 3


@dataclass(frozen=True)
class Size:
    """How large the figures are: the synthetic matrices, their type, and the passes that VR-PCA may take."""

    name: str
    n: int
    d: int
    dtype: str
    longest: float

    @property
    def tiny(self) -> bool:
        """Whether an experiment is to take seconds only."""
        return self.name == "tiny"


SIZES = {
    size.name: size
    for size in (
        Size("tiny", 2_000, 100, "float64", 5_000),
        Size("default", 20_000, 300, "float64", 5_000),
        Size("paper", 200_000, 10_000, "float32", 1_000),
    )
}


def size_named(name: str) -> Size:
    """The size of this name, or an error."""
    if name not in SIZES:
        raise OptionError(f"--size {name} is not known: use {', '.join(SIZES)}.")
    return SIZES[name]


# ------------------------------------------------------------------------------------------------- synthetic data


@contextmanager
def synthetic(size: Size, gap: float, folder: Path, keep: bool, say: Say) -> Iterator[Stage]:
    """The paper's matrix for one lambda: a mapped file, which is checked and, unless it is kept, removed in the end."""
    matrix = PaperMatrix(size.n, size.d, gap)
    paths: list[Path] = []

    def prepare() -> Problem:
        X, path = _mapped(matrix, size.dtype, folder, say)
        paths.append(path)
        return Problem(X, 1, matrix.optimum())

    stage = Stage(f"lambda = {gap:g}", {"set": "synthetic", "dtype": size.dtype, **asdict(matrix)}, 1, prepare)
    try:
        yield stage
    finally:
        stage.forget()
        for path in paths if not keep else ():
            path.unlink(missing_ok=True)


def _mapped(matrix: PaperMatrix, dtype: str, folder: Path, say: Say) -> tuple[np.ndarray, Path]:
    stem = f"synthetic-{matrix.n}x{matrix.d}-{dtype}-{matrix.gap:g}-{matrix.seed}"
    data = stored(stem, folder, lambda: paper_rows(matrix, np.dtype(dtype)), UNCENTRED)
    X = load(data.path, mapped=True)
    found = matrix.check(X)
    say(
        f"lambda = {matrix.gap:g}: {matrix.n} x {matrix.d} {dtype}, spectrum as asked for (leading residual "
        f"{found.residual:.0e}, trace off by {found.excess:.0e})"
    )
    return X, Path(data.path)


# ------------------------------------------------------------------------------------------------------ real data


@dataclass(frozen=True)
class Files:
    """The files of the real data; None for scikit-learn's fetchers or, at the tiny size, generated data."""

    mnist: Path | None = None
    rcv1: Path | None = None


def real(files: Files, size: Size, ks: dict[str, int]) -> Iterator[Stage]:
    """MNIST and RCV1, or generated data in their place, each with its number of components."""
    recipes = {MNIST: (files.mnist, _mnist), RCV1: (files.rcv1, _rcv1)}
    for path in (files.mnist, files.rcv1):
        if path is not None and not path.exists():
            raise DataError(f"{path} does not exist: name the file that holds the data.")
    for name, k in ks.items():
        path, make = recipes[name]
        title, X = make(path, size.tiny)
        data = {"set": title, "key": content_key(X)}
        n, d = X.shape
        copies = 1 if size.tiny else max(1, round(PAPER_ROWS[name] / n))
        yield Stage(f"{title} ({n} x {d}), k = {k}", data, k, functools.partial(_problem, X, k), copies)


def _problem(X: Any, k: int) -> Problem:
    return Problem(X, k, optimum(X, k))


def _mnist(path: Path | None, tiny: bool) -> tuple[str, np.ndarray]:
    if path is not None:
        return MNIST, standardised(_matrix(path))
    if tiny:
        rows = gaussian(5000, 0.85 ** np.arange(40), dtype=np.float64)
        return "generated pixels (for MNIST)", standardised(np.vstack(list(rows.blocks)))
    return MNIST, standardised(fetched(MNIST))


def _rcv1(path: Path | None, tiny: bool) -> tuple[str, sp.csr_matrix]:
    if path is None and tiny:
        return "generated words (for RCV1)", topics(6000)
    X = sp.csr_matrix(fetched(RCV1) if path is None else _matrix(path), dtype=np.float64)
    return RCV1, X[:, np.unique(X.indices)]  # empty columns are left out, as in the paper's Appendix A


def topics(n: int, words: int = 15, per_row: int = 12, seed: int = 0) -> sp.csr_matrix:
    """Sparse rows: the words of a row belong to one of 20 topics, some of them more popular than others."""
    rng = np.random.default_rng(seed)
    popularity = 0.75 ** np.arange(20)
    topic = rng.choice(20, size=n, p=popularity / popularity.sum())
    columns = (topic[:, None] * words + rng.integers(words, size=(n, per_row))).ravel()
    X = sp.csr_matrix((np.ones(n * per_row), columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, 20 * words))
    X.sum_duplicates()
    return X


def _matrix(path: Path) -> Any:
    X = open_array(path)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise DataError(f"{path} holds {X.dtype} of shape {X.shape}: a matrix of real numbers is needed.")
    return X


def fetched(name: str) -> Any:
    """MNIST or RCV1 (its 781265 test documents) by scikit-learn's fetchers, or an error that says what to do."""
    from sklearn.datasets import fetch_openml, fetch_rcv1

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about further attempts: the error is enough
            if name == MNIST:
                return fetch_openml("mnist_784", version=1, as_frame=False).data
            return fetch_rcv1(subset="test").data
    except OSError as error:  # no network is an OSError, too
        raise DataError(
            f"{name} could not be fetched ({' '.join(str(error).split())}): connect to the network, or pass "
            f"--{name.lower()} with a file that holds it (.npz or .npy, dense or sparse)."
        ) from error
