"""How much memory this process may take: that of the machine, or less where a container limits it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

V1_UNLIMITED = 1 << 60  # version 1 of cgroups writes a number just below 2^63 where there is no limit


def memory_of_machine() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    names = getattr(os, "sysconf_names", {})  # Windows has none
    if "SC_PHYS_PAGES" not in names:
        return math.inf
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


@cache
def memory_of_container(root: Path = Path("/")) -> float:
    """Bytes that the control groups of this process allow (cgroups, versions 1 and 2); infinite where there are none.

    A group cannot have more than those around it, so all of them count. Within a container, the path that the kernel
    tells is often that of the host and not there: the outermost group is then the container's own.
    """
    return min(map(_limit, _limit_files(root)), default=math.inf)


def _limit_files(root: Path) -> Iterator[Path]:
    """The files with the limits of all groups that this process is in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # no Linux, or no /proc
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, name = (
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes") if controllers else ("sys/fs/cgroup", "memory.max")
        )
        group = Path(path.lstrip("/"))
        for each in (group, *group.parents):
            yield root / top / each / name


def _limit(file: Path) -> float:
    try:
        text = file.read_text().strip()
    except OSError:  # no such group here
        return math.inf
    return float(text) if text.isdigit() and int(text) < V1_UNLIMITED else math.inf
