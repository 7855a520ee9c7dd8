"""Bounds on how far from optimal an answer can be, from W, A W and what is known of A on W's complement.

With ``R = A W - W Theta`` and C the restriction of A to the complement of W's span, let ``mu >= lambda_max(C)`` and
``delta = theta_k - mu``. If ``delta > 0``, the sum of A's k largest eigenvalues is at most the sum of the k largest
eigenvalues of ``Theta + R^T R / delta``. Without a gap, Ky Fan's inequality still bounds it by
``theta_1 + ... + theta_k + k max(0, mu - theta_k) + sigma_1(R) + ... + sigma_k(R)``. The smaller of the two counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import fill

import numpy as np

from vrpca.linalg import eigenpairs
from vrpca.markup import paragraphs, tag

PROVEN = 3  # times the usual rounding that a proof allows for: up to 2.7 times in the fuzz harness
SUMMED = 4  # A itself, summed up row by row, is as far off as products with a basis of so many vectors: up to 2.5 there
# Units of rounding of A w where many rows are equal. Sums of 128 equal numbers, as of dense rows, are off by up to 11.
# Sparse rows have sums of 128 on average. They are off by up to 16; other terms of a bound make up for it.
BIASED = 12
QUOTIENT = 8  # units of rounding of the ratio of two sums that a bound is computed from: up to 4.4 in the fuzz harness
EQUAL = 64  # Ritz values that differ by fewer units of rounding are taken for equal: products err by up to 16 of them
STORED = 8  # units of rounding by which a component may be turned when it is stored: up to 6 in the fuzz harness
FEW = 5  # components that a sentence lists: more would not be read
EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

# What the kinds of certificates rest on, for users.
KINDS = {
    "exact": "The certificate is exact: the largest eigenvalue outside the answer is known. Nothing was missed.",
    "probabilistic": (
        "The certificate is probabilistic: random vectors, drawn after the answer was found, bound what it has missed."
    ),
    "estimated": (
        "The certificate is estimated: the search that found the answer says what is left, and an independent random "
        "vector did not object. That something larger was missed is unlikely, not impossible."
    ),
}


@dataclass(frozen=True)
class Certificate:
    """A bound on an answer's suboptimality, and what it rests on.

    Attributes
    ----------
    suboptimality : float
        Bound on ``1 - tr(W^T A W) / (lambda_1 + ... + lambda_k)``; 1 where nothing is known.
    kind : str
        ``"exact"``: mu is known. ``"probabilistic"``: mu is bounded by a fresh random search, but for the failure
        probability asked for; or mu is known, and random vectors have measured what rounding hides. ``"estimated"``:
        mu is estimated by the search that found the answer, and an independent witness has not objected; small
        residuals alone never prove that nothing larger was missed.
    residuals : numpy.ndarray
        ``|A w_j - theta_j w_j| / theta_1`` for each component.
    angles : numpy.ndarray
        Bound on the sine of the angle between each component and its eigenvector; 1 where its gap allows none.
        Components whose variances are equal, up to rounding, count as one subspace: they have its angle.
    mu : float
        The largest eigenvalue outside the answer, relative to ``theta_1``, as far as it is known.
    ceiling : float or None
        What no eigenvalue outside the answer exceeds, relative to ``theta_1``, but for a probability of `failure`. It
        does not depend on how the answer was found. None where nothing is known.
    failure : float
        That probability; 0 where mu is known. A probabilistic bound on the suboptimality fails with the
        `failure_probability` that was asked for.
    """

    suboptimality: float
    kind: str
    residuals: np.ndarray = field(repr=False)
    angles: np.ndarray = field(repr=False)
    mu: float = 0.0
    ceiling: float | None = None
    failure: float = 0.0

    def in_words(self) -> list[str]:
        """What the certificate says, in sentences."""
        k = len(self.residuals)
        best, all_of_them = (
            ("the best component", "The component") if k == 1 else (f"the best {k}", f"The {k} components")
        )
        if self.suboptimality >= 1:
            said = "The bound is 1, which says nothing: the search ended before it could tell how good the answer is."
        else:
            said = f"{all_of_them} explain{'s' * (k == 1)} what {best} can, but for a part of at most "
            said += f"{self.suboptimality:.1e} of it (the suboptimality)."
        ceiling = [f"{self.ceiling_in_words().capitalize()}."] if self.ceiling_in_words() else []
        return [said, KINDS[self.kind], *ceiling, *self._angles_in_words()]

    def ceiling_in_words(self) -> str:
        """How large anything that was left out can be; empty where nothing is known."""
        if self.ceiling is None or not self.failure or self.ceiling >= 1:
            return ""
        return (
            f"nothing that was left out is larger than {self.ceiling:.2g} of the largest eigenvalue, "
            f"but for a probability of {self.failure:g}"
        )

    def _angles_in_words(self) -> list[str]:
        """How far the directions can be off, and which of them may point anywhere."""
        free = [str(j) for j, angle in enumerate(self.angles, 1) if angle >= 1]
        said = []
        if free:
            listed = ", ".join(free[:FEW]) + (", ..." if len(free) > FEW else "")
            said.append(
                f"Not certified is the direction of component {listed}: another variance is too close to its own."
            )
        spaces = self._subspaces()
        for first, last in spaces[:FEW]:
            said.append(
                f"Components {first} to {last} have variances that are equal up to rounding: what is certified is the "
                "space that they span, not their directions in it."
            )
        sines = self.angles[self.angles < 1]
        if len(sines):
            which = "Every other direction" if free else "Every direction" if len(sines) > 1 else "The direction"
            which = "All that is certified" if spaces else which
            said.append(f"{which} is right to within {np.degrees(np.arcsin(sines.max())):.2g} degrees.")
        return said

    def _subspaces(self) -> list[tuple[int, int]]:
        """The first and the last component of each group with one angle; the components count from 1."""
        bounds = np.flatnonzero(np.diff(self.angles, prepend=-1, append=-1)) + 1
        groups = zip(bounds[:-1].tolist(), (bounds[1:] - 1).tolist(), strict=True)
        return [(first, last) for first, last in groups if last > first and self.angles[first - 1] < 1]

    def __str__(self) -> str:
        first = f"Certificate: suboptimality at most {self.suboptimality:.1e} ({self.kind})"
        return "\n".join(
            [first, *(fill(text, 96, initial_indent="  ", subsequent_indent="  ") for text in self.in_words())]
        )

    def _repr_html_(self) -> str:
        """The certificate for notebooks."""
        title = tag("strong", f"Certificate: suboptimality at most {self.suboptimality:.1e} ({self.kind})")
        return tag("div", tag("p", title), paragraphs(self.in_words()))


def certify(
    theta: np.ndarray,
    G: np.ndarray,
    k: int,
    d: int,
    mu: float,
    kind: str,
    eps: float,
    turned: float = 0.0,
    basis: int = 0,
    *,
    unit: float,
    shown: float = 0.0,
    hidden: float | None = None,
) -> Certificate:
    """Bound the suboptimality of the k leading Ritz vectors.

    Parameters
    ----------
    theta : numpy.ndarray
        Ritz values, largest first; at least one.
    G : numpy.ndarray
        ``R^T R``.
    k : int
        Number of components that count.
    d : int
        Dimension of the space.
    mu : float
        The largest eigenvalue outside the span of all Ritz vectors, or an estimate of it.
    kind : str
        How mu was found.
    eps : float
        Rounding of A W, relative to A.
    turned : float
        Angle by which rounding may have turned a component after all this, when it was stored.
    basis : int
        Number of vectors that W and A W are combined from; 0 where A is known and W is multiplied by it.
    unit : float
        Rounding of a number of the data's type.
    shown : float
        Rounding of A W that has been seen: what follows from `eps` may be less.
    hidden : float, optional
        What rounding of A W hides of the suboptimality, where that was measured. Otherwise it follows from `eps`.
    """
    values = theta.tolist()  # there are few of them: lists take less time than arrays
    lengths = [math.sqrt(max(square, 0.0)) for square in G.diagonal().tolist()]
    norms, top = lengths[:k], values[0]
    if len(values) < k or not top > 0:
        return Certificate(1.0, kind, np.array(norms) / max(top, TINY), np.ones(len(norms)), mu=1.0)
    if len(values) == d:  # W spans everything: only rounding can turn the leading vectors, or leave residuals
        shown = max(shown, *lengths, -values[-1])  # A has no negative eigenvalues
        G, mu, kind = np.zeros_like(G), 0.0, "exact"
        lengths = [0.0] * d
    value = math.fsum(values[:k])
    best = _bound_with_gap(theta, G, k, mu, value)
    if best - value > max(lengths):  # the bound without a gap adds at least the longest residual
        best = min(best, _bound_without_gap(theta, G, k, mu))
    E = [max(error, shown) for error in product_error(values, eps, 0 if kind == "estimated" else max(basis, SUMMED))]
    biased = BIASED * unit if kind == "estimated" else 0.0
    turning = [max(error, biased * abs(each)) for error, each in zip(E, values, strict=True)]
    if hidden is None:
        hidden = 0.0 if k == d else _rounding(values, lengths, k, mu, E, turning)
    # A vector that is turned by a small angle loses the square of the angle of its variance. Where components are
    # products with vectors, those of little variance are turned more: by the square root of theta_1 / theta_j.
    stored = k * (top / value) * turned**2 + QUOTIENT * EPS
    bound = max(0.0, 1 - value / best) + hidden + stored
    sines = _sines(values, [sum(both) for both in zip(lengths, turning, strict=True)], k, mu, eps)
    angles = np.array([min(1.0, sine + turned) for sine in sines])
    mu = outside_answer(theta, G, k, mu) / top
    return Certificate(min(1.0, bound), kind, np.array([norm / top for norm in norms]), angles, mu)


def outside_answer(theta: np.ndarray, G: np.ndarray, k: int, mu: float) -> float:
    """What no eigenvalue of A outside the k leading Ritz vectors exceeds, if none outside all of them exceeds mu.

    Outside the k vectors, A consists of the other Ritz values, of what is outside all vectors, and of the residuals
    that connect the two.
    """
    if k >= len(theta):
        return float(mu)
    largest, coupling = float(theta[k]), math.sqrt(max(0.0, float(_largest_eigenvalues(G[k:, k:], 1)[0])))
    return (largest + mu) / 2 + math.hypot((largest - mu) / 2, coupling)


def _largest_eigenvalues(G: np.ndarray, count: int) -> np.ndarray:
    return eigenpairs(G, count, 0)[0]


def _bound_with_gap(theta: np.ndarray, G: np.ndarray, k: int, mu: float, value: float) -> float:
    delta = float(theta[k - 1]) - mu
    if delta <= 0:
        return math.inf
    most = float(G.trace()) / delta  # G adds no more than its trace
    if most <= EPS * value:
        return value + most
    M = G / delta
    M.flat[:: len(theta) + 1] += theta
    return math.fsum(_largest_eigenvalues(M, k).tolist())


def _bound_without_gap(theta: np.ndarray, G: np.ndarray, k: int, mu: float) -> float:
    singular = np.sqrt(np.clip(_largest_eigenvalues(G, k), 0, None))
    return float(theta[:k].sum() + k * max(0.0, mu - theta[k - 1]) + singular.sum())


def _rounding(
    values: list[float], lengths: list[float], k: int, mu: float, E: list[float], turning: list[float]
) -> float:
    """What rounding can hide. An error E_j in A w_j adds to the residual of w_j, and turns w_j by E_j over its gap.

    Where there is a gap, `turning` takes the place of E: rounding that goes one way turns vectors. The factor 2 was
    found over some thousand generated cases (`benchmarks/certificates.py`).
    """
    below = values[k] if k < len(values) else mu
    gaps = [max(value - below, TINY) for value in values[:k]]
    each = zip(E, turning, lengths, gaps, strict=False)  # of the first k
    return sum(min(error, 2 * turn * (length + turn) / gap) for error, turn, length, gap in each) / math.fsum(
        values[:k]
    )


def product_error(theta: Sequence[float] | np.ndarray, eps: float, basis: int) -> list[float]:
    """Length of the error of A w_j. The factor 8 was found over the same cases.

    Every vector of a basis that sees the first component has an error of its product in proportion to theta_1. These
    errors are independent. They can be as large as those of all vectors together, but seldom are: only a proof allows
    for that. The other terms of an estimate are several times too large (`benchmarks/fuzz_certificates.py`).
    """
    unit, least = (PROVEN * eps, math.sqrt(basis) * theta[0]) if basis else (eps, theta[0])
    return [unit * max(8 * abs(value), least) for value in theta]


def _sines(values: list[float], errors: list[float], k: int, mu: float, eps: float) -> list[float]:
    """Bounds on the sines of the angles to the eigenvectors; 1 where there is none.

    By Davis and Kahan (1970), the sine is at most the residual's length over the distance to the rest of the spectrum.
    The i-th Ritz value is at most the i-th eigenvalue; those below exceed theirs by their residuals at most. Ritz
    values that rounding cannot tell apart belong to one group: the angle is the one between subspaces then. `errors`
    are the lengths of the residuals, with what rounding may have hidden of them.
    """
    rest = [max(mu, 0.0)]  # how large eigenvalues can be from each Ritz value on, and outside
    for value, error in zip(reversed(values), reversed(errors), strict=True):
        rest.append(max(rest[-1], value + error))
    rest.reverse()
    equal, sines = EQUAL * eps * values[0], []
    ends = [j for j in range(1, k) if values[j - 1] - values[j] > equal] + [k]
    for first, last in itertools.pairwise([0, *ends]):
        above = values[first - 1] - values[first] if first else math.inf
        gap = min(above, values[last - 1] - rest[last])
        sine = min(1.0, math.hypot(*errors[first:last]) / gap) if gap > 0 else 1.0
        sines += [sine] * (last - first)
    return sines
