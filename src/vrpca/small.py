"""Fits of small dense arrays, at once: A in double precision, its eigenpairs, and their certificate.

The usual way serves data of any size and kind: a plan, a first pass, a run. That takes longer than the arithmetic of a
thousand rows. What is found here has the same bits as what the solver `gram` finds there. Whatever is out of the
ordinary is left to the usual way, with its errors, warnings and remedies: `solve` returns None then.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from vrpca import kernels
from vrpca.certificate import Certificate
from vrpca.data.first_pass import Moments
from vrpca.data.gram import about_mean, is_shifted, is_small
from vrpca.data.row_map import make_rows
from vrpca.data.source import Source
from vrpca.data.view import Problem, View
from vrpca.run import certificate_of
from vrpca.solvers.base import Answer
from vrpca.solvers.gram import exact_answer
from vrpca.threads import blas_threads
from vrpca.typing import Array

# Sums of squares, and squared means over variances, that are ordinary.
LEAST_SQUARES, MOST_SQUARES, MOST_CANCELLED = 1e-30, 1e30, 1e6
# Multiplications of a product of matrices for which OpenBLAS never has threads: its limit is twice as high.
UNTHREADED = 1 << 17


class Solved(NamedTuple):
    """What a fit finds."""

    moments: Moments
    view: View
    answer: Answer
    certificate: Certificate


def suits(source: Source) -> bool:
    """Whether the data are a small array, with no fewer rows than columns."""
    X = source.block
    return type(X) is np.ndarray and 2 <= X.shape[1] <= X.shape[0] and is_small(*X.shape)


def solve(problem: Problem, k: int, width: int, tol: float) -> Solved | None:
    """The k leading components of a small array, to a tolerance; None if that or the array is not ordinary."""
    X, n_threads = problem.source.block, problem.n_threads
    moments = _moments(X, problem)
    if moments is None:
        return None
    A = _matrix(X, moments, problem)
    with blas_threads(1) if len(A) ** 2 * (width + 1) > UNTHREADED else nullcontext():
        answer = exact_answer(A, width, X.dtype, n_threads)
    view = View.of(problem, moments)
    certificate = certificate_of(answer, k, view)
    return Solved(moments, view, answer, certificate) if certificate.suboptimality <= tol else None


def _moments(X: Array, problem: Problem) -> Moments | None:
    """The moments of all columns; None if numbers or means are very large or small, or not finite."""
    rows, n_threads = make_rows(X), problem.n_threads
    with np.errstate(over="ignore", invalid="ignore"):
        if problem.about_zero:
            total, M2 = kernels.squares(rows, None, 1.0, n_threads)
            mean = np.zeros(len(M2))
        else:
            total, mean, M2 = kernels.moments(rows, None, 1.0, n_threads)
        squares = float(M2.sum())
    if not LEAST_SQUARES < squares < MOST_SQUARES or total * float(mean @ mean) > MOST_CANCELLED * squares:
        return None
    return Moments(total, mean, M2 / total, 1.0)


def _matrix(X: Array, moments: Moments, problem: Problem) -> Array:
    """A with trace 1, as `GramSum` sums it up."""
    d, center = X.shape[1], problem.center
    second, first = np.zeros((d, d)), np.zeros(d)
    shift = moments.mean if center and is_shifted(moments.mean, moments.variance) else None
    kernels.gram(make_rows(X, None, shift), second, first, np.zeros(d), problem.n_threads, True)
    A = about_mean(second, first if center else None, moments.total)
    A /= np.trace(A)
    return A
