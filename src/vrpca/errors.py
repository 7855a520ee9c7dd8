"""The errors that users see. Each message names what was wrong, with the value, and what to do."""

from __future__ import annotations

from typing import Any


class DataError(ValueError):
    """The data cannot be used as it is: wrong type, not finite, empty, constant, or a foreign file."""


class NotFiniteError(DataError):
    """An entry of the data is NaN or infinite, in row number `row`."""

    def __init__(self, message: str, row: int):
        super().__init__(message)
        self.row = row


class OptionError(ValueError):
    """An option's value is out of range, or does not fit the other options."""


class ClusterError(DataError):
    """The cluster that holds the data is lost."""


class DataTypeError(DataError, TypeError):
    """The data hold things that are not numbers; also a TypeError, as scikit-learn's own checks raise."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit. `decomposition` is the best answer so far, with status INTERRUPTED."""

    def __init__(self, decomposition: Any):
        super().__init__("Interrupted.")
        self.decomposition = decomposition
