"""The peers: each says what it cannot do, which settings it has, from cheap to exact, and how to solve.

Packages are imported where they are used. A new peer is one class and one line in `PEERS`.
"""

from __future__ import annotations

import importlib.util
import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from vrpca.experiments.shared.datasets import CENTRED, TO_CENTRE, UNCENTRED

Setting = dict[str, Any]
POWERS = (0, 1, 2, 4, 7, 12, 20)  # power iterations of the randomized methods, around scikit-learn's default of 4 to 7
DOUBLE: Setting = {"dtype": "float64"}  # the peer gets a copy in double precision; making it is timed
# Tolerances from rough to machine precision (0); the last three are for targets that float32 does not reach.
TOLERANCES: list[Setting] = [{"tol": tol} for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 0.0)]
TOLERANCES += [{"tol": tol, **DOUBLE} for tol in (1e-3, 1e-6, 0.0)]
WIDEST = 12_000  # features up to which a peer may form a d x d matrix: 1.2 GB in double precision


@dataclass(frozen=True)
class Task:
    """What is to be found: k right singular vectors of a matrix of this shape.

    `center` is one of the constants of `datasets`: whether the columns are to be centred, or are already.
    """

    shape: tuple[int, int]
    sparse: bool
    center: str
    k: int


@dataclass(frozen=True)
class Answer:
    """The vectors found, one per row, and what the contender says about them."""

    Vt: np.ndarray
    passes: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Peer(ABC):
    """A way to find the vectors. `module` is the package that it needs, unless vrpca needs that package, too."""

    module = ""
    certifies = False  # whether its tolerance is a promise; then a setting counts only for targets that it promises

    def cannot(self, task: Task) -> str:
        """Why it cannot take part; empty if it can."""
        return ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Settings to try, from cheap to exact."""
        return [{}]

    @abstractmethod
    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """The answer to a task. This call is timed."""

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """Passes over the data, counted by another run, which is not timed; None if they cannot be counted."""
        return None


def solve(peer: Peer, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
    """The answer with a setting, which may ask for another type of numbers."""
    X, options = _in_type(X, setting)
    return peer.solve(X, task, options, threads, seed)


def count(peer: Peer, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
    """Passes over the data with a setting; a conversion to another type of numbers is one of them."""
    Z, options = _in_type(X, setting)
    passes = peer.count(Z, task, options, seed)
    return None if passes is None else passes + ("dtype" in setting)


def _in_type(X: Any, setting: Setting) -> tuple[Any, Setting]:
    """X in the type that the setting names, and the rest of the setting."""
    options = dict(setting)
    dtype = options.pop("dtype", None)
    return (X if dtype is None else X.astype(dtype)), options


def installed(peer: Peer) -> bool:
    """Whether the package that the peer needs is there."""
    return not peer.module or importlib.util.find_spec(peer.module) is not None


class Vrpca(Peer):
    """Our own package. A setting is a dictionary of options of `vrpca.svd`."""

    certifies = True

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """One setting per target: its tolerance."""
        return [{"tol": target} for target in sorted(targets, reverse=True)]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Right vectors only: the peers are asked for no more."""
        import vrpca

        options = {"n_threads": threads, "random_state": seed, **setting}
        found = vrpca.svd(X, task.k, center=task.center != UNCENTRED, compute_u=False, **options)
        history = [[r.passes, r.objective * found.total_variance / found.n_samples, r.bound] for r in found.history]
        notes = {
            "certificate": found.certificate.suboptimality,
            "kind": found.certificate.kind,
            "converged": found.converged,
            "solver": found.solver,
            "history": history,
        }
        return Answer(found.Vt, found.n_passes, notes)


