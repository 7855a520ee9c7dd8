"""The command line: one module per command, put together in `vrpca.cli.app`."""

from vrpca.cli.app import main, run

__all__ = ["main", "run"]
