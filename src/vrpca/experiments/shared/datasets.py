"""The data of the experiments: named sets, generated sets and the user's files, each made into one plain file.

Every measurement runs in a new process, so that its data have to be quick to load: a ``.npy`` array or an uncompressed
CSR ``.npz``, of floats. A new data set is one function and one line in `DATASETS`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.files import open_data
from vrpca.data.files.npy import map_array
from vrpca.data.files.paths import written_whole
from vrpca.data.memory import ArraySource
from vrpca.data.source import Source
from vrpca.errors import DataError, OptionError
from vrpca.experiments.shared.synthetic import PaperMatrix

# What a task says about centring. A peer that cannot centre may still take data that are centred already.
UNCENTRED, CENTRED, TO_CENTRE = "uncentred", "centred already", "to be centred"
CHUNK = 10_000  # rows that are generated, centred or hashed at a time: 400 MB of the widest set
DATA_FOLDER = Path(os.environ.get("VRPCA_DATA", "data"))  # the folder of real data


@dataclass(frozen=True)
class Rows:
    """A dense matrix that comes in blocks of rows, so that it is in memory only once."""

    shape: tuple[int, int]
    dtype: Any
    blocks: Iterator[np.ndarray]
    center: bool = False


@dataclass(frozen=True)
class Recipe:
    """How a named data set is made."""

    about: str  # one line for the tables
    make: Callable[[Path, bool], Any]  # (folder of the real files, whether to make it small) -> matrix or `Rows`
    center: str  # `UNCENTRED`, `CENTRED` or `TO_CENTRE`
    ks: tuple[int, ...]  # numbers of components, unless the user names others
    file: str = ""  # the name of the real file; empty for generated data


@dataclass(frozen=True)
class Prepared:
    """A matrix in a file, with what is to be known of it before it is loaded."""

    name: str
    path: str
    shape: tuple[int, int]
    dtype: str
    nnz: int | None
    center: str
    key: str
    ks: tuple[int, ...] = ()
    about: str = ""

    @property
    def sparse(self) -> bool:
        """Whether it is a CSR matrix."""
        return self.nnz is not None

    @property
    def title(self) -> str:
        """One line that says what the data are."""
        n, d = self.shape
        kind = f"CSR, {self.nnz} nonzeros" if self.sparse else "dense"
        about = f" ({self.about})" if self.about else ""
        return f"{self.name}{about}: {n} x {d} {self.dtype}, {kind}, {self.center}"


# ------------------------------------------------------------------------------------------------------ real data


def _mnist(folder: Path, small: bool) -> np.ndarray:
    return standardised(open_data(folder / "mnist.npz")).astype(np.float32)


def standardised(pixels: Any) -> np.ndarray:
    """Pixels as in the paper: centred, divided by deviation times sqrt(d), constant pixels 0; in double precision."""
    X = np.array(pixels, dtype=np.float64)
    X -= X.mean(axis=0)
    deviation = X.std(axis=0)
    X /= np.where(deviation > 0, deviation * np.sqrt(X.shape[1]), 1)
    return X


def _as_it_is(file: str) -> Callable[[Path, bool], Any]:
    return lambda folder, small: open_data(folder / file)


def _pbmc(folder: Path, small: bool) -> sp.csr_matrix:
    """log1p of counts per 10000."""
    counts = sp.csr_matrix(open_data(folder / "pbmc.npz"), dtype=np.float64)
    totals = np.asarray(counts.sum(axis=1)).ravel()
    scaled = sp.csr_matrix(sp.diags(1e4 / np.where(totals > 0, totals, 1)) @ counts)
    return scaled.log1p().astype(np.float32)


# ------------------------------------------------------------------------------------------------- generated data


def gaussian(n: int, spectrum: np.ndarray, *, seed: int = 0, dtype: Any = np.float32, center: bool = True) -> Rows:
    """Gaussian rows whose covariance has these eigenvalues, in a random basis."""
    d = len(spectrum)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    mix = (np.sqrt(spectrum)[:, None] * basis).astype(dtype)

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, n, CHUNK):
            yield rng.standard_normal((min(CHUNK, n - start), d), dtype=dtype) @ mix

    return Rows((n, d), dtype, blocks(), center)


def _clustered(gap: float) -> Callable[[Path, bool], Rows]:
    spectrum = np.r_[1, 1 - gap * np.linspace(1, 3, 29), np.full(70, 0.05)]
    return lambda folder, small: gaussian(5000 if small else 1_000_000, spectrum)


def _flat(folder: Path, small: bool) -> Rows:
    """White noise, 1e5 x 20 in float64, centred: the example of scikit-learn's issue 20589."""
    return gaussian(2000 if small else 100_000, np.ones(20), dtype=np.float64)


