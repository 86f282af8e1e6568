"""``python -m iosim``: the command line."""

import sys

from iosim.cli import main

if __name__ == "__main__":
    sys.exit(main())
