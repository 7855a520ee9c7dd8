"""Certificates against the truth: many small random problems, each solved once and compared with LAPACK in float64.

usage: OPENBLAS_NUM_THREADS=1 python benchmarks/certificates.py [--cases N] [--seed S] [--failure P] [--out FILE]
       [--only CASE ...]

The number of a case is the seed of all its parameters: spectrum, shape, type, scale, solver, tolerance. With ``--only``
a case is run again. The truth is ``1 - tr(V A V^T) / (lambda_1 + ... + lambda_k)``, written as a sum of terms that
cannot be negative and evaluated in float64 on the same data. A certificate is wrong where the truth is larger by more
than 1e-14, the rounding of the truth itself. Its looseness is certificate / truth, where the truth is above 1e-15.
With ``--failure``, certificates are of kind `probabilistic`, with that failure probability. The output is a Markdown
page; ``--out`` saves it, too.
"""

from __future__ import annotations

import argparse
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca

ROUNDING = 1e-14  # error of the truth itself: eigenvalues in double precision, some 50 eps
SHOWN = 1e-15  # truths below this, a few eps, say nothing about looseness
SOLVERS = ("vr", "hybrid", "power", "krylov", "accelerated/time", "accelerated/passes", "gram")
SECONDS = 10.0  # a run that takes longer is taken to hang: usual ones take less than one
TOLERANCES = (1e-3, 1e-6, 1e-9)  # rough, usual, and more than float32 reaches
PER_SEED = 1_000_000  # case numbers per seed: more than anyone runs


@dataclass(frozen=True)
class Case:
    """A case: its parameters and its data.

    Attributes
    ----------
    number : int
        The case number, from which everything else follows.
    family : str
        Kind of spectrum or structure.
    solver, tol, k, center
        The problem.
    dtype, sparse, scale
        The type of the data, whether they are sparse, and the size of their entries.
    shape : tuple of int
        Rows and features.
    X : numpy.ndarray or scipy.sparse.csr_array or None
        The data; None once they have been examined.
    """

    number: int
    family: str
    solver: str
    tol: float
    k: int
    center: bool
    dtype: str
    sparse: bool
    scale: float
    shape: tuple[int, int]
    X: Any

    def describe(self) -> str:
        """One line with all parameters."""
        n, d = self.shape
        kind = "csr" if self.sparse else "dense"
        center = "centred" if self.center else "raw"
        return f"{self.family}, {n} x {d}, k={self.k}, {self.dtype} {kind} {center}, scale {self.scale:.0e}"


@dataclass(frozen=True)
class Finding:
    """A case, its certificate and the truth; or an `error`, where the data were refused or the run hung."""

    case: Case
    bound: float = np.nan
    truth: float = np.nan
    kind: str = ""
    status: str = ""
    passes: float = np.nan
    records: int = 0
    error: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the answer is worse than its certificate says."""
        return self.truth > self.bound + ROUNDING

    @property
    def converged(self) -> bool:
        """Whether the run ended because the certificate was below the tolerance."""
        return self.status == "CONVERGED"

    @property
    def missed(self) -> bool:
        """Whether a converged answer is worse than the tolerance."""
        return self.converged and self.truth > self.case.tol + ROUNDING


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1200, help="number of cases")
    parser.add_argument("--seed", type=int, default=0, help="which cases")
    parser.add_argument("--failure", type=float, help="failure probability of probabilistic certificates")
    parser.add_argument("--out", type=Path, help="file for the page")
    parser.add_argument("--only", type=int, nargs="+", metavar="CASE", help="run these case numbers only")
    options = parser.parse_args()
    first = options.seed * PER_SEED
    began = time.perf_counter()
    findings = study(options.only or range(first, first + options.cases), options.failure)
    page = report(findings, time.perf_counter() - began)
    if options.only:
        page = table(DETAILS, [details(f) for f in findings])
    print(page)
    if options.out:
        options.out.write_text(page + "\n")


def study(numbers: Iterable[int], failure: float | None) -> list[Finding]:
    """Solve the cases with these numbers; with a failure probability, ask for `probabilistic` certificates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [examine(make_case(number), failure) for number in numbers]


