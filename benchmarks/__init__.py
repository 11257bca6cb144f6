"""Measurements that anyone can run: ``python -m benchmarks.NAME`` from the repository's root."""

import sys
from pathlib import Path

# python -m puts the root first on the path; its uncompiled graphzero/ hides the installed one.
if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parents[1]:
    sys.path.append(sys.path.pop(0))
