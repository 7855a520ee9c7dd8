"""Models as files: one .npz with arrays and JSON, no pickle, written whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vrpca.certificate import Certificate
from vrpca.data.files.archive import Archive
from vrpca.data.files.paths import as_path, damage_reported, open_file, written_whole
from vrpca.decomposition import Decomposition
from vrpca.errors import DataError, OptionError
from vrpca.estimators import PCA, TruncatedSVD
from vrpca.history import Record, Status
from vrpca.options import SOLVERS, Options, Theory, check_k, check_options, is_integer, is_real, names, shown

T = TypeVar("T")
Model = PCA | TruncatedSVD
Arrays = dict[str, Any]  # of numpy.ndarray

FORMAT = 6  # to be raised when a name in this file, or a parameter of a model, is added or dropped
READABLE = (5, FORMAT)  # format 5 knew nothing of genotypes
DEFAULTS = {"genotypes_scaled_": False}  # attributes that format 5 did not have
MODELS: dict[str, type] = {"PCA": PCA, "TruncatedSVD": TruncatedSVD}
# What the JSON holds. "arrays" has the names of all arrays of the file, so that none can be lost unnoticed.
METADATA = ("format", "vrpca", "model", "arrays", "parameters", "attributes", "status", "certificate", "history")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return is_integer(value) and value >= 1


def _is_size(value: Any) -> bool:
    return is_real(value) and 0 <= value < math.inf


def _finite(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and array.dtype.itemsize in (4, 8) and bool(np.isfinite(array).all())


def _sizes(array: np.ndarray) -> bool:
    return _finite(array) and bool((array >= 0).all())


def _positive(array: np.ndarray) -> bool:
    return _finite(array) and bool((array > 0).all())


def _fractions(array: np.ndarray) -> bool:
    return _sizes(array) and bool((array <= 1).all())


def _texts(array: np.ndarray) -> bool:
    return array.dtype.kind == "U"


def _pairs(array: np.ndarray) -> bool:
    return _texts(array) and bool((np.char.count(array, "/") >= 1).all())


def _is_weight(value: Any) -> bool:
    return _is_size(value) and value > 0


def _is_solver(value: Any) -> bool:
    return value in SOLVERS


ArrayTable = dict[str, tuple[str, Callable[[np.ndarray], bool]]]
AttributeTable = dict[str, Callable[[Any], bool]]


class Layout(NamedTuple):
    """What is written of one kind of model."""

    arrays: ArrayTable  # their shapes, in components (k), features (d) and rows (n), and what they can hold
    attributes: AttributeTable  # and what they can be
    optional: tuple[str, ...]  # None or not there in some models

    def without(self, *names: str) -> Layout:
        """The same without some arrays and attributes."""
        arrays = {name: rule for name, rule in self.arrays.items() if name not in names}
        attributes = {name: rule for name, rule in self.attributes.items() if name not in names}
        return Layout(arrays, attributes, self.optional)


CERTIFICATE: ArrayTable = {"residuals": ("k", _sizes), "angles": ("k", _fractions)}
ESTIMATOR = Layout(
    {
        "components_": ("kd", _finite),
        "singular_values_": ("k", _sizes),
        "explained_variance_": ("k", _sizes),
        "explained_variance_ratio_": ("k", _sizes),
        "mean_": ("d", _finite),
        "scale_": ("d", _positive),
        "feature_names_in_": ("d", _texts),
        "allele_frequencies_": ("d", _fractions),
        "alleles_": ("d", _pairs),
        **CERTIFICATE,
    },
    {
        "n_features_in_": _is_count,
        "n_components_": _is_count,
        "n_samples_": _is_weight,
        "converged_": _is_truth,
        "n_passes_": _is_size,
        "solver_": _is_solver,
        "solver_reason_": _is_text,
        "n_iter_": _is_count,
        "noise_variance_": _is_size,
        "genotypes_scaled_": _is_truth,
    },
    ("mean_", "scale_", "feature_names_in_", "allele_frequencies_", "alleles_"),
)
LAYOUTS = {
    "PCA": ESTIMATOR,
    "TruncatedSVD": ESTIMATOR.without("mean_", "scale_", "noise_variance_"),
    "Decomposition": Layout(
        {
            "U": ("nk", _finite),
            "s": ("k", _sizes),
            "Vt": ("kd", _finite),
            "mean": ("d", _finite),
            "scale": ("d", _positive),
            "score_mean": ("k", _finite),
            "score_variance": ("k", _sizes),
            **CERTIFICATE,
        },
        {
            "norm": _is_size,
            "n_samples": _is_weight,
            "rank_limit": _is_count,
            "n_passes": _is_size,
            "solver": _is_solver,
            "reason": _is_text,
            "column_variance": lambda value: value is None or _is_size(value),
        },
        ("U", "mean", "scale", "score_mean", "score_variance"),
    ),
}
TEXTS = {"feature_names_in_", "alleles_"}  # objects in a model, text of NumPy in a file
ALL_ARRAYS = [name for layout in LAYOUTS.values() for name in layout.arrays]
CERTIFICATE_KINDS = ("exact", "probabilistic", "estimated")
# What the types of the fields of `Record`, `Certificate` and `Theory` mean.
TYPES: dict[str, Callable[[Any], bool]] = {"int": is_integer, "float": is_real, "str": _is_text, "bool": _is_truth}


def save(model: Model | Decomposition, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, or what `svd` and `pca` return, to one file.

    Parameters
    ----------
    model : PCA, TruncatedSVD or Decomposition
        Of a fitted estimator, `callback` and `checkpoint` are not written; a `random_state` that is not an integer
        becomes None.
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
    if type(model) is not Decomposition and MODELS.get(kind) is not type(model):
        raise TypeError(f"Only fitted PCA and TruncatedSVD models and Decompositions can be saved, not {kind}.")
    if kind in MODELS and not hasattr(model, "components_"):
        raise ValueError(f"This {kind} is not fitted yet: call fit before save.")
    arrays, metadata = _written(model, kind)
    text = json.dumps(metadata, default=_plain)
    try:
        _rebuilt(arrays, json.loads(text))
    except ValueError as error:  # better now than when the file is read
        raise DataError(
            f"This {kind} cannot be saved: {str(error).rstrip('.')}. Set it right, or fit again."
        ) from error
    with written_whole(as_path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, metadata=np.asarray(text), **arrays)


def _written(model: Model | Decomposition, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a model that are there, and everything else as JSON can hold it."""
    if isinstance(model, Decomposition):
        certificate, status, history, parameters = model.certificate, model.status, model.history, {}
    else:
        certificate, status, history = model.certificate_, model.status_, model.history_
        parameters = _plain_parameters(model)
    found = {name: getattr(model, name, None) for name in LAYOUTS[kind].arrays if name not in CERTIFICATE}
    found |= {name: getattr(certificate, name) for name in CERTIFICATE}
    arrays = {name: np.asarray(array) for name, array in found.items() if array is not None}
    for name in TEXTS & arrays.keys():
        arrays[name] = arrays[name].astype(str)
    return arrays, {
        "format": FORMAT,
        "vrpca": importlib.metadata.version("vrpca"),
        "model": kind,
        "arrays": sorted(arrays),
        "parameters": parameters,
        "attributes": {name: getattr(model, name, DEFAULTS.get(name)) for name in LAYOUTS[kind].attributes},
        "status": status.name,
        "certificate": {name: value for name, value in vars(certificate).items() if name not in CERTIFICATE},
        "history": [record.asdict() for record in history],
    }


