"""Seeded histories of all solvers, compared bit for bit: they show whether a change of the code changes any result.

    python benchmarks/histories.py record before.json     # with the old code installed
    python benchmarks/histories.py compare before.json    # with the new code installed

Bits depend on the processor, on BLAS and on the number of threads. So both runs have to be made on one machine, and the
file is not kept in the repository. Only the public interface is called. `--real FOLDER` adds MNIST, RCV1 and news20.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import vrpca

STOCHASTIC = ("vr", "oja", "hybrid")
SOLVERS = (*STOCHASTIC, "power", "krylov", "accelerated", "gram")
NUMBERS = ("epoch", "passes", "rows_read", "objective", "residual", "bound")  # of a record; seconds always differ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--real", type=Path, help="folder with mnist.npz, rcv1.npz and news20.npz")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {name: fingerprint(run) for name, run in cases(arguments.real) if arguments.only in name}
    if arguments.action == "record":
        arguments.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} histories written to {arguments.file}")
        return
    sys.exit(compare(json.loads(arguments.file.read_text()), found, arguments.only))


def compare(before: dict[str, Any], after: dict[str, Any], only: str) -> int:
    """Print what differs; return 1 if anything does."""
    different = 0
    for name, old in before.items():
        if only in name and after.get(name) != old:
            different += 1
            print(f"{name}: {difference(old, after.get(name))}")
    print(f"{len(after)} histories, {different} differ")
    return int(different > 0)


def difference(old: Any, new: Any) -> str:
    """Where two fingerprints differ: in the first of the records, or in the arrays."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{old if isinstance(old, str) else 'ran'} -> {new if isinstance(new, str) else 'ran'}"
    for number, (a, b) in enumerate(zip(old["history"], new["history"], strict=False)):
        if a != b:
            pairs = zip(NUMBERS, a, b, strict=True)
            return f"record {number}: " + ", ".join(f"{name} {x} -> {y}" for name, x, y in pairs if x != y)
    if len(old["history"]) != len(new["history"]):
        return f"{len(old['history'])} -> {len(new['history'])} records"
    return ", ".join(f"{key} {old[key]} -> {new[key]}" for key in old if key != "history" and old[key] != new[key])


def fingerprint(run: Callable[[], Any]) -> Any:
    """All numbers of a result: the history in full, arrays as digests."""
    try:
        found = run()
    except (ValueError, FloatingPointError) as error:
        return f"{type(error).__name__}: {error}"
    certificate = found.certificate
    arrays = {
        "s": found.s,
        "Vt": found.Vt,
        "U": found.U,
        "mean": found.mean,
        "scale": found.scale,
        "residuals": certificate.residuals,
        "angles": certificate.angles,
    }
    return {
        "history": [[plain(getattr(record, name)) for name in NUMBERS] for record in found.history],
        "status": found.status.name,
        "solver": found.solver,
        "passes": plain(found.n_passes),
        "kind": certificate.kind,
        "bound": plain(certificate.suboptimality),
        "mu": plain(certificate.mu),
        "total": plain(found.total_variance),
        **{name: digest(value) for name, value in arrays.items()},
    }


def plain(value: Any) -> Any:
    return value if isinstance(value, int) else float(value).hex()


def digest(value: np.ndarray | None) -> str | None:
    return None if value is None else hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]


