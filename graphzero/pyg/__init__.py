"""For code that is written for PyG: its graphs, its loaders' names and its types of batches.

::

    from graphzero.pyg import NeighborLoader, from_data

Everything that imports torch_geometric is here; the names are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphzero.pyg.convert import from_data
    from graphzero.pyg.data_module import DataModule
    from graphzero.pyg.loaders import LinkNeighborLoader, NeighborLoader

__all__ = [
    "DataModule",
    "LinkNeighborLoader",
    "NeighborLoader",
    "from_data",
]

_MODULES = {
    "DataModule": "graphzero.pyg.data_module",
    "LinkNeighborLoader": "graphzero.pyg.loaders",
    "NeighborLoader": "graphzero.pyg.loaders",
    "from_data": "graphzero.pyg.convert",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'graphzero.pyg' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
