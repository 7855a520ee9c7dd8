"""Straight lines through measurements, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from vrpca.experiments.reproduce.curves import BOTTOM, Curve

CONFIDENCE = 0.95
EPOCH = 2.0  # effective passes of an epoch of VR-PCA: n steps and the snapshot


@dataclass(frozen=True)
class Line:
    """A fitted line: slope, half the width of the slope's 95% interval, intercept, R^2."""

    slope: float
    margin: float
    intercept: float
    r2: float

    @property
    def low(self) -> float:
        """Lower end of the slope's interval."""
        return self.slope - self.margin

    @property
    def high(self) -> float:
        """Upper end of the slope's interval."""
        return self.slope + self.margin

    def __str__(self) -> str:
        return f"{self.slope:.2f} ({self.low:.2f} to {self.high:.2f})"


def line(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Line:
    """Least squares, with Student's interval for the slope.

    >>> line([0, 1, 2, 3], [1, 3, 5, 7]).slope
    2.0
    """
    fit = stats.linregress(x, y)
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(x) - 2) * fit.stderr) if len(x) > 2 else float("inf")
    return Line(float(fit.slope), margin, float(fit.intercept), float(fit.rvalue**2))


def power_law(x: Sequence[float], y: Sequence[float]) -> Line:
    """The exponent of y in x: a line through the logarithms.

    >>> round(power_law([1, 10, 100], [3, 300, 30000]).slope, 6)
    2.0
    """
    return line(np.log10(x), np.log10(y))


def proportion(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95% interval of a probability.

    >>> low, high = proportion(50, 100)
    >>> 0.40 < low < 0.41 and 0.59 < high < 0.60
    True
    """
    interval = stats.binomtest(hits, trials).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class Decay:
    """How a curve of VR-PCA falls: from a tenth of its error after one epoch to its first point below `BOTTOM`."""

    rate: float  # decades per epoch
    r2: float  # R^2 of the line through log10 of the error over epochs
    r2_whole: float  # R^2 of a line through all points after the first epoch, a plateau included
    decades: float  # decades that the line spans
    points: int  # number of points that the line is fitted to
    burn_in: float  # epochs that a plateau has cost, at once or after a first fall: see `_behind`

    def stored(self) -> dict[str, float]:
        """The fit as columns of a result. Stored results call the number of points "looks"."""
        return {"looks" if name == "points" else name: value for name, value in vars(self).items()}


def decay(curve: Curve) -> Decay | None:
    """The fit of a curve; None where it has fewer than three points to fit."""
    use = (curve.passes > 0) & _above_rounding(curve)
    if not use.any():
        return None
    epochs, logs = curve.passes[use] / EPOCH, np.log10(curve.errors[use])
    below = np.flatnonzero(logs <= logs[0] - 1)
    if len(below) == 0 or len(logs) - below[0] < 3:
        return None
    there = slice(below[0], None)
    fall = line(epochs[there], logs[there])
    span = float(logs[below[0]] - logs.min())
    late = logs <= (logs[below[0]] + logs.min()) / 2
    end = line(epochs[late], logs[late]) if late.sum() > 1 else fall
    return Decay(-fall.slope, fall.r2, line(epochs, logs).r2, span, len(logs) - int(below[0]), _behind(end, curve))


def _above_rounding(curve: Curve) -> np.ndarray:
    """Which points count: those above the bottom, and the first one below it."""
    below = np.cumsum(curve.errors < BOTTOM)
    return (below == 0) | ((below == 1) & (curve.errors < BOTTOM) & (curve.errors > 0))


def _behind(fall: Line, curve: Curve) -> float:
    """The largest delay of a falling line behind the curve, in epochs."""
    if not fall.slope < 0:
        return float("inf")
    use = _above_rounding(curve)
    expected = (np.log10(curve.errors[use]) - fall.intercept) / fall.slope
    return max(0.0, float((expected - curve.passes[use] / EPOCH).max()))


@dataclass(frozen=True)
class Plane:
    """A fit of y = sum_i c_i x_i: the coefficients, and half the widths of their 95% intervals."""

    coefficients: np.ndarray
    margins: np.ndarray


def plane(columns: Sequence[Sequence[float]], y: Sequence[float]) -> Plane:
    """Least squares of the relative errors of y.

    >>> x, ones = np.arange(1.0, 9.0), np.ones(8)
    >>> plane([ones, x], 3 + 2 * x).coefficients.round(9).tolist()
    [3.0, 2.0]
    """
    M = np.column_stack([np.asarray(column, dtype=float) for column in columns]) / np.asarray(y, dtype=float)[:, None]
    size = np.linalg.norm(M, axis=0)
    found, *_ = np.linalg.lstsq(M / size, np.ones(len(M)), rcond=None)
    free = len(M) - M.shape[1]
    variance = float(np.sum((M / size @ found - 1) ** 2)) / free if free > 0 else float("inf")
    spread = np.sqrt(variance * np.diag(np.linalg.pinv((M / size).T @ (M / size))))
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, free)) if free > 0 else float("inf")
    return Plane(found / size, quantile * spread / size)