def _plain_parameters(model: Model) -> dict[str, Any]:
    """The parameters as JSON can hold them."""
    parameters = model.get_params(deep=False) | {"callback": None, "checkpoint": None}
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


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    PCA, TruncatedSVD or Decomposition
        As it was saved.
    """
    path = as_path(path)
    with (
        open_file(path, "model") as file,
        damage_reported(path, "is not a vrpca model, or is damaged", "Write it again with vrpca.save"),
    ):
        archive = Archive(file, compressed=False)  # nothing that `save` writes is
        _check_names(archive.members, ["metadata", *ALL_ARRAYS], ALL_ARRAYS)
        metadata = json.loads(str(archive.read("metadata")))
        if not isinstance(metadata, dict) or "format" not in metadata:
            raise ValueError("format is missing")
        if metadata["format"] not in READABLE:
            raise DataError(
                f"{path} has model format {shown(metadata['format'])}, this version of vrpca reads format {FORMAT}: "
                f"use the vrpca ({shown(metadata.get('vrpca'))}) that wrote it, or fit again."
            )
        return _rebuilt({name: archive.read(name) for name in archive.members.keys() - {"metadata"}}, metadata)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a fitted estimator that `save` wrote; raise if the file holds something else."""
    found = load(path)
    if isinstance(found, Decomposition):
        raise DataError(f"{path} holds a Decomposition, not a fitted PCA or TruncatedSVD: fit one, and save that.")
    return found


