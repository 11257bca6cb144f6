"""The build of datasets, the change of their order, and the converters of graphzero 0.2."""

from graphzero.ingest.build import build_dataset
from graphzero.ingest.converters import DataType, convert_csv_to_gd, convert_csv_to_gl
from graphzero.ingest.reorder import reorder_dataset
from graphzero.ingest.typed_build import build_typed_dataset

__all__ = [
    "DataType",
    "build_dataset",
    "build_typed_dataset",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "reorder_dataset",
]
