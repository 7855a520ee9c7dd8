"""Fixtures for all tests, and a hypothesis profile that repeats the same examples everywhere."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "vrpca", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("vrpca")


@pytest.fixture
def rng():
    """A generator that is the same in every run."""
    return np.random.default_rng(20250131)