class SklearnPCA(Peer):
    """scikit-learn's PCA, which always centres."""

    extra_passes = 3  # mean, centred copy, total variance

    def __init__(self, solver: str):
        self.solver = solver

    def cannot(self, task: Task) -> str:
        """It always centres. The randomized solver takes no sparse data, `covariance_eigh` no wide data."""
        if task.center == UNCENTRED:
            return "always centres"
        if task.sparse and self.solver == "randomized":
            return "does not take sparse data"
        if self.solver == "covariance_eigh" and task.shape[1] > WIDEST:
            return f"would need a matrix of {task.shape[1]}^2 entries"
        return ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Power iterations, tolerances, or the type of the numbers."""
        if self.solver == "randomized":
            return [{"iterated_power": q} for q in POWERS]
        if self.solver == "arpack":
            return list(TOLERANCES)
        return [{}, DOUBLE]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Fit the estimator."""
        from sklearn.decomposition import PCA

        return Answer(PCA(task.k, svd_solver=self.solver, random_state=seed, **setting).fit(X).components_)

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product, and those of the estimator for means and variances."""
        if self.solver == "covariance_eigh":
            return 2.0
        if self.solver == "randomized":
            return 2.0 * setting["iterated_power"] + 2 + self.extra_passes
        return _counted_svds(X, task, {"solver": "arpack", **setting}, seed) + self.extra_passes


class SklearnTruncatedSVD(Peer):
    """scikit-learn's TruncatedSVD, which never centres."""

    extra_passes = 2  # scores and total variance, for the explained ratios

    def __init__(self, algorithm: str):
        self.algorithm = algorithm

    def cannot(self, task: Task) -> str:
        """It never centres."""
        return "does not centre" if task.center == TO_CENTRE else ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Power iterations or tolerances."""
        if self.algorithm == "randomized":
            return [{"n_iter": q} for q in POWERS]
        return list(TOLERANCES)

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Fit the estimator."""
        from sklearn.decomposition import TruncatedSVD

        model = TruncatedSVD(task.k, algorithm=self.algorithm, random_state=seed, **setting)
        return Answer(model.fit(X).components_)

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product, and those of the estimator for its ratios."""
        if self.algorithm == "randomized":
            return 2.0 * setting["n_iter"] + 2 + self.extra_passes
        return _counted_svds(X, task, {"solver": "arpack", **setting}, seed) + self.extra_passes


class SklearnIncrementalPCA(Peer):
    """scikit-learn's IncrementalPCA, which always centres: one pass, exact only with one batch."""

    def cannot(self, task: Task) -> str:
        """It always centres."""
        return "always centres" if task.center == UNCENTRED else ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Batches of d, 5 d (the default) and 25 d rows; all rows at once if they are few, or the data are small."""
        n, d = task.shape
        sizes = [size for size in (d, 5 * d, 25 * d) if task.k <= size < n]
        return [{"batch_size": size} for size in [*sizes, *([n] if n * d <= 10**8 or not sizes else [])]]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Fit the estimator."""
        from sklearn.decomposition import IncrementalPCA

        return Answer(IncrementalPCA(task.k, **setting).fit(X).components_)

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """Each batch is read once."""
        return 1.0


