"""The build of datasets, and the change of their order."""

from graphzero.ingest.append import append_dataset
from graphzero.ingest.build import build_dataset, reorder_dataset, write_dataset
from graphzero.ingest.changes import Changes, change_dataset
from graphzero.ingest.options import BuildOptions

__all__ = [
    "BuildOptions",
    "Changes",
    "append_dataset",
    "build_dataset",
    "change_dataset",
    "reorder_dataset",
    "write_dataset",
]
