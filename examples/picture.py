"""Draws the picture of the README: ``python examples/picture.py docs/images/essence.svg``.

It shows what the package is for: a bound that is known while the truth is not, beside a solver that knows neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import sklearn.decomposition

import vrpca

ROWS, FEATURES, COMPONENTS, TOL = 4000, 1000, 10, 1e-8  # a full SVD, for the truth, takes a second
POWERS = (0, 2, 4, 7)  # iterations of the randomized solver; each reads the data twice, and so does its start


def main(path: Path) -> None:
    """Draw the picture."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)) / np.arange(1, FEATURES + 1) ** 0.4
    Z = X - X.mean(axis=0)
    best = (np.linalg.svd(Z, compute_uv=False)[:COMPONENTS] ** 2).sum()
    model = vrpca.PCA(COMPONENTS, solver="accelerated", tol=TOL, random_state=0).fit(X)
    truth = [1 - record.objective * (Z**2).sum() / best for record in model.history_]
    others = [1 - explained(Z, randomized(X, power)) / best for power in POWERS]
    draw(path, model, truth, others)


def randomized(X: np.ndarray, power: int) -> np.ndarray:
    """The components that scikit-learn's randomized solver finds."""
    solver = sklearn.decomposition.PCA(COMPONENTS, svd_solver="randomized", iterated_power=power, random_state=0)
    return solver.fit(X).components_


def explained(Z: np.ndarray, components: np.ndarray) -> float:
    """The sum of squares along the components."""
    return float(((Z @ np.linalg.qr(components.T)[0]) ** 2).sum())


def draw(path: Path, model: vrpca.PCA, truth: list[float], others: list[float]) -> None:
    """Draw bound and truth against passes."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "vrpca", "font.size": 10})
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    passes = [record.passes for record in model.history_]
    axes.semilogy(passes, [record.bound for record in model.history_], "o-", color="#1f5fa8", label="vrpca: certified")
    axes.semilogy(passes, np.maximum(truth, 1e-16), "o:", color="#1f5fa8", alpha=0.6, label="vrpca: true")
    axes.semilogy([2 + 2 * p for p in POWERS], others, "s:", color="#c26a1b", label="randomized: true, but unknown")
    axes.axhline(TOL, color="gray", linewidth=1, linestyle="--")
    axes.annotate(f"tol = {TOL:g}: it stops here, and can prove it", (passes[-1] + 0.6, TOL * 1.8), color="#555555")
    axes.set(xlabel="passes over the data", ylabel="variance missed")
    axes.set_title(
        f"{COMPONENTS} components of a {ROWS} x {FEATURES} matrix with a slowly falling spectrum", fontsize=10
    )
    axes.legend(loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/essence.svg"))
