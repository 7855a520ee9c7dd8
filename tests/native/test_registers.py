"""The code for registers of 64 bytes, which AVX-512 has, on whatever processor this is."""

from __future__ import annotations

from pathlib import Path

import pytest
import targets


def test_kernels_for_registers_of_64_bytes(tmp_path: Path) -> None:
    done = targets.run("wide", tmp_path)
    if done is None:
        pytest.skip("there is no C++ compiler")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout
