"""What a figure shows and its table lists, as rows of plain values."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from vrpca.report.subject import Subject

Rows = list[dict[str, Any]]


def scree_rows(subject: Subject) -> Rows:
    """One row per component: what it explains, alone and together with those before it."""
    values = zip(subject.singular_values, subject.ratios, subject.cumulative, strict=True)
    return [
        {"component": j, "singular_value": float(value), "ratio": float(ratio), "cumulative": float(total)}
        for j, (value, ratio, total) in enumerate(values, 1)
    ]


def convergence_rows(subject: Subject) -> Rows:
    """One row per record of the history. What a logarithm cannot show is None."""
    return [
        {
            "passes": record.passes,
            "seconds": record.seconds,
            "explained": record.objective,
            "bound": _positive(record.bound),
            "residual": _positive(record.residual),
            "event": record.event,
        }
        for record in subject.history
    ]


def loading_rows(subject: Subject, component: int, top: int) -> Rows:
    """The entries of a component that are largest in magnitude, largest first. `component` counts from 1."""
    axis = subject.components[subject.component(component)].astype(np.float64)
    chosen = np.argsort(-np.abs(axis), kind="stable")[:top]
    often = Counter(subject.names[j] for j in chosen)
    return [
        {
            "feature": subject.names[j] if often[subject.names[j]] == 1 else f"{subject.names[j]} (column {j})",
            "loading": float(axis[j]),
            "sign": "negative" if axis[j] < 0 else "positive",
        }
        for j in chosen.tolist()
        if axis[j] != 0
    ]


def _positive(value: float) -> float | None:
    return float(value) if value > 0 and math.isfinite(value) else None
