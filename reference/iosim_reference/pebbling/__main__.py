"""``python -m iosim_reference.pebbling [--all]`` prints the tables of optima; with ``--all`` the slow ones too, which takes minutes."""

from __future__ import annotations

import sys

from iosim_reference.pebbling.table import QUICK, SLOW, table


def main(arguments: list[str]) -> None:
    """Print the tables, in the order of ``docs/pebbling.md``."""
    for instance in (*QUICK, *(SLOW if "--all" in arguments else ())):
        sys.stdout.write(f"{table(instance)}\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
