"""A fitted model or a decomposition in the terms that figures and pages use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.certificate import Certificate
from vrpca.decomposition import Decomposition
from vrpca.errors import OptionError
from vrpca.estimators import PCA, TruncatedSVD
from vrpca.history import Record, Status


@dataclass(frozen=True)
class Subject:
    """What a report is about."""

    model: Any  # the PCA, TruncatedSVD or Decomposition itself
    components: np.ndarray
    singular_values: np.ndarray
    ratios: np.ndarray  # of the variance that each component explains
    mean: np.ndarray | None
    scale: np.ndarray | None
    whitening: np.ndarray | None  # what scores are multiplied by
    names: Sequence[str]  # of the features
    n_samples: float
    certificate: Certificate
    status: Status
    solver: str
    reason: str
    n_passes: float
    history: Sequence[Record]
    parameters: dict[str, Any]  # what the model was asked for; nothing is known of that for a decomposition

    @property
    def kind(self) -> str:
        """The name of the model's class."""
        return type(self.model).__name__

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.components)

    @property
    def tol(self) -> float | None:
        """The suboptimality that was asked for, where that is known."""
        return self.parameters.get("tol")

    @property
    def cumulative(self) -> np.ndarray:
        """The part of the variance that the first components explain together."""
        return np.minimum(np.cumsum(self.ratios), 1.0)

    def component(self, number: int) -> int:
        """The index of a component that is counted from 1, or an error if there is none."""
        if not 1 <= number <= self.k:
            raise OptionError(f"There is no component {number}: the model has {self.k}, counted from 1.")
        return number - 1


def subject_of(model: Any) -> Subject:
    """The subject that a fitted model or a decomposition is."""
    if isinstance(model, Decomposition):
        return _of_decomposition(model)
    if not isinstance(model, PCA | TruncatedSVD):
        raise OptionError(f"A report is about a PCA, a TruncatedSVD or a Decomposition, not {type(model).__name__}.")
    if not hasattr(model, "components_"):
        raise OptionError(f"This {type(model).__name__} is not fitted yet: call fit first.")
    return Subject(
        model=model,
        components=model.components_,
        singular_values=model.singular_values_.astype(np.float64),
        ratios=model.explained_variance_ratio_.astype(np.float64),
        mean=model.mean_,
        scale=model.scale_,
        whitening=model._whitening() if model.whiten else None,
        names=feature_names(getattr(model, "feature_names_in_", None), model.n_features_in_),  # not there without names
        n_samples=model.n_samples_,
        certificate=model.certificate_,
        status=model.status_,
        solver=model.solver_,
        reason=model.solver_reason_,
        n_passes=model.n_passes_,
        history=model.history_,
        parameters=model.get_params(deep=False),
    )


def _of_decomposition(found: Decomposition) -> Subject:
    return Subject(
        model=found,
        components=found.Vt,
        singular_values=found.s.astype(np.float64),
        ratios=found.explained_variance_ratio.astype(np.float64),
        mean=found.mean,
        scale=found.scale,
        whitening=None,
        names=feature_names(None, found.Vt.shape[1]),
        n_samples=found.n_samples,
        certificate=found.certificate,
        status=found.status,
        solver=found.solver,
        reason=found.reason,
        n_passes=found.n_passes,
        history=found.history,
        parameters={},
    )


def feature_names(names: Sequence[Any] | None, features: int) -> Sequence[str]:
    """The names of the features as text; where they have none, their numbers, from 0 as in the array."""
    return [f"feature {j}" for j in range(features)] if names is None else [str(name) for name in names]
