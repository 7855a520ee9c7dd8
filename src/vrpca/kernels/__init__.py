"""The kernels, compiled or in NumPy, behind one import: ``VRPCA_KERNELS=reference`` selects the latter.

A build without a compiler has only the latter, and says so once, when it is imported.

The public functions of `reference` are the kernels; each has a compiled twin with the same name and arguments.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from inspect import isfunction
from types import ModuleType
from typing import TYPE_CHECKING

from vrpca.kernels import reference

if TYPE_CHECKING:
    from vrpca.kernels.reference import *  # noqa: F403

NATIVE = "vrpca.kernels._native"
MISSING = (
    "vrpca was built without a C++17 compiler: it runs on its NumPy kernels, which are slow. Reinstall it with a "
    "compiler at hand, or set the environment variable VRPCA_KERNELS=reference if that is what you want."
)


def _load(choice: str | None) -> ModuleType:
    """The implementation that VRPCA_KERNELS chooses.

    Without a choice, kernels that were never built are replaced, with a warning. Kernels that are there and cannot be
    loaded are an error: the installation is broken.
    """
    if choice == "reference":
        return reference
    if choice not in (None, "native"):
        raise ImportError(f"VRPCA_KERNELS={choice!r} is not known: use 'native' or 'reference'.")
    if choice is None and find_spec(NATIVE) is None:
        warnings.warn(MISSING, RuntimeWarning, stacklevel=2)
        return reference
    try:
        native = import_module(NATIVE)
    except ImportError as error:
        raise ImportError(
            f"vrpca's compiled kernels could not be loaded ({error}). Reinstall vrpca with a C++17 compiler at hand, "
            "or set the environment variable VRPCA_KERNELS=reference to run (slowly) without them."
        ) from error
    _check_instruction_set(os.environ.get("VRPCA_ISA"), native.instruction_set())
    return native


def _check_instruction_set(forced: str | None, chosen: str) -> None:
    if forced and forced != chosen:
        raise ImportError(
            f"VRPCA_ISA={forced!r} cannot be used: this processor and this build run {chosen!r}. Use a lesser one of "
            "'baseline', 'avx2' and 'avx512', or leave VRPCA_ISA unset."
        )


implementation = _load(os.environ.get("VRPCA_KERNELS"))
names = [name for name, member in vars(reference).items() if isfunction(member) and not name.startswith("_")]
globals().update({name: getattr(implementation, name) for name in names})