class Svds(Peer):
    """scipy's svds. Where the data are to be centred, it gets an operator that centres implicitly."""

    def __init__(self, solver: str):
        self.solver = solver

    def cannot(self, task: Task) -> str:
        """Krylov solvers do not find all vectors, and LOBPCG only finds a fifth of them."""
        side = min(task.shape)
        if task.k >= side or (self.solver == "lobpcg" and 5 * task.k > side):
            return f"k = {task.k} is too large for a smaller side of {side}"
        return ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Tolerances; LOBPCG and PROPACK need more iterations than their default to reach small ones."""
        if self.solver == "lobpcg":
            return [{"tol": tol, "maxiter": m} for tol, m in ((1e-1, 20), (1e-2, 50), (1e-4, 200), (1e-8, 1000))]
        room = {"maxiter": min(*task.shape, max(10 * task.k, 100))} if self.solver == "propack" else {}
        return [{**rung, **room} for rung in TOLERANCES]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Right vectors only."""
        return Answer(_svds(operand(X, task), task.k, {"solver": self.solver, **setting}, seed))

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product with X or with its transpose, by an operator that counts them."""
        return _counted_svds(X, task, {"solver": self.solver, **setting}, seed)


class Primme(Peer):
    """PRIMME's svds."""

    module = "primme"

    def cannot(self, task: Task) -> str:
        """It does not find all vectors."""
        return "" if task.k < min(task.shape) else f"k = {task.k} is all there are"

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Tolerances on the residual, relative to the largest singular value."""
        rungs = [{"tol": tol} for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)]
        return [*rungs, *({"tol": tol, **DOUBLE} for tol in (1e-4, 1e-6, 1e-8))]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Solve with its default method."""
        return Answer(self._right_vectors(operand(X, task), task.k, setting, seed))

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product with X or with its transpose, by an operator that counts them."""
        counter = Counter(operand(X, task))
        self._right_vectors(counter, task.k, setting, seed)
        return float(counter.products)

    @staticmethod
    def _right_vectors(A: Any, k: int, setting: Setting, seed: int) -> np.ndarray:
        import primme

        np.random.seed(seed)  # noqa: NPY002 - the package draws its start from there
        return primme.svds(A, k, **setting)[2]


class Fbpca(Peer):
    """Facebook's randomized PCA."""

    module = "fbpca"

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Power iterations."""
        return [{"n_iter": q} for q in POWERS]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """`raw` unless the data are to be centred."""
        import fbpca

        np.random.seed(seed)  # noqa: NPY002 - the package draws from there
        return Answer(fbpca.pca(X, task.k, raw=task.center != TO_CENTRE, **setting)[2])

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product, and one for the means."""
        return 2.0 * setting["n_iter"] + 2 + (task.center == TO_CENTRE)


