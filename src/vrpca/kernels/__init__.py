"""The kernels, compiled or in NumPy, behind one import: ``VRPCA_KERNELS=reference`` selects the latter."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

choice = os.environ.get("VRPCA_KERNELS", "native")
if choice == "native":
    try:
        implementation: Any = import_module("vrpca.kernels._native")
    except ImportError as error:
        raise ImportError(
            f"vrpca's compiled kernels could not be loaded ({error}). Reinstall vrpca with a C++17 compiler at hand, "
            "or set the environment variable VRPCA_KERNELS=reference to run (slowly) without them."
        ) from error
elif choice == "reference":
    implementation = import_module("vrpca.kernels.reference")
else:
    raise ImportError(f"VRPCA_KERNELS={choice!r} is not known: use 'native' or 'reference'.")

product = implementation.product
row_norms = implementation.row_norms
moments = implementation.moments
squares = implementation.squares
gram = implementation.gram
vr_vector = implementation.vr_vector
vr_panel = implementation.vr_panel
vr_block = implementation.vr_block
vr_gram_schmidt = implementation.vr_gram_schmidt
oja_block = implementation.oja_block
cross = implementation.cross
residual_gram = implementation.residual_gram
combine = implementation.combine
sweep = implementation.sweep
transpose = implementation.transpose
instruction_set = implementation.instruction_set
dense_rows = implementation.dense_rows
csr_rows = implementation.csr_rows