def _rebuilt(arrays: Arrays, metadata: dict[str, Any]) -> Model | Decomposition:
    """The model that a file describes, or a ValueError that says what in it cannot be."""
    _check_names(metadata, METADATA)
    kind, attributes, status = metadata["model"], metadata["attributes"], metadata["status"]
    if kind not in [*LAYOUTS] or status not in [*Status.__members__]:
        raise ValueError(f"the model {shown(kind)} or its status {shown(status)} is not known")
    if not isinstance(metadata["history"], list) or not metadata["history"]:
        raise ValueError(f"history cannot be {shown(metadata['history'])}")
    _check_names(attributes, LAYOUTS[kind].attributes, DEFAULTS if metadata["format"] < FORMAT else ())
    for name, value in attributes.items():
        if not LAYOUTS[kind].attributes[name](value):
            raise ValueError(f"{name} cannot be {shown(value)}")
    _check_arrays(kind, arrays, metadata["arrays"], attributes)
    arrays = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}
    certificate = _certificate(metadata["certificate"], {name: arrays.pop(name) for name in CERTIFICATE})
    history = [_made(Record, record) for record in metadata["history"]]
    if kind == "Decomposition":
        _check_names(metadata["parameters"], ())
        absent = dict.fromkeys(LAYOUTS[kind].optional)
        rest = {"certificate": certificate, "history": history, "status": Status[status]}
        return Decomposition(**{**absent, **attributes, **arrays, **rest})
    if attributes["converged_"] != (Status[status] is Status.CONVERGED):
        raise ValueError(f"converged_ is {attributes['converged_']}, but the status is {status}")
    model = MODELS[kind](**_parameters(kind, metadata["parameters"]))
    model.certificate_, model.history_, model.status_ = certificate, history, Status[status]
    if attributes.get("genotypes_scaled_") and "allele_frequencies_" not in arrays:
        raise ValueError("allele_frequencies_ is missing, but the genotypes were scaled")
    for name in TEXTS & arrays.keys():
        arrays[name] = arrays[name].astype(object)
    absent = dict.fromkeys(("mean_", "scale_", "allele_frequencies_", "alleles_"))
    vars(model).update({**absent, **DEFAULTS, **attributes, **arrays})
    return model


def _check_names(found: Any, expected: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Raise unless `found` is a dictionary with just these names."""
    if not isinstance(found, dict):
        raise ValueError(f"{shown(found)} is there in place of {', '.join(expected)}")
    for name in expected:
        if name not in found and name not in optional:
            raise ValueError(f"{name} is missing")
    for name in found:
        if name not in expected:
            raise ValueError(f"{shown(name)} is not known")


def _check_arrays(kind: str, arrays: Arrays, listed: Any, attributes: dict[str, Any]) -> None:
    """Raise unless all arrays are there that are listed, with the shapes and values that a model of this kind has."""
    if not isinstance(listed, list) or not all(map(_is_text, listed)):
        raise ValueError(f"{shown(listed)} is no list of arrays")
    _check_names(arrays, listed)
    _check_names(arrays, LAYOUTS[kind].arrays, LAYOUTS[kind].optional)
    counts = _counts(kind, arrays, attributes)
    for name, array in arrays.items():
        sizes, can_hold = LAYOUTS[kind].arrays[name]
        shape = tuple(counts[size] for size in sizes)
        if array.shape != shape:
            k, d = counts["k"], counts["d"]
            raise ValueError(f"{name} has the shape {array.shape}, but {k} components of {d} features need {shape}")
        if not can_hold(array):
            raise ValueError(f"{name} cannot hold {shown(array)}, of type {array.dtype}")


def _counts(kind: str, arrays: Arrays, attributes: dict[str, Any]) -> dict[str, int]:
    """The numbers of components, features and rows."""
    if kind != "Decomposition":
        return {"k": attributes["n_components_"], "d": attributes["n_features_in_"]}
    if arrays["Vt"].ndim != 2 or not arrays["Vt"].size:
        raise ValueError(f"Vt cannot have the shape {arrays['Vt'].shape}")
    (k, d), U = arrays["Vt"].shape, arrays.get("U")
    return {"k": k, "d": d, "n": 0 if U is None or not U.ndim else U.shape[0]}


def _parameters(kind: str, given: Any) -> dict[str, Any]:
    """The parameters of a model, checked."""
    _check_names(given, MODELS[kind]().get_params(deep=False))
    parameters = given | {"theory": None if given["theory"] is None else _made(Theory, given["theory"])}
    k = parameters["n_components"]
    try:
        check_options(**parameters)
        Options(**{name: parameters[name] for name in names()})
        check_k(k, (sys.maxsize, sys.maxsize))
    except OptionError as error:  # it is the file's fault, not that of a caller
        raise ValueError(str(error)) from error
    if kind != "PCA" and not is_integer(k):
        raise ValueError(f"n_components cannot be {k} for a {kind}")
    return parameters


def _certificate(values: Any, arrays: Arrays) -> Certificate:
    certificate = _made(Certificate, values, **arrays)
    if certificate.kind not in CERTIFICATE_KINDS or not certificate.suboptimality >= 0:
        raise ValueError(f"a certificate cannot be {certificate!r}")
    return certificate


def _made(of: type[T], values: Any, **arrays: np.ndarray) -> T:
    """A dataclass from the values that JSON has for its fields, each of the type that the field declares."""
    types = {field.name: str(field.type) for field in fields(of) if field.name not in arrays}  # type: ignore[arg-type]
    _check_names(values, types)
    for name, value in values.items():
        allowed = value is None and types[name].endswith(" | None")
        if not allowed and not TYPES[types[name].removesuffix(" | None")](value):
            raise ValueError(f"{name} cannot be {shown(value)}")
    return of(**values, **arrays)
