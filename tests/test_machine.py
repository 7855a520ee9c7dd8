"""How much memory there is: of the machine, and of containers, by files that look as the kernel writes them."""

import math

import pytest

from vrpca.data import memory
from vrpca.machine import memory_of_container, memory_of_machine


def system(root, groups, limits):
    """A root folder with the groups of this process and the limits of groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, limit in limits.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n")
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": 2 * 10**9}, 2e9),
        ("0::/\n", {"memory.max": "max"}, math.inf),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": 10**9}, 1e9),
        ("0::/a/b\n", {"a/b/memory.max": 10**8, "a/memory.max": 10**9}, 1e8),
        ("0::/../host/path\n", {"memory.max": 10**9}, 1e9),
        ("4:memory:/x\n3:cpu:/y\n", {"memory/x/memory.limit_in_bytes": 10**9}, 1e9),
        ("4:cpu,memory:/host\n0::/\n", {"memory/memory.limit_in_bytes": 3 * 10**8}, 3e8),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": 9223372036854771712}, math.inf),
        ("3:cpu:/y\n", {"memory/memory.limit_in_bytes": 10**9}, math.inf),
        ("0::/\n", {"memory.max": "nonsense"}, math.inf),
    ],
)
def test_the_limit_of_a_container_is_that_of_the_tightest_group(tmp_path, groups, limits, expected):
    assert memory_of_container(system(tmp_path, groups, limits)) == expected


def test_without_proc_there_is_no_limit(tmp_path):
    assert memory_of_container(tmp_path) == math.inf


def test_the_smaller_of_machine_and_container_counts(monkeypatch):
    monkeypatch.setattr(memory, "memory_of_container", lambda: 1000.0)
    assert memory.physical_memory() == min(1000.0, memory_of_machine())
    assert memory.fits_in_memory(500) and not memory.fits_in_memory(501)
