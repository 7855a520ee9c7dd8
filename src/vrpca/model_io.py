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
# What a model file holds, by the names of the model's attributes.
ARRAYS = ("components_", "singular_values_", "explained_variance_ratio_")
OPTIONAL_ARRAYS = ("mean_", "scale_", "explained_variance_", "feature_names_in_")  # None or not there in some models
SCALARS = ("n_components_", "n_samples_", "converged_", "n_passes_", "solver_", "solver_reason_", "n_iter_")
CERTIFICATE_ARRAYS, CERTIFICATE_SCALARS = ("residuals", "angles"), ("suboptimality", "kind", "mu")
METADATA = ("parameters", "scalars", "noise_variance_", "n_features_in_", "status", "certificate", "history")


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
    attributes, certificate = vars(model), model.certificate_
    arrays = {name: attributes[name] for name in ARRAYS + OPTIONAL_ARRAYS if attributes.get(name) is not None}
    arrays |= {name: getattr(certificate, name) for name in CERTIFICATE_ARRAYS}
    if "feature_names_in_" in arrays:
        arrays["feature_names_in_"] = arrays["feature_names_in_"].astype(str)
    metadata = {
        "format": FORMAT,
        "vrpca": importlib.metadata.version("vrpca"),
        "model": kind,
        "parameters": _plain_parameters(model),
        "scalars": {name: attributes[name] for name in SCALARS},
        "noise_variance_": attributes.get("noise_variance_"),
        "n_features_in_": model.n_features_in_,
        "status": model.status_.name,
        "certificate": {name: getattr(certificate, name) for name in CERTIFICATE_SCALARS},
        "history": [record.asdict() for record in model.history_],
    }
    text = np.asarray(json.dumps(metadata, default=_plain))
    with written_whole(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, metadata=text, **arrays)


def _plain_parameters(model: PCA | TruncatedSVD) -> dict[str, Any]:
    """The parameters as JSON can hold them."""
    parameters = model.get_params(deep=False) | {"callback": None}
    if not isinstance(parameters["random_state"], int | np.integer):
        parameters["random_state"] = None
    if parameters["theory"] is not None:
        parameters["theory"] = asdict(parameters["theory"])
    return parameters


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
    parameters, theory = metadata["parameters"], metadata["parameters"].get("theory")
    model = MODELS[metadata["model"]](**parameters | {"theory": theory and Theory(**theory)})
    residuals, angles = (arrays.pop(name) for name in CERTIFICATE_ARRAYS)
    model.certificate_ = Certificate(residuals=residuals, angles=angles, **metadata["certificate"])
    model.history_ = [Record(**record) for record in metadata["history"]]
    model.status_ = Status[metadata["status"]]
    model.n_features_in_ = metadata["n_features_in_"]
    if metadata["noise_variance_"] is not None:
        model.noise_variance_ = metadata["noise_variance_"]
    if "feature_names_in_" in arrays:
        arrays["feature_names_in_"] = arrays["feature_names_in_"].astype(object)
    for name, value in {"mean_": None, "scale_": None, **metadata["scalars"], **arrays}.items():
        setattr(model, name, value)
    return model


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the checked metadata of a model file."""
    try:
        with path.open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it holds one array")
            metadata = json.loads(str(file["metadata"]))
            known = (*ARRAYS, *OPTIONAL_ARRAYS, *CERTIFICATE_ARRAYS)
            arrays = {name: file[name] for name in known if name in file.files}
        version = metadata["format"]
        missing = {*ARRAYS, *CERTIFICATE_ARRAYS, *METADATA} - {*arrays, *metadata}
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
