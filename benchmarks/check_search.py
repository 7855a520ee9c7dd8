"""The constants of `vrpca.check`: how often a wrong model is accepted, and what the check of a right one costs.

usage: OPENBLAS_NUM_THREADS=1 python benchmarks/check_search.py [--seeds N]

Right models have the leading eigenvectors of data with a known spectrum; wrong ones have the next eigenvector in place
of the last one, which is the error that is hardest to see. A line says how many wrong models were accepted, with a tol
just below their error, how many right ones were refused, with tol = 1e-6, and how many passes a right one took. Each
constant is varied alone. SETTLED is varied with PATIENCE = 3, too: with 6, patience hides what it does on small data.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import vrpca
from vrpca import check as module

ROWS, FEATURES, COMPONENTS = 400, 200, 5
SPECTRA = {
    "geometric": 0.9 ** np.arange(FEATURES),
    "power law": (1.0 + np.arange(FEATURES)) ** -1.0,
    "slow power law": (1.0 + np.arange(FEATURES)) ** -0.3,
    "plateau": np.where(np.arange(FEATURES) < COMPONENTS, 1.05, 1.0 / (1 + np.arange(FEATURES) / 50)),
}
SETTINGS = (
    *({"EXTRA": extra} for extra in (1, 2, 4, 8)),
    *({"PATIENCE": patience} for patience in (3, 4, 6, 8)),
    *({"SETTLED": part} for part in (1.0, 0.3, 0.1, 0.03)),
    *({"SETTLED": part, "PATIENCE": 3} for part in (1.0, 0.3, 0.1, 0.03)),
)


def models(seeds: int) -> Iterator[tuple[str, vrpca.TruncatedSVD, vrpca.TruncatedSVD, np.ndarray, int]]:
    """Yield the name of a spectrum, a right and a wrong model, their data and a seed."""
    for name, eigenvalues in SPECTRA.items():
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            Q, V = (np.linalg.qr(rng.standard_normal((n, FEATURES)))[0] for n in (ROWS, FEATURES))
            X = (Q * np.sqrt(eigenvalues)) @ V.T
            pair = [vrpca.TruncatedSVD(COMPONENTS).fit(X) for _ in range(2)]
            pair[0].components_ = V[:, :COMPONENTS].T.copy()
            pair[1].components_ = V[:, [*range(COMPONENTS - 1), COMPONENTS]].T.copy()
            yield name, pair[0], pair[1], X, seed


def outcome(cases: list) -> str:
    """Check all models with the constants as they are."""
    accepted, refused, passes = 0, 0, []
    for name, right, wrong, X, seed in cases:
        values = SPECTRA[name]
        error = (values[COMPONENTS - 1] - values[COMPONENTS]) / values[:COMPONENTS].sum()
        accepted += module.check(wrong, X, tol=0.9 * error, random_state=seed).ok
        found = module.check(right, X, tol=1e-6, random_state=seed)
        refused += not found.ok
        passes.append(found.n_passes)
    return f"{accepted} wrong accepted, {refused} right refused, {np.mean(passes):.1f} passes"


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    cases = list(models(parser.parse_args().seeds))
    usual = {name: getattr(module, name) for name in ("EXTRA", "PATIENCE", "SETTLED")}
    print(f"of {len(cases)} models each, usually {usual}:")
    for setting in SETTINGS:
        vars(module).update(usual | setting)
        print(f"{setting}: {outcome(cases)}", flush=True)


if __name__ == "__main__":
    main()