def _power_law(n: int, d: int) -> Callable[[Path, bool], Rows]:
    """Eigenvalues 1/i."""

    def make(folder: Path, small: bool) -> Rows:
        rows, columns = (min(n, 2000), min(d, 60)) if small else (n, d)
        return gaussian(rows, 1 / np.arange(1, columns + 1))

    return make


def _paper(folder: Path, small: bool) -> Rows:
    """The paper's synthetic matrix with l = 0.05, scaled by sqrt(n), so that A has the squares as eigenvalues."""
    n, d = (2000, 200) if small else (200_000, 10_000)
    return paper_rows(PaperMatrix(n, d, 0.05), np.float32, scale=np.sqrt(n))


def paper_rows(matrix: PaperMatrix, dtype: Any, scale: float = 1.0) -> Rows:
    """The rows of one of the paper's matrices, times a number."""
    blocks = (np.multiply(block, scale, dtype=dtype) for block in matrix.blocks(dtype))
    return Rows((matrix.n, matrix.d), dtype, blocks)


def bag_of_words(n: int, *, d: int = 5000, per_row: int = 60, seed: int = 0) -> sp.csr_matrix:
    """Sparse rows with popular and rare words (features); a word that is drawn twice counts twice."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random(n * per_row) ** 4).astype(np.int32), d - 1)
    values = rng.random(n * per_row, dtype=np.float32)
    X = sp.csr_matrix((values, columns, np.arange(0, n * per_row + 1, per_row)), shape=(n, d))
    X.sum_duplicates()
    return X


DATASETS: dict[str, Recipe] = {
    "mnist": Recipe("MNIST, standardised as in the paper", _mnist, CENTRED, (1, 6, 50), "mnist.npz"),
    "rcv1": Recipe("RCV1 text, log tf-idf", _as_it_is("rcv1.npz"), UNCENTRED, (3, 30), "rcv1.npz"),
    "news20": Recipe("20 Newsgroups, log tf-idf", _as_it_is("news20.npz"), UNCENTRED, (6,), "news20.npz"),
    "pbmc": Recipe("single-cell counts, log1p per 10000", _pbmc, TO_CENTRE, (10, 50), "pbmc.npz"),
    "clustered-5": Recipe("30 clustered eigenvalues, gap 5%", _clustered(0.05), CENTRED, (1,)),
    "clustered-2": Recipe("30 clustered eigenvalues, gap 2%", _clustered(0.02), CENTRED, (1,)),
    "flat": Recipe("white noise", _flat, CENTRED, (1,)),
    "power-law": Recipe("eigenvalues 1/i", _power_law(100_000, 500), CENTRED, (10,)),
    "1000x50": Recipe("eigenvalues 1/i", _power_law(1000, 50), CENTRED, (5,)),
    "80000x100": Recipe("eigenvalues 1/i", _power_law(80_000, 100), CENTRED, (11,)),
    "10000x3072": Recipe("eigenvalues 1/i", _power_law(10_000, 3072), CENTRED, (10,)),
    "100000x2000": Recipe("eigenvalues 1/i", _power_law(100_000, 2000), CENTRED, (50,)),
    "paper": Recipe("the paper's synthetic matrix, 8 GB", _paper, UNCENTRED, (1, 3, 6, 10)),
}


# ---------------------------------------------------------------------------------------------------- preparation


def available(name: str, folder: Path) -> bool:
    """Whether a named set can be made here."""
    return not DATASETS[name].file or (folder / DATASETS[name].file).exists()


def prepare(
    name: str, cache: Path, *, folder: Path = DATA_FOLDER, small: bool = False, center: bool = True
) -> Prepared:
    """Make a data set ready for processes to load.

    Parameters
    ----------
    name : str
        One of `DATASETS`, or a path to a ``.npy`` or ``.npz`` file.
    cache : path
        Folder for prepared data; what it already holds is not made again.
    folder : path
        Where the real files are.
    small : bool
        Whether generated sets are made small, for a quick trial.
    center : bool
        Whether the columns of the user's file are to be centred.

    Returns
    -------
    Prepared
    """
    if name in DATASETS:
        return _prepare_named(name, cache, folder, small)
    if Path(name).suffix not in (".npy", ".npz") and not Path(name).exists():
        known = ", ".join(DATASETS)
        raise OptionError(f"{name} is neither a file nor a data set: name a .npy or .npz file, or one of {known}.")
    return _prepare_file(Path(name), cache, TO_CENTRE if center else UNCENTRED)


def _prepare_named(name: str, cache: Path, folder: Path, small: bool) -> Prepared:
    recipe = DATASETS[name]
    if not available(name, folder):
        generated = ", ".join(other for other, its_recipe in DATASETS.items() if not its_recipe.file)
        raise DataError(
            f"The data set {name} needs {folder / recipe.file}, which is not there: pass --data with its folder, set "
            f"VRPCA_DATA to it, or choose among the generated sets {generated}."
        )
    stem = f"{name}-small" if small and not recipe.file else name
    found = stored(stem, cache, lambda: recipe.make(folder, small), recipe.center)
    return replace(found, name=stem, ks=recipe.ks, about=recipe.about)


def stored(stem: str, cache: Path, make: Callable[[], Any], center: str) -> Prepared:
    """The matrix that `make` returns, in a file of the cache; made only if it is not there yet."""
    folder = cache / "data"
    folder.mkdir(parents=True, exist_ok=True)
    path = next((p for p in (folder / f"{stem}.npy", folder / f"{stem}.npz") if p.exists()), None)
    return describe(_store(make(), folder, stem) if path is None else path, stem, center)


def open_array(path: Path) -> Any:
    """The matrix in a file as an array, a memory map or a sparse matrix: other packages know nothing else."""
    X = open_data(path)
    if isinstance(X, ArraySource):
        return X.X
    if not isinstance(X, Source):
        return X
    if path.is_file() and path.suffix == ".npy":
        return map_array(path)
    raise DataError(f"{path} does not fit in memory, or is several files: name one .npy file, or one that fits.")


def _prepare_file(path: Path, cache: Path, center: str) -> Prepared:
    """The user's file: as it is if every process can load it quickly, else converted."""
    X = open_array(path)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise DataError(f"{path} holds {X.dtype} of shape {X.shape}: a matrix of real numbers is needed.")
    if isinstance(X, np.memmap) and X.dtype in (np.float32, np.float64) and X.flags.c_contiguous:
        return describe(path, path.name, center)
    (cache / "data").mkdir(parents=True, exist_ok=True)
    stem = f"{path.stem}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    return describe(_store(X, cache / "data", stem), path.name, center)


