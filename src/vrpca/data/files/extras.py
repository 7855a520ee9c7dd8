"""Optional libraries, each of them an extra of this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vrpca.errors import DataError


def needs(module: str, extra: str, what: str) -> Any:
    """Import a library, or raise an error that says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DataError(f'{what} cannot be read without {package}: pip install "vrpca[{extra}]".') from error
