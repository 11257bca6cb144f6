"""The one-time build of datasets, and the converters of graphzero 0.2."""

from graphzero.ingest.build import build_dataset

__all__ = ["build_dataset"]
