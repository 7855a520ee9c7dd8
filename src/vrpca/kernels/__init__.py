"""The kernels, compiled or in NumPy, behind one import: ``VRPCA_KERNELS=reference`` selects the latter.

The public functions of `reference` are the kernels; each has a compiled twin with the same name and arguments.
"""

from __future__ import annotations

import os
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING

from vrpca.kernels import reference

if TYPE_CHECKING:
    from vrpca.kernels.reference import *  # noqa: F403

implementation, choice = reference, os.environ.get("VRPCA_KERNELS", "native")
if choice == "native":
    try:
        implementation = import_module("vrpca.kernels._native")
    except ImportError as error:
        raise ImportError(
            f"vrpca's compiled kernels could not be loaded ({error}). Reinstall vrpca with a C++17 compiler at hand, "
            "or set the environment variable VRPCA_KERNELS=reference to run (slowly) without them."
        ) from error
elif choice != "reference":
    raise ImportError(f"VRPCA_KERNELS={choice!r} is not known: use 'native' or 'reference'.")

names = [name for name, member in vars(reference).items() if isfunction(member) and not name.startswith("_")]
globals().update({name: getattr(implementation, name) for name in names})
