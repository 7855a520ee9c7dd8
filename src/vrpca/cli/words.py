"""Messages of the library in the words of the command line: its options in place of Python's keywords."""

from __future__ import annotations

import re

OPTIONS = {
    "n_components": "-k",
    "memory_limit": "--memory",
    "n_threads": "--threads",
    "random_state": "--seed",
    "max_passes": "--max-passes",
    "passes": "--passes",
    "angle_tol": "--angle-tol",
    "tol": "--tol",
    "solver": "--solver",
    "cost": "--cost",
    "certificate": "--certificate",
}
DISTINCT = [name for name in OPTIONS if "_" in name]  # these are no words of a sentence
ALONE = r"(?<![\w./\\='\"-]){}(?![\w/\\'\"-]|\.\w)"  # and no part of a file's name, nor a name in quotes
GIVEN = re.compile(ALONE.format(rf"({'|'.join(OPTIONS)})=('[^']*'|[^\s,;:)']*[^\s,;:)'.])"))
NAMED = re.compile(ALONE.format(f"({'|'.join(DISTINCT)})"))
NONE = re.compile(r",? or (?:be )?None\b")
COMMANDS = {"with vrpca.save": "with vrpca fit --out"}


def in_options(message: str) -> str:
    """The message with options of the command line.

    >>> in_options("memory_limit='2 apples' must be a number of bytes, such as 2000000000, or None.")
    '--memory 2 apples must be a number of bytes, such as 2000000000.'
    >>> in_options("tol/n_components.npy: max_passes was reached first: allow more passes, or pass solver='gram'.")
    'tol/n_components.npy: --max-passes was reached first: allow more passes, or pass --solver gram.'
    """
    for python, command in COMMANDS.items():
        message = message.replace(python, command)
    message = GIVEN.sub(lambda found: f"{OPTIONS[found[1]]} {found[2].strip(chr(39))}", message)
    message = NAMED.sub(lambda found: OPTIONS[found[1]], message)
    return NONE.sub("", message)
