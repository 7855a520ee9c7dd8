"""A build without compiled kernels says so, once at import and in `show_versions`; a broken one is an error."""

from importlib.util import find_spec

import pytest

from helpers import run_python
from vrpca.versions import versions

# A user's interpreter: nothing is chosen, and warnings are shown.
PLAIN = """
import os, warnings
os.environ.pop("VRPCA_KERNELS", None)
warnings.simplefilter("default")
"""
# Hides the compiled kernels, as if they had never been built.
HIDE = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "vrpca.kernels._native" else found(name, *rest)
"""


def test_every_line_has_a_value():
    found = versions()
    assert {"vrpca", "python", "kernels", "numpy", "dask"} <= set(found)
    assert all(found.values())


def test_kernels_that_were_never_built_are_replaced_with_one_warning():
    code = "import vrpca, vrpca.kernels; vrpca.show_versions(); print(vrpca.kernels.instruction_set())"
    ended = run_python(PLAIN + HIDE + code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("RuntimeWarning") == 1 and "VRPCA_KERNELS=reference" in ended.stderr
    assert "NumPy (built without a compiler)" in ended.stdout
    assert ended.stdout.endswith("reference\n")


def test_kernels_that_are_asked_for_are_not_replaced():
    ended = run_python(
        HIDE + "import sys; sys.modules['vrpca.kernels._native'] = None; import vrpca", VRPCA_KERNELS="native"
    )
    assert ended.returncode != 0 and ended.stderr.strip().splitlines()[-1].startswith("ImportError")


def test_kernels_that_cannot_be_loaded_are_not_replaced():
    """They are there, so somebody compiled them: running slowly instead would hide that the installation is broken."""
    code = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "vrpca.kernels._native":
            from importlib.machinery import ModuleSpec
            return ModuleSpec(name, self)
    def create_module(self, spec):
        raise ImportError("undefined symbol")
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Broken())
import vrpca
"""
    ended = run_python(PLAIN + code)
    assert ended.returncode != 0 and "undefined symbol" in ended.stderr.strip().splitlines()[-1]


@pytest.mark.reference
def test_the_numpy_kernels_can_be_chosen_in_silence():
    ended = run_python("import vrpca; vrpca.show_versions()", VRPCA_KERNELS="reference")
    assert ended.returncode == 0 and ended.stderr == ""
    built = find_spec("vrpca.kernels._native") is not None
    assert f"NumPy ({'VRPCA_KERNELS=reference' if built else 'built without a compiler'})" in ended.stdout
