"""Names for types that many signatures share."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
Where = slice | np.ndarray  # which rows or columns: a range of them, or their numbers