def _store(X: Any, folder: Path, stem: str) -> Path:
    target = folder / f"{stem}{'.npz' if sp.issparse(X) else '.npy'}"
    with written_whole(target) as temporary, temporary.open("wb") as file:
        if sp.issparse(X):
            sp.save_npz(file, sp.csr_matrix(X, dtype=_float_type(X.dtype)), compressed=False)
        elif not isinstance(X, Rows):
            np.save(file, np.ascontiguousarray(X, dtype=_float_type(X.dtype)))
        else:
            file.close()
            _write_rows(X, temporary)
    return target


def _float_type(dtype: np.dtype) -> Any:
    """float32 for numbers that it holds without loss, else float64."""
    return np.float32 if dtype == np.float32 or dtype.itemsize <= 2 else np.float64


def _write_rows(rows: Rows, path: Path) -> None:
    X = np.lib.format.open_memmap(path, mode="w+", dtype=rows.dtype, shape=rows.shape)
    total, start = np.zeros(rows.shape[1]), 0
    for block in rows.blocks:
        X[start : start + len(block)] = block
        total += block.sum(axis=0, dtype=np.float64)
        start += len(block)
    if rows.center:
        for first in range(0, start, CHUNK):
            X[first : first + CHUNK] -= total / start
    X.flush()


def describe(path: Path, name: str, center: str) -> Prepared:
    """What a prepared file holds. The key is a digest of its content."""
    X = load(path, mapped=True)
    nnz = int(X.nnz) if sp.issparse(X) else None
    return Prepared(name, str(path), (int(X.shape[0]), int(X.shape[1])), str(X.dtype), nnz, center, content_key(X))


def load(path: str | Path, dtype: str | None = None, *, mapped: bool = False) -> Any:
    """Load a prepared file, whole."""
    if Path(path).suffix == ".npz":
        X = sp.load_npz(path)
    else:
        X = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    return X if dtype is None else X.astype(dtype, copy=False)


def content_key(X: Any) -> str:
    """A digest of shape, type and all numbers."""
    digest = hashlib.blake2b(f"{X.shape} {X.dtype}".encode(), digest_size=12)
    parts = (X.indptr, X.indices, X.data) if sp.issparse(X) else (X,)
    for part in parts:
        for start in range(0, len(part), CHUNK):
            digest.update(np.ascontiguousarray(part[start : start + CHUNK]).view(np.uint8).data)
    return digest.hexdigest()
