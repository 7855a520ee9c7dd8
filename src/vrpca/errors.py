"""The errors and warnings that users see. Each message names what was wrong, with the value, and what to do."""

from __future__ import annotations

import sys
import warnings
from typing import Any

NOT_THE_USERS = ("vrpca", "sklearn", "joblib")  # packages whose lines a warning does not point at


class DataError(ValueError):
    """The data cannot be used as it is: wrong type, not finite, empty, constant, or a foreign file."""


class NotFiniteError(DataError):
    """An entry of the data is NaN or infinite.

    `places` says where, by number or name: ``{"row": 7, "column": "age"}``. `file` names the file that it is in.
    """

    def __init__(self, what: str, places: dict[str, int | str], file: str = ""):
        self.what, self.places, self.file = what, places, file
        where = ", ".join(f"{axis} {place!r}" for axis, place in places.items())
        super().__init__(
            f"{file}{': ' if file else ''}Input X contains {what} ({where}); it must hold finite numbers only. "
            "Impute or drop such rows first (for NaN: sklearn.impute.SimpleImputer)."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return NotFiniteError, (self.what, self.places, self.file)  # other processes hand it on

    def in_column(self, column: int | str) -> NotFiniteError:
        """The same with another number or name of the column."""
        return NotFiniteError(self.what, self.places | {"column": column}, self.file)

    def in_file(self, file: str) -> NotFiniteError:
        """The same with the name of the file."""
        return NotFiniteError(self.what, self.places, file)


class OptionError(ValueError):
    """An option's value is out of range, or does not fit the other options."""


class ClusterError(DataError):
    """The cluster that holds the data is lost. The last checkpoint stays."""


class DataTypeError(DataError, TypeError):
    """The data hold things that are not numbers; also a TypeError, as scikit-learn's own checks raise."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit. `decomposition` is the best answer so far, with status INTERRUPTED.

    An estimator has stored that answer before this is raised: its attributes are there, as after a fit.
    """

    def __init__(self, decomposition: Any):
        super().__init__("Interrupted.")
        self.decomposition = decomposition


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the user's line: not at one of this package, nor of those that call it for the user."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_THE_USERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
