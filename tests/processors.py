"""The test suite as other processors run it: with every set of BLAS kernels that this one has the instructions for.

``make test-processors``; arguments are passed on to pytest. A BLAS sums in an order of its own on each kind of
processor, and the compiled kernels have a baseline for those without AVX2: no test may depend on which one it is.
"""

from __future__ import annotations

import os
import subprocess
import sys

from vrpca import kernels

CORES = ("Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")  # OpenBLAS for x86-64: SSE, AVX, AVX2, AVX2, AVX-512
PROBE = """
import numpy as np, scipy.linalg, threadpoolctl
scipy.linalg.qr(np.ones((300, 300)) @ np.ones((300, 300)))
print(*{library["architecture"] for library in threadpoolctl.threadpool_info() if "architecture" in library})
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run Python in this environment; what a probe prints is caught."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE if arguments[0] == "-c" else None,
        text=True,
        check=False,
    )


def settings() -> list[dict[str, str]]:
    """The environments to test in."""
    found = []
    for core in CORES:
        probe = python("-c", PROBE, OPENBLAS_CORETYPE=core)
        if probe.returncode == 0 and probe.stdout.split() == [core]:
            found += [{"OPENBLAS_CORETYPE": core}, {"OPENBLAS_CORETYPE": core, "VRPCA_KERNELS": "reference"}]
        else:
            instead = probe.stdout.strip() or "nothing that this processor can run"
            print(f"{core}: left out, BLAS has {instead} for it.", flush=True)
    lesser = ["baseline", "avx2"] if kernels.instruction_set() == "avx512" else ["baseline"]
    return [*found, *({"VRPCA_ISA": name} for name in lesser)]


def main() -> int:
    """Run the suite in every environment; 1 if a test fails in any."""
    failed = []
    for environment in settings():
        name = " ".join(f"{key}={value}" for key, value in environment.items())
        print(f"\n{name}", flush=True)
        chosen = ["-m", "reference"] if "VRPCA_KERNELS" in environment else []
        if python("-m", "pytest", "-q", "-n", "auto", *chosen, *sys.argv[1:], **environment).returncode:
            failed.append(name)
    print("\nFailed with:" if failed else "\nPassed with all of them.", *failed, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
