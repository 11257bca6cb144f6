"""The one-time build of datasets, and the converters of graphzero 0.2."""

from graphzero.ingest.build import build_dataset
from graphzero.ingest.converters import DataType, convert_csv_to_gd, convert_csv_to_gl

__all__ = ["DataType", "build_dataset", "convert_csv_to_gd", "convert_csv_to_gl"]
