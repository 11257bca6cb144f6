"""``python -m graphzero``."""

import sys

from graphzero.cli import main

if __name__ == "__main__":
    sys.exit(main())
