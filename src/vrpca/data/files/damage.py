"""What is said of files that cannot be read."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from vrpca.errors import DataError

DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError, TypeError, IndexError)
PICKLED = "It holds pickled Python objects, which are not read since they can run code: save plain numbers instead"


def damaged(path: Path, error: BaseException) -> DataError:
    """The error for a file of the right kind that cannot be read to its end."""
    if "object" in str(error).lower():  # NumPy's refusal to unpickle has no type of its own
        return DataError(f"{path} cannot be used. {PICKLED}.")
    return DataError(f"{path} is truncated or damaged ({error}): write or copy it again.")
