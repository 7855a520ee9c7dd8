"""Without compiled kernels there is nothing to compare with their NumPy twins: these tests are left out."""

from importlib.util import find_spec

from vrpca.kernels import NATIVE

BUILT = find_spec(NATIVE) is not None
collect_ignore_glob = [] if BUILT else ["*_cases.py", "test_*.py"]


def pytest_report_header() -> str | None:
    """One line at the top of the report."""
    return None if BUILT else "tests/kernels: left out, because vrpca was built without a compiler"