class Dask(Peer):
    """Dask's svd_compressed on an array of row chunks, one worker thread per core, each with one BLAS thread."""

    module = "dask"

    def cannot(self, task: Task) -> str:
        """Its chunks are dense."""
        return "does not take sparse data" if task.sparse else ""

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """Power iterations, orthonormalised."""
        return [{"n_power_iter": q} for q in POWERS]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """About eight chunks per thread."""
        import dask
        import dask.array as da
        from threadpoolctl import threadpool_limits

        n, d = task.shape
        rows = max(task.k + 10, -(-n // (8 * threads)))
        Z = da.from_array(X, chunks=(rows, d), name=False)
        Z = Z - Z.mean(axis=0) if task.center == TO_CENTRE else Z
        with threadpool_limits(1), dask.config.set(scheduler="threads", num_workers=threads):
            *_, Vt = da.linalg.svd_compressed(Z, task.k, iterator="QR", seed=seed, **setting)
            return Answer(np.asarray(Vt.compute()))

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """One per product, and one for the means."""
        return 2.0 * setting["n_power_iter"] + 2 + (task.center == TO_CENTRE)


class Intelex(Peer):
    """Intel's extension of scikit-learn: PCA by oneDAL, from the covariance matrix."""

    module = "sklearnex"

    def cannot(self, task: Task) -> str:
        """As scikit-learn's `covariance_eigh`; sparse data would go to scikit-learn itself."""
        if task.sparse:
            return "does not take sparse data"
        return SklearnPCA("covariance_eigh").cannot(task)

    def ladder(self, task: Task, targets: Sequence[float]) -> list[Setting]:
        """The type of the numbers."""
        return [{}, DOUBLE]

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Fit the estimator. oneDAL has threads of its own, which the environment of the process limits."""
        from sklearnex.decomposition import PCA

        return Answer(PCA(task.k, svd_solver="covariance_eigh").fit(X).components_)

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """As scikit-learn's `covariance_eigh`."""
        return 2.0


class Faiss(Peer):
    """FAISS' PCAMatrix, which always centres and takes float32 only: LAPACK on the covariance matrix."""

    module = "faiss"

    def cannot(self, task: Task) -> str:
        """It always centres, takes dense data, and forms a d x d matrix."""
        if task.center == UNCENTRED:
            return "always centres"
        if task.sparse:
            return "does not take sparse data"
        return "" if task.shape[1] <= WIDEST else f"would need a matrix of {task.shape[1]}^2 entries"

    def solve(self, X: Any, task: Task, setting: Setting, threads: int, seed: int) -> Answer:
        """Train on all rows. The rows of its matrix are the components, possibly scaled."""
        import faiss

        faiss.omp_set_num_threads(threads)
        pca = faiss.PCAMatrix(task.shape[1], task.k)
        pca.max_points_per_d = -(-task.shape[0] // task.shape[1])  # otherwise it takes 1000 d rows at most
        pca.train(np.ascontiguousarray(X, dtype=np.float32))
        return Answer(faiss.vector_to_array(pca.A).reshape(task.k, task.shape[1]))

    def count(self, X: Any, task: Task, setting: Setting, seed: int) -> float | None:
        """The mean, and the products."""
        return 2.0


PEERS: dict[str, Peer] = {
    "vrpca": Vrpca(),
    "sklearn PCA covariance_eigh": SklearnPCA("covariance_eigh"),
    "sklearn PCA randomized": SklearnPCA("randomized"),
    "sklearn PCA arpack": SklearnPCA("arpack"),
    "sklearn TruncatedSVD randomized": SklearnTruncatedSVD("randomized"),
    "sklearn TruncatedSVD arpack": SklearnTruncatedSVD("arpack"),
    "sklearn IncrementalPCA": SklearnIncrementalPCA(),
    "scipy svds arpack": Svds("arpack"),
    "scipy svds propack": Svds("propack"),
    "scipy svds lobpcg": Svds("lobpcg"),
    "PRIMME": Primme(),
    "fbpca": Fbpca(),
    "dask svd_compressed": Dask(),
    "scikit-learn-intelex PCA": Intelex(),
    "FAISS PCAMatrix": Faiss(),
}


# ------------------------------------------------------------------------------------------------------ operators


class Counter(LinearOperator):
    """A matrix or operator that counts its products; a product with a block counts once."""

    def __init__(self, A: Any):
        self.A = aslinearoperator(A)
        self.products = 0
        super().__init__(dtype=self.A.dtype, shape=self.A.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.A.matvec(v)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.A.rmatvec(u)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.A.matmat(V)

    def _rmatmat(self, U: np.ndarray) -> np.ndarray:
        self.products += 1
        return self.A.rmatmat(U)


def operand(X: Any, task: Task) -> Any:
    """X itself or, if it is to be centred, an operator that centres its columns implicitly."""
    if task.center != TO_CENTRE:
        return X
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel().astype(X.dtype)

    def times(V: np.ndarray) -> np.ndarray:
        return np.asarray(X @ V) - mean @ V

    def transposed_times(U: np.ndarray) -> np.ndarray:
        sums = U.sum(axis=0)
        return np.asarray(X.T @ U) - (np.outer(mean, sums) if U.ndim == 2 else mean * sums)

    return LinearOperator(
        X.shape,
        dtype=X.dtype,
        matvec=times,
        matmat=times,
        rmatvec=transposed_times,
        rmatmat=transposed_times,
    )


def _svds(A: Any, k: int, setting: Setting, seed: int) -> np.ndarray:
    from scipy.sparse.linalg import svds

    random = "rng" if "rng" in inspect.signature(svds).parameters else "random_state"
    return svds(A, k, return_singular_vectors="vh", **{random: np.random.default_rng(seed)}, **setting)[2]


def _counted_svds(X: Any, task: Task, setting: Setting, seed: int) -> float:
    counter = Counter(operand(X, task))
    _svds(counter, task.k, setting, seed)
    return float(counter.products)


def small_task(task: Task) -> tuple[Any, Task]:
    """A small random matrix of the same kind, for a first call that is not timed."""
    rng = np.random.default_rng(0)
    dtype = np.float32
    X: Any = rng.standard_normal((200, 40)).astype(dtype)
    X -= X.mean(axis=0) if task.center == CENTRED else 0
    return (sp.csr_matrix(X) if task.sparse else X), Task(X.shape, task.sparse, task.center, 2)
