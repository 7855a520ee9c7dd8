"""What every solver hands on: an orthonormal W, its exact image A W, Ritz values, and what certifies them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from vrpca.certificate import Certificate, Probe, certify
from vrpca.data.view import View
from vrpca.linalg import aligned_copy, aligned_zeros, cross, orthonormalise, residual_gram, ritz, rotate


@dataclass
class Iterate:
    """A snapshot: ``U = A W`` exactly, ``W^T U = diag(theta)``, ``P = Z W``, ``G = R^T R`` with ``R = U - W theta``.

    `mu` is the largest eigenvalue of A on W's complement, as far as it is known; `kind` says how well it is known.
    A solver that has no more use for U and P releases them before it makes the next snapshot; W stays, to go back to.
    Solvers that combine W from vectors multiplied before have no P, and no probe.
    """

    W: np.ndarray
    U: np.ndarray | None
    P: np.ndarray | None
    theta: np.ndarray
    G: np.ndarray
    mu: float
    kind: str = "estimated"
    probe: Probe | None = None

    def release(self) -> None:
        """Free U and P."""
        self.U = self.P = None

    @property
    def released(self) -> bool:
        """Whether the snapshot has to be taken again before a solver can go on from it."""
        return self.U is None and self.probe is not None

    def objective(self, k: int) -> float:
        """``tr(W_k^T A W_k)``, relative to tr A."""
        return float(self.theta[:k].sum())

    def certificate(self, k: int, rounding: float) -> Certificate:
        """Bound for the k leading vectors, given the relative rounding of products with A."""
        return certify(self.theta, self.G, k, self.length, self.mu, self.kind, rounding)

    @property
    def length(self) -> int:
        """Length of the vectors."""
        return self.W.shape[0]

    @property
    def finite(self) -> bool:
        """Whether all numbers that matter are finite."""
        return bool(np.isfinite(self.theta).all() and np.isfinite(self.G).all())


class Pending(Iterate):
    """An iterate whose vectors are combined when asked for; `settle` it before what they are made of changes."""

    def __init__(self, combine: Callable[[], np.ndarray], length: int, *what: Any):
        self._combine, self._length = combine, length
        self._W: np.ndarray | None = None
        super().__init__(np.zeros((0, 0)), None, None, *what)

    @property
    def W(self) -> np.ndarray:
        """The vectors."""
        self.settle()
        assert self._W is not None
        return self._W

    @W.setter
    def W(self, _: np.ndarray) -> None:
        self._W = None

    def settle(self) -> None:
        """Combine the vectors now."""
        if self._W is None:
            self._W = self._combine()

    @property
    def length(self) -> int:
        """Length of the vectors."""
        return self._length


def random_start(view: View, l: int, rng: np.random.Generator, W0: np.ndarray | None = None) -> np.ndarray:
    """Return l orthonormal columns: those of `W0`, then random ones; zero where the columns of the data are zero."""
    W = aligned_zeros((view.d, l), view.dtype)
    rng.standard_normal(out=W, dtype=view.dtype)
    if W0 is not None:
        W[:, : min(l, W0.shape[1])] = W0[:, :l]
    if view.support is not None:
        W[~view.support] = 0
    orthonormalise(W)
    return W


def snapshot(view: View, W: np.ndarray, probe: Probe | None) -> Iterate:
    """One exact reading: U = A W, rotated to Ritz vectors, the probe's column multiplied along with it.

    Consumes W. P keeps the room of the probe's column at the end of its rows.
    """
    assert probe is not None  # solvers that make snapshots have one
    l = W.shape[1]
    if not np.isfinite(W).all():
        nothing = np.full(l, np.nan)
        return Iterate(W, None, None, nothing, np.outer(nothing, nothing), np.nan, probe=probe)
    both = aligned_zeros((view.d, l + 1), view.dtype)
    both[:, :l] = W
    both[:, l] = probe.column
    del W  # at the peak, the product, there is one copy of it
    P = aligned_zeros((view.n, l + 1), view.dtype)
    image = view.product(both, P)
    W = aligned_copy(both[:, :l])
    del both
    U = aligned_copy(image[:, :l])
    probe_image = image[:, l].copy()
    del image
    theta, Y = ritz(cross(W, U))
    if l > 1:
        rotate(W, Y)
        rotate(U, Y)
        rotate(P, block_diag(Y, [[1.0]]))
    probe.update(probe_image, W, U, theta)
    return Iterate(W, U, P[:, :l], theta, residual_gram(W, U, theta), probe.bound(theta), probe=probe)


def renewed(view: View, it: Iterate) -> Iterate:
    """The same iterate with U: as it is, or by another reading if it was released."""
    return snapshot(view, aligned_copy(it.W), it.probe) if it.released else it


def projected(view: View, it: Iterate) -> Iterate:
    """The same iterate with P: as it is, or by another reading."""
    if it.P is not None:
        return it
    P = aligned_zeros((view.n, it.W.shape[1]), view.dtype)
    U = view.product(aligned_copy(it.W), P)
    return Iterate(it.W, U, P, it.theta, it.G, it.mu, it.kind, it.probe)
