"""``--scheduler`` and ``--workers``: a cluster of dask for the time of a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from vrpca.cli.shared import open_input
from vrpca.data.cluster.opening import file_source
from vrpca.data.files.extras import imported
from vrpca.data.source import Source
from vrpca.errors import OptionError

Scheduler = Annotated[
    str | None, typer.Option(help="Work on the dask cluster with this address; its workers must be able to read DATA.")
]
Workers = Annotated[int | None, typer.Option(help="Work with a dask cluster of this number of processes here.")]


@contextmanager
def cluster(scheduler: str | None, workers: int | None, threads: int | None) -> Iterator[bool]:
    """A client of the cluster that is asked for, within a ``with`` block; yield whether there is one."""
    if scheduler is not None and workers is not None:
        raise OptionError("--scheduler and --workers exclude each other: name a cluster, or start one here.")
    if workers is not None and workers < 1:
        raise OptionError(f"--workers {workers} must be at least 1.")
    if scheduler is None and workers is None:
        yield False
        return
    distributed = imported("distributed", "dask", "--scheduler and --workers need distributed")
    with _client(distributed, scheduler, workers, threads):
        yield True


@contextmanager
def _client(distributed: Any, scheduler: str | None, workers: int | None, threads: int | None) -> Iterator[None]:
    if scheduler is None:
        assert workers is not None
        each = threads or max(1, (os.cpu_count() or 1) // workers)
        options = {"n_workers": workers, "threads_per_worker": each, "dashboard_address": ":0"}
        with distributed.LocalCluster(**options) as local, distributed.Client(local):
            yield
        return
    try:
        client = distributed.Client(scheduler)
    except (OSError, ValueError) as error:
        raise OptionError(f"--scheduler {scheduler} cannot be reached: {error}. Is it running there?") from error
    with client:
        yield


def open_on_cluster(data: str, quiet: bool, limited: bool, scale_genotypes: bool = False) -> Source:
    """A file in chunks for the workers; no more than its headers is read here.

    Its path is an absolute one, since workers may run in another folder. Addresses stay as they are.
    """
    path = data if data == "-" or "://" in data else os.path.abspath(data)
    return file_source(open_input(path, quiet, True, scale_genotypes), limited)
