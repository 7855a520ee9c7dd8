"""The kernels compiled for another processor than this one, and compared with plain loops by `driver.cpp`.

``targets.py aarch64`` (``make test-aarch64``) uses Debian's cross compiler and qemu. ``targets.py wide`` compiles the
code for registers of 64 bytes, which AVX-512 has, for this machine: the compiler makes each of several smaller ones.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "src/vrpca/kernels/native"
# As in CMakeLists.txt.
FLAGS = ["-std=c++17", "-O3", "-fno-tree-vectorize", "-fopenmp-simd", "-fno-math-errno", "-Wall", "-Wextra"]
FLAGS += ["-Wno-psabi", "-pthread", f"-I{NATIVE}"]


@dataclass
class Target:
    """What to compile for, and how to run it."""

    compilers: tuple[str, ...]  # the first one that is there is taken
    flags: tuple[str, ...]
    emulators: tuple[str, ...] = ()  # likewise; none if the program runs on this machine
    remedy: str = "install a C++17 compiler"

    def tools(self) -> tuple[str, list[str]] | None:
        """The compiler, and the command that runs what it makes; None if one of them is missing."""
        compiler = next(filter(None, map(shutil.which, self.compilers)), None)
        emulator = next(filter(None, map(shutil.which, self.emulators)), None)
        if compiler is None or (self.emulators and emulator is None):
            return None
        return compiler, [emulator] if emulator else []


def has_avx2() -> bool:
    """Whether this machine is known to have AVX2."""
    information = Path("/proc/cpuinfo")
    return platform.machine() in ("x86_64", "AMD64") and information.exists() and "avx2" in information.read_text()


AVX2 = ("-mavx2", "-mfma")
TARGETS = {
    # The program is linked statically, so that the emulator needs no foreign libraries.
    "aarch64": Target(
        ("aarch64-linux-gnu-g++",),
        ("-static",),
        ("qemu-aarch64-static", "qemu-aarch64"),
        "apt-get install g++-aarch64-linux-gnu qemu-user-static",
    ),
    "wide": Target(("c++", "g++", "clang++"), ("-DVRPCA_REGISTER=64", *(AVX2 if has_avx2() else ()))),
}


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Compile for a target and run; None if there is nothing to compile or to run with."""
    target = TARGETS[name]
    found = target.tools()
    if found is None:
        return None
    compiler, emulator = found
    folder.mkdir(parents=True, exist_ok=True)
    sources = [Path(__file__).with_name("driver.cpp"), NATIVE / "kernels_baseline.cpp"]
    program = folder / f"driver-{name}"
    subprocess.run([compiler, *FLAGS, *target.flags, *map(str, sources), "-o", str(program)], check=True)
    return subprocess.run([*emulator, str(program)], check=False, text=True, capture_output=True)


def main(name: str) -> int:
    """0 if all comparisons hold, or if there is nothing to compile with."""
    done = run(name, ROOT / "build/native")
    if done is None:
        print(f"{name}: skipped, because the compiler or the emulator is missing: {TARGETS[name].remedy}")
        return 0
    print(done.stdout + done.stderr, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
