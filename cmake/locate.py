"""Print where an installed Python package lies, without importing it: torch alone would take seconds.

Usage: locate.py NAME. Prints the package's folder, or nothing if it is not installed.
"""

import importlib.util
import sys


def main() -> None:
    spec = importlib.util.find_spec(sys.argv[1])
    if spec is not None and spec.submodule_search_locations:
        print(next(iter(spec.submodule_search_locations)), end="")


if __name__ == "__main__":
    main()
