"""Where rows come from: sources walk over blocks of the data, a view maps them (centring, scaling, weights)."""

from vrpca.data.source import Source, as_source
from vrpca.data.view import View

__all__ = ["Source", "View", "as_source"]