# --------------------------------------------------------------------------------------------------------- cases

Spectrum = Callable[[np.random.Generator, int, int], np.ndarray]


def power_law(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    return np.arange(1, r + 1) ** -rng.uniform(0.2, 2.0)


def exponential(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    return np.exp(-rng.choice([0.01, 0.1, 0.5, 2.0]) * np.arange(r))


def clustered(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    """Clusters of three eigenvalues that differ by 1e-1 to 1e-4 of their size."""
    gap = 10.0 ** -rng.uniform(1, 4)
    j = np.arange(r)
    return 0.6 ** (j // 3) * (1 - gap * (j % 3))


def repeated(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    """The eigenvalues k - 1, k, k + 1 and k + 2 are equal."""
    values = np.geomspace(1, 0.01, r) if r > 1 else np.ones(1)
    values[max(0, k - 2) : k + 2] = values[min(k, r) - 1]
    return values


def spike(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    """One eigenvalue above a flat bulk, sometimes only just."""
    values = 1 + 0.01 * rng.random(r)
    values[0] = 1 + 10.0 ** rng.uniform(-1.5, 2)
    return values


def step(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    values = 1 + 0.5 * rng.random(r)
    values[k:] *= 10.0 ** -rng.uniform(0.3, 6)
    return values


def rank_below(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    return 1 + rng.random(max(1, min(r, k - 1)))


def rank_k(rng: np.random.Generator, r: int, k: int) -> np.ndarray:
    return 1 + rng.random(min(r, k))


SPECTRA: dict[str, Spectrum] = {
    "power law": power_law,
    "exponential": exponential,
    "clustered": clustered,
    "repeated": repeated,
    "spike": spike,
    "step": step,
    "rank k-1": rank_below,
    "rank k": rank_k,
}
SHAPES = ("tiny", "wide", "constant columns", "hidden row", "noise")  # families that are more than a spectrum
FAMILIES = (*SPECTRA, *SHAPES)


def make_case(number: int) -> Case:
    """The case with this number."""
    rng = np.random.default_rng(number)
    family = str(rng.choice(FAMILIES))
    solver = str(rng.choice(SOLVERS))
    tol = float(rng.choice(TOLERANCES))
    sparse, center = rng.random() < 0.35, rng.random() < 0.5
    dtype = str(rng.choice(["float32", "float64"]))
    scale = 1.0 if rng.random() < 0.5 else float(10.0 ** rng.integers(-20, 21))
    n, d = _shape(rng, family)
    k = int(rng.integers(1, min(10, n, d) + 1))
    spectrum = SPECTRA.get(family) or SPECTRA[str(rng.choice(list(SPECTRA)))]
    if family == "noise":
        X = _noise(rng, n, d, sparse)
    elif family == "hidden row":
        X = _with_hidden_row(rng, _with_spectrum(rng, n - 1, d - 1, k, spectrum, sparse))
    else:
        X = _with_spectrum(rng, n, d, k, spectrum, sparse)
    if not sparse:  # sparse data keep their zeros
        X += np.abs(X).max() * rng.choice([0, 0, 1, 30]) * rng.standard_normal(d)
    if family == "constant columns":
        X[:, rng.random(d) < rng.uniform(0.1, 0.9)] = 0.0 if sparse else rng.standard_normal()
        X[:, -1] = rng.standard_normal(n)  # at least one column varies
    X = (X * (scale / np.abs(X).max())).astype(dtype)
    X = sp.csr_array(X) if sparse else X
    return Case(number, family, solver, tol, k, bool(center), dtype, bool(sparse), scale, (n, d), X)


def _shape(rng: np.random.Generator, family: str) -> tuple[int, int]:
    if family == "tiny":
        return int(rng.integers(2, 7)), _log_uniform(rng, 1, 400)
    if family == "wide":
        n = _log_uniform(rng, 2, 150)
        return n, _log_uniform(rng, n + 1, 400)
    if family == "hidden row":
        return _log_uniform(rng, 3, 2000), _log_uniform(rng, 2, 400)
    return _log_uniform(rng, 2, 2000), _log_uniform(rng, 1, 400)


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    """The larger of two draws, since very small spaces, which a run soon knows in full, tell little."""
    return int(min(high, low * (high / low) ** rng.random(2).max() + 0.5))


def _with_spectrum(rng: np.random.Generator, n: int, d: int, k: int, spectrum: Spectrum, sparse: bool) -> np.ndarray:
    """Data with these eigenvalues of X^T X: dense with centred columns, or a sum of sparse patches."""
    r = min(n, d) if sparse else max(1, min(n - 1, d))
    values = np.sqrt(spectrum(rng, r, k))
    if sparse:
        U, V = _patches(rng, n, len(values)), _patches(rng, d, len(values))
    else:
        G = rng.standard_normal((n, len(values)))
        U = np.linalg.qr(G - G.mean(axis=0) if n > len(values) else G)[0]
        V = np.linalg.qr(rng.standard_normal((d, len(values))))[0]
    return (U * values) @ V.T


def _patches(rng: np.random.Generator, m: int, r: int) -> np.ndarray:
    """Orthonormal sparse columns: no two of them share a coordinate, and they have 20 entries on average, or fewer."""
    owner = rng.permutation(np.append(np.arange(r), rng.integers(0, max(r, m // 20), m - r)))
    Q = np.zeros((m, r))
    owned = np.flatnonzero(owner < r)
    Q[owned, owner[owned]] = rng.choice([-1.0, 1.0], len(owned)) * rng.uniform(0.5, 1.0, len(owned))
    return Q / np.linalg.norm(Q, axis=0)


def _noise(rng: np.random.Generator, n: int, d: int, sparse: bool) -> np.ndarray:
    """Independent entries: the spectrum of Marchenko and Pastur."""
    X = rng.standard_normal((n, d))
    if sparse:
        X[rng.random((n, d)) > rng.uniform(0.02, 0.3)] = 0.0
        X[0, 0] = 1.0
    return X


def _with_hidden_row(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Add a row and a column that are zero but for their common entry, which is the largest singular value."""
    n, d = X.shape
    larger = np.zeros((n + 1, d + 1))
    larger[:n, :d] = X
    larger[n, d] = np.linalg.norm(X, 2) * np.sqrt(1 + 10.0 ** rng.uniform(-2, 2))
    return larger[rng.permutation(n + 1)]


# --------------------------------------------------------------------------------------------------------- truth


def examine(case: Case, failure: float | None) -> Finding:
    """Solve a case, and compare the certificate with the truth."""
    proof = {} if failure is None else {"certificate": "probabilistic", "failure_probability": failure}
    kept = replace(case, X=None)
    name, _, cost = case.solver.partition("/")
    decompose = vrpca.pca if case.center else vrpca.svd
    signal.signal(signal.SIGALRM, _hung)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found = decompose(
            case.X,
            case.k,
            solver=name,
            cost=cost or "auto",
            tol=case.tol,
            max_passes=300,
            n_threads=1,
            random_state=case.number,
            **proof,
        )
    except (vrpca.DataError, vrpca.OptionError, TimeoutError) as error:
        return Finding(kept, error=f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Finding(
        kept,
        found.certificate.suboptimality,
        suboptimality(case.X, found.Vt, case.center),
        found.certificate.kind,
        found.status.name,
        found.n_passes,
        len(found.history),
    )


def _hung(*_: Any) -> None:
    raise TimeoutError(f"not done after {SECONDS:g} s")


def suboptimality(X: Any, Vt: np.ndarray, center: bool) -> float:
    """``1 - tr(V A V^T) / (lambda_1 + ... + lambda_k)`` of the span of Vt's rows.

    Let c_i be the squared length of the part of the i-th eigenvector in the span. The numerator is the sum of
    ``(lambda_i - lambda_k) (1 - c_i)`` over i <= k and of ``(lambda_k - lambda_i) c_i`` over i > k: nothing cancels.
    """
    Z = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    Z /= np.abs(Z).max()
    if center:
        Z -= Z.mean(axis=0)
        Z -= Z.mean(axis=0)
    k = len(Vt)
    values, Q = np.linalg.eigh(Z.T @ Z)
    values, Q = np.clip(values[::-1], 0, None), Q[:, ::-1]
    V = np.linalg.qr(Vt.T.astype(np.float64))[0]
    inside = Q.T @ V
    c = np.minimum((inside**2).sum(axis=1), 1.0)
    missing = ((values[:k] - values[k - 1]) * (1 - c[:k])).sum() + ((values[k - 1] - values[k:]) * c[k:]).sum()
    return float(max(0.0, missing / values[:k].sum()))


# -------------------------------------------------------------------------------------------------------- report

DETAILS = ("case", "solver", "tol", "data", "kind", "status", "records", "passes", "certificate", "truth", "factor")


def report(findings: list[Finding], seconds: float) -> str:
    """The page."""
    solved, refused = [f for f in findings if not f.error], [f for f in findings if f.error]
    wrong = [f for f in solved if f.wrong]
    parts = [
        f"# Certificates against the truth\n\n{len(findings)} cases, {len(refused)} refused or hung, "
        f"in {seconds:.0f} s; vrpca {vrpca.__version__}.",
        "## By kind and solver\n\n" + _summary(solved, lambda f: (f.kind, f.case.solver)),
        "## By kind and family\n\n" + _summary(solved, lambda f: (f.kind, f.case.family)),
        "## By kind and type\n\n" + _summary(solved, lambda f: (f.kind, f.case.dtype)),
        "## How the runs ended\n\n" + _endings(solved),
        f"## Wrong certificates ({len(wrong)})\n\n" + table(DETAILS, [details(f) for f in wrong]),
    ]
    if refused:
        rows = [(f.case.number, f.case.solver, f.case.describe(), f.error) for f in refused]
        parts.append("## Refused or hung\n\n" + table(("case", "solver", "data", "why"), rows))
    return "\n\n".join(parts)


def _summary(findings: list[Finding], key: Callable[[Finding], tuple[str, str]]) -> str:
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for f in findings:
        groups[key(f)].append(f)
        groups[f.kind, "*all*"].append(f)
    header = (
        *("kind", "what", "cases", "converged", "wrong", "wrong %", "wrong, converged", "truth > tol, converged"),
        *("worst factor", "median looseness", "90 %"),
    )
    return table(header, [(*name, *_figures(groups[name])) for name in sorted(groups)])


def _figures(group: list[Finding]) -> tuple[Any, ...]:
    wrong = [f for f in group if f.wrong]
    loose = [f.bound / f.truth for f in group if f.truth > SHOWN and np.isfinite(f.bound)]
    return (
        len(group),
        sum(f.converged for f in group),
        len(wrong),
        f"{100 * len(wrong) / len(group):.2f}",
        sum(f.converged for f in wrong),
        sum(f.missed for f in group),
        f"{max(f.truth / f.bound for f in wrong):.3g}" if wrong else "",
        f"{np.median(loose):.3g}" if loose else "",
        f"{np.quantile(loose, 0.9):.3g}" if loose else "",
    )


def _endings(findings: list[Finding]) -> str:
    endings = sorted({f.status for f in findings})
    rows = []
    for solver in SOLVERS:
        mine = [f for f in findings if f.case.solver == solver]
        passes = [f.passes for f in mine if f.converged]
        median = f"{np.median(passes):.1f}" if passes else ""
        rows.append((solver, *(sum(f.status == e for f in mine) for e in endings), median))
    return table(("solver", *endings, "median passes, converged"), rows)


def details(f: Finding) -> tuple[Any, ...]:
    """All about a finding, as a row."""
    numbers = (f"{f.passes:.1f}", f"{f.bound:.3g}", f"{f.truth:.3g}", f"{f.truth / f.bound:.3g}")
    return (f.case.number, f.case.solver, f.case.tol, f.case.describe(), f.kind, f.status, f.records, *numbers)


def table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + " --- |" * len(header), *lines[1:]])


if __name__ == "__main__":
    main()
