"""Models as files: one .npz with arrays and JSON, no pickle, written whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.certificate import Certificate
from vrpca.data.files import written_whole
from vrpca.errors import DataError
from vrpca.estimators import PCA, TruncatedSVD
from vrpca.history import Record, Status
from vrpca.options import Theory

FORMAT = 1
MODELS: dict[str, type] = {"PCA": PCA, "TruncatedSVD": TruncatedSVD}
ARRAYS = ("components_", "singular_values_", "explained_variance_ratio_", "mean_", "scale_")
SCALARS = ("n_components_", "n_samples_", "converged_", "n_passes_", "solver_", "solver_reason_", "n_iter_")


def save(model: PCA | TruncatedSVD, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : PCA or TruncatedSVD
        A fitted estimator. Its `callback` is not written; a `random_state` that is not an integer becomes None.
    path : str or path
        Where to. An existing file is replaced only once the new one is complete.

    Examples
    --------
    >>> import numpy as np, tempfile, vrpca
    >>> model = vrpca.PCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((50, 5)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vrpca.save(model, folder + "/model.npz")
    ...     again = vrpca.load(folder + "/model.npz")
    >>> bool((again.components_ == model.components_).all())
    True
    """
    kind = type(model).__name__
    if MODELS.get(kind) is not type(model):
        raise TypeError(f"Only fitted PCA and TruncatedSVD models can be saved, not {kind}.")
    if not hasattr(model, "components_"):
        raise ValueError(f"This {kind} is not fitted yet: call fit before save.")
    arrays = {name: getattr(model, name) for name in ARRAYS if getattr(model, name, None) is not None}
    if kind == "PCA":
        arrays["explained_variance_"] = model.explained_variance_
    arrays |= {"residuals": model.certificate_.residuals, "angles": model.certificate_.angles}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names_in_"] = np.asarray(model.feature_names_in_, dtype=str)
    write_npz(Path(path), arrays, _metadata(model, kind))


def _metadata(model: Any, kind: str) -> dict[str, Any]:
    parameters = model.get_params(deep=False) | {"callback": None}
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    if parameters["theory"] is not None:
        parameters["theory"] = asdict(parameters["theory"])
    return {
        "format": FORMAT,
        "vrpca": importlib.metadata.version("vrpca"),
        "model": kind,
        "parameters": parameters,
        "scalars": {name: getattr(model, name) for name in SCALARS},
        "noise_variance_": getattr(model, "noise_variance_", None),
        "n_features_in_": model.n_features_in_,
        "status": model.status_.name,
        "certificate": {
            "suboptimality": model.certificate_.suboptimality,
            "kind": model.certificate_.kind,
            "mu": model.certificate_.mu,
        },
        "history": [record.asdict() for record in model.history_],
    }


def write_npz(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write arrays and metadata to a temporary file beside `path`, then rename it."""
    contents: dict[str, Any] = {"metadata": np.asarray(json.dumps(metadata, default=_plain)), **arrays}
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **contents)


def _plain(value: Any) -> Any:
    """NumPy's scalars for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"A model holds a parameter that cannot be written to a file: {value!r}.")


def load(path: str | os.PathLike[str]) -> PCA | TruncatedSVD:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    PCA or TruncatedSVD
        Fitted, as it was saved.
    """
    arrays, metadata = _read(Path(path))
    model = MODELS[metadata["model"]](**_parameters(metadata["parameters"]))
    for name, value in metadata["scalars"].items():
        setattr(model, name, value)
    for name in (*ARRAYS, "feature_names_in_"):
        if name in arrays:
            setattr(model, name, arrays[name])
        elif name in ("mean_", "scale_"):
            setattr(model, name, None)
    if metadata["model"] == "PCA":
        model.explained_variance_ = arrays["explained_variance_"]
        model.noise_variance_ = metadata["noise_variance_"]
    if "feature_names_in_" in arrays:
        model.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    model.n_features_in_ = metadata["n_features_in_"]
    model.status_ = Status[metadata["status"]]
    model.certificate_ = Certificate(residuals=arrays["residuals"], angles=arrays["angles"], **metadata["certificate"])
    model.history_ = [Record(**record) for record in metadata["history"]]
    return model


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the checked metadata of a model file."""
    try:
        with path.open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it holds one array")
            arrays = {name: file[name] for name in file.files}
        metadata = json.loads(str(arrays.pop("metadata")))
        version = metadata["format"]
        missing = {"parameters", "scalars", "status", "certificate", "history"} - set(metadata)
        if version == FORMAT and missing:
            raise ValueError(f"{sorted(missing)[0]} is missing")
    except FileNotFoundError:
        raise DataError(f"There is no model file {path}.") from None
    except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is not a vrpca model, or is damaged: {error}. Write it again with vrpca.save."
        ) from error
    if version != FORMAT or metadata.get("model") not in MODELS:
        raise DataError(
            f"{path} has model format {version}, this version of vrpca reads format {FORMAT}: use the vrpca "
            f"({metadata.get('vrpca')}) that wrote it, or fit again."
        )
    return arrays, metadata


def _parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    theory = parameters.get("theory")
    return parameters | {"theory": None if theory is None else Theory(**theory)}