def cases(real: Path | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and runs."""
    yield from solver_cases()
    yield from option_cases()
    yield from shape_cases()
    yield from certificate_cases()
    if real is not None:
        yield from real_cases(real)


def call(function: Callable[..., Any], X: Any, k: Any, **options: Any) -> Callable[[], Any]:
    return lambda: function(X, k, **{"random_state": 0, "n_threads": 2, **options})


def dense(n: int, d: int, dtype: Any, decay: float = 0.9, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * decay ** np.arange(d) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.ascontiguousarray(X + rng.standard_normal(d), dtype=dtype)


def sparse(n: int, d: int, dtype: Any, density: float = 0.02, seed: int = 2) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, rng=rng, format="csr", dtype=np.float64)
    return sp.csr_array(X @ sp.diags_array(1 / np.sqrt(1 + np.arange(d)))).astype(dtype)


def solver_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every solver on dense and sparse data of both types, centred or not, with 1 and 2 threads."""
    for dtype in (np.float32, np.float64):
        data = {"dense": dense(1500, 60, dtype), "csr": sparse(2000, 400, dtype)}
        data["csc"] = data["csr"].tocsc()
        data["fortran"] = np.asfortranarray(data["dense"])
        for kind, X in data.items():
            for solver in SOLVERS:
                for k, threads, center in ((1, 1, False), (1, 2, True), (4, 2, False), (4, 2, True)):
                    name = f"{solver} {kind} {np.dtype(dtype)} k={k} threads={threads} center={center}"
                    yield name, call(vrpca.svd, X, k, solver=solver, center=center, n_threads=threads, max_passes=30)


def option_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Options of the solvers, one after the other."""
    X, S = dense(3000, 300, np.float32), sparse(3000, 700, np.float32)
    weights = np.random.default_rng(5).random(3000) * (np.arange(3000) % 7 > 0)
    for kind, data in (("dense", X), ("csr", S)):
        for solver in SOLVERS:
            for extra in (
                {"scale": True},
                {"sample_weight": weights},
                {"scale": True, "sample_weight": weights, "center": False},
                {"restarts": 3, "max_passes": 60},
                {"max_passes": 3},
                {"oversample": 1},
                {"start": np.random.default_rng(6).standard_normal((3, data.shape[1]))},
                {"tol": 1e-13, "max_passes": 40},
                {"compute_u": False},
            ):
                label = " ".join(f"{n}={v if np.isscalar(v) else 'given'}" for n, v in extra.items())
                given = {"solver": solver, "max_passes": 30, **extra}
                yield f"{solver} {kind} {label}", call(vrpca.pca, data, 3, **given)
        for solver in STOCHASTIC:
            epochs = ({"sampling": "norm"}, {"epoch_length": 500}, {"control": "difference"})
            for extra in (*epochs, {"step": 0.5}, {"step": 30.0}):
                label = " ".join(f"{n}={v}" for n, v in extra.items())
                yield f"{solver} {kind} {label}", call(vrpca.pca, data, 3, solver=solver, max_passes=30, **extra)
        yield f"deflate {kind}", call(vrpca.pca, data, 3, solver="vr", deflate=True, max_passes=60)
        theory = vrpca.Theory(gap=0.05, r=None)
        yield f"theory {kind}", call(vrpca.svd, data, 1, solver="vr", step="theory", theory=theory, max_passes=60)
        for k in (1, 3, 12):
            yield f"cost=passes {kind} k={k}", call(vrpca.pca, data, k, solver="accelerated", cost="passes")
            yield f"auto {kind} k={k}", call(vrpca.pca, data, k)
            yield f"auto uncentred {kind} k={k}", call(vrpca.svd, data, k, tol=1e-4)


def shape_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Wide and tall data, restarts of the search space, blocks that are converted, empty columns, nasty spectra."""
    wide, tall = dense(200, 900, np.float32, 0.99).copy(), dense(30000, 300, np.float32, 0.97)
    thin = dense(100000, 280, np.float32, 0.95)
    wide_sparse, spread = sparse(300, 5000, np.float64), sparse(2000, 900, np.float32)
    spread = sp.csr_array((spread.data, spread.indices * 97, spread.indptr), shape=(2000, 900 * 97))
    flat = np.random.default_rng(7).standard_normal((4000, 300)).astype(np.float32)
    integers = (dense(2000, 300, np.float64) * 10).astype(np.int16)
    data = {
        "wide": wide,
        "tall": tall,
        "thin": thin,
        "wide csr": wide_sparse,
        "wide csc": wide_sparse.tocsc(),
        "spread csr": spread,
        "spread csc": spread.tocsc(),
        "flat": flat,
        "integers": integers,
        "int64 indices": index64(sparse(2000, 400, np.float32)),
        "large mean": dense(2000, 300, np.float32) + np.float32(1e4),
        "tiny": dense(2000, 300, np.float64) * 1e-30,
        "huge": dense(2000, 300, np.float64) * 1e90,
        "low rank": (dense(2000, 5, np.float64) @ dense(5, 300, np.float64)),
    }
    for kind, X in data.items():
        for solver in ("auto", "vr", "krylov", "accelerated", "gram"):
            yield f"{solver} {kind}", call(vrpca.pca, X, 4, solver=solver, max_passes=40)
        yield f"cost=passes {kind}", call(vrpca.pca, X, 2, solver="accelerated", cost="passes", max_passes=40)
        yield f"fraction {kind}", call(vrpca.pca, X, 0.5, max_passes=60)
    yield "fraction accelerated tall", call(vrpca.pca, tall, 0.9, solver="accelerated")
    yield "fraction vr", call(vrpca.pca, dense(2000, 100, np.float64), 0.8, solver="vr")
    yield "all components", call(vrpca.pca, dense(300, 40, np.float64), None)
    yield "all components of low rank", call(vrpca.pca, data["low rank"][:, :50], None)
    large = sparse(5000, 3000, np.float64, 0.01)
    yield "accelerated k=20 restarts its space", call(vrpca.svd, large, 20, solver="accelerated")
    yield "krylov flat restarts its space", call(vrpca.svd, flat, 6, solver="krylov", max_passes=60)


def index64(X: sp.csr_array) -> sp.csr_array:
    X = X.copy()
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    return X


def certificate_cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Probabilistic certificates, and an answer that has missed something."""
    rare = dense(4000, 320, np.float64)
    rare[:, 300:] = 0
    rare[::800, 300:305] = 30 * np.eye(5)
    for kind, X in (("dense", dense(3000, 300, np.float64)), ("csr", sparse(3000, 700, np.float32)), ("rare", rare)):
        for solver in ("auto", "accelerated", "krylov", "vr", "power"):
            for k in (1, 3):
                options = {"certificate": "probabilistic", "solver": solver, "tol": 1e-5, "failure_probability": 0.01}
                yield f"probabilistic {solver} {kind} k={k}", call(vrpca.pca, X, k, **options)


def real_cases(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Real data sets."""
    mnist = np.load(folder / "mnist.npz")["X"].astype(np.float32)
    rcv1, news = (sp.load_npz(folder / f"{name}.npz").astype(np.float32) for name in ("rcv1", "news20"))
    for k in (1, 6, 50):
        yield f"mnist k={k}", call(vrpca.pca, mnist, k, tol=1e-6, compute_u=False)
    yield "mnist vr k=6", call(vrpca.pca, mnist, 6, solver="vr", tol=1e-6, compute_u=False)
    for k in (3, 30):
        yield f"rcv1 k={k}", call(vrpca.svd, rcv1, k, tol=1e-6, compute_u=False)
        yield f"rcv1 centred k={k}", call(vrpca.pca, rcv1, k, tol=1e-6)
    yield "rcv1 vr k=3", call(vrpca.pca, rcv1, 3, solver="vr", tol=1e-6, compute_u=False)
    yield "news20 k=6", call(vrpca.svd, news, 6, tol=1e-6)


if __name__ == "__main__":
    main()
