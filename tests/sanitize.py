"""The compiled kernels under the compiler's sanitizers: ``make sanitize``.

Builds the package twice, into the virtual environment that runs this script, and runs tests on each build. A report of
a sanitizer ends the process it is about, so that the test fails. Arguments are passed on to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The probe throws, so that it is linked with the C++ library.
PROBE = 'extern "C" void probe() { throw 1; }'
LOADED = """
import vrpca.kernels._native as native
assert b"{symbol}" in open(native.__file__, "rb").read(), f"{{native.__file__}} was compiled without the sanitizer"
"""
RUNTIME = re.compile(r"^\s*(lib(?:clang_rt\.)?(?:asan|tsan|ubsan|stdc\+\+|c\+\+)\S*)(?: => (/\S+))?", re.MULTILINE)


@dataclass
class Sanitizer:
    """A kind of build, the tests that run on it, and the environment they run in."""

    name: str
    flags: str  # for -fsanitize=
    symbol: str  # a function that all code compiled with it calls
    tests: list[str]
    environment: dict[str, str] = field(default_factory=dict)


SANITIZERS = [
    Sanitizer(
        "AddressSanitizer and UBSan",
        "address,undefined",
        "__asan_init",
        ["-n", "auto", "tests/kernels", "tests/data", "tests/test_concurrency.py"],
        {
            # Python leaves memory to the end of the process. An array that is too large has to be a MemoryError.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",  # Python's own allocator would hide errors in the memory that it hands out
        },
    ),
    Sanitizer(
        "ThreadSanitizer",
        "thread",
        "__tsan_init",
        ["tests/test_concurrency.py"],
        {"TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT / 'tests' / 'tsan.supp'}"},
    ),
]


class MissingError(Exception):
    """Something that the machine lacks."""


def find_compiler() -> str:
    """The compiler that CMake would use, too."""
    asked = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    found = next(filter(None, map(shutil.which, asked)), None)
    if not found:
        raise MissingError(f"No C++ compiler ({', '.join(asked)}): install g++ or clang, or set CXX.")
    return found


def find_runtime(compiler: str, sanitizer: Sanitizer) -> str:
    """The libraries to load before Python: the sanitizer's, then that of C++, whose ``throw`` the sanitizer wraps."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "probe.cpp", Path(folder) / "probe.so"
        source.write_text(PROBE)
        command = [compiler, "-shared", "-fPIC", f"-fsanitize={sanitizer.flags}", str(source), "-o", str(library)]
        if "clang" in run([compiler, "--version"]).stdout:
            command.append("-shared-libsan")
        linked = run(command)
        if linked.returncode:
            raise MissingError(
                f"{compiler} cannot link with {sanitizer.name}: install its libraries (libasan, libubsan and libtsan "
                f"for g++, compiler-rt for clang), or set CXX to another compiler.\n{linked.stderr}"
            )
        needed = RUNTIME.findall(run(["ldd", str(library)]).stdout)
    paths = [path or run([compiler, f"-print-file-name={name}"]).stdout.strip() for name, path in needed]
    return " ".join(sorted(paths, key=lambda path: "san" not in Path(path).name))


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it prints."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build(compiler: str, sanitizer: Sanitizer) -> None:
    """Install the package in this environment, compiled with a sanitizer. Debug information names lines in reports."""
    folder = Path(sys.prefix) / f"cmake-{sanitizer.flags.replace(',', '-')}"
    settings = {
        "build-dir": folder,
        "cmake.build-type": "RelWithDebInfo",
        "cmake.define.VRPCA_SANITIZE": sanitizer.flags,
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--editable", ".[test]"),
            *(f"--config-settings={key}={value}" for key, value in settings.items()),
        ],
        cwd=ROOT,
        env={**os.environ, "CXX": compiler},
        check=True,
    )


def passes(sanitizer: Sanitizer, runtime: str, arguments: list[str]) -> bool:
    """Whether the tests pass."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": runtime, **sanitizer.environment}
    probe = [sys.executable, "-c", LOADED.format(symbol=sanitizer.symbol)]
    if subprocess.run(probe, env=environment, check=False).returncode:
        raise MissingError(
            f"Python cannot load the kernels with {sanitizer.name}. If the message above speaks of a memory mapping, "
            "the addresses of this system are too random: run 'sudo sysctl vm.mmap_rnd_bits=28', or take a newer g++."
        )
    # Only what Python prints is captured, so that the report of a sanitizer is seen.
    command = [sys.executable, "-m", "pytest", "-q", "--capture=sys", *sanitizer.tests, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Build and test with one sanitizer after the other; 1 if one has found something, 2 if one is missing."""
    failed = []
    try:
        compiler = find_compiler()
        runtimes = [find_runtime(compiler, sanitizer) for sanitizer in SANITIZERS]
        for sanitizer, runtime in zip(SANITIZERS, runtimes, strict=True):
            print(f"\n{sanitizer.name}", flush=True)
            build(compiler, sanitizer)
            if not passes(sanitizer, runtime, arguments):
                failed.append(sanitizer.name)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 2
    print("\nFailed with:" if failed else "\nNo report.", *failed, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
