"""Optional libraries, each of them an extra of this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vrpca.errors import DataError


def needs(module: str, extra: str, what: str) -> Any:
    """Import a library, or raise an error that says which extra brings it."""
    return imported(module, extra, f"{what} cannot be read without {module.partition('.')[0]}")


def imported(module: str, extra: str, problem: str) -> Any:
    """Import a library, or raise an error that states the problem and says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(f'{problem}: pip install "vrpca[{extra}]".') from error
