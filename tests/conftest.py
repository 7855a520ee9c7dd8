"""Fixtures for all tests, and a hypothesis profile that repeats the same examples everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from vrpca import cli

settings.register_profile(
    "vrpca", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("vrpca")


@pytest.fixture
def rng():
    """A generator that is the same in every run."""
    return np.random.default_rng(20250131)


@pytest.fixture
def vrpca_command(capsys):
    """Run one command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run
