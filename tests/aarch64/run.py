"""``make test-aarch64``: the kernels compiled for aarch64 by Debian's cross compiler, and tested in qemu.

`driver.cpp` compares them with plain loops. With ``--here`` it is compiled for and run on this machine instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "src/vrpca/kernels/native"
BUILD = ROOT / "build/aarch64"
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
# As in CMakeLists.txt. The program is linked statically, so that the emulator needs no foreign libraries.
FLAGS = ["-std=c++17", "-O3", "-fno-tree-vectorize", "-fopenmp-simd", "-fno-math-errno", "-Wall", "-Wextra"]
FLAGS += ["-Wno-psabi", "-static", "-pthread", f"-I{NATIVE}"]


def tools(here: bool) -> tuple[str, list[str]] | None:
    """The compiler, and the command that runs what it makes; None if one of them is missing."""
    if here:
        return "c++", []
    emulator = next(filter(None, map(shutil.which, EMULATORS)), None)
    return (COMPILER, [emulator]) if shutil.which(COMPILER) and emulator else None


def main(arguments: list[str]) -> int:
    """Compile and run; 0 if all comparisons hold, or if there is nothing to compile with."""
    here = "--here" in arguments
    found = tools(here)
    if found is None:
        print(
            "test-aarch64: skipped, because the cross compiler or the emulator is missing: "
            "apt-get install g++-aarch64-linux-gnu qemu-user-static"
        )
        return 0
    compiler, emulator = found
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / ("driver-here" if here else "driver")
    sources = [Path(__file__).with_name("driver.cpp"), NATIVE / "kernels_baseline.cpp"]
    subprocess.run([compiler, *FLAGS, *map(str, sources), "-o", str(program)], check=True)
    return subprocess.run([*emulator, str(program)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
