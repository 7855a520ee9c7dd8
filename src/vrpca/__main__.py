"""``python -m vrpca``: the command line."""

from vrpca.cli import main

main()
